import { App, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { beforeAll, describe, expect, it } from 'vitest';
import { SluiceStack } from '../../lib/sluice-stack.ts';
import { savedQueries } from '../../lambdas/shared/limits/log-queries.ts';
import { awsCallLimits } from '../../lambdas/shared/core/budgets.ts';
import { awsCalls, deliver, hold, replay } from '../../lambdas/shared/limits/numbers.ts';
import { functionLimitsOf, resolveStage } from '../../lib/stage-config.ts';
import { WebhookDelivery } from '../../lib/webhook-delivery.ts';

interface Statement {
  Effect: string;
  Action: string | string[];
  Resource: unknown;
}

let template: Template;

beforeAll(() => {
  template = Template.fromStack(new SluiceStack(new App(), 'Sluice', { stage: resolveStage() }));
});

/** Changing one of these deletes or abandons data: the resource would be replaced by an empty one. */
const pinned = {
  'AWS::SQS::Queue': [
    'WebhooksQueuesDeadLetterEA78B091',
    'WebhooksQueuesDelivery1E532403',
    'WebhooksQueuesDrainA50565D7',
    'WebhooksQueuesFault6689F381',
  ],
  'AWS::DynamoDB::GlobalTable': ['WebhooksTablesDeliveriesEE2FFF54', 'WebhooksTablesEndpoints473EB730', 'WebhooksTablesPayloads2917AB3A', 'WebhooksTablesStatisticsA5FACB28'],
};

/** Changing one of these loses what goes by it: the schedules of a group, a source that was paused. */
const pinnedWithoutData = {
  'AWS::Scheduler::ScheduleGroup': ['WebhooksWakeUpsGroup8C60871D'],
  'AWS::Lambda::EventSourceMapping': ['WebhooksDeliverSourceB8D3AA4B', 'WebhooksDrainSource66435982'],
  'AWS::Lambda::Function': ['WebhooksDeliverFunction8C8A1FE1', 'WebhooksDrainFunctionC37827DD', 'WebhooksReplayFunctionF327513D', 'WebhooksStatusFunctionA7EEA4ED', 'WebhooksSweepFunction1604C7CD'],
};

describe('queues and tables', () => {
  it.each(Object.entries({ ...pinned, ...pinnedWithoutData }))('keep the logical ids of %s', (type, ids) => {
    expect(Object.keys(template.findResources(type)).sort()).toEqual(ids);
  });

  it.each(Object.keys(pinned))('of type %s outlive the stack', (type) => {
    template.allResources(type, { DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
  });

  it('send crashes to the fault queue, which names the dead-letter queue', () => {
    template.hasResourceProperties('AWS::SQS::Queue', {
      VisibilityTimeout: 180,
      MessageRetentionPeriod: 864_000,
      MaximumMessageSize: 262_144,
      RedrivePolicy: { deadLetterTargetArn: { 'Fn::GetAtt': ['WebhooksQueuesFault6689F381', 'Arn'] }, maxReceiveCount: 100 },
    });
    template.hasResourceProperties('AWS::SQS::Queue', {
      MessageRetentionPeriod: 1_209_600,
      RedrivePolicy: { deadLetterTargetArn: { 'Fn::GetAtt': ['WebhooksQueuesDeadLetterEA78B091', 'Arn'] }, maxReceiveCount: 1_000 },
    });
  });

  it('are encrypted, and queues refuse plain text', () => {
    template.allResourcesProperties('AWS::SQS::Queue', { SqsManagedSseEnabled: true });
    template.resourceCountIs('AWS::SQS::QueuePolicy', 4);
    template.allResourcesProperties('AWS::SQS::QueuePolicy', {
      PolicyDocument: { Statement: [Match.objectLike({ Effect: 'Deny', Condition: { Bool: { 'aws:SecureTransport': 'false' } } })] },
    });
    template.allResourcesProperties('AWS::DynamoDB::GlobalTable', { SSESpecification: { SSEEnabled: false } });
  });

  it('tables are on demand, protected, expire by ttlEpochS, and are recoverable where more than measurements is in them', () => {
    template.allResourcesProperties('AWS::DynamoDB::GlobalTable', {
      BillingMode: 'PAY_PER_REQUEST',
      TimeToLiveSpecification: { AttributeName: 'ttlEpochS', Enabled: true },
      Replicas: [
        Match.objectLike({ DeletionProtectionEnabled: true }),
      ],
    });
    const recoverable = template.findResources('AWS::DynamoDB::GlobalTable', { Properties: { Replicas: [Match.objectLike({ PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true } })] } });
    expect(Object.keys(recoverable).sort()).toEqual(pinned['AWS::DynamoDB::GlobalTable'].filter((id) => !id.includes('Statistics')));
  });

  it('hide a wake-up for six timeouts of the drain, in a queue without a redrive policy', () => {
    const [drain] = Object.values(template.findResources('AWS::SQS::Queue', { Properties: { MaximumMessageSize: 4_096 } })) as { Properties: object }[];
    expect(drain?.Properties).toMatchObject({ VisibilityTimeout: 720, MessageRetentionPeriod: 345_600 });
    expect(drain?.Properties).not.toHaveProperty('RedrivePolicy');
  });

  it('bound what a flood of payloads may cost', () => {
    template.hasResourceProperties('AWS::DynamoDB::GlobalTable', {
      KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
      WriteOnDemandThroughputSettings: { MaxWriteRequestUnits: hold.maxWriteUnits },
      Replicas: [Match.objectLike({ ReadOnDemandThroughputSettings: { MaxReadRequestUnits: hold.maxReadUnits } })],
    });
  });

  it('index lanes that hold something by when they wake', () => {
    template.hasResourceProperties('AWS::DynamoDB::GlobalTable', {
      AttributeDefinitions: Match.arrayWith([
        { AttributeName: 'holding', AttributeType: 'S' },
        { AttributeName: 'wakeAt', AttributeType: 'N' },
      ]),
      GlobalSecondaryIndexes: [
        {
          IndexName: 'holding',
          KeySchema: [
            { AttributeName: 'holding', KeyType: 'HASH' },
            { AttributeName: 'wakeAt', KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'KEYS_ONLY' },
        },
      ],
    });
  });

  it('index what needs attention by keys only', () => {
    template.hasResourceProperties('AWS::DynamoDB::GlobalTable', {
      KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
      GlobalSecondaryIndexes: [
        {
          IndexName: 'attention',
          KeySchema: [
            { AttributeName: 'gpk', KeyType: 'HASH' },
            { AttributeName: 'gsk', KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'KEYS_ONLY' },
        },
        {
          IndexName: 'unknown',
          KeySchema: [
            { AttributeName: 'upk', KeyType: 'HASH' },
            { AttributeName: 'sinceEpochMs', KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'KEYS_ONLY' },
        },
      ],
    });
  });
});

const commonVariables = { NODE_OPTIONS: '--enable-source-maps', SLUICE_METRIC_NAMESPACE: 'Sluice/Sluice-Webhooks' };
const senderVariables = {
  ...commonVariables,
  UV_THREADPOOL_SIZE: '64',
  SLUICE_ENDPOINTS_TABLE: { Ref: 'WebhooksTablesEndpoints473EB730' },
  SLUICE_DELIVERIES_TABLE: { Ref: 'WebhooksTablesDeliveriesEE2FFF54' },
  SLUICE_PAYLOADS_TABLE: { Ref: 'WebhooksTablesPayloads2917AB3A' },
  SLUICE_DELIVERY_QUEUE_URL: { Ref: 'WebhooksQueuesDelivery1E532403' },
  SLUICE_DEAD_LETTER_QUEUE_URL: { Ref: 'WebhooksQueuesDeadLetterEA78B091' },
  SLUICE_DRAIN_QUEUE_URL: { Ref: 'WebhooksQueuesDrainA50565D7' },
  SLUICE_DRAIN_QUEUE_ARN: { 'Fn::GetAtt': ['WebhooksQueuesDrainA50565D7', 'Arn'] },
  SLUICE_WAKE_UP_GROUP: { Ref: 'WebhooksWakeUpsGroup8C60871D' },
  SLUICE_WAKE_UP_ROLE_ARN: { 'Fn::GetAtt': ['WebhooksWakeUpsRole6CFD8387', 'Arn'] },
  SLUICE_EGRESS: '{"allow":[],"deny":[],"ports":[],"http":false}',
};

describe('functions', () => {
  const properties = (part: string) => {
    const found = Object.entries(template.findResources('AWS::Lambda::Function')).filter(([id]) => id.includes(part));
    return (found as [string, { Properties: Record<string, unknown> }][]).map(([, resource]) => resource.Properties);
  };

  it('are five on nodejs24.x, arm64, without helpers; reserved concurrency bounds the one that anybody can call, and no other', () => {
    template.resourceCountIs('AWS::Lambda::Function', 5);
    expect(properties('Status').map((one) => one['ReservedConcurrentExecutions'])).toEqual([5]);
    for (const part of ['Deliver', 'Drain', 'Sweep', 'Replay']) expect(properties(part)[0]).not.toHaveProperty('ReservedConcurrentExecutions');
    template.allResourcesProperties('AWS::Lambda::Function', {
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      TracingConfig: Match.absent(),
    });
    template.resourceCountIs('AWS::Logs::LogGroup', 5);
    template.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 30, FieldIndexPolicies: [{ Fields: ['endpointId', 'eventId'] }] });
  });

  it('save the queries of their logs, in a folder of the stack, over the log groups that the outputs name', () => {
    const saved = Object.values(template.findResources('AWS::Logs::QueryDefinition')) as { Properties: { Name: string; QueryString: string; LogGroupNames: unknown[] } }[];
    const outputs = template.toJSON()['Outputs'] as Record<string, { Value: unknown }>;
    const groups = ['Deliver', 'Drain', 'Sweep', 'Replay'].map((part) => outputs[`${part}LogGroupName`]?.Value);
    expect(groups).toEqual(Array(4).fill({ Ref: expect.stringMatching(/^Webhooks\w+Logs/) as string }));
    expect(saved.map(({ Properties: { Name, QueryString } }) => [Name, QueryString])).toEqual(Object.values(savedQueries).map(({ name, text }) => [`Sluice/${name}`, text]));
    for (const { Properties } of saved) {
      expect(Properties.LogGroupNames).toEqual(groups);
      // What CloudWatch takes: 10,000 characters, and names without colon, asterisk and a slash at either end.
      expect(Properties.Name).toMatch(/^[^:*/]+\/[^:*/]{1,200}$/);
      expect(Properties.QueryString.length).toBeLessThan(10_000);
    }
  });

  it.each([
    ['deliver', 'Deliver', 30, 512, { timeoutS: 30, settleMarginMs: 4_000, admitMarginMs: 2_000 }],
    ['drain', 'Drain', 120, 1_024, { timeoutS: 120, settleMarginMs: 4_000, admitMarginMs: 2_000 }],
  ] as const)('%s knows what it works on and its own limits, and may go round with its queue', (_, part, Timeout, MemorySize, limits) => {
    expect(properties(part)).toEqual([
      expect.objectContaining({
        Timeout,
        MemorySize,
        RecursiveLoop: 'Allow',
        Environment: { Variables: { ...senderVariables, SLUICE_FUNCTION_LIMITS: JSON.stringify(limits) } },
      }),
    ]);
  });

  it('sweep knows where to look and whom to wake, and is not repeated by Lambda', () => {
    const Variables = {
      ...commonVariables,
      SLUICE_ENDPOINTS_TABLE: { Ref: 'WebhooksTablesEndpoints473EB730' },
      SLUICE_DELIVERIES_TABLE: { Ref: 'WebhooksTablesDeliveriesEE2FFF54' },
      SLUICE_STATISTICS_TABLE: { Ref: 'WebhooksTablesStatisticsA5FACB28' },
      SLUICE_DRAIN_QUEUE_URL: { Ref: 'WebhooksQueuesDrainA50565D7' },
      SLUICE_DEAD_LETTER_QUEUE_URL: { Ref: 'WebhooksQueuesDeadLetterEA78B091' },
      SLUICE_NOTICES_TOPIC_ARN: { Ref: expect.stringMatching(/^WebhooksNoticesTopic/) as string },
      SLUICE_FLEET_SLOTS: '200',
    };
    expect(properties('Sweep')).toEqual([expect.objectContaining({ Timeout: 50, MemorySize: 1_024, Environment: { Variables } })]);
    expect(properties('Sweep')[0]).not.toHaveProperty('RecursiveLoop');
    template.hasResourceProperties('AWS::Lambda::EventInvokeConfig', { FunctionName: { Ref: 'WebhooksSweepFunction1604C7CD' }, MaximumRetryAttempts: 0 });
  });

  it('replay knows what it moves, is not repeated by Lambda, and nothing invokes it by itself', () => {
    const Variables = {
      ...commonVariables,
      SLUICE_ENDPOINTS_TABLE: { Ref: 'WebhooksTablesEndpoints473EB730' },
      SLUICE_DELIVERIES_TABLE: { Ref: 'WebhooksTablesDeliveriesEE2FFF54' },
      SLUICE_PAYLOADS_TABLE: { Ref: 'WebhooksTablesPayloads2917AB3A' },
      SLUICE_DELIVERY_QUEUE_URL: { Ref: 'WebhooksQueuesDelivery1E532403' },
      SLUICE_DRAIN_QUEUE_URL: { Ref: 'WebhooksQueuesDrainA50565D7' },
    };
    expect(properties('Replay')).toEqual([expect.objectContaining({ Timeout: 120, MemorySize: 512, Environment: { Variables } })]);
    template.hasResourceProperties('AWS::Lambda::EventInvokeConfig', { FunctionName: { Ref: 'WebhooksReplayFunctionF327513D' }, MaximumRetryAttempts: 0 });
    // Those that there are open the status function's URL.
    for (const { Properties } of Object.values(template.findResources('AWS::Lambda::Permission')) as { Properties: Record<string, unknown> }[]) {
      expect(Properties['FunctionName']).toEqual({ 'Fn::GetAtt': ['WebhooksStatusFunctionA7EEA4ED', 'Arn'] });
    }
  });

  it('status has a URL that anybody can call, unless the stage wants none', () => {
    template.hasResourceProperties('AWS::Lambda::Url', { AuthType: 'NONE', TargetFunctionArn: { 'Fn::GetAtt': ['WebhooksStatusFunctionA7EEA4ED', 'Arn'] } });
    const without = Template.fromStack(new SluiceStack(new App(), 'Sluice', { stage: resolveStage('aws', { status: { url: false } }) }));
    for (const type of ['AWS::Lambda::Url', 'AWS::Lambda::Permission']) without.resourceCountIs(type, 0);
    without.hasOutput('StatusUrl', { Value: 'none' });
    const young = Template.fromStack(new SluiceStack(new App(), 'Sluice', { stage: resolveStage('aws', { status: { concurrency: null } }) }));
    young.allResourcesProperties('AWS::Lambda::Function', { ReservedConcurrentExecutions: Match.absent() });
  });

  it('replay has time for the longest call that may be asked for, and for what it has begun then', () => {
    const slowestCallMs = awsCalls.maxAttempts * awsCalls.requestMs;
    // Bodies, their writes, the move and its pauses, the wake-up.
    expect(replay.maxForMs + 6 * slowestCallMs).toBeLessThan(replay.timeoutS * 1_000);
    expect(replay.cliForMs).toBeGreaterThanOrEqual(replay.minForMs);
  });

  it('sweep runs each minute, and is not tried again', () => {
    template.resourceCountIs('AWS::Scheduler::Schedule', 1);
    template.hasResourceProperties('AWS::Scheduler::Schedule', {
      ScheduleExpression: 'rate(1 minute)',
      FlexibleTimeWindow: { Mode: 'OFF' },
      GroupName: Match.absent(),
      Target: {
        Arn: { 'Fn::GetAtt': ['WebhooksSweepFunction1604C7CD', 'Arn'] },
        RoleArn: { 'Fn::GetAtt': ['WebhooksSweepScheduleRole62C28C62', 'Arn'] },
        RetryPolicy: { MaximumRetryAttempts: 0 },
      },
    });
  });

  it.each([
    ['deliver', 'WebhooksQueuesDelivery1E532403', 'WebhooksDeliverFunction8C8A1FE1'],
    ['drain', 'WebhooksQueuesDrainA50565D7', 'WebhooksDrainFunctionC37827DD'],
  ])('%s is fed by one event source that reports single failures', (_, queue, fn) => {
    template.resourceCountIs('AWS::Lambda::EventSourceMapping', 2);
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      EventSourceArn: { 'Fn::GetAtt': [queue, 'Arn'] },
      FunctionName: { Ref: fn },
      BatchSize: 10,
      MaximumBatchingWindowInSeconds: 0,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      ScalingConfig: { MaximumConcurrency: 20 },
    });
  });

  it('take the numbers of their own section', () => {
    const stage = resolveStage('aws', { drain: { timeoutS: 200, memoryMb: 1_024, batchSize: 3, maxConcurrency: 7 } });
    const other = Template.fromStack(new SluiceStack(new App(), 'Sluice', { stage }));
    other.hasResourceProperties('AWS::Lambda::Function', {
      Timeout: 200,
      MemorySize: 1_024,
      Environment: { Variables: Match.objectLike({ SLUICE_FUNCTION_LIMITS: JSON.stringify(functionLimitsOf(stage.drain)) }) },
    });
    other.hasResourceProperties('AWS::Lambda::EventSourceMapping', { BatchSize: 3, ScalingConfig: { MaximumConcurrency: 7 } });
    other.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 1_200 });
    other.hasResourceProperties('AWS::Lambda::Function', { Timeout: 30, MemorySize: 512 });
  });
});

describe('IAM', () => {
  const roles = () => Object.entries(template.findResources('AWS::IAM::Role')) as [string, { Properties: Record<string, unknown> }][];
  const statements = (part = '') =>
    roles()
      .filter(([id]) => id.startsWith(`Webhooks${part}`))
      .flatMap(([, { Properties }]) => (Properties['Policies'] as { PolicyDocument: { Statement: Statement[] } }[]).flatMap((policy) => policy.PolicyDocument.Statement));
  const short = (logicalId: string) => logicalId.replace(/^Webhooks(.*)[0-9A-F]{8}$/, '$1');
  /** A reference to a resource by its ARN, with what follows it; the ARN of schedules is put together from the group's name. */
  const written = (resource: unknown): string => {
    if (Array.isArray(resource)) return resource.map(written).join('');
    if (typeof resource !== 'object' || resource === null) return String(resource);
    const { Ref, 'Fn::GetAtt': attribute, 'Fn::Join': join } = resource as { Ref?: string; 'Fn::GetAtt'?: string[]; 'Fn::Join'?: [string, unknown[]] };
    if (join) return join[1].map(written).join(join[0]);
    return attribute ? `${short(attribute[0] ?? '')}${attribute[1] === 'Arn' ? '' : `.${attribute[1]}`}` : short(Ref ?? '');
  };
  const granted = (part: string) => statements(part).map(({ Action, Resource }) => `${written(Resource)}: ${[Action].flat().sort().join(' ')}`).sort();

  it('has a role for each function and for each kind of schedule, with inline policies only', () => {
    expect(roles().map(([id]) => short(id)).sort()).toEqual(['DeliverRole', 'DrainRole', 'ReplayRole', 'StatusRole', 'SweepRole', 'SweepScheduleRole', 'WakeUpsRole']);
    for (const [, { Properties }] of roles()) expect(Properties['ManagedPolicyArns']).toBeUndefined();
    for (const type of ['AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy']) template.resourceCountIs(type, 0);
  });

  it('names every action, and one resource by its exact ARN a statement', () => {
    expect(statements()).toHaveLength(41);
    for (const { Effect, Action, Resource } of statements()) {
      expect(Effect).toBe('Allow');
      expect([Action].flat().join()).not.toMatch(/[*?]/);
      // A schedule's name is the senders' choice, so the schedules of the one group are the exception.
      expect(written(Resource).replace(/:schedule\/WakeUpsGroup\/\*$/, '')).not.toMatch(/[*?]/);
    }
  });

  const sender = [
    'QueuesDeadLetter: sqs:SendMessage',
    'QueuesDrain: sqs:SendMessage',
    'TablesDeliveries: dynamodb:BatchGetItem dynamodb:UpdateItem',
    'TablesEndpoints: dynamodb:ConditionCheckItem dynamodb:GetItem dynamodb:UpdateItem',
    'WakeUpsRole: iam:PassRole',
    'arn:AWS::Partition:scheduler:AWS::Region:AWS::AccountId:schedule/WakeUpsGroup/*: scheduler:CreateSchedule scheduler:UpdateSchedule',
  ];

  it.each([
    ['Deliver', [
      ...sender,
      'DeliverLogs: logs:CreateLogStream logs:PutLogEvents',
      'QueuesDelivery: sqs:ChangeMessageVisibility sqs:DeleteMessage sqs:GetQueueAttributes sqs:ReceiveMessage',
      'TablesPayloads: dynamodb:DeleteItem dynamodb:PutItem',
    ]],
    ['Drain', [
      ...sender,
      'DrainLogs: logs:CreateLogStream logs:PutLogEvents',
      'QueuesDrain: sqs:DeleteMessage sqs:GetQueueAttributes sqs:ReceiveMessage',
      'TablesDeliveries/index/attention: dynamodb:Query',
      'TablesPayloads: dynamodb:BatchGetItem dynamodb:DeleteItem',
    ]],
    ['Replay', [
      'QueuesDelivery: sqs:SendMessage',
      'QueuesDrain: sqs:SendMessage',
      'ReplayLogs: logs:CreateLogStream logs:PutLogEvents',
      'TablesDeliveries/index/attention: dynamodb:Query dynamodb:Scan',
      'TablesDeliveries: dynamodb:BatchGetItem dynamodb:UpdateItem',
      'TablesEndpoints: dynamodb:GetItem dynamodb:UpdateItem',
      'TablesPayloads: dynamodb:BatchGetItem dynamodb:DeleteItem dynamodb:PutItem',
    ]],
    ['StatusRole', ['StatusLogs: logs:CreateLogStream logs:PutLogEvents', 'TablesEndpoints: dynamodb:GetItem', 'TablesStatistics: dynamodb:Query']],
    ['SweepRole', [
      'NoticesTopic: sns:Publish',
      'QueuesDeadLetter: sqs:ChangeMessageVisibility sqs:DeleteMessage sqs:GetQueueAttributes sqs:ListMessageMoveTasks sqs:ReceiveMessage',
      'QueuesDrain: sqs:SendMessage',
      'SweepLogs: logs:CreateLogStream logs:PutLogEvents',
      'TablesDeliveries: dynamodb:BatchGetItem',
      'TablesDeliveries/index/attention: dynamodb:Query dynamodb:Scan', 'TablesDeliveries/index/unknown: dynamodb:Query',
      'TablesEndpoints/index/holding: dynamodb:Query',
      'TablesEndpoints: dynamodb:GetItem dynamodb:Scan dynamodb:UpdateItem',
      'TablesStatistics: dynamodb:GetItem dynamodb:PutItem',
    ]],
    ['SweepScheduleRole', ['SweepFunction: lambda:InvokeFunction']],
    ['WakeUps', ['QueuesDrain: sqs:SendMessage']],
  ])('allows %s this and no more', (part, expected) => {
    expect(granted(part)).toEqual(expected.sort());
  });

  it('lets Scheduler act as its two roles for this account only', () => {
    const trusted = Object.values(
      template.findResources('AWS::IAM::Role', {
        Properties: { AssumeRolePolicyDocument: { Statement: [{ Principal: { Service: 'scheduler.amazonaws.com' } }] } },
      }),
    ) as { Properties: { AssumeRolePolicyDocument: { Statement: unknown[] } } }[];
    expect(trusted.map(({ Properties }) => Properties.AssumeRolePolicyDocument.Statement)).toEqual(
      Array(2).fill([expect.objectContaining({ Condition: { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } } })]),
    );
  });
});

describe('stack and construct', () => {
  it('has the outputs by which the CLI finds it', () => {
    expect(Object.keys(template.toJSON()['Outputs'] as object).sort()).toEqual([
      'DeadLetterQueueUrl',
      'DeliverEventSourceId',
      'DeliverFunctionName',
      'DeliverLimits',
      'DeliverLogGroupName',
      'DeliveriesTableName',
      'DeliveryQueueUrl',
      'DrainEventSourceId',
      'DrainFunctionName',
      'DrainLogGroupName',
      'DrainQueueUrl',
      'EgressRules',
      'EndpointsTableName',
      'FaultQueueUrl',
      'FleetSlots',
      'MetricNamespace',
      'NoticesTopicArn',
      'PagesTopicArn',
      'PayloadsTableName',
      'RecordVersion',
      'ReplayFunctionName',
      'ReplayLogGroupName',
      'StatisticsTableName',
      'StatusFunctionName',
      'StatusUrl',
      'SweepFunctionName',
      'SweepLogGroupName',
      'TicketsTopicArn',
    ]);
    template.hasOutput('DeliverEventSourceId', { Value: { Ref: 'WebhooksDeliverSourceB8D3AA4B' } });
    template.hasOutput('DrainEventSourceId', { Value: { Ref: 'WebhooksDrainSource66435982' } });
  });

  it('gives name resolution threads enough that endpoints whose resolver hangs do not stop the others', () => {
    template.hasResourceProperties('AWS::Lambda::Function', { Environment: { Variables: Match.objectLike({ UV_THREADPOOL_SIZE: '64' }) } });
  });

  it('leaves the SDK time for all its attempts within the settle margin (U1)', () => {
    for (const settleMarginMs of [deliver.minSettleMarginMs, 1_500, deliver.settleMarginMs, 10_000]) {
      const calls = awsCallLimits({ ...deliver, settleMarginMs });
      expect(calls.maxAttempts * calls.requestMs).toBeLessThan(settleMarginMs);
    }
    expect(awsCallLimits(deliver).requestMs).toBe(awsCalls.requestMs);
  });

  it('protects every stage but the local one', () => {
    const localStage = resolveStage('local', { egress: { allow: ['127.0.0.0/8', '::1/128'] } });
    const local = new SluiceStack(new App(), 'Local', { stage: localStage });
    const localTemplate = Template.fromStack(local);
    expect([local.terminationProtection, new SluiceStack(new App(), 'Aws', { stage: resolveStage() }).terminationProtection]).toEqual([false, true]);
    localTemplate.allResources('AWS::SQS::Queue', { DeletionPolicy: 'Delete' });
    localTemplate.allResourcesProperties('AWS::DynamoDB::GlobalTable', { Replicas: [Match.objectLike({ DeletionProtectionEnabled: false })] });
    localTemplate.hasResourceProperties('AWS::Lambda::Function', { Environment: { Variables: Match.objectLike({ SLUICE_EGRESS: '{"allow":["127.0.0.0/8","::1/128"],"deny":[],"ports":[],"http":false}' }) } });
  });

  it('can be built twice into a stack of somebody else', () => {
    const stack = new Stack(new App(), 'Shop');
    new WebhookDelivery(stack, 'Orders');
    new WebhookDelivery(stack, 'Invoices', { stage: resolveStage('aws', { deliver: { maxConcurrency: 2 } }) });
    const shop = Template.fromStack(stack);
    shop.resourceCountIs('AWS::SQS::Queue', 8);
    shop.resourceCountIs('AWS::Lambda::Function', 10);
    shop.resourceCountIs('AWS::Scheduler::ScheduleGroup', 2);
    // Alarms bear names, which must not meet.
    const names = Object.values(shop.findResources('AWS::CloudWatch::Alarm') as Record<string, { Properties: { AlarmName: string } }>).map(({ Properties }) => Properties.AlarmName);
    expect(names).toContain('Shop-Invoices-sweep-silent');
    expect(new Set(names).size).toBe(names.length);
  });

  it('refuses numbers that do not fit together also when it is given them directly', () => {
    const stage = resolveStage();
    const broken = { ...stage, deliver: { ...stage.deliver, timeoutS: 10 } };
    expect(() => new WebhookDelivery(new Stack(new App(), 'Shop'), 'Orders', { stage: broken })).toThrow('deliver.timeoutS 10 is too short');
  });
});
