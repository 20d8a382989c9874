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
          // Of an e-mail: at most 100 characters, ASCII.
          Subject: `Sluice: ${endpointId} ${step}`.slice(0, 100),
          Message: JSON.stringify(notice),
          MessageAttributes: { step: attribute(step), endpointId: attribute(endpointId), ...(tenantId === null ? {} : { tenantId: attribute(tenantId) }) },
        }),
      );
    },
  };
}
