/** The sweep on fakes: which endpoints need somebody, what is said of them, and that it ends. */
import { beforeEach, describe, expect, it } from 'vitest';
import { attendEndpoints, type AttendDeps } from '../../lambdas/sweep/attend.ts';
import { binOf, emptyTally, msOf, type Tally } from '../../lambdas/shared/core/statistics.ts';
import { attention as limits, statistics } from '../../lambdas/shared/limits/numbers.ts';
import { closedBreaker, endpointOf, openBreaker, t0EpochMs } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { fakeAttention, type FakeAttention } from '../support/fake-attention.ts';

let h: Harness;
let fake: FakeAttention;
beforeEach(async () => {
  h = await Harness.create();
  await h.store.put(endpointOf({ endpointId: 'other' }));
  fake = fakeAttention(h);
  fake.endpoints = ['acme', 'other'];
});

const minuteMs = 60_000;
/** A window of any endpoint is over by then. */
const windowMs = (statistics.windowS + statistics.spreadS) * 1_000;

/** One run of the sweep; what it published of endpoints. */
async function run(more: Partial<AttendDeps> = {}): Promise<Record<string, number>> {
  h.telemetry.endpointGauges.clear();
  h.telemetry.gauges.clear();
  await attendEndpoints({ clock: h.clock, telemetry: h.telemetry, lanes: h.store.lanes, ...fake.deps, ...more });
  return Object.fromEntries(h.telemetry.endpointGauges);
}

const count = (endpointId: string, tally: Partial<Tally>) => h.store.lanes.countOffers(endpointId, { tally: { ...emptyTally, ...tally }, atEpochMs: h.clock.nowEpochMs() });
const texts = () => h.telemetry.events.filter(({ name }) => name === 'endpoint-ill').map(({ fields }) => fields['text']);

describe('an endpoint', () => {
  it('that is well has no gauge, and costs no write', async () => {
    await count('acme', { attempts: 1_000, delivered: 950, offered: 1_000, shed: 10, busyMs: 50_000 });
    await count('other', { attempts: 900, delivered: 900, busyMs: 45_000 });
    expect([await run(), fake.writes]).toEqual([{}, 0]);
    expect(h.telemetry.gauges.get('endpoints_sick')).toBe(0);
  });

  it('that fails is said to, once in words, and each minute in numbers, until it ends with a zero', async () => {
    await count('acme', { attempts: 40, delivered: 2, unconnected: 8, lastFailure: '503' });
    await h.store.lanes.hold('acme', { count: 412, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs + 9e6, isReady: true });
    h.clock.advance(3 * minuteMs);
    expect(await run()).toEqual({ 'acme failure_ratio': 0.95, 'acme connect_failure_ratio': 0.2 });
    expect(texts()).toEqual(['acme: 38 of 40 attempts failed in 3 min (503). Others unaffected. 412 waiting, none lost. Next: sluice status acme']);
    expect([fake.writes, await run(), fake.writes]).toEqual([1, { 'acme failure_ratio': 0.95, 'acme connect_failure_ratio': 0.2 }, 1]);
    await h.store.lanes.takeWindow('acme', (await h.lane()).window as never, undefined);
    await count('acme', { attempts: 10, delivered: 10 });
    expect(await run()).toEqual({ 'acme failure_ratio': 0, 'acme connect_failure_ratio': 0 });
    // Once more, for a run that died may have said nothing.
    expect(await run()).toEqual({ 'acme failure_ratio': 0, 'acme connect_failure_ratio': 0 });
    expect([await run(), texts().length, h.telemetry.count('endpoint-well')]).toEqual([{}, 1, 1]);
  });

  it('goes on being said to, while its next window says too little', async () => {
    await count('acme', { attempts: 40, delivered: 20 });
    h.clock.advance(windowMs);
    expect(await run()).toEqual({ 'acme failure_ratio': 0.5 });
    expect(fake.ended.get('acme')).toMatchObject([{ sinceEpochMs: t0EpochMs, endedEpochMs: h.clock.nowEpochMs(), attempts: 40 }]);
    expect((await h.lane()).window).toBeUndefined();
    await count('acme', { attempts: limits.minAttempts - 1 });
    h.clock.advance(minuteMs);
    expect(await run()).toEqual({ 'acme failure_ratio': 0.5 });
    // Not for ever.
    h.clock.advance(limits.carriedMs);
    expect([await run(), await run()]).toEqual([{ 'acme failure_ratio': 0 }, { 'acme failure_ratio': 0 }]);
    expect(await run()).toEqual({});
  });

  it('is what was said of its attempts, while its next window counts only what comes; and for as long as nothing is sent to it', async () => {
    await count('acme', { attempts: 40, delivered: 0, unconnected: 40, offered: 40 });
    h.clock.advance(windowMs);
    const said = { 'acme failure_ratio': 1, 'acme connect_failure_ratio': 1 };
    expect(await run()).toEqual(said);
    await h.store.lanes.moveBreaker('acme', undefined, openBreaker({ untilEpochMs: h.clock.nowEpochMs() + 10 * limits.carriedMs }));
    await count('acme', { attempts: 1, offered: 20 * limits.minOffers });
    expect((await h.lane()).window?.attempts).toBe(1);
    h.clock.advance(2 * limits.carriedMs);
    expect(await run()).toMatchObject(said);
    await h.store.lanes.moveBreaker('acme', (await h.lane()).breaker, closedBreaker());
    expect(await run()).toMatchObject({ 'acme failure_ratio': 0, 'acme connect_failure_ratio': 0 });
  });

  it('that sheds of little goes on being said to each minute, though of a new window attempts say enough before what came does', async () => {
    const said: (number | undefined)[] = [];
    for (let minute = 0; minute < 20; minute++) {
      await count('acme', { attempts: 3, delivered: 3, offered: 3, shed: 2 });
      h.clock.advance(minuteMs);
      said.push((await run())['acme shed_ratio']);
    }
    expect(said.slice(3)).toEqual(Array.from({ length: 17 }, () => 0.667));
  });

  it('of which too little is known has no ratio', async () => {
    await count('acme', { attempts: limits.minAttempts - 1, offered: limits.minOffers - 1, shed: limits.minOffers - 1 });
    expect(await run()).toEqual({});
  });

  it('that sheds is said to, by what came', async () => {
    await count('acme', { attempts: 80, delivered: 80, offered: 100, shed: 25 });
    await count('other', { attempts: 80, delivered: 80 });
    expect(await run()).toEqual({ 'acme shed_ratio': 0.25 });
  });

  it('that has a third of the traffic may have a third of the slots; one that has far more than its share is said to', async () => {
    for (const endpointId of ['b', 'c']) await h.store.put(endpointOf({ endpointId }));
    fake.endpoints = ['acme', 'other', 'b', 'c'];
    const well = (attempts: number, ms: number) => ({ attempts, delivered: attempts, busyMs: attempts * ms });
    await count('acme', well(300, 200));
    for (const endpointId of ['other', 'b', 'c']) await count(endpointId, well(233, 200));
    h.clock.advance(4 * minuteMs);
    expect(await run()).toEqual({});
    await count('b', well(20, 9_000));
    expect(await run()).toEqual({ 'b occupancy_share': expect.closeTo(0.6, 1) as number });
  });

  it('has a breaker that is open for as long as the sweep has seen it, an oldest delivery, and an oldest unknown one', async () => {
    await h.store.lanes.moveBreaker('acme', undefined, openBreaker());
    fake.unknown.set('acme', t0EpochMs - 500_000);
    fake.held.set('acme', t0EpochMs - limits.undeliveredS * 1_000 + 1_000);
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs + 9e6, isReady: true });
    // A second: a zero is the end of it.
    expect(await run()).toEqual({ 'acme breaker_open_age': 1, 'acme oldest_unknown_age': 500 });
    expect(h.telemetry.gauges).toEqual(new Map([['endpoints_sick', 1], ['held_deliveries', 1], ['breakers_open', 1], ['oldest_undelivered_age', limits.undeliveredS - 1], ['oldest_unknown_age', 500]]));
    h.clock.advance(minuteMs);
    expect(await run()).toEqual({ 'acme breaker_open_age': 60, 'acme oldest_unknown_age': 560, 'acme oldest_undelivered_age': limits.undeliveredS + 59 });
    await h.store.lanes.moveBreaker('acme', openBreaker(), closedBreaker());
    fake.unknown.clear();
    expect(await run()).toEqual({ 'acme breaker_open_age': 0, 'acme oldest_unknown_age': 0, 'acme oldest_undelivered_age': limits.undeliveredS + 59 });
    await h.store.lanes.moveBreaker('acme', closedBreaker(), openBreaker({ round: 2 }));
    expect(await run()).toMatchObject({ 'acme breaker_open_age': 1 });
  });

  it('that was removed, or is not there any more, ends', async () => {
    await count('acme', { attempts: 40 });
    await count('other', { attempts: 40 });
    expect(Object.keys(await run())).toEqual(['acme failure_ratio', 'other failure_ratio']);
    await h.store.remove('acme');
    fake.endpoints = ['acme'];
    expect([await run(), await run()]).toEqual([{ 'acme failure_ratio': 0, 'other failure_ratio': 0 }, { 'acme failure_ratio': 0, 'other failure_ratio': 0 }]);
    expect([await run(), fake.remembered.size]).toEqual([{}, 0]);
  });
});

it('a window that ends teaches the lane how long answers take; one of an endpoint that fails teaches nothing', async () => {
  const endWindow = async (tally: Partial<Tally>) => {
    await count('acme', { inFlight: 8 * (tally.attempts ?? 0), ...tally });
    h.clock.advance(windowMs);
    await run();
    expect((await h.lane()).window).toBeUndefined();
    return (await h.lane()).learnedMs;
  };
  const answers = (ms: number) => ({ attempts: 100, delivered: 100, answers: new Map([[binOf(ms), 100]]) });
  const before = await endWindow(answers(900));
  expect(before).toBe(msOf(binOf(900)));
  expect(await endWindow({ ...answers(14_000), attempts: 500 })).toBe(before);
  expect(await endWindow(answers(4_000))).toBe(msOf(binOf(4_000)));
});

describe('a lane that sizes itself', () => {
  const busy = { attempts: 3_000, delivered: 3_000, offered: 3_000, inFlight: 24_000, busyMs: 1_800_000, answers: new Map([[binOf(600), 3_000]]) };
  /** A window of 5 minutes with 10 a second, of 600 ms each. */
  const endWindow = async (tally: Partial<Tally> = busy, more: Partial<AttendDeps> = {}) => {
    await count('acme', tally);
    h.clock.advance(windowMs);
    await run(more);
    const { slots, avail, cfg } = await h.lane();
    return { slots, avail, isSame: (await h.store.endpoints.read('acme'))?.version === cfg };
  };
  /** What is offered in a second times what it takes. */
  const byLaw = Math.ceil((3_000 / (windowMs / 1_000)) * (msOf(binOf(600)) / 1_000));

  it('has as many slots as its last window asks for, and those in flight stay counted', async () => {
    await h.claimElsewhere({ eventId: 'x' });
    await h.store.put(endpointOf({ maxInFlight: 'auto' }, 'V2'));
    expect(await endWindow()).toEqual({ slots: byLaw, avail: byLaw - 1, isSame: true });
    expect((await h.store.endpoints.read('acme'))?.config).toMatchObject({ maxInFlight: byLaw, autoLane: true });
    expect(h.telemetry.count('lane-resized')).toBe(1);
    // Slow now: fewer than are in flight may be left for a while.
    expect(await endWindow({ ...busy, answers: new Map([[binOf(9_000), 3_000]]) })).toEqual({ slots: 4, avail: 3, isSame: true });
    // As is.
    await endWindow({ ...busy, answers: new Map([[binOf(9_000), 3_000]]) });
    expect(h.telemetry.count('lane-resized')).toBe(2);
  });

  it('is no other: one with a size keeps it', async () => {
    expect(await endWindow()).toMatchObject({ slots: 8, avail: 8 });
  });

  it('is left as it is where it was put meanwhile, or cannot be read', async () => {
    await h.store.put(endpointOf({ maxInFlight: 'auto' }, 'V2'));
    const put = { read: async (endpointId: string) => {
      const before = await h.store.endpoints.read(endpointId);
      await h.store.put(endpointOf({ maxInFlight: 6 }, 'V3'));
      return before;
    } };
    expect(await endWindow(busy, { endpoints: put })).toEqual({ slots: 6, avail: 6, isSame: true });
    await h.store.put(endpointOf({ maxInFlight: 'auto' }, 'V4'));
    expect(await endWindow(busy, { endpoints: { read: () => Promise.reject(new Error('away')) } })).toMatchObject({ slots: 8 });
    expect(h.telemetry.faults.map(({ name }) => name)).toEqual(['resize-failed']);
  });
});

describe('a run', () => {
  it('that has no time for all lanes says what it has seen, and ends nothing of the others', async () => {
    await count('acme', { attempts: 40 });
    await count('other', { attempts: 40 });
    await run();
    const slow = { ...h.clock, nowEpochMs: () => h.clock.nowEpochMs(), monotonicMs: () => (h.clock.advance(limits.lookMs), h.clock.monotonicMs()) };
    expect(await run({ clock: slow })).toEqual({ 'acme failure_ratio': 1 });
    expect(h.telemetry.count('attention-incomplete')).toBe(1);
    expect([...fake.remembered.keys()].sort()).toEqual(['acme', 'other']);
  });

  it('that dies before it has published leaves nothing that never ends', async () => {
    await count('acme', { attempts: 40 });
    const dying = { ...h.telemetry, endpointGauge: () => { throw new Error('killed'); }, fault: () => undefined, event: () => undefined, gauge: () => undefined, attempt: () => undefined };
    await run({ telemetry: dying });
    await h.store.lanes.takeWindow('acme', (await h.lane()).window as never, undefined);
    expect(await run()).toEqual({ 'acme failure_ratio': 0 });
  });

  it('publishes the worst where they are more than can be followed, and ends the others', async () => {
    const names = [...Array(limits.maxEndpoints + 3).keys()].map((i) => `e${i}`);
    for (const [i, endpointId] of names.entries()) {
      await h.store.put(endpointOf({ endpointId }));
      await count(endpointId, { attempts: 10 + i });
    }
    fake.endpoints = names;
    const published = await run();
    expect([Object.keys(published).length, 'e0 failure_ratio' in published, 'e3 failure_ratio' in published]).toEqual([limits.maxEndpoints, false, true]);
    expect(h.telemetry.gauges.get('endpoints_sick')).toBe(names.length);
    await count('e0', { attempts: 1_000 });
    expect(await run()).toMatchObject({ 'e0 failure_ratio': 1, 'e3 failure_ratio': 0 });
  });

  const away = () => Promise.reject(new Error('away'));
  it.each([
    ['the lanes', { lanes: () => { throw new Error('away'); } }, 'attention-failed'],
    ['what is remembered', { remembered: away }, 'attention-forgotten'],
    ['room for what is to be remembered', { remember: away }, 'attention-forgotten'],
    ['what is unknown', { unknownSince: away }, 'unknown-unread'],
    ['what is held', { heldSince: away }, 'held-unread'],
  ])('costs nothing else where %s cannot be had', async (_what, methods, fault) => {
    await count('acme', { attempts: 40 });
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs + 9e6, isReady: true });
    const published = await run({ attention: { ...fake.deps.attention, ...methods } });
    expect(h.telemetry.faults.map(({ name }) => name)).toEqual([fault]);
    // Nothing is begun that could not be ended.
    expect(published).toEqual(fault.startsWith('attention') ? {} : { 'acme failure_ratio': 1 });
    expect(h.telemetry.gauges.has('oldest_unknown_age')).toBe(!['attention-failed', 'unknown-unread'].includes(fault));
  });

  it('that comes beside another says nothing of single endpoints: who wrote first does', async () => {
    await count('acme', { attempts: 40 });
    const memory = await fake.deps.attention.remembered();
    expect(await run()).toEqual({ 'acme failure_ratio': 1 });
    // It had read before the other wrote, and has seen a lane that was well.
    await h.store.lanes.takeWindow('acme', (await h.lane()).window as never, undefined);
    expect(await run({ attention: { ...fake.deps.attention, remembered: () => Promise.resolve({ ...memory, endpoints: new Map([['gone', { gauges: ['failure_ratio'] }]]) }) } })).toEqual({});
    expect(h.telemetry.count('attention-overtaken')).toBe(1);
    expect(await run()).toEqual({ 'acme failure_ratio': 0 });
  });

  it('that finds one lane unreadable says so, and all else', async () => {
    await count('acme', { attempts: 40 });
    const lanes = async function* () {
      yield { lanes: [{ endpointId: 'acme', lane: await h.lane() }], unreadable: new Map([['broken', new TypeError('no leases')]]) };
    };
    expect(await run({ attention: { ...fake.deps.attention, lanes } })).toEqual({ 'acme failure_ratio': 1 });
    expect(h.telemetry.faults).toMatchObject([{ name: 'lane-unreadable', error: { message: 'no leases' } }]);
  });

  it('that is late ends no window, and judges by what it has', async () => {
    await count('acme', { attempts: 40 });
    h.clock.advance(windowMs);
    const late = { ...h.clock, nowEpochMs: () => h.clock.nowEpochMs(), monotonicMs: () => (h.clock.advance(limits.lookMs / 2.5), h.clock.monotonicMs()) };
    expect(await run({ clock: late })).toEqual({ 'acme failure_ratio': 1 });
    expect((await h.lane()).window?.attempts).toBe(40);
  });

  it('loses a window and nothing else where it cannot be put away', async () => {
    await count('acme', { attempts: 40 });
    h.clock.advance(windowMs);
    expect(await run({ windows: { ...fake.deps.windows, put: () => Promise.reject(new Error('away')) } })).toEqual({ 'acme failure_ratio': 1 });
    expect(h.telemetry.faults.map(({ name }) => name)).toEqual(['window-lost']);
    expect([(await h.lane()).window, await run()]).toEqual([undefined, { 'acme failure_ratio': 1 }]);
  });
});
