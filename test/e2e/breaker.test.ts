import { setTimeout as sleep } from 'node:timers/promises';
import { ScanCommand } from '@aws-sdk/client-dynamodb';
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createHeldIndex } from '../../lambdas/shared/adapters/dynamodb-held-index.ts';
import { claimKeyOf, recordKeyOf } from '../../lambdas/shared/core/keys.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { depth, messageBody, startEmbedded, until, type Embedded, type FunctionName } from '../support/embedded.ts';
import { closedPort } from '../support/hostile-server.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let healthy: Recorder;
let recovered: Recorder | undefined;
beforeAll(async () => {
  embedded = await startEmbedded();
  healthy = await startRecorder(embedded.authority);
});
afterAll(async () => {
  await Promise.all([healthy.close(), recovered?.close()]);
  await embedded.stop();
});

const eventIds = (n: number, name = 'evt') => Array.from({ length: n }, (_, i) => `${name}_${String(i).padStart(5, '0')}`);

async function sendAll(endpointId: string, ids: readonly string[]): Promise<void> {
  for (let i = 0; i < ids.length; i += 10) {
    const Entries = ids.slice(i, i + 10).map((eventId) => ({ Id: eventId, MessageBody: messageBody(endpointId, eventId) }));
    await embedded.sqs.send(new SendMessageBatchCommand({ QueueUrl: embedded.output(outputs.deliveryQueueUrl), Entries }));
  }
}

const logged = (fn: FunctionName) => embedded.logsOf(fn).split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>);
const attemptsOf = (endpointId: string) => (['deliver', 'drain'] as const).flatMap(logged).filter((line) => line['message'] === 'attempt' && line['endpointId'] === endpointId);
const lane = async (endpointId: string) => (await embedded.registry.get(endpointId))?.lane;

/** Event ids in the order in which they are held: the longest due first. */
async function holdOrder(endpointId: string): Promise<string[]> {
  const held = createHeldIndex(embedded.db, embedded.output(outputs.deliveriesTable));
  const keys: string[] = [];
  let from: unknown;
  do {
    const page = await held.page(endpointId, 1_000, from);
    keys.push(...page.keys.map(({ recordKey }) => recordKey));
    from = page.next;
  } while (from !== undefined);
  const names = new Map(eventIds(5_000).map((eventId) => [recordKeyOf(endpointId, claimKeyOf(eventId)), eventId]));
  // A canary that fails meanwhile is due later, and found twice.
  return [...new Set(keys)].map((key) => names.get(key) ?? key);
}

/** By how many places an arrival was ahead of one that was held before it, at most. */
function worstOvertaking(order: readonly string[], arrived: readonly string[]): number {
  const place = new Map(order.map((eventId, i) => [eventId, i]));
  let latest = -1;
  return Math.max(0, ...arrived.map((eventId) => {
    const at = place.get(eventId) ?? 0;
    latest = Math.max(latest, at);
    return latest - at;
  }));
}

describe('an endpoint whose host refuses connections', () => {
  it('is left alone but for a canary now and then, and gets everything in order when it is back, whatever comes meanwhile (R7, R8)', { timeout: 400_000 }, async () => {
    const all = eventIds(5_000);
    const port = await closedPort();
    await embedded.register('dead', `https://localhost:${port}/in`);
    await embedded.register('healthy', healthy.url());
    const { nowEpochMs: startEpochMs } = await embedded.look();
    await sendAll('dead', all);
    await embedded.send(messageBody('healthy', 'evt_other'));
    await until('all of it is held', async () => {
      const { idle, ready, hidden } = await embedded.skip({ beyondMs: 5_000, toWakeUps: false });
      // The wake-up is the one that is hidden.
      return idle && ready === 0 && hidden <= 1;
    }, 120_000);
    const deliverCalls = logged('deliver').length;
    await until('a quarter of an hour has passed', async () => {
      const { idle, nowEpochMs } = await embedded.skip({ beyondMs: 5_000 });
      return idle && nowEpochMs >= startEpochMs + 900_000;
    }, 60_000);

    expect(healthy.requests.map((request) => request.eventId)).toEqual(['evt_other']);
    // At most a lane of eight when it fails first, then canaries.
    const before = attemptsOf('dead');
    expect(before.length).toBeGreaterThanOrEqual(5 + 4);
    expect(before.length).toBeLessThanOrEqual(60);
    expect(await lane('dead')).toMatchObject({ breaker: { state: 'open' }, holding: { count: all.length } });
    // Nothing was received again while it was held.
    expect(logged('deliver').length).toBe(deliverCalls);
    expect(await depth(embedded.sqs, embedded.output(outputs.deliveryQueueUrl))).toEqual({ ready: 0, hidden: 0 });

    const order = await holdOrder('dead');
    expect(order).toHaveLength(all.length);
    recovered = await startRecorder(embedded.authority, port);
    const tail: string[] = [];
    const arrived = () => recovered?.requests ?? [];
    const isThere = () => new Set(arrived().map(({ eventId }) => eventId)).size >= all.length / 2;
    // What comes meanwhile comes as fast as it is delivered, and joins the tail.
    for (let sent = arrived().length; !isThere(); ) {
      const { idle } = await embedded.skip({ beyondMs: 1_000 });
      const more = Math.min(50, arrived().length - sent);
      if (more <= 0) await sleep(idle ? 1 : 20);
      else {
        const ids = eventIds(tail.length + more, 'tail').slice(tail.length);
        await sendAll('dead', ids);
        tail.push(...ids);
        sent += more;
      }
    }
    await embedded.drainQueue(200_000);

    expect(arrived().map(({ eventId }) => eventId).sort()).toEqual([...all, ...tail].sort());
    const ofBacklog = arrived().map(({ eventId }) => eventId).filter((eventId) => !eventId.startsWith('tail'));
    // Those that failed first wait for their next attempt.
    const failed = new Set(attemptsOf('dead').filter((line) => line['state'] === 'waiting').map((line) => line['eventId']));
    const inOrder = order.filter((eventId) => !failed.has(eventId));
    const overtaking = worstOvertaking(inOrder, ofBacklog.filter((eventId) => !failed.has(eventId)));
    console.log(`${before.length} attempts in a quarter of an hour; ${tail.length} more came meanwhile; the worst was overtaken by ${overtaking}`);
    expect(overtaking).toBeLessThanOrEqual(8);
    await until('the hold has ended', async () => {
      await embedded.skip();
      return (await lane('dead'))?.holding === undefined;
    });
    expect(await lane('dead')).toMatchObject({ avail: 8, leases: new Map(), claims: new Map(), breaker: { state: 'closed' }, drain: undefined });
    for (const queue of ['deadLetterQueueUrl', 'faultQueueUrl'] as const) expect(await depth(embedded.sqs, embedded.output(outputs[queue]))).toEqual({ ready: 0, hidden: 0 });
    expect((await embedded.db.send(new ScanCommand({ TableName: embedded.output(outputs.payloadsTable), Select: 'COUNT' }))).Count).toBe(0);
  });
});
