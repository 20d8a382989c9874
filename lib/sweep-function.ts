import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { CfnSchedule } from 'aws-cdk-lib/aws-scheduler';
import { Construct } from 'constructs';
import { attentionIndex, env, holdingIndex, unknownIndex } from '../lambdas/shared/limits/names.ts';
import { sweep } from '../lambdas/shared/limits/numbers.ts';
import { allow, newFunction } from './function.ts';
import type { Notices } from './notices.ts';
import type { SenderFunctionProps } from './sender-function.ts';
import { indexArn } from './tables.ts';
import { fleetSlotsOf } from './stage-config.ts';
import { schedulerRole } from './wake-ups.ts';

/** What the sweep function works on. */
export type SweepFunctionProps = Pick<SenderFunctionProps, 'stage' | 'queues' | 'tables' | 'metricNamespace'> & { readonly notices: Notices };

/** The sweep function with its role, log group and schedule. */
export class SweepFunction extends Construct {
  readonly function: NodejsFunction;

  constructor(scope: Construct, id: string, props: SweepFunctionProps) {
    super(scope, id);
    const { stage, queues, tables, notices, metricNamespace } = props;
    this.function = newFunction(this, {
      name: 'sweep',
      entry: 'lambdas/sweep/handler.ts',
      description: 'Sluice: wakes the endpoints whose wake-up was lost, looks at all lanes and tells of the ill, clears stale dead letters',
      timeoutS: sweep.timeoutS,
      memoryMb: sweep.memoryMb,
      environment: {
        [env.endpointsTable]: tables.endpoints.tableName,
        [env.deliveriesTable]: tables.deliveries.tableName,
        [env.statisticsTable]: tables.statistics.tableName,
        [env.drainQueueUrl]: queues.drain.queueUrl,
        [env.deadLetterQueueUrl]: queues.deadLetter.queueUrl,
        [env.noticesTopicArn]: notices.topic.topicArn,
        [env.fleetSlots]: String(fleetSlotsOf(stage)),
      },
      metricNamespace,
      statements: sweepStatements(props),
      isDisposable: stage.name === 'local',
      // What one run does not do, the next one does within a minute: Lambda's two retries would only overlap with it.
      settings: { retryAttempts: 0 },
    });
    this.#schedule();
  }

  #schedule(): void {
    const { functionArn } = this.function;
    const role = schedulerRole(this, 'ScheduleRole', { policyName: 'invoke', action: 'lambda:InvokeFunction', resource: functionArn });
    const minutes = sweep.periodS / 60;
    new CfnSchedule(this, 'Schedule', {
      description: 'Sluice: runs the sweep',
      scheduleExpression: minutes === 1 ? 'rate(1 minute)' : `rate(${minutes} minutes)`,
      flexibleTimeWindow: { mode: 'OFF' },
      target: { arn: functionArn, roleArn: role.roleArn, retryPolicy: { maximumRetryAttempts: 0 } },
    });
  }
}

function sweepStatements({ queues, tables, notices }: SweepFunctionProps) {
  return [
    allow(['sns:Publish'], notices.topic.topicArn),
    // Every lane is looked at once a minute.
    allow(['dynamodb:GetItem', 'dynamodb:Scan', 'dynamodb:UpdateItem'], tables.endpoints.tableArn),
    allow(['dynamodb:GetItem', 'dynamodb:PutItem'], tables.statistics.tableArn),
    allow(['dynamodb:Query'], indexArn(tables.endpoints, holdingIndex)),
    // A part a minute, and all of it once an hour.
    allow(['dynamodb:Query', 'dynamodb:Scan'], indexArn(tables.deliveries, attentionIndex)),
    allow(['dynamodb:Query'], indexArn(tables.deliveries, unknownIndex)),
    allow(['sqs:SendMessage'], queues.drain.queueArn),
    // What a copy in the dead-letter queue is worth its record says.
    allow(['dynamodb:BatchGetItem'], tables.deliveries.tableArn),
    allow(['sqs:ChangeMessageVisibility', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes', 'sqs:ListMessageMoveTasks', 'sqs:ReceiveMessage'], queues.deadLetter.queueArn),
  ];
}
