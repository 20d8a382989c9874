import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readTemplate, type StackSpec, synthesize } from '../../local/template.ts';

const outDir = mkdtempSync(path.join(tmpdir(), 'sluice-synth-'));
const endpoint = 'http://127.0.0.1:9324';
let stack: StackSpec;

beforeAll(async () => {
  await synthesize(outDir, { stackName: 'Trial', context: { stage: 'local', stageConfig: { egress: { allow: ['127.0.0.0/8'] } } } });
  stack = readTemplate(outDir, 'Trial', { endpoint });
});

afterAll(() => rmSync(outDir, { recursive: true }));

const functionNamed = (part: string) => stack.functions.find(({ name }) => name.includes(`${part}Function`));
const queueNamed = (part: string) => stack.queues.find(({ name }) => name.includes(part));

describe('readTemplate', () => {
  it('orders queues by redrive and resolves its targets', () => {
    const names = stack.queues.map(({ name }) => name);
    const [deadLetter, fault, delivery] = [queueNamed('DeadLetter'), queueNamed('Fault'), queueNamed('Delivery')];
    expect(names.indexOf(deadLetter?.name ?? '')).toBeLessThan(names.indexOf(fault?.name ?? ''));
    expect(names.indexOf(fault?.name ?? '')).toBeLessThan(names.indexOf(delivery?.name ?? ''));
    expect(delivery?.attributes).toMatchObject({ VisibilityTimeout: '180', MessageRetentionPeriod: '864000', MaximumMessageSize: '262144' });
    expect(JSON.parse(delivery?.attributes['RedrivePolicy'] ?? '')).toEqual({ deadLetterTargetArn: fault?.arn, maxReceiveCount: 100 });
    expect(delivery?.url).toBe(`${endpoint}/000000000000/${delivery?.name}`);
  });

  it('gives tables as CreateTable takes them', () => {
    const deliveries = stack.tables.find(({ name }) => name.includes('Deliveries'));
    expect(deliveries).toMatchObject({
      ttlAttribute: 'ttlEpochS',
      createTable: { TableName: deliveries?.name, BillingMode: 'PAY_PER_REQUEST', GlobalSecondaryIndexes: [{ IndexName: 'attention' }, { IndexName: 'unknown' }] },
    });
    expect(stack.tables.find(({ name }) => name.includes('Endpoints'))?.createTable).toMatchObject({
      KeySchema: [{ AttributeName: 'pk' }, { AttributeName: 'sk' }],
      GlobalSecondaryIndexes: [{ IndexName: 'holding' }],
    });
    expect(stack.tables.find(({ name }) => name.includes('Payloads'))).toMatchObject({ ttlAttribute: 'ttlEpochS' });
  });

  it('resolves the environment, the bundle and the role of the function', () => {
    const deliver = functionNamed('Deliver');
    expect(deliver).toMatchObject({ handler: 'index.handler', runtime: 'nodejs24.x', timeoutS: 30, memoryMb: 512 });
    expect(deliver?.env).toMatchObject({ SLUICE_DELIVERY_QUEUE_URL: queueNamed('Delivery')?.url, SLUICE_EGRESS: '{"allow":["127.0.0.0/8"],"deny":[],"ports":[],"http":false}' });
    expect(readdirSync(deliver?.assetDir ?? '').sort()).toEqual(['index.mjs', 'index.mjs.map']);
  });

  it('records the alarms with what they watch resolved, and the topics that they are told at', () => {
    const fault = stack.alarms.find(({ name }) => name === 'Trial-Webhooks-fault-queue-not-empty');
    expect(fault?.source).toMatchObject({ namespace: 'AWS/SQS', dimensions: { QueueName: queueNamed('Fault')?.name } });
    const silent = stack.alarms.find(({ name }) => name === 'Trial-Webhooks-sweep-silent');
    expect(silent?.source).toMatchObject({ namespace: 'Sluice/Trial-Webhooks', name: 'swept' });
    expect([stack.outputs['MetricNamespace'], ...stack.functions.map(({ env }) => env['SLUICE_METRIC_NAMESPACE'])]).toEqual(Array(6).fill('Sluice/Trial-Webhooks'));
    expect(fault?.actions).toEqual([stack.outputs['PagesTopicArn']]);
    expect(stack.outputs['TicketsTopicArn']).toMatch(/^arn:aws:sns:eu-west-1:000000000000:\w*Tickets/);
  });

  it('has each function with a role of its own', () => {
    const [deliver, drain, sweep] = ['Deliver', 'Drain', 'Sweep'].map(functionNamed);
    expect([drain?.timeoutS, sweep?.timeoutS]).toEqual([120, 50]);
    expect(new Set([deliver?.roleName, drain?.roleName, sweep?.roleName]).size).toBe(3);
    const names = stack.roles.map(({ name }) => name);
    for (const fn of [deliver, drain, sweep]) expect(names).toContain(fn?.roleName);
  });

  it('resolves what wake-ups need to the names that the embedded AWS uses', () => {
    const [group] = stack.scheduleGroups;
    expect(group?.arn).toBe(`arn:aws:scheduler:eu-west-1:000000000000:schedule-group/${group?.name}`);
    const wakeUps = stack.roles.find(({ name }) => name.includes('WakeUps'));
    const drain = queueNamed('Drain');
    for (const fn of ['Deliver', 'Drain'].map(functionNamed)) {
      expect(fn?.env).toMatchObject({
        SLUICE_WAKE_UP_GROUP: group?.name,
        SLUICE_WAKE_UP_ROLE_ARN: wakeUps?.arn,
        SLUICE_DRAIN_QUEUE_URL: drain?.url,
        SLUICE_DRAIN_QUEUE_ARN: drain?.arn,
        SLUICE_PAYLOADS_TABLE: stack.outputs['PayloadsTableName'],
      });
      const role = stack.roles.find(({ name }) => name === fn?.roleName);
      expect(role?.statements).toContainEqual({
        effect: 'Allow',
        actions: ['scheduler:CreateSchedule', 'scheduler:UpdateSchedule'],
        resources: [`arn:aws:scheduler:eu-west-1:000000000000:schedule/${group?.name}/*`],
      });
    }
    expect(wakeUps?.statements).toEqual([{ effect: 'Allow', actions: ['sqs:SendMessage'], resources: [drain?.arn] }]);
  });

  it('gives the schedule of the sweep as CreateSchedule takes it', () => {
    const [schedule, ...others] = stack.schedules;
    const role = stack.roles.find(({ name }) => name.includes('SweepScheduleRole'));
    expect(others).toEqual([]);
    expect(schedule?.arn).toBe(`arn:aws:scheduler:eu-west-1:000000000000:schedule/default/${schedule?.name}`);
    expect(schedule?.createSchedule).toEqual({
      Name: schedule?.name,
      Description: 'Sluice: runs the sweep',
      ScheduleExpression: 'rate(1 minute)',
      FlexibleTimeWindow: { Mode: 'OFF' },
      Target: { Arn: functionNamed('Sweep')?.arn, RoleArn: role?.arn, RetryPolicy: { MaximumRetryAttempts: 0 } },
    });
  });

  it('connects each event source to its queue and its function, and gives their ids as outputs', () => {
    const common = { batchSize: 10, windowS: 0, maxConcurrency: 20, reportBatchItemFailures: true, enabled: true };
    expect(stack.eventSources).toEqual([
      { ...common, logicalId: 'WebhooksDeliverSourceB8D3AA4B', queueArn: queueNamed('Delivery')?.arn, functionName: functionNamed('Deliver')?.name },
      { ...common, logicalId: 'WebhooksDrainSource66435982', queueArn: queueNamed('Drain')?.arn, functionName: functionNamed('Drain')?.name },
    ]);
    expect([stack.outputs['DeliverEventSourceId'], stack.outputs['DrainEventSourceId']]).toEqual(stack.eventSources.map(({ logicalId }) => logicalId));
  });

  it('leaves nothing unresolved, also not in policies and outputs', () => {
    expect(JSON.stringify(stack)).not.toMatch(/Fn::|"Ref"|\$\{|\[object/);
    const resources = stack.roles.flatMap(({ statements }) => statements.flatMap((statement) => statement.resources));
    expect(resources).toHaveLength(41);
    expect(resources.every((resource) => resource.startsWith('arn:aws:'))).toBe(true);
    expect(stack.outputs['FaultQueueUrl']).toBe(queueNamed('Fault')?.url);
  });
});

describe('a refused stage', () => {
  it('ends with its violations, without a stack trace and without an assembly', async () => {
    const emptyDir = path.join(outDir, 'refused');
    const refused = synthesize(emptyDir, { stackName: 'Trial', context: { stageConfig: '{"deliver":{"timeoutS":10},"egress":{"allow":["10.0.0.0/8"]}}' } });
    const text = await refused.then(
      () => '',
      (error: unknown) => String(error),
    );
    expect(text).toContain('deliver.timeoutS 10 is too short: connection 2000 + ');
    expect(text).toContain('egress.allow 10.0.0.0/8 covers private addresses');
    expect(text).not.toMatch(/\n\s+at /);
    expect(existsSync(path.join(emptyDir, 'manifest.json'))).toBe(false);
  });
});
