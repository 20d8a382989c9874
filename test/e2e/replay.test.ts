/** 500 dead letters of one endpoint among 10,000 of fifty, replayed by the command line, interrupted twice: each is delivered once, and no other is touched. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { ScanCommand, type AttributeValue } from '@aws-sdk/client-dynamodb';
import { ReceiveMessageCommand, type MessageAttributeValue } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { deadLetterAttributes } from '../../lambdas/shared/adapters/sqs-queues.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { replay as limits } from '../../lambdas/shared/limits/numbers.ts';
import { runCli, type CliResult } from '../support/cli.ts';
import { callReplay, seedDead, type Buried, type DeadLetter } from '../support/dead-letters.ts';
import { depth, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

const each = 500;
const others = Array.from({ length: 47 }, (_, i) => `other-${i}`);

let embedded: Embedded;
let consumer: Recorder;
const buried: Buried[] = [];
let fromEpochMs: number;

beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  fromEpochMs = Date.now() - 3_600_000;
  for (const id of ['mine', ...others]) await embedded.register(id, consumer.url(`/${id}`));
  // What is replayed of these is counted only: it stays held.
  for (const id of ['small', 'large']) await embedded.register(id, consumer.url(`/${id}`), { status: 'paused' });
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const of = (endpointId: string, count: number, from = 0): DeadLetter[] =>
  Array.from({ length: count }, (_, i) => ({ endpointId, eventId: `evt_${endpointId}_${from + i}`, lastEpochMs: fromEpochMs + from + i }));
const seed = async (...letters: DeadLetter[][]): Promise<Buried[]> => {
  const seeded = await seedDead(embedded, letters.flat());
  buried.push(...seeded);
  return seeded;
};

/** AWS calls of the replay function, by operation, that one whole replay of an endpoint makes. */
async function callsOf(endpointId: string): Promise<Record<string, number>> {
  const since = (await embedded.calls()).at(-1)?.seq ?? 0;
  const dry = await callReplay(embedded, { select: { endpointId }, dryRun: true, forMs: limits.maxForMs });
  expect(dry).toMatchObject({ selected: each, replayed: 0 });
  const answer = await callReplay(embedded, { select: { endpointId }, perSecond: limits.maxPerSecond, forMs: limits.maxForMs });
  expect(answer).toMatchObject({ selected: each, replayed: each });
  expect(answer.cursor).toBeUndefined();
  const role = (await embedded.stack()).roles.find(({ name }) => name.includes('Replay'))?.name;
  const calls = new Map<number, string>();
  let writeUnits = 0;
  for (const { seq, caller, operation, capacityUnits = 0 } of await embedded.calls(since)) {
    if (caller !== role) continue;
    calls.set(seq, operation);
    if (/Put|Write|Delete/.test(operation)) writeUnits += capacityUnits;
  }
  // Its body written and removed, its record in a transaction with two writes of the index, and its share of the lane.
  expect(writeUnits / each).toBeLessThan(8.5);
  const counts: Record<string, number> = {};
  for (const operation of calls.values()) counts[operation] = (counts[operation] ?? 0) + 1;
  return counts;
}

async function itemsOfOthers(table: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  let from: Record<string, AttributeValue> | undefined;
  do {
    const page = await embedded.db.send(new ScanCommand({ TableName: embedded.output(table), ConsistentRead: true, ...(from === undefined ? {} : { ExclusiveStartKey: from }) }));
    for (const item of page.Items ?? []) {
      const key = item['pk']?.S ?? '';
      if (key.startsWith('other-')) found.set(key, JSON.stringify(item, (_name, value: unknown) => (value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value)));
    }
    from = page.LastEvaluatedKey;
  } while (from !== undefined);
  return found;
}

const written = (body: string | undefined, attributes: Record<string, MessageAttributeValue> = {}) =>
  JSON.stringify([body, Object.entries(attributes).map(([name, { StringValue }]) => [name, StringValue]).sort()]);

/** Every message of the dead-letter queue. */
async function deadLetters(): Promise<string[]> {
  const QueueUrl = embedded.output(outputs.deadLetterQueueUrl);
  const found: string[] = [];
  for (;;) {
    const { Messages = [] } = await embedded.sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 43_200, MessageAttributeNames: ['All'] }));
    if (Messages.length === 0) return found;
    found.push(...Messages.map(({ Body, MessageAttributes }) => written(Body, MessageAttributes)));
  }
}

/** The command line as a process that can be interrupted. */
function startCli(...args: string[]): { interrupt: () => void; ended: Promise<CliResult> } {
  const root = path.join(import.meta.dirname, '../..');
  const env = { ...process.env, SLUICE_LOCAL_FILE: embedded.localFile, SLUICE_STACK: '', SLUICE_CLOCK_FILE: path.join(path.dirname(embedded.localFile), 'clock') };
  const child = spawn(process.execPath, ['--import', path.join(root, 'local/clock-preload.mjs'), path.join(root, 'bin/sluice.ts'), ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<CliResult>((resolve) => child.once('close', (code) => resolve({ code: code ?? -1, stdout, stderr, json: <T>() => JSON.parse(stdout) as T })));
  return { interrupt: () => child.kill('SIGINT'), ended };
}

const dlqReplay = ['dlq', 'replay', '--endpoint', 'mine', '--rate', '100', '--yes', '--json'];
interface Shown {
  selected: number;
  replayed: number;
  gone: number;
  interrupted: boolean;
}

describe('a replay', () => {
  it('whose process is killed before or after any of its calls is finished by the next, and moves nothing twice', { timeout: 300_000 }, async () => {
    const counted: string[] = [];
    for (const when of ['before', 'after'] as const) {
      for (let call = 1; ; call++) {
        const endpointId = `killed-${when}-${call}`;
        await embedded.register(endpointId, consumer.url(`/${endpointId}`), { status: 'paused' });
        const seeded = await seed(of(endpointId, 2));
        await embedded.stopAt(call, when, 'replay');
        const answer = await callReplay(embedded, { select: { endpointId } }).catch((error: unknown) => String(error));
        const { stopped } = await embedded.stopState();
        await embedded.disarmStop();
        const records = async () => Promise.all(seeded.map(({ record }) => embedded.record(endpointId, record.eventId ?? '')));
        const isHeld = (record: DeliveryRecord | undefined) => record?.state === 'waiting' && record.home === 'held' && record.generation === 1 && record.attempt === 0;
        const moved = (await records()).filter(isHeld).length;
        const holding = (await embedded.registry.get(endpointId))?.lane.holding;
        expect(holding?.count ?? 0, `${when} ${call}`).toBe(moved);
        if (stopped === undefined) {
          // Beyond its last call.
          expect(answer).toMatchObject({ replayed: 2 });
          break;
        }
        counted.push(stopped.operation);
        expect(answer, `${when} ${call}`).toContain('Runtime.ExitError');
        expect(await callReplay(embedded, { select: { endpointId } }), `${when} ${call}`).toMatchObject({ selected: 2 - moved, replayed: 2 - moved });
        const now = await records();
        expect(now.map(isHeld), `${when} ${call}`).toEqual([true, true]);
        expect((await embedded.registry.get(endpointId))?.lane.holding?.count).toBe(2);
        const { found } = await createDynamoDbPayloads(embedded.db, embedded.output(outputs.payloadsTable)).read(now.flatMap((record) => record ?? []));
        expect([...found.values()].sort()).toEqual(seeded.map(({ body }) => body).sort());
      }
    }
    // Each kind of call, both ways: index, records, endpoint, bodies; the new bodies, the move, the wake-up, the old bodies.
    const operations = ['Query', 'BatchGetItem', 'GetItem', 'BatchGetItem', 'PutItem', 'PutItem', 'TransactWriteItems', 'SendMessage', 'DeleteItem', 'DeleteItem'];
    expect(counted).toEqual([...operations, ...operations]);
  });

  it('makes the same calls for 500 dead letters, whether 1,500 or 10,000 are dead', { timeout: 300_000 }, async () => {
    const few = await seed(of('small', each), ...others.slice(0, 40).map((id) => of(id, 25)));
    expect(few.length).toBe(1_500);
    const small = await callsOf('small');
    const many = await seed(of('mine', each), of('large', each), ...others.map((id) => of(id, 171, 25)));
    expect(few.length - each + many.length).toBeGreaterThanOrEqual(10_000);
    expect(await callsOf('large')).toEqual(small);
    // Two pages more than full ones; every delivery has its body read with its batch, written and removed by itself.
    const [pages, batches] = [each / limits.page, each / limits.batch];
    expect(small).toEqual({
      Query: 2 * (pages + 1), BatchGetItem: 2 * pages + batches, GetItem: 2, PutItem: each, TransactWriteItems: batches, SendMessage: batches, DeleteItem: each,
    });
  });

  it('of one endpoint delivers each of its dead letters once, interrupted by its operator and by a crash, and leaves the others as they are', { timeout: 300_000 }, async () => {
    const [records, payloads] = [await itemsOfOthers(outputs.deliveriesTable), await itemsOfOthers(outputs.payloadsTable)];
    expect(records.size).toBe(payloads.size);
    expect(records.size).toBeGreaterThan(8_000);

    const first = startCli(...dlqReplay);
    await until('something is delivered', () => consumer.requests.length > 0);
    first.interrupt();
    const interrupted = await first.ended;
    expect([interrupted.code, interrupted.stderr]).toEqual([3, expect.stringContaining('Repeat the command for the rest') as string]);
    const one = interrupted.json<Shown>();
    expect(one).toMatchObject({ interrupted: true, gone: 0 });
    expect(one.replayed).toBeGreaterThan(0);
    expect(one.replayed).toBeLessThan(each);

    // In the middle of its work: the process is killed, after the call took effect.
    await embedded.stopAt(70, 'after', 'replay');
    const crashed = await runCli(embedded.localFile, dlqReplay);
    expect((await embedded.stopState()).stopped).toBeDefined();
    await embedded.disarmStop();
    expect([crashed.code, crashed.stderr]).toEqual([1, expect.stringContaining('The replay function failed: Runtime.ExitError') as string]);

    const whole = await runCli(embedded.localFile, dlqReplay);
    expect(whole.code).toBe(0);
    const last = whole.json<Shown>();
    expect(last).toMatchObject({ interrupted: false, gone: 0, selected: last.replayed });
    const again = await runCli(embedded.localFile, dlqReplay);
    expect([again.code, again.json()]).toMatchObject([0, { selected: 0 }]);

    await until('all of them are delivered', () => consumer.requests.length >= each, 120_000);
    await embedded.drainQueue(undefined, { ignoreWakeUps: true });
    const arrived = consumer.requests.map(({ path: at, eventId }) => `${at} ${eventId}`).sort();
    expect(arrived).toEqual(of('mine', each).map(({ eventId }) => `/mine ${eventId}`).sort());

    expect(await itemsOfOthers(outputs.deliveriesTable)).toEqual(records);
    expect(await itemsOfOthers(outputs.payloadsTable)).toEqual(payloads);
    // Nobody else's copy is touched; those of what has gone on the sweep may have found stale meanwhile, which hides some for a moment.
    await until('no copy is hidden', async () => (await depth(embedded.sqs, embedded.output(outputs.deadLetterQueueUrl))).hidden === 0);
    const copies = await deadLetters();
    const sent = buried.map(({ record, body }) => ({ copy: written(body, deadLetterAttributes(body, record)), mayBeStale: !others.includes(record.endpointId) }));
    const [found, all] = [new Set(copies), new Set(sent.map(({ copy }) => copy))];
    expect([copies.length, copies.filter((copy) => !all.has(copy))]).toEqual([found.size, []]);
    expect(sent.filter(({ copy, mayBeStale }) => !mayBeStale && !found.has(copy))).toEqual([]);
  });
});
