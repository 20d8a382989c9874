import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { records } from '../lambdas/shared/limits/numbers.ts';
import { fleetSlotsOf, functionLimitsOf, type StageConfig } from './stage-config.ts';
import { WebhookDelivery } from './webhook-delivery.ts';

/** Properties of SluiceStack. */
export interface SluiceStackProps extends StackProps {
  stage: StageConfig;
}

/** The stack that `cdk deploy` deploys: the construct, and the outputs by which the CLI finds an installation. */
export class SluiceStack extends Stack {
  constructor(scope: Construct, id: string, { stage, ...props }: SluiceStackProps) {
    super(scope, id, { terminationProtection: stage.name !== 'local', ...props });
    const { queues, tables, notices, deliver, drain, sweep, replay, status, alarms, metricNamespace } = new WebhookDelivery(this, 'Webhooks', { stage });
    const values: Record<keyof typeof outputs, string> = {
      deliveryQueueUrl: queues.delivery.queueUrl,
      deadLetterQueueUrl: queues.deadLetter.queueUrl,
      faultQueueUrl: queues.fault.queueUrl,
      drainQueueUrl: queues.drain.queueUrl,
      endpointsTable: tables.endpoints.tableName,
      deliveriesTable: tables.deliveries.tableName,
      payloadsTable: tables.payloads.tableName,
      statisticsTable: tables.statistics.tableName,
      deliverFunction: deliver.function.functionName,
      drainFunction: drain.function.functionName,
      sweepFunction: sweep.function.functionName,
      replayFunction: replay.function.functionName,
      statusFunction: status.function.functionName,
      deliverLogGroup: deliver.function.logGroup.logGroupName,
      drainLogGroup: drain.function.logGroup.logGroupName,
      sweepLogGroup: sweep.function.logGroup.logGroupName,
      replayLogGroup: replay.function.logGroup.logGroupName,
      deliverSource: deliver.source.eventSourceMappingId,
      drainSource: drain.source.eventSourceMappingId,
      deliverLimits: JSON.stringify(functionLimitsOf(stage.deliver)),
      egress: JSON.stringify(stage.egress),
      recordVersion: String(records.newestVersion),
      noticesTopic: notices.topic.topicArn,
      pagesTopic: alarms.topics.page.topicArn,
      ticketsTopic: alarms.topics.ticket.topicArn,
      metricNamespace,
      fleetSlots: String(fleetSlotsOf(stage)),
      // CloudFormation takes no empty value.
      statusUrl: status.url?.url ?? 'none',
    };
    for (const key of Object.keys(values) as (keyof typeof values)[]) new CfnOutput(this, outputs[key], { value: values[key] });
  }
}
