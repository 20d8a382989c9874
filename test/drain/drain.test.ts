/** The drain on fakes: what it sends, in which order, when it comes again, and that it never spins (R8). */
import { beforeEach, describe, expect, it } from 'vitest';
import { breaker as breakers, drain as limits, hold as holds, lease } from '../../lambdas/shared/limits/numbers.ts';
import { bodyOf, deliveredOf, endpointOf, openBreaker, receivedOf, t0EpochMs, timed } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered, unsent } from '../support/fakes.ts';

let h: Harness;
const events = (n: number, name = 'e') => Array.from({ length: n }, (_, i) => `${name}${i}`);
const batchOf = (...ids: string[]) => ids.map((eventId) => receivedOf(bodyOf({ eventId }), { messageId: eventId, sentEpochMs: h.clock.nowEpochMs() }));
const idle = { avail: 8, leases: new Map(), claims: new Map() };
/** From a hold on, so long an empty index proves nothing. */
const inIndexMs = holds.indexLagMs + lease.skewMs;
const lastOrder = () => h.wakeUps.orders.at(-1);

/** Holds deliveries one after the other, a millisecond apart, by an open breaker; it may be tried at once. */
async function held(...ids: string[]): Promise<void> {
  await open(h.clock.nowEpochMs() + 20_000);
  for (const eventId of ids) {
    expect(await h.run(batchOf(eventId))).toEqual([]);
    h.clock.advance(1);
  }
  await open(h.clock.nowEpochMs());
}

async function open(untilEpochMs: number): Promise<void> {
  const { breaker } = await h.lane();
  await h.store.lanes.moveBreaker('acme', breaker, openBreaker({ round: breaker?.round ?? 1, trips: 1, untilEpochMs }));
}

beforeEach(async () => {
  h = await Harness.create();
});

describe('a run of the drain', () => {
  it('sends the longest due first: one canary, and then at the width of the lane', async () => {
    await held(...events(40));
    await h.drain();
    expect(h.http.sent).toEqual(events(40));
    expect(await h.lane()).toMatchObject({ ...idle, breaker: { state: 'closed' }, drain: undefined });
    expect([h.store.held(), h.store.bodies.size]).toEqual([[], 0]);
  });

  it('says that nothing is held any more only when the index has had time to show the last hold', async () => {
    await held('a');
    const heldAtEpochMs = (await h.lane()).holding?.heldAtEpochMs ?? 0;
    await h.drain();
    expect(await h.lane()).toMatchObject({ holding: { wakeAtEpochMs: heldAtEpochMs + inIndexMs } });
    h.clock.advance(inIndexMs);
    await h.drain();
    expect(await h.lane()).toMatchObject({ holding: undefined, drain: undefined, holdSeq: 1 });
    const orders = h.wakeUps.orders.length;
    await h.drain();
    expect([h.wakeUps.orders.length, h.http.sent]).toEqual([orders, ['a']]);
  });

  it('opens the breaker again by its canary, and comes when it may be tried next', async () => {
    await held(...events(6));
    h.http.script = () => answered(503);
    await h.drain();
    expect(h.http.sent).toEqual(['e0']);
    const { breaker, holding } = await h.lane();
    expect(breaker).toMatchObject({ state: 'open', trips: 2, untilEpochMs: h.clock.nowEpochMs() + 2_000 * breakers.openS });
    expect([holding?.wakeAtEpochMs, lastOrder()?.atEpochMs]).toEqual([h.clock.nowEpochMs() + 2_000 * breakers.openS, h.clock.nowEpochMs() + 2_000 * breakers.openS]);
    // What was tried stays held, for its next attempt.
    expect(h.record({ eventId: 'e0' })).toMatchObject({ state: 'waiting', home: 'held', attempt: 1 });
    expect(h.store.held()).toHaveLength(6);
  });

  it('sends nothing, and orders one wake-up, where the breaker is not to be tried yet', async () => {
    await held('a');
    await open(h.clock.nowEpochMs() + 25_000);
    await h.drain();
    expect([h.http.sent, lastOrder()]).toEqual([[], { endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() + 25_000 }]);
  });

  it('comes again when what failed is due, and no sooner', async () => {
    h = await Harness.create({ retry: { baseS: 100, factor: 1, attempts: 5 }, breaker: { minAttempts: 1_000 } });
    await held('a', 'b');
    h.http.script = ({ headers }) => (headers['webhook-id'] === 'b' ? answered(503) : answered(200));
    await h.drain();
    h.clock.advance(inIndexMs);
    await h.drain();
    const due = h.store.held()[0]?.dueEpochMs ?? 0;
    expect(h.store.held().map(({ eventId, attempt }) => [eventId, attempt])).toEqual([['b', 1]]);
    expect(lastOrder()).toEqual({ endpointId: 'acme', atEpochMs: due });
    expect(due).toBeGreaterThan(h.clock.nowEpochMs());
  });

  it('goes to the tail after its turn, and goes on from there', async () => {
    await held(...events(60));
    h.http.script = () => {
      h.clock.advance(1_000);
      return { ...answered(200), ...timed(1_000) };
    };
    await h.drain();
    // Each of a wave takes its second here, one after the other.
    expect(h.http.sent.length).toBeGreaterThan(20);
    expect(h.http.sent.length).toBeLessThan(45);
    expect(lastOrder()).toEqual({ endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() });
    await h.drain();
    await h.drain();
    expect(h.http.sent).toEqual(events(60));
  });

  it('does not spin where the lane has no room: it looks a little while, and comes again some seconds later', async () => {
    h = await Harness.create({ maxInFlight: 1 });
    await held('a');
    await h.store.lanes.moveBreaker('acme', (await h.lane()).breaker, { ...openBreaker(), state: 'closed', round: 2, failed: { sinceEpochMs: 0, attempts: 0, hits: 0 }, slow: { sinceEpochMs: 0, attempts: 0, hits: 0 }, connectFailures: 0, by: '' });
    await h.claimElsewhere({ eventId: 'x' }, h.clock.nowEpochMs() + 60_000);
    const from = h.clock.nowEpochMs();
    await h.drain();
    expect(h.clock.nowEpochMs() - from).toBeLessThanOrEqual(limits.idleMs);
    expect([h.http.sent, lastOrder()]).toEqual([[], { endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() + limits.busyMs }]);
  });

  it('leaves an endpoint to a run that is alive, and takes it over when that has died', async () => {
    await held('a');
    await h.store.lanes.beginDrain('acme', { leaseId: 'other', expiresEpochMs: h.clock.nowEpochMs() + 60_000 }, h.clock.nowEpochMs());
    const orders = h.wakeUps.orders.length;
    await h.drain();
    expect([h.http.sent, h.wakeUps.orders.length]).toEqual([[], orders]);
    h.clock.advance(60_000);
    await h.drain();
    expect(h.http.sent).toEqual(['a']);
  });

  it('does not end the hold where something was held while it ran', async () => {
    await held('a');
    h.http.script = async () => {
      await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
      return answered(200);
    };
    h.clock.advance(holds.indexLagMs);
    await h.drain();
    expect(await h.lane()).toMatchObject({ drain: undefined, holding: { wakeAtEpochMs: h.clock.nowEpochMs() + holds.indexLagMs } });
  });

  it('sends a rate\'s worth a second, in order', async () => {
    h = await Harness.create({ maxPerSecond: 2 });
    await held(...events(10));
    const from = h.clock.nowEpochMs();
    await h.drain();
    expect(h.http.sent).toEqual(events(10));
    expect(h.clock.nowEpochMs() - from).toBeGreaterThanOrEqual(4_000);
  });

  it('skips what turns out to be done, and what another worker sends', async () => {
    await held('a', 'b', 'c');
    h.store.seed(deliveredOf({ home: 'held' }, { eventId: 'a' }));
    await h.store.lanes.moveBreaker('acme', (await h.lane()).breaker, openBreaker({ round: 1, untilEpochMs: h.clock.nowEpochMs() }));
    await h.drain();
    expect(h.http.sent).toEqual(['b', 'c']);
  });

  it('is not undone by a wake-up that cannot be ordered: the lane says when it was to come', async () => {
    await held('a');
    await open(h.clock.nowEpochMs() + 25_000);
    h.wakeUps.failing = 1;
    await h.drain();
    expect(await h.lane()).toMatchObject({ drain: undefined, holding: { wakeAtEpochMs: h.clock.nowEpochMs() + 25_000 } });
    expect(h.telemetry.faults.map(({ name }) => name)).toEqual(['wake-up-failed']);
  });

  it('serves other endpoints beside one that faults', async () => {
    await held('a');
    await h.store.put(endpointOf({ endpointId: 'other' }));
    const payloads = { ...h.store.payloads, read: () => Promise.reject(new Error('a bug')) };
    await h.drain({ payloads });
    expect(h.telemetry.faults.map(({ name }) => name)).toEqual(['held-unread']);
    expect(await h.lane()).toMatchObject({ drain: undefined, holding: { wakeAtEpochMs: h.clock.nowEpochMs() + limits.busyMs } });
  });

  it('takes no wake-up that names no endpoint', async () => {
    const { drainBatch } = await import('../../lambdas/drain/drain-batch.ts');
    await drainBatch(h.drainDeps(), ['{', '{"endpointId":7}', '{"endpointId":"a b"}', 'null'], h.invocation());
    expect(h.telemetry.count('wake-up-malformed')).toBe(4);
  });
});

describe('what cannot be sent', () => {
  it('is given up for its age while a breaker is open, page by page', async () => {
    h = await Harness.create({ retry: { maxAgeS: 3_600 } });
    await held(...events(30));
    h.clock.advance(3_600_000);
    await held('young');
    await open(h.clock.nowEpochMs() + 20_000);
    await h.drain();
    expect(h.http.sent).toEqual([]);
    expect(h.queues.buried.map(({ record }) => [record.eventId, record.reason])).toEqual(expect.arrayContaining([['e0', 'expired'], ['e29', 'expired']]));
    expect([h.queues.buried.length, h.store.held().map(({ eventId }) => eventId)]).toEqual([30, ['young']]);
    // The untouched body, for whoever replays it.
    expect(h.queues.buried[0]?.body).toBe(bodyOf({ eventId: 'e0' }));
    expect((await h.lane()).holding?.count).toBe(1);
  });

  it('is given up where its endpoint is disabled or removed', async () => {
    await held('a');
    await h.store.put(endpointOf({ status: 'disabled' }, 'V2'));
    await h.drain();
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'dead', reason: 'disabled', phase: 'buried' });
    await h.store.put(endpointOf({}, 'V3'));
    await held('b');
    await h.store.remove('acme');
    h.clock.advance(1);
    await h.drain({ endpoints: { get: () => Promise.resolve(undefined), refresh: () => Promise.resolve(undefined) } });
    expect(h.record({ eventId: 'b' })).toMatchObject({ state: 'dead', reason: 'unknown-endpoint', phase: 'buried' });
  });

  it('stays where its endpoint is paused, whatever its age, and goes when it is resumed', async () => {
    const pauses = [{ fromEpochMs: t0EpochMs, toEpochMs: null as number | null }];
    h = await Harness.create({ status: 'paused', pauses, retry: { maxAgeS: 3_600 } });
    expect(await h.run(batchOf('a'))).toEqual([]);
    h.clock.advance(10 * 86_400_000);
    await h.drain();
    expect([h.http.sent, h.queues.buried, lastOrder()]).toEqual([[], [], { endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() + holds.pausedLookMs }]);
    await h.store.put(endpointOf({ pauses: [{ fromEpochMs: t0EpochMs, toEpochMs: h.clock.nowEpochMs() }], retry: { maxAgeS: 3_600 } }, 'V2'));
    h.clock.advance(3_500_000);
    await h.drain();
    expect(h.http.sent).toEqual(['a']);
  });

  it('is kept for 30 days of a pause, and then given up', async () => {
    h = await Harness.create({ status: 'paused', pauses: [{ fromEpochMs: t0EpochMs, toEpochMs: null }], retry: { maxAgeS: 3_600 } });
    await h.run(batchOf('a'));
    h.clock.advance(30 * 86_400_000 + 3_600_001);
    await h.drain();
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'dead', reason: 'expired' });
  });

  it('ends as a dead letter with that reason where too many are held', async () => {
    await held('a');
    await h.store.lanes.hold('acme', { count: holds.maxCount, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: 0, isReady: true });
    await open(h.clock.nowEpochMs() + 25_000);
    expect(await h.run(batchOf('b'))).toEqual([]);
    expect(h.queues.buried.map(({ record }) => [record.eventId, record.reason])).toEqual([['b', 'hold-limit']]);
    expect(h.record({ eventId: 'b' })).toMatchObject({ state: 'dead', phase: 'buried' });
  });

  it('ends as a dead record, and does not hold up the others, where its payload is gone', async () => {
    await held('a', 'b');
    h.store.bodies.delete([...h.store.bodies.keys()][0] ?? '');
    await h.drain();
    expect([h.http.sent, h.record({ eventId: 'a' })]).toMatchObject([['b'], { state: 'dead', reason: 'payload-missing' }]);
  });

  it('stays where its payload could not be read', async () => {
    await held('a');
    const payloads = { ...h.store.payloads, read: () => Promise.resolve({ found: new Map<string, string>(), unread: new Set(h.store.held().map((r) => r.recordKey)) }) };
    await h.drain({ payloads });
    expect([h.http.sent, h.record({ eventId: 'a' })]).toMatchObject([[], { home: 'held', attempt: 0 }]);
    expect(lastOrder()?.atEpochMs).toBeGreaterThanOrEqual(h.clock.nowEpochMs() + limits.busyMs);
  });
});

describe('a held delivery and copies of its message', () => {
  it('is not sent by a copy: that repeats the note and is acknowledged', async () => {
    await held('a');
    await h.store.lanes.moveBreaker('acme', (await h.lane()).breaker, { state: 'closed', round: 2, failed: { sinceEpochMs: 0, attempts: 0, hits: 0 }, slow: { sinceEpochMs: 0, attempts: 0, hits: 0 }, connectFailures: 0, by: '' });
    const { holdSeq } = await h.lane();
    expect(await h.run(batchOf('a'))).toEqual([]);
    expect([h.http.sent, (await h.lane()).holdSeq]).toEqual([[], holdSeq + 1]);
    expect(await h.lane()).toMatchObject({ ...idle, holding: { count: 1 } });
  });

  it('settles as held where it was held while a request was under way', async () => {
    h.http.script = async () => {
      // Another worker, with a copy of the same message.
      const record = h.record();
      await h.store.records.hold(record?.state === 'waiting' ? record : undefined, { ...(await import('../support/builders.ts')).waitingOf(), home: 'held' });
      return answered(503);
    };
    await h.runOne(bodyOf());
    expect(h.record()).toMatchObject({ state: 'waiting', home: 'held', attempt: 1 });
  });

  it('is not sent twice for a copy that asks for it again: what it asked is noted when it is held', async () => {
    await open(h.clock.nowEpochMs() + 1_000);
    await h.run([receivedOf(bodyOf({ eventId: 'a', resend: 3 }), { messageId: 'm' })]);
    expect(h.record({ eventId: 'a' })).toMatchObject({ home: 'held', resend: 3 });
    h.clock.advance(1_000);
    await h.drain();
    h.clock.advance(60_000);
    await h.drain();
    expect(h.http.sent).toEqual(['a']);
  });

  it('leaves another payload under its event id a conflict', async () => {
    await held('a');
    await open(h.clock.nowEpochMs() + 60_000);
    expect(await h.run([receivedOf(bodyOf({ eventId: 'a', payload: '{"other":1}' }), { messageId: 'm' })])).toEqual([]);
    expect(h.queues.buried.map(({ record }) => record.reason)).toEqual(['conflict']);
    // Its own, and that of the conflict's record.
    expect(h.store.bodies.size).toBe(2);
  });
});

describe('a slow endpoint', () => {
  const slowly = (ms: number) => () => ({ ...answered(200), ...timed(ms), phasesMs: { headers: ms } });

  it('is left to the drain once three of its last five answers take long, and given back when it is quick again', async () => {
    h.http.script = slowly(3_500);
    for (const eventId of events(3)) await h.run(batchOf(eventId));
    expect((await h.lane()).pace).toEqual({ isSlow: true, recent: '222' });
    expect(h.telemetry.count('endpoint-slow')).toBe(1);
    h.http.script = slowly(20);
    for (const eventId of events(20, 'later')) {
      expect(await h.run(batchOf(eventId))).toEqual([]);
      h.clock.advance(1);
    }
    expect(h.http.sent).toHaveLength(3);
    await h.drain();
    expect(h.http.sent).toHaveLength(23);
    expect([(await h.lane()).pace, h.telemetry.count('endpoint-quick')]).toEqual([undefined, 1]);
  });

  it('costs a quick one no write', async () => {
    let moves = 0;
    const movePace = (...args: Parameters<typeof h.store.lanes.movePace>) => (moves++, h.store.lanes.movePace(...args));
    h.http.script = slowly(1_900);
    await h.run(batchOf(...events(8)), h.lanesBut({ movePace }));
    expect(moves).toBe(0);
  });

  it('is not made slow by connections that cannot be made', async () => {
    h.http.script = () => unsent;
    await h.run(batchOf(...events(4)));
    expect((await h.lane()).pace).toBeUndefined();
  });
});
