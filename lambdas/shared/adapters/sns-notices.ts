import { PublishCommand, type SNSClient } from '@aws-sdk/client-sns';
import type { Notices } from '../ports/index.ts';

/** Notices at a topic. Whoever subscribes may filter by step, endpoint and tenant. */
export function createSnsNotices(sns: SNSClient, topicArn: string): Notices {
  return {
    async publish(notice) {
      const { step, endpointId, tenantId } = notice;
      const attribute = (value: string) => ({ DataType: 'String', StringValue: value });
      await sns.send(
        new PublishCommand({
          TopicArn: topicArn,
          Subject: subjectOf(step, endpointId),
          Message: JSON.stringify(notice),
          MessageAttributes: { step: attribute(step), endpointId: attribute(endpointId), ...(tenantId === null ? {} : { tenantId: attribute(tenantId) }) },
        }),
      );
    },
  };
}

/** Of an e-mail: SNS takes printable ASCII, fewer than 100 characters. The step first, for a long name is cut off. */
function subjectOf(step: string, endpointId: string): string {
  return `Sluice: ${step} ${endpointId}`.replaceAll(/[^ -~]/g, '?').slice(0, 99);
}
