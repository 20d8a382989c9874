/** Stopping and starting: one endpoint, all of them, and the test event that asks one how it is (O4). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { runCli } from '../support/cli.ts';
import { depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
const cli = (...args: string[]) => runCli(embedded.localFile, args);
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
});
beforeEach(() => consumer.reply(() => ({ status: 200 })));
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const lane = async (id: string) => (await embedded.registry.get(id))?.lane;
const sent = (id: string) => consumer.requests.filter(({ path }) => path === `/${id}`).map(({ eventId }) => eventId);
const isHeld = (id: string, eventId: string) => until(`${eventId} is held`, async () => {
  const record = await embedded.record(id, eventId);
  return record?.state === 'waiting' && record.home === 'held';
});
const isDelivered = (id: string, eventId: string) => until(`${eventId} is delivered`, async () => {
  await embedded.skip();
  return (await embedded.record(id, eventId))?.state === 'delivered';
});

async function register(id: string, settings: Record<string, unknown> = {}): Promise<void> {
  await embedded.register(id, consumer.url(`/${id}`), settings);
}

/** An endpoint that nobody listens at, whose first and last attempts lie a week apart: it is paused. */
async function unreachable(id: string): Promise<string> {
  const gone = await startRecorder(embedded.authority);
  const url = gone.url(`/${id}`);
  await gone.close();
  await embedded.register(id, url, { breaker: { connectFailures: 100, minAttempts: 1_000 } });
  const attempted = async (nth: string, n: number) => {
    for (let i = 0; i < n; i++) {
      await embedded.send(messageBody(id, `${nth}-${i}`));
      await until('it was attempted', async () => ((await embedded.record(id, `${nth}-${i}`))?.attempt ?? 0) > 0);
    }
  };
  await attempted('first', 3);
  await embedded.advance(7 * 86_400_000 + 60_000);
  await attempted('last', 10);
  await isTold(id, 'pause');
  expect((await embedded.registry.get(id))?.endpoint.config?.status).toBe('paused');
  return url;
}

/** Passes minutes, each with a sweep: one that is under way may have looked too early. */
const isTold = (id: string, step: string) => until(`somebody is told ${step} of ${id}`, async () => {
  await embedded.advance(60_000);
  await sleep(1_000);
  return (await told(id)).at(-1) === step;
});

const told = async (id: string) => (await embedded.published()).filter(({ attributes }) => attributes['endpointId'] === id).map(({ attributes }) => attributes['step']);

const lanesOf = () => createDynamoDbLanes(embedded.db, { endpoints: embedded.output(outputs.endpointsTable), deliveries: embedded.output(outputs.deliveriesTable) });

/** As another worker gives a delivery back that was accepted. */
async function succeeds(id: string): Promise<void> {
  const found = (await embedded.registry.get(id))?.endpoint;
  const lease = { endpointId: id, leaseId: 'another', expiresEpochMs: (await embedded.look()).nowEpochMs + 60_000 };
  expect((await lanesOf().admit({ ...lease, cfg: found?.version ?? '', wanted: [{ claimKey: 'c', shortHash: 'h' }] })).kind).toBe('granted');
  expect(await lanesOf().giveBack({ ...lease, slots: 1, release: ['c'], keep: [], successes: 1, failures: 0 })).toBe('done');
}

async function openBreaker(id: string, forMs: number): Promise<void> {
  const breaker = (await lane(id))?.breaker;
  await lanesOf().moveBreaker(id, breaker, { state: 'open', round: 1, cause: 'failing', untilEpochMs: (await embedded.look()).nowEpochMs + forMs, trips: 5, canary: undefined });
}

describe('endpoint pause and resume', () => {
  it('keep what comes, and send it in order afterwards; age stands still meanwhile', async () => {
    // One at a time: side by side they may arrive in any order.
    await register('kept', { maxInFlight: 1, retry: { maxAgeS: 3_600 } });
    const paused = await cli('endpoint', 'pause', 'kept');
    expect([paused.code, paused.stderr]).toEqual([0, 'Target: local\n']);
    expect(paused.stdout).toContain('Paused endpoint kept');
    for (const eventId of ['a', 'b', 'c']) {
      await embedded.send(messageBody('kept', eventId));
      await isHeld('kept', eventId);
    }
    const status = (await cli('status', 'kept', '--json')).json<{ endpoints: { state: string; held: number }[] }>();
    expect(status.endpoints).toMatchObject([{ state: 'paused', held: 3 }]);
    await embedded.advance(7_200_000);
    expect(sent('kept')).toEqual([]);

    const resumed = await cli('endpoint', 'resume', 'kept', '--json');
    expect(resumed.json()).toMatchObject({ endpointId: 'kept', status: 'enabled', held: 3 });
    await isDelivered('kept', 'c');
    expect(sent('kept')).toEqual(['a', 'b', 'c']);
  });

  it('say what they cannot do', async () => {
    await register('either');
    const idle = await cli('endpoint', 'resume', 'either');
    expect([idle.code, idle.stdout]).toEqual([0, 'Endpoint either is not paused.\n']);
    await cli('endpoint', 'pause', 'either');
    const again = await cli('endpoint', 'pause', 'either');
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('is paused already') as string]);
    await register('off', { status: 'disabled' });
    expect((await cli('endpoint', 'pause', 'off')).stderr).toContain('is disabled: what comes for it becomes dead letters');
    expect((await cli('endpoint', 'pause', 'nobody')).code).toBe(1);
  });

  it('leave the pause noted whatever put changes', async () => {
    await register('noted');
    await cli('endpoint', 'pause', 'noted');
    await cli('endpoint', 'put', 'noted', '--url', consumer.url('/noted'));
    const { config } = (await embedded.registry.get('noted'))?.endpoint ?? {};
    expect(config).toMatchObject({ status: 'enabled', pauses: [{ fromEpochMs: expect.any(Number) as number, toEpochMs: expect.any(Number) as number }] });
  });
});

describe('pause --all and resume --all', () => {
  it('stop all sending within seconds, keep what comes, and start it again', { timeout: 120_000 }, async () => {
    await Promise.all([register('one'), register('two')]);
    await embedded.send(messageBody('one', 'before'));
    await isDelivered('one', 'before');
    expect((await cli('pause', '--all')).stderr).toContain('repeat with --yes');
    expect((await cli('pause', '--all', '--yes')).stdout).toContain('All sending stops within seconds');
    expect((await cli('pause', '--all', '--yes')).stdout).toContain('stopped already');
    expect((await cli('status')).stdout).toContain('All sending is stopped');
    // Each environment looks at the switch every few seconds.
    await embedded.advance(10_000);
    for (const id of ['one', 'two']) await embedded.send(messageBody(id, 'meanwhile'));
    for (const id of ['one', 'two']) await isHeld(id, 'meanwhile');
    await embedded.advance(86_400_000);
    await until('nothing is under way', async () => (await embedded.look()).idle);
    expect([sent('one'), sent('two')]).toEqual([['before'], []]);
    expect((await cli('endpoint', 'ping', 'one')).stderr).toContain('All sending is stopped');

    const resumed = await cli('resume', '--all', '--json');
    expect([resumed.code, resumed.json()]).toMatchObject([0, { paused: false, was: 'written', failed: 0 }]);
    await embedded.advance(10_000);
    for (const id of ['one', 'two']) await isDelivered(id, 'meanwhile');
    for (const queue of ['deadLetterQueueUrl', 'faultQueueUrl'] as const) expect(await depth(embedded.sqs, embedded.output(outputs[queue]))).toEqual({ ready: 0, hidden: 0 });
    expect((await cli('resume', '--all')).stdout).toContain('Sending was not stopped');
  });

  it('want --all said', async () => {
    for (const command of ['pause', 'resume']) {
      const refused = await cli(command);
      expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('--all') as string]);
    }
  });
});

describe('endpoint ping', () => {
  it('sends a signed test event ahead of what waits, shows the answer, and closes an open breaker', async () => {
    await register('ill');
    await openBreaker('ill', 300_000);
    await embedded.send(messageBody('ill', 'waits'));
    await isHeld('ill', 'waits');
    const ping = await cli('endpoint', 'ping', 'ill');
    expect([ping.code, ping.stdout]).toEqual([0, expect.stringMatching(/ill answered the ping: 200 after \d+ ms\. Its breaker is closed\./) as string]);
    const [first] = consumer.requests.filter(({ path }) => path === '/ill');
    expect([first?.eventId, first?.headers['webhook-signature']]).toEqual([expect.stringMatching(/^ping_/) as string, expect.stringMatching(/^v1,/) as string]);
    expect(JSON.parse(first?.body.toString() ?? '')).toEqual({ type: 'sluice.ping' });
    await isDelivered('ill', 'waits');
  });

  it('is sent once: one that is not accepted fails, and leaves neither a repeat nor a dead letter', async () => {
    await register('worse');
    await openBreaker('worse', 300_000);
    consumer.reply(() => ({ status: 503 }));
    const ping = await cli('endpoint', 'ping', 'worse', '--json');
    expect([ping.code, ping.json()]).toMatchObject([1, { delivered: false, outcome: '503', breaker: 'open' }]);
    await embedded.drainQueue();
    expect(sent('worse')).toHaveLength(1);
    expect(await depth(embedded.sqs, embedded.output(outputs.deadLetterQueueUrl))).toEqual({ ready: 0, hidden: 0 });
    expect((await cli('status', 'worse', '--json')).json<{ endpoints: { dead: number }[] }>().endpoints).toMatchObject([{ dead: 0 }]);
  });

  it('answers for an endpoint that is well', async () => {
    await register('well');
    expect((await cli('endpoint', 'ping', 'well', '--json')).json()).toMatchObject({ delivered: true, outcome: '200', breaker: 'closed' });
    await cli('endpoint', 'pause', 'well');
    expect((await cli('endpoint', 'ping', 'well')).stderr).toContain('Endpoint well is paused: nothing is sent to it.');
  });

  it('ends the pause of one that had not answered for a week, once it answers; until then it stays paused', { timeout: 120_000 }, async () => {
    const url = await unreachable('gone');

    const failed = await cli('endpoint', 'ping', 'gone');
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringMatching(/The ping was not accepted: connect ECONNREFUSED\. gone stays paused\./) as string]);
    expect((await embedded.registry.get('gone'))?.endpoint.config?.status).toBe('paused');
    const back = await startRecorder(embedded.authority, Number(new URL(url).port));
    try {
      const ping = await cli('endpoint', 'ping', 'gone');
      expect([ping.code, ping.stdout, ping.stderr]).toEqual([0, expect.stringContaining('gone answered the ping: 200'), expect.stringContaining('gone is sent to again')]);
      const { endpoint, lane: after } = (await embedded.registry.get('gone')) ?? {};
      expect([endpoint?.config?.status, endpoint?.config?.pauses.length, after?.row]).toEqual(['enabled', 2, undefined]);
      await embedded.send(messageBody('gone', 'next'));
      await isDelivered('gone', 'next');
      await isTold('gone', 'recovered');
      expect((await told('gone')).filter((step) => step !== 'warn')).toEqual(['pause', 'recovered']);
    } finally {
      await back.close();
    }
  });

  it('leaves one enabled that has answered another delivery while the ping was refused', { timeout: 120_000 }, async () => {
    const url = await unreachable('late');
    const back = await startRecorder(embedded.authority, Number(new URL(url).port));
    back.reply(({ eventId }) => (eventId.startsWith('ping_') ? { status: 503, before: () => succeeds('late') } : { status: 503 }));
    try {
      const ping = await cli('endpoint', 'ping', 'late');
      expect([ping.code, ping.stderr]).toEqual([1, expect.stringMatching(/The ping was not accepted: 503\. late is sent to: it has answered another delivery meanwhile/) as string]);
      expect((await embedded.registry.get('late'))?.endpoint.config?.status).toBe('enabled');
    } finally {
      await back.close();
    }
  });

  it('keeps the sweep from pausing one that it asks again, for as long as it waits', { timeout: 120_000 }, async () => {
    const url = await unreachable('slow');
    const back = await startRecorder(embedded.authority, Number(new URL(url).port));
    const claims: (number | undefined)[] = [];
    back.reply(() => ({ status: 503, before: async () => void claims.push((await lane('slow'))?.told.get('row')?.atEpochMs) }));
    const startedEpochMs = (await embedded.look()).nowEpochMs;
    try {
      await cli('endpoint', 'ping', 'slow', '--timeout', '600');
      expect(claims[0]).toBeGreaterThanOrEqual(startedEpochMs + 600_000);
    } finally {
      await back.close();
    }
  });
});
