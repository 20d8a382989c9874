import { beforeEach, describe, expect, it } from 'vitest';
import { binOf } from '../../lambdas/shared/core/statistics.ts';
import { bodyOf, closedBreaker, openBreaker, receivedOf, t0EpochMs, timed } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create({ maxInFlight: 2 });
});

const batchOf = (n: number, more: Parameters<typeof receivedOf>[1] = {}) => [...Array(n).keys()].map((i) => receivedOf(bodyOf({ eventId: `e${i}` }), { sentEpochMs: h.clock.nowEpochMs(), ...more }));
const counted = async () => (await h.lane()).window;

describe('what a batch counts for', () => {
  it('is every delivery once, in all of its waves, with its answer', async () => {
    h.http.script = () => ({ kind: 'answered', status: 200, bodyExcerpt: '', ...timed(90), phasesMs: { headers: 80 } });
    await h.run(batchOf(5));
    expect(await counted()).toMatchObject({ sinceEpochMs: t0EpochMs, attempts: 5, delivered: 5, offered: 5, shed: 0, busyMs: 450, answers: new Map([[binOf(90), 5]]), failures: new Map() });
  });

  it('is an offer only the first time that it comes, and never when it comes from the dead-letter queue', async () => {
    await h.run(batchOf(1));
    await h.run([receivedOf(bodyOf({ eventId: 'again' }), { receiveCount: 2 })]);
    expect(await counted()).toMatchObject({ attempts: 2, offered: 1 });
  });

  it('is shed where there is no room for it: once, however often it comes back', async () => {
    h = await Harness.create({ maxInFlight: 1 });
    await h.claimElsewhere({ eventId: 'x' });
    const copies = batchOf(3);
    await h.run(copies);
    await h.run(copies.map((copy) => ({ ...copy, receiveCount: 2 })));
    expect(await counted()).toMatchObject({ offered: 3, shed: 3, attempts: 0 });
  });

  it('is one that came and was not tried, and no shed, while the breaker is open', async () => {
    await h.store.lanes.moveBreaker('acme', undefined, closedBreaker());
    await h.store.lanes.moveBreaker('acme', closedBreaker(), openBreaker());
    await h.run(batchOf(3));
    expect(await counted()).toMatchObject({ offered: 3, shed: 0, attempts: 0 });
  });

  it('is shed where the endpoint is left to the drain', async () => {
    await h.store.lanes.movePace('acme', undefined, { isSlow: true, recent: '222' });
    await h.run(batchOf(4));
    expect(await counted()).toMatchObject({ offered: 4, shed: 4, attempts: 0 });
    // Then held, and sent by the drain: it counts as an attempt, and as no second offer.
    await h.drain();
    expect(await counted()).toMatchObject({ offered: 4, shed: 4, attempts: 4 });
  });

  it('is held without waiting for its count', async () => {
    await h.store.lanes.movePace('acme', undefined, { isSlow: true, recent: '222' });
    const counts = Promise.withResolvers<undefined>();
    const running = h.run(batchOf(2), h.lanesBut({ countOffers: () => counts.promise }));
    await expect.poll(async () => (await h.lane()).holding?.count).toBe(2);
    counts.resolve(undefined);
    expect(await running).toEqual([]);
  });

  it('costs nothing but itself where it cannot be counted', async () => {
    await h.store.lanes.movePace('acme', undefined, { isSlow: true, recent: '222' });
    expect(await h.run(batchOf(2), h.lanesBut({ countOffers: () => Promise.reject(new Error('no')) }))).toEqual([]);
    expect([h.telemetry.faults.map(({ name }) => name), (await h.lane()).holding?.count]).toEqual([['offers-uncounted'], 2]);
  });
});
