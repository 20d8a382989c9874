import { CreateScheduleCommand, CreateScheduleGroupCommand, DeleteScheduleCommand, ListSchedulesCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startDynamoDb } from '../../local/dynamodb.ts';
import type { InvokeResult } from '../../local/lambda-host.ts';
import { ScheduleTargets } from '../../local/schedule-targets.ts';
import { type Scheduler, startScheduler } from '../../local/scheduler.ts';
import { type Sqs, startSqs } from '../../local/sqs.ts';
import { startWire, type Wire } from '../../local/wire.ts';
import { until } from '../support/embedded.ts';

const queueArn = 'arn:aws:sqs:eu-west-1:000000000000:drain';
const functionArn = 'arn:aws:lambda:eu-west-1:000000000000:function:sweep';
const RoleArn = 'arn:aws:iam::000000000000:role/Waker';
const FlexibleTimeWindow = { Mode: 'OFF' } as const;

let sqs: Sqs;
let wire: Wire;
let scheduler: Scheduler;
let client: SchedulerClient;
let close: () => Promise<unknown>;
/** Events that the function was invoked with, its answer, and what it was said to have failed with. */
const events: unknown[] = [];
let answer: () => Promise<InvokeResult>;
const failures: string[] = [];

const ok: InvokeResult = { kind: 'ok', payload: null, durationMs: 1, cold: false };

beforeEach(async () => {
  events.length = failures.length = 0;
  answer = () => Promise.resolve(ok);
  const dynamodb = await startDynamoDb();
  sqs = startSqs();
  const ready = Promise.withResolvers<ScheduleTargets>();
  scheduler = startScheduler({ pollMs: 20, invoke: async (target, input) => (await ready.promise).invoke(target, input) });
  wire = await startWire({ dynamodb, sqs, scheduler, clock: { nowMs: () => Date.now() } });
  const host = { invoke: (event: unknown) => (events.push(event), answer()) };
  const targets = new ScheduleTargets({
    wire,
    functions: [{ arn: functionArn, name: 'sweep' }],
    hosts: new Map([['sweep', host]]),
    onFailed: (name, message) => failures.push(`${name} ${message}`),
  });
  ready.resolve(targets);
  await sqs.call('CreateQueue', { QueueName: 'drain' });
  client = new SchedulerClient({ endpoint: wire.endpoint, region: 'eu-west-1', credentials: { accessKeyId: 'operator', secretAccessKey: 's' } });
  close = () => {
    targets.destroy();
    client.destroy();
    return Promise.all([wire.close(), dynamodb.close(), sqs.close(), scheduler.close()]);
  };
});
afterEach(() => close());

const at = (ms: number) => `at(${new Date(Date.now() + ms).toISOString().slice(0, 19)})`;
const create = (Name: string, Arn: string, Input = `{"name":"${Name}"}`, RetryPolicy = { MaximumRetryAttempts: 0 }) =>
  client.send(
    new CreateScheduleCommand({
      Name, GroupName: 'default', ScheduleExpression: at(0), ActionAfterCompletion: 'DELETE', FlexibleTimeWindow,
      Target: { Arn, RoleArn, Input, RetryPolicy },
    }),
  );
const names = async () => ((await client.send(new ListSchedulesCommand({}))).Schedules ?? []).map(({ Name }) => Name);
const callsBy = (caller: string) => wire.calls.since(0).filter((call) => call.caller === caller).map(({ action, resource, outcome }) => [action, resource, outcome]);

describe('a schedule of a queue', () => {
  it('sends its input there, as its role, and goes', async () => {
    await create('wake', queueArn, '{"endpointId":"a"}');
    await until('it has fired', () => sqs.stateOf('drain').ready === 1);
    await until('it is gone', async () => (await names()).length === 0);
    const { Messages } = await sqs.call('ReceiveMessage', { QueueUrl: 'drain' });
    expect(Messages).toMatchObject([{ Body: '{"endpointId":"a"}' }]);
    expect(callsBy('Waker')).toEqual([['sqs:SendMessage', queueArn, 'ok']]);
  });

  it('is refused like any caller, tried as often as its policy says, and then lost', async () => {
    wire.interference.refuse({ service: 'sqs', code: 'ThrottlingException', role: 'Waker' });
    await create('wake', queueArn);
    await until('it is gone', async () => (await names()).length === 0);
    expect(callsBy('Waker')).toEqual([['sqs:SendMessage', queueArn, 'ThrottlingException']]);
    wire.interference.clearFaults();
    expect(sqs.stateOf('drain')).toMatchObject({ ready: 0, hidden: 0 });
  });
});

describe('a schedule of a function', () => {
  it('invokes it with its input, as its role', async () => {
    await create('sweep', functionArn);
    await until('it has fired', () => events.length === 1);
    expect(events).toEqual([{ name: 'sweep' }]);
    expect(callsBy('Waker')).toEqual([['lambda:InvokeFunction', functionArn, 'ok']]);
  });

  it('is not tried again when the function fails, and counts as running until then', async () => {
    const ended = Promise.withResolvers<InvokeResult>();
    answer = () => ended.promise;
    await create('sweep', functionArn, '{}', { MaximumRetryAttempts: 5 });
    await until('it has fired', () => events.length === 1);
    expect(scheduler.pending().running).toBe(1);
    void scheduler.tick();
    expect(events).toHaveLength(1);
    ended.resolve({ kind: 'error', errorType: 'Sandbox.Timedout', errorMessage: 'late', durationMs: 1, cold: false });
    await until('it is over', () => scheduler.pending().running === 0);
    expect([failures, await names()]).toEqual([['sweep invocation failed: Sandbox.Timedout late'], []]);
  });

  it('that is not there is an event lost', async () => {
    await create('sweep', `${functionArn}-other`);
    await until('it is gone', async () => (await names()).length === 0);
    expect(events).toEqual([]);
  });
});

describe('schedules', () => {
  it('are looked at and deleted by an ordinary client, in a group of their own too', async () => {
    await client.send(new CreateScheduleGroupCommand({ Name: 'wake-ups' }));
    const Target = { Arn: queueArn, RoleArn };
    await client.send(new CreateScheduleCommand({ Name: 'a', GroupName: 'wake-ups', ScheduleExpression: at(3_600_000), FlexibleTimeWindow, Target }));
    expect(scheduler.pending()).toMatchObject({ oneTime: 1, running: 0 });
    expect((await client.send(new ListSchedulesCommand({ GroupName: 'wake-ups' }))).Schedules).toMatchObject([{ Name: 'a', Target: { Arn: queueArn } }]);
    await client.send(new DeleteScheduleCommand({ Name: 'a', GroupName: 'wake-ups' }));
    expect(scheduler.pending()).toEqual({ oneTime: 0, nextEpochMs: undefined, running: 0 });
  });
});
