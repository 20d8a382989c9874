import { CreateScheduleCommand, GetScheduleCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { DeleteMessageCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { env, outputs } from '../../lambdas/shared/limits/names.ts';
import type { StackSpec } from '../../local/template.ts';
import { depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { audit } from '../support/iam.ts';

let embedded: Embedded;
let stack: StackSpec;
let scheduler: SchedulerClient;

beforeAll(async () => {
  embedded = await startEmbedded();
  stack = await embedded.stack();
  const { endpoint, region, credentials } = embedded.local;
  scheduler = new SchedulerClient({ endpoint, region, credentials });
});
afterAll(async () => {
  scheduler.destroy();
  await embedded.stop();
});

const drainQueue = () => embedded.output(outputs.drainQueueUrl);
const switchSource = async (key: string, Enabled: boolean) => {
  const url = `${embedded.local.endpoint}/2015-03-31/event-source-mappings/${embedded.output(key)}`;
  await fetch(url, { method: 'PUT', body: JSON.stringify({ Enabled }) });
  const state = Enabled ? 'Enabled' : 'Disabled';
  await until(`${key} is ${state}`, async () => ((await (await fetch(url)).json()) as { State: string }).State === state);
};
/** What the stack's role of this name was used for. */
const auditOf = async (part: string) => {
  const role = stack.roles.find(({ name }) => name.includes(part));
  return audit(role?.statements ?? [], (await embedded.calls()).filter(({ caller }) => caller === role?.name));
};

describe('a wake-up', () => {
  it('lands in the drain queue when its time has come, and time passes to it', async () => {
    await switchSource(outputs.drainSource, false);
    const variables = stack.functions.find(({ name }) => name === embedded.output(outputs.deliverFunction))?.env ?? {};
    const { nowEpochMs } = await embedded.look();
    const GroupName = variables[env.wakeUpGroup];
    await scheduler.send(
      new CreateScheduleCommand({
        Name: 'held', GroupName, ActionAfterCompletion: 'DELETE', FlexibleTimeWindow: { Mode: 'OFF' },
        ScheduleExpression: `at(${new Date(nowEpochMs + 3_600_000).toISOString().slice(0, 19)})`,
        Target: { Arn: variables[env.drainQueueArn], RoleArn: variables[env.wakeUpRoleArn], Input: '{"wake":"me"}' },
      }),
    );
    await embedded.drainQueue(undefined, { ignoreWakeUps: true });
    expect(await depth(embedded.sqs, drainQueue())).toEqual({ ready: 0, hidden: 0 });

    const skipped = await until('nothing is under way', async () => {
      const found = await embedded.skip();
      return found.idle && found;
    });
    expect(skipped.wakeUps).toBe(1);
    expect(skipped.skippedMs).toBeGreaterThan(3_500_000);
    await until('it has fired', async () => (await depth(embedded.sqs, drainQueue())).ready === 1);
    const { Messages } = await embedded.sqs.send(new ReceiveMessageCommand({ QueueUrl: drainQueue() }));
    expect(Messages).toMatchObject([{ Body: '{"wake":"me"}' }]);
    await embedded.sqs.send(new DeleteMessageCommand({ QueueUrl: drainQueue(), ReceiptHandle: Messages?.[0]?.ReceiptHandle }));
    await expect(scheduler.send(new GetScheduleCommand({ Name: 'held', GroupName }))).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
    expect(await auditOf('WakeUps')).toEqual({ denied: [], unused: [], broad: [] });
    await switchSource(outputs.drainSource, true);
    await embedded.drainQueue();
  });
});

describe('the sweep', () => {
  it('runs each minute, once over a gap, in an environment of its own', async () => {
    const runs = async () => (await embedded.calls()).filter(({ action }) => action === 'lambda:InvokeFunction').length;
    // One that still runs would take the gap for its own.
    await until('none runs', async () => (await embedded.look()).idle);
    const before = await runs();
    await embedded.advance(86_400_000);
    await until('it ran', async () => (await runs()) > before);
    await until('it has ended', async () => (await embedded.look()).idle);
    expect(await runs()).toBe(before + 1);
    expect(await embedded.environments('sweep')).toMatchObject([{ busy: false }]);
    expect(embedded.logsOf('sweep')).not.toContain('invocation failed');
    expect(await auditOf('SweepScheduleRole')).toEqual({ denied: [], unused: [], broad: [] });
  });
});

describe('a source that is switched off', () => {
  it('leaves messages where they are, lets time pass, and takes them when it is on again', async () => {
    await switchSource(outputs.deliverSource, false);
    await embedded.send(messageBody('nobody', 'evt_paused'));
    await until('nothing is under way', async () => (await embedded.look()).idle);
    expect(await depth(embedded.sqs, embedded.output(outputs.deliveryQueueUrl))).toEqual({ ready: 1, hidden: 0 });
    expect(await embedded.record('nobody', 'evt_paused')).toBeUndefined();
    await switchSource(outputs.deliverSource, true);
    await until('it is dead-lettered', async () => (await embedded.record('nobody', 'evt_paused'))?.state === 'dead');
    await embedded.drainQueue();
  });
});

describe('the control routes', () => {
  it('find each function by its short name', async () => {
    for (const fn of ['deliver', 'drain', 'sweep'] as const) expect(await embedded.environments(fn)).toBeInstanceOf(Array);
    const [worker] = await embedded.environments('sweep');
    await embedded.kill(worker?.pid ?? 0, 'sweep');
    expect(await embedded.environments('sweep')).toEqual([]);
    await embedded.stopAt(0, 'before', 'drain');
    await embedded.disarmStop();
  });
});
