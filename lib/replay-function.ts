import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Construct } from 'constructs';
import { attentionIndex, env } from '../lambdas/shared/limits/names.ts';
import { replay } from '../lambdas/shared/limits/numbers.ts';
import { allow, newFunction } from './function.ts';
import type { SenderFunctionProps } from './sender-function.ts';
import { indexArn } from './tables.ts';

/** What the replay function works on. */
export type ReplayFunctionProps = Pick<SenderFunctionProps, 'stage' | 'queues' | 'tables' | 'metricNamespace'>;

/** The replay function with its role and log group. Operators invoke it; nothing else does. */
export class ReplayFunction extends Construct {
  readonly function: NodejsFunction;

  constructor(scope: Construct, id: string, props: ReplayFunctionProps) {
    super(scope, id);
    const { stage, queues, tables, metricNamespace } = props;
    this.function = newFunction(this, {
      name: 'replay',
      entry: 'lambdas/replay/handler.ts',
      description: 'Sluice: moves dead deliveries to what is held',
      timeoutS: replay.timeoutS,
      memoryMb: replay.memoryMb,
      environment: {
        [env.endpointsTable]: tables.endpoints.tableName,
        [env.deliveriesTable]: tables.deliveries.tableName,
        [env.payloadsTable]: tables.payloads.tableName,
        [env.deliveryQueueUrl]: queues.delivery.queueUrl,
        [env.drainQueueUrl]: queues.drain.queueUrl,
      },
      metricNamespace,
      statements: replayStatements(props),
      isDisposable: stage.name === 'local',
      // Whoever invokes it without waiting for the answer decides whether to do it again.
      settings: { retryAttempts: 0 },
    });
  }
}

function replayStatements({ queues, tables }: ReplayFunctionProps) {
  return [
    // Of one endpoint a query; of all a scan.
    allow(['dynamodb:Query', 'dynamodb:Scan'], indexArn(tables.deliveries, attentionIndex)),
    allow(['dynamodb:BatchGetItem', 'dynamodb:UpdateItem'], tables.deliveries.tableArn),
    allow(['dynamodb:BatchGetItem', 'dynamodb:PutItem', 'dynamodb:DeleteItem'], tables.payloads.tableArn),
    allow(['dynamodb:GetItem', 'dynamodb:UpdateItem'], tables.endpoints.tableArn),
    allow(['sqs:SendMessage'], queues.drain.queueArn),
    allow(['sqs:SendMessage'], queues.delivery.queueArn),
  ];
}
