/** What a run of the drain leaves half done, or could be kept from doing, and what brings it to an end. */
import { beforeEach, describe, expect, it } from 'vitest';
import { createEndpointCache } from '../../lambdas/deliver/endpoint-cache.ts';
import { underSwitch } from '../../lambdas/deliver/fleet-view.ts';
import { noteHold } from '../../lambdas/deliver/note-hold.ts';
import { drainBatch } from '../../lambdas/drain/drain-batch.ts';
import type { Fleet } from '../../lambdas/shared/core/fleet.ts';
import { drain as limits, fleet as fleetLimits, hold as holds, lease } from '../../lambdas/shared/limits/numbers.ts';
import { bodyOf, closedBreaker, endpointOf, openBreaker, receivedOf, timed, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered, noSocket } from '../support/fakes.ts';

let h: Harness;
/** From a hold on, so long an empty index proves nothing. */
const inIndexMs = holds.indexLagMs + lease.skewMs;
const events = (n: number, name = 'e') => Array.from({ length: n }, (_, i) => `${name}${i}`);
const batchOf = (...ids: string[]) => ids.map((eventId) => receivedOf(bodyOf({ eventId }), { messageId: eventId, sentEpochMs: h.clock.nowEpochMs() }));
const redriveOf = (eventId: string, receiveCount: number) => receivedOf(bodyOf({ eventId }), { messageId: 'redrive', sentEpochMs: h.clock.nowEpochMs(), deadLetterGeneration: 0, receiveCount });

async function breaker(to: ReturnType<typeof openBreaker> | ReturnType<typeof closedBreaker>): Promise<void> {
  await h.store.lanes.moveBreaker('acme', (await h.lane()).breaker, to);
}

/** Holds deliveries by an open breaker, which is closed then. */
async function held(...ids: string[]): Promise<void> {
  await breaker(openBreaker({ untilEpochMs: h.clock.nowEpochMs() + 20_000 }));
  for (const eventId of ids) {
    expect(await h.run(batchOf(eventId))).toEqual([]);
    h.clock.advance(1);
  }
  await breaker(closedBreaker({ round: 2 }));
}

beforeEach(async () => {
  h = await Harness.create();
});

describe('a burial that fails', () => {
  it.each([
    ['after a rejection', () => void (h.http.script = () => answered(400))],
    ['because its endpoint is disabled', () => h.store.put(endpointOf({ status: 'disabled' }, 'V2'))],
  ])('%s keeps the hold open, and is finished by the next run', async (_what, prepare) => {
    await held('a');
    h.clock.advance(inIndexMs);
    await prepare();
    h.queues.failingBurials = 1;
    await h.drain();
    expect([h.record({ eventId: 'a' }), (await h.lane()).holding]).toMatchObject([{ phase: 'burying' }, { wakeAtEpochMs: h.clock.nowEpochMs() + limits.busyMs }]);
    // One that is young may be under way elsewhere.
    h.clock.advance(limits.busyMs);
    await h.drain();
    expect([h.record({ eventId: 'a' }), (await h.lane()).holding]).toMatchObject([{ phase: 'burying' }, { wakeAtEpochMs: h.clock.nowEpochMs() + limits.busyMs }]);
    h.clock.advance(limits.burialMs);
    await h.drain();
    expect([h.record({ eventId: 'a' }), h.queues.buried.length, (await h.lane()).holding]).toMatchObject([{ phase: 'buried' }, 1, undefined]);
  });

  it('does not wait until what else is held is due', async () => {
    await held('a');
    const later = waitingOf({ home: 'held', dueEpochMs: h.clock.nowEpochMs() + 7_200_000 }, { eventId: 'later' });
    h.store.seed(later);
    await h.store.payloads.put(later, bodyOf({ eventId: 'later' }), h.clock.nowEpochMs());
    h.clock.advance(inIndexMs);
    h.http.script = () => answered(400);
    h.queues.failingBurials = 1;
    await h.drain();
    expect([h.record({ eventId: 'a' }), (await h.lane()).holding]).toMatchObject([{ phase: 'burying' }, { wakeAtEpochMs: h.clock.nowEpochMs() + limits.busyMs }]);
    h.clock.advance(limits.burialMs);
    await h.drain();
    expect([h.record({ eventId: 'a' }), (await h.lane()).holding]).toMatchObject([{ phase: 'buried' }, { wakeAtEpochMs: later.dueEpochMs, isReady: false }]);
  });

  it('is none where there is no payload: it ends at once', async () => {
    await held('a');
    h.clock.advance(inIndexMs);
    h.store.bodies.clear();
    await h.drain(h.recordsBut({ markBuried: () => Promise.resolve('failed') }));
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'dead', phase: 'buried', reason: 'payload-missing' });
  });
});

describe('a redrive that cannot be sent now', () => {
  it('to a slow endpoint is held, and sent by the drain as its next generation', async () => {
    h.http.script = () => answered(400);
    await h.run(batchOf('a'));
    await h.store.lanes.movePace('acme', undefined, { isSlow: true, recent: '2222' });
    h.http.script = () => ({ ...answered(200), ...timed(3_500), phasesMs: { headers: 3_500 } });
    expect(await h.run([redriveOf('a', 1)])).toEqual([]);
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'waiting', home: 'held', generation: 1, attempt: 0 });
    await h.drain();
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'delivered', generation: 1 });
    // A copy that comes late is one of what has happened.
    expect(await h.run([redriveOf('a', 2)])).toEqual([]);
    expect(h.http.sent).toHaveLength(2);
  });

  it('to a lane of one that is the drain\'s, because another waits a day, is sent before that', async () => {
    h = await Harness.create({ maxInFlight: 1, retry: { baseS: 86_400, factor: 1, jitter: 'equal', attempts: 3 }, breaker: { minAttempts: 1_000 } });
    h.http.script = () => answered(400);
    await h.run(batchOf('dead'));
    await held('later');
    h.http.script = ({ headers }) => answered(headers['webhook-id'] === 'later' ? 503 : 200);
    await h.drain();
    expect(await h.run([redriveOf('dead', 1)])).toEqual([]);
    await h.drain();
    expect(h.record({ eventId: 'dead' })).toMatchObject({ state: 'delivered', generation: 1 });
  });

  it('is left to whoever has its claim', async () => {
    h.http.script = () => answered(400);
    await h.run(batchOf('a'));
    await h.claimElsewhere({ eventId: 'a' });
    await h.store.lanes.movePace('acme', undefined, { isSlow: true, recent: '2222' });
    expect(await h.run([redriveOf('a', 3)])).toEqual(['redrive']);
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'dead', generation: 0 });
  });
});

describe('a run that is asked for more than its own', () => {
  it('stops within seconds of the switch that stops all sending', async () => {
    let fleet: Fleet = { pauses: [] };
    const endpoints = underSwitch(createEndpointCache(h.store.endpoints, 10), () => Promise.resolve(fleet), h.clock, h.telemetry);
    await held(...events(400));
    let [stopped, last] = [0, 0];
    h.http.script = () => {
      h.clock.advance(100);
      if (h.http.sent.length === 8) {
        stopped = h.clock.nowEpochMs();
        fleet = { pauses: [{ fromEpochMs: stopped, toEpochMs: null }] };
      }
      last = h.clock.nowEpochMs();
      return answered(200);
    };
    await h.drain({ endpoints });
    // A wave that has begun goes on: eight of a tenth of a second.
    expect(last - stopped).toBeLessThan(fleetLimits.lookMs + 1_000);
  });

  it('comes again at once where somebody has woken the endpoint while it ran', async () => {
    await held('a', 'b');
    await breaker(openBreaker({ untilEpochMs: h.clock.nowEpochMs() + 25_000 }));
    let isFirst = true;
    const endDrain: typeof h.store.lanes.endDrain = async (...args) => {
      if (isFirst) {
        isFirst = false;
        await breaker(closedBreaker({ round: 9 }));
        await h.store.lanes.moveWakeUp('acme', (await h.lane()).holding?.wakeAtEpochMs ?? 0, h.clock.nowEpochMs());
        await h.store.lanes.hold('acme', { count: 0, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
        // Its wake-up finds the run alive.
        await h.drain();
      }
      return h.store.lanes.endDrain(...args);
    };
    await h.drain(h.lanesBut({ endDrain }));
    expect(h.wakeUps.orders.at(-1)).toEqual({ endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() });
    await h.drain();
    expect(h.http.sent).toEqual(['a', 'b']);
  });

  it('that comes too early ends at once, and orders nothing', async () => {
    await held('a');
    h.clock.advance(inIndexMs);
    await h.store.lanes.moveWakeUp('acme', (await h.lane()).holding?.wakeAtEpochMs ?? 0, h.clock.nowEpochMs() + 60_000);
    const wakeAtEpochMs = (await h.lane()).holding?.wakeAtEpochMs ?? 0;
    expect(wakeAtEpochMs).toBeGreaterThan(h.clock.nowEpochMs() + 5_000);
    const orders = h.wakeUps.orders.length;
    for (let i = 0; i < 5; i++) await drainBatch(h.drainDeps(), ['{"endpointId":"acme"}'], h.invocation(limits.timeoutS * 1_000));
    expect([h.wakeUps.orders.length, h.http.sent, await h.lane()]).toMatchObject([orders, [], { drain: undefined, holding: { wakeAtEpochMs } }]);
  });
});

describe('a run that should not have begun', () => {
  const farMs = 600_000;
  const early = (deps: Parameters<Harness['drainDeps']>[0] = {}) => drainBatch(h.drainDeps(deps), ['{"endpointId":"acme"}'], h.invocation(limits.timeoutS * 1_000));
  beforeEach(async () => {
    await held('a');
    h.clock.advance(inIndexMs);
    await h.store.lanes.moveWakeUp('acme', (await h.lane()).holding?.wakeAtEpochMs ?? 0, h.clock.nowEpochMs() + farMs);
  });

  it('comes again at once where something was held meanwhile, which relied on it', async () => {
    let isFirst = true;
    const endDrain: typeof h.store.lanes.endDrain = async (...args) => {
      if (isFirst) await noteHold(h.deps, { endpointId: 'acme', count: 1, wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
      isFirst = false;
      return h.store.lanes.endDrain(...args);
    };
    await early({ lanes: { ...h.store.lanes, endDrain } });
    expect(h.wakeUps.orders.at(-1)).toEqual({ endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() });
  });

  it('is a whole one right after a hold, whose wake-up it may have kept from being ordered', async () => {
    await h.store.lanes.hold('acme', { count: 0, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    await early();
    expect(h.http.sent).toEqual(['a']);
  });
});

describe('what fails within a run', () => {
  it('an index that cannot be read between two waves gives the slots back, and the endpoint its next turn soon', async () => {
    await held(...events(40));
    let pages = 0;
    const page: typeof h.store.heldIndex.page = (...args) => (++pages === 3 ? Promise.reject(new Error('a throttle')) : h.store.heldIndex.page(...args));
    await h.drain({ held: { ...h.store.heldIndex, page } });
    expect(await h.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map(), drain: undefined, holding: { wakeAtEpochMs: h.clock.nowEpochMs() + limits.busyMs } });
    await h.drain();
    expect(h.http.sent).toEqual(events(40));
  });

  it('a give-back without an answer keeps the hold until its claims have expired, and the next run clears them', async () => {
    await held('a', 'b');
    h.clock.advance(inIndexMs);
    await h.drain(h.lanesBut({ giveBack: () => Promise.resolve('unsure') }));
    expect([h.http.sent, (await h.lane()).claims.size]).toEqual([['a', 'b'], 2]);
    h.clock.advance(130_000);
    await h.drain();
    expect(await h.lane()).toMatchObject({ avail: 8, claims: new Map(), leases: new Map(), holding: undefined });
  });

  it('an index that shows neither place of a delivery that it has put off does not end the hold', async () => {
    h = await Harness.create({ retry: { baseS: 100, factor: 1, attempts: 5 } });
    await held('a');
    h.clock.advance(inIndexMs);
    h.http.script = () => answered(503);
    let calls = 0;
    const page: typeof h.store.heldIndex.page = (...args) => (calls++ === 0 ? h.store.heldIndex.page(...args) : Promise.resolve({ keys: [], next: undefined }));
    await h.drain({ held: { ...h.store.heldIndex, page } });
    const record = h.record({ eventId: 'a' });
    expect([record, (await h.lane()).holding?.wakeAtEpochMs]).toMatchObject([{ home: 'held' }, record?.state === 'waiting' ? record.dueEpochMs : 0]);
  });

  it('payloads that cannot be read end the look, and do not lead it through all of the backlog', async () => {
    await held(...events(200));
    let reads = 0;
    const payloads = { ...h.store.payloads, read: (names: readonly { recordKey: string }[]) => Promise.resolve((reads++, { found: new Map<string, string>(), unread: new Set(names.map((n) => n.recordKey)) })) };
    await h.drain({ payloads });
    expect([reads, h.http.sent]).toEqual([1, []]);
  });

  it('sockets of which there is none are waited for a while, in order and without claims', async () => {
    await held(...events(200));
    h.http.script = () => noSocket;
    await h.drain();
    expect(h.http.sent.length).toBeLessThan(20 * 8);
    expect(await h.lane()).toMatchObject({ avail: 8, claims: new Map(), holding: { wakeAtEpochMs: h.clock.nowEpochMs() + limits.busyMs } });
    h.http.requests.length = 0;
    h.http.script = () => answered(200);
    await h.drain();
    expect(h.http.sent.slice(0, 200)).toEqual(events(200));
  });

  it('holds that overtake its end again and again do not keep it from ending', async () => {
    await held('a', 'b');
    let overtaken = 12;
    const endDrain: typeof h.store.lanes.endDrain = async (...args) => {
      if (overtaken-- > 0) await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
      return h.store.lanes.endDrain(...args);
    };
    await h.drain(h.lanesBut({ endDrain }));
    expect(await h.lane()).toMatchObject({ drain: undefined, holding: { wakeAtEpochMs: h.clock.nowEpochMs() + holds.indexLagMs } });
  });
});

describe('a ping', () => {
  it('is what an operator has held; a producer\'s event of its type is delivered like any other', async () => {
    await breaker(openBreaker({ untilEpochMs: h.clock.nowEpochMs() + 20_000 }));
    await h.run([receivedOf('{"endpointId":"acme","eventId":"a","eventType":"sluice.ping","payload":{"n":1}}', { messageId: 'a', sentEpochMs: h.clock.nowEpochMs() })]);
    await breaker(closedBreaker({ round: 2 }));
    h.http.script = () => answered(503);
    await h.drain();
    expect([h.record({ eventId: 'a' }), h.store.bodies.size]).toMatchObject([{ state: 'waiting', home: 'held', attempt: 1 }, 1]);
  });
});

describe('what is due, and could not be read', () => {
  it('keeps its part of the lane until the next run', async () => {
    await held('a');
    h.clock.advance(inIndexMs);
    const payloads = { ...h.store.payloads, read: () => Promise.resolve({ found: new Map<string, string>(), unread: new Set([h.record({ eventId: 'a' })?.recordKey ?? '']) }) };
    await h.drain({ payloads });
    expect((await h.lane()).holding).toMatchObject({ wakeAtEpochMs: h.clock.nowEpochMs() + limits.busyMs, isReady: true });
    await h.drain();
    expect(h.http.sent).toEqual(['a']);
  });
});
