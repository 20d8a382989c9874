import path from 'node:path';
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { type IRole, Effect, PolicyDocument, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, EventSourceMapping, Runtime } from 'aws-cdk-lib/aws-lambda';
import { LogLevel, NodejsFunction, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { env } from '../lambdas/shared/limits/names.ts';
import { deliver, logs } from '../lambdas/shared/limits/numbers.ts';
import type { Queues } from './queues.ts';
import { functionLimitsOf, type StageConfig } from './stage-config.ts';
import type { Tables } from './tables.ts';

/** Found from this file, so that an app elsewhere can use the construct. */
const projectRoot = path.join(import.meta.dirname, '..');

/** Dependencies still written as CommonJS call `require`, which an ES module does not have. The alias cannot collide with their own import. */
const requireBanner = "import{createRequire as createBundleRequire}from'node:module';const require=createBundleRequire(import.meta.url);";

/** What the deliver function works on. */
export interface DeliverFunctionProps {
  stage: StageConfig;
  queues: Queues;
  tables: Tables;
}

/** The deliver function with its role, log group and event source. */
export class DeliverFunction extends Construct {
  readonly function: NodejsFunction;

  constructor(scope: Construct, id: string, props: DeliverFunctionProps) {
    super(scope, id);
    const { stage, queues } = props;

    // An explicit group, not the retention property: that one brings a custom resource and a function of its own.
    const logGroup = new LogGroup(this, 'Logs', {
      retention: logs.retentionDays,
      removalPolicy: stage.name === 'local' ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
    });

    this.function = new NodejsFunction(this, 'Function', {
      description: 'Sluice: delivers messages of the delivery queue over HTTPS',
      entry: path.join(projectRoot, 'lambdas/deliver/handler.ts'),
      projectRoot,
      depsLockFilePath: path.join(projectRoot, 'package-lock.json'),
      handler: 'handler',
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      timeout: Duration.seconds(stage.deliver.timeoutS),
      memorySize: stage.deliver.memoryMb,
      role: deliverRole(this, props, logGroup),
      logGroup,
      environment: deliverEnvironment(props),
      awsSdkConnectionReuse: false,
      bundling: {
        format: OutputFormat.ESM,
        // The SDK goes into the bundle: the version that was tested is the version that runs.
        externalModules: [],
        mainFields: ['module', 'main'],
        sourceMap: true,
        sourcesContent: false,
        minify: false,
        banner: requireBanner,
        logLevel: LogLevel.WARNING,
      },
    });

    // Scaled here and never by reserved concurrency: its throttles count as receives and end in the fault queue.
    new EventSourceMapping(this, 'Source', {
      target: this.function,
      eventSourceArn: queues.delivery.queueArn,
      batchSize: stage.deliver.batchSize,
      maxBatchingWindow: Duration.seconds(stage.deliver.batchingWindowS),
      maxConcurrency: stage.deliver.maxConcurrency,
      reportBatchItemFailures: true,
    });
  }
}

function deliverEnvironment({ stage, queues, tables }: DeliverFunctionProps): Record<string, string> {
  return {
    NODE_OPTIONS: '--enable-source-maps',
    // Name resolution has half of these threads: with libuv's 4, two endpoints whose DNS hangs would stop all others.
    UV_THREADPOOL_SIZE: String(deliver.resolverThreads),
    [env.endpointsTable]: tables.endpoints.tableName,
    [env.deliveriesTable]: tables.deliveries.tableName,
    [env.deliveryQueueUrl]: queues.delivery.queueUrl,
    [env.deadLetterQueueUrl]: queues.deadLetter.queueUrl,
    [env.functionLimits]: JSON.stringify(functionLimitsOf(stage)),
    [env.egress]: JSON.stringify(stage.egress),
  };
}

/**
 * Exact actions on exact ARNs. Inline policies instead of a policy resource: the event source's first poll cannot overtake them.
 * The four receive-side actions are Lambda's own, made under this role; ChangeMessageVisibility is the code's.
 */
function deliverRole(scope: Construct, { queues, tables }: DeliverFunctionProps, logGroup: LogGroup): IRole {
  const statements = [
    allow(['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes', 'sqs:ChangeMessageVisibility'], queues.delivery.queueArn),
    allow(['sqs:SendMessage'], queues.deadLetter.queueArn),
    allow(['dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:ConditionCheckItem'], tables.endpoints.tableArn),
    allow(['dynamodb:BatchGetItem', 'dynamodb:UpdateItem'], tables.deliveries.tableArn),
    // The ARN of a log group ends in `:*`, which stands for its streams: Lambda names those.
    allow(['logs:CreateLogStream', 'logs:PutLogEvents'], logGroup.logGroupArn),
  ];
  return new Role(scope, 'Role', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    inlinePolicies: { deliver: new PolicyDocument({ statements }) },
  });
}

function allow(actions: string[], resource: string): PolicyStatement {
  return new PolicyStatement({ effect: Effect.ALLOW, actions, resources: [resource] });
}
