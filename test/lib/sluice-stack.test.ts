import { App, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { beforeAll, describe, expect, it } from 'vitest';
import { SluiceStack } from '../../lib/sluice-stack.ts';
import { awsCallLimits } from '../../lambdas/shared/core/budgets.ts';
import { awsCalls, deliver } from '../../lambdas/shared/limits/numbers.ts';
import { resolveStage } from '../../lib/stage-config.ts';
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
  'AWS::DynamoDB::GlobalTable': ['WebhooksTablesDeliveriesEE2FFF54', 'WebhooksTablesEndpoints473EB730'],
};

describe('queues and tables', () => {
  it.each(Object.entries(pinned))('keep the logical ids of %s', (type, ids) => {
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

  it('tables are on demand, recoverable, protected and expire by ttlEpochS', () => {
    template.allResourcesProperties('AWS::DynamoDB::GlobalTable', {
      BillingMode: 'PAY_PER_REQUEST',
      TimeToLiveSpecification: { AttributeName: 'ttlEpochS', Enabled: true },
      Replicas: [
        Match.objectLike({ DeletionProtectionEnabled: true, PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true } }),
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
      ],
    });
  });
});

describe('deliver function', () => {
  it('is one function on nodejs24.x, arm64, without reserved concurrency or helpers', () => {
    template.resourceCountIs('AWS::Lambda::Function', 1);
    template.hasResourceProperties('AWS::Lambda::Function', {
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      Timeout: 30,
      MemorySize: 512,
      ReservedConcurrentExecutions: Match.absent(),
      TracingConfig: Match.absent(),
      Environment: {
        Variables: {
          NODE_OPTIONS: '--enable-source-maps',
          SLUICE_ENDPOINTS_TABLE: { Ref: 'WebhooksTablesEndpoints473EB730' },
          SLUICE_DELIVERIES_TABLE: { Ref: 'WebhooksTablesDeliveriesEE2FFF54' },
          SLUICE_DELIVERY_QUEUE_URL: { Ref: 'WebhooksQueuesDelivery1E532403' },
          SLUICE_DEAD_LETTER_QUEUE_URL: { Ref: 'WebhooksQueuesDeadLetterEA78B091' },
          SLUICE_EGRESS: '{"allow":[],"deny":[],"ports":[],"http":false}',
        },
      },
    });
    template.hasResourceProperties('AWS::Logs::LogGroup', { RetentionInDays: 30 });
  });

  it('is fed by one event source that reports single failures', () => {
    template.resourceCountIs('AWS::Lambda::EventSourceMapping', 1);
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      EventSourceArn: { 'Fn::GetAtt': ['WebhooksQueuesDelivery1E532403', 'Arn'] },
      BatchSize: 10,
      MaximumBatchingWindowInSeconds: 0,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      ScalingConfig: { MaximumConcurrency: 20 },
    });
  });
});

describe('IAM', () => {
  const roles = () => Object.values(template.findResources('AWS::IAM::Role')) as { Properties: Record<string, unknown> }[];
  const statements = () =>
    roles().flatMap(({ Properties }) => (Properties['Policies'] as { PolicyDocument: { Statement: Statement[] } }[]).flatMap((policy) => policy.PolicyDocument.Statement));

  it('has one role, with inline policies only', () => {
    expect(roles()).toHaveLength(1);
    expect(roles()[0]?.Properties['ManagedPolicyArns']).toBeUndefined();
    for (const type of ['AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy']) template.resourceCountIs(type, 0);
  });

  it('names every action, and one resource by its exact ARN a statement', () => {
    expect(statements()).toHaveLength(5);
    for (const { Effect, Action, Resource } of statements()) {
      expect(Effect).toBe('Allow');
      expect([Action].flat().join()).not.toMatch(/[*?]/);
      expect(Resource).toEqual({ 'Fn::GetAtt': [expect.any(String), 'Arn'] });
    }
  });

  it('allows the deliver function this and no more', () => {
    const granted = statements().map(({ Action, Resource }) => {
      const [logicalId = ''] = (Resource as { 'Fn::GetAtt': string[] })['Fn::GetAtt'];
      return `${logicalId.replace(/^Webhooks(.*)[0-9A-F]{8}$/, '$1')}: ${[Action].flat().sort().join(' ')}`;
    });
    expect(granted.sort()).toEqual([
      'DeliverLogs: logs:CreateLogStream logs:PutLogEvents',
      'QueuesDeadLetter: sqs:SendMessage',
      'QueuesDelivery: sqs:ChangeMessageVisibility sqs:DeleteMessage sqs:GetQueueAttributes sqs:ReceiveMessage',
      'TablesDeliveries: dynamodb:BatchGetItem dynamodb:UpdateItem',
      'TablesEndpoints: dynamodb:ConditionCheckItem dynamodb:GetItem dynamodb:UpdateItem',
    ]);
  });
});

describe('stack and construct', () => {
  it('has the outputs by which the CLI finds it', () => {
    expect(Object.keys(template.toJSON()['Outputs'] as object).sort()).toEqual([
      'DeadLetterQueueUrl',
      'DeliverFunctionName',
      'DeliverLimits',
      'DeliveriesTableName',
      'DeliveryQueueUrl',
      'DrainQueueUrl',
      'EgressRules',
      'EndpointsTableName',
      'FaultQueueUrl',
    ]);
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
    shop.resourceCountIs('AWS::Lambda::Function', 2);
  });

  it('refuses numbers that do not fit together also when it is given them directly', () => {
    const stage = resolveStage();
    const broken = { ...stage, deliver: { ...stage.deliver, timeoutS: 10 } };
    expect(() => new WebhookDelivery(new Stack(new App(), 'Shop'), 'Orders', { stage: broken })).toThrow('deliver.timeoutS 10 is too short');
  });
});
