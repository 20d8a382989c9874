import { Duration } from 'aws-cdk-lib';
import type { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { EventSourceMapping, RecursiveLoop } from 'aws-cdk-lib/aws-lambda';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { env } from '../lambdas/shared/limits/names.ts';
import { deliver } from '../lambdas/shared/limits/numbers.ts';
import { allow, type FunctionParts, newFunction } from './function.ts';
import type { Queues } from './queues.ts';
import { functionLimitsOf, type SenderConfig, type StageConfig } from './stage-config.ts';
import type { Tables } from './tables.ts';
import type { WakeUps } from './wake-ups.ts';

/** What a function that sends works on. */
export interface SenderFunctionProps {
  stage: StageConfig;
  queues: Queues;
  tables: Tables;
  wakeUps: WakeUps;
  metricNamespace: string;
}

/** What tells one such function from the other. */
export interface Sender extends Pick<FunctionParts, 'name' | 'entry' | 'description'> {
  readonly config: SenderConfig;
  readonly source: Queue;
  /** Beside what every sender may do. */
  readonly statements: readonly PolicyStatement[];
}

/** A function that sends to consumers, with its role, log group and event source. */
export class SenderFunction extends Construct {
  readonly function: NodejsFunction;
  readonly source: EventSourceMapping;

  constructor(scope: Construct, id: string, props: SenderFunctionProps, { config, source, statements, ...parts }: Sender) {
    super(scope, id);
    this.function = newFunction(this, {
      ...parts,
      timeoutS: config.timeoutS,
      memoryMb: config.memoryMb,
      environment: senderEnvironment(props, config),
      metricNamespace: props.metricNamespace,
      statements: [...senderStatements(props), ...statements],
      isDisposable: props.stage.name === 'local',
      // Lambda would stop a chain of queue and function after about 16 turns; what is held goes round for days, and ends by its age.
      settings: { recursiveLoop: RecursiveLoop.ALLOW },
    });
    // Scaled here and never by reserved concurrency: its throttles count as receives and end in the fault queue.
    this.source = new EventSourceMapping(this, 'Source', {
      target: this.function,
      eventSourceArn: source.queueArn,
      batchSize: config.batchSize,
      maxBatchingWindow: Duration.seconds(config.batchingWindowS),
      maxConcurrency: config.maxConcurrency,
      reportBatchItemFailures: true,
    });
  }
}

function senderEnvironment({ stage, queues, tables, wakeUps }: SenderFunctionProps, config: SenderConfig): Record<string, string> {
  return {
    // Name resolution has half of these threads: with libuv's 4, two endpoints whose DNS hangs would stop all others.
    UV_THREADPOOL_SIZE: String(deliver.resolverThreads),
    [env.endpointsTable]: tables.endpoints.tableName,
    [env.deliveriesTable]: tables.deliveries.tableName,
    [env.payloadsTable]: tables.payloads.tableName,
    [env.deliveryQueueUrl]: queues.delivery.queueUrl,
    [env.deadLetterQueueUrl]: queues.deadLetter.queueUrl,
    [env.drainQueueUrl]: queues.drain.queueUrl,
    [env.drainQueueArn]: queues.drain.queueArn,
    [env.wakeUpGroup]: wakeUps.group.ref,
    [env.wakeUpRoleArn]: wakeUps.role.roleArn,
    [env.functionLimits]: JSON.stringify(functionLimitsOf(config)),
    [env.egress]: JSON.stringify(stage.egress),
  };
}

/** Without those on the queue that feeds it. */
function senderStatements({ queues, tables, wakeUps }: SenderFunctionProps): PolicyStatement[] {
  return [
    allow(['sqs:SendMessage'], queues.deadLetter.queueArn),
    allow(['sqs:SendMessage'], queues.drain.queueArn),
    allow(['dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:ConditionCheckItem'], tables.endpoints.tableArn),
    allow(['dynamodb:BatchGetItem', 'dynamodb:UpdateItem'], tables.deliveries.tableArn),
    allow(['scheduler:CreateSchedule', 'scheduler:UpdateSchedule'], wakeUps.schedulesArn),
    // Whoever makes a schedule hands it the role that it acts as.
    allow(['iam:PassRole'], wakeUps.role.roleArn),
  ];
}
