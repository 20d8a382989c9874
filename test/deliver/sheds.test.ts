import { describe, expect, it } from 'vitest';
import { bodyOf, endpointOf, receivedOf, t0EpochMs } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { inFlight } from '../../lambdas/shared/limits/numbers.ts';

const hourMs = 3_600_000;

/** A harness whose only slot another worker holds. */
async function full(overrides: Readonly<Record<string, unknown>> = {}): Promise<Harness> {
  const h = await Harness.create({ maxInFlight: 1, ...overrides });
  await h.claimElsewhere({ eventId: 'x' }, t0EpochMs + hourMs);
  return h;
}

const freed = (h: Harness) =>
  h.store.lanes.giveBack({ endpointId: 'acme', leaseId: 'elsewhere', expiresEpochMs: 0, slots: 1, release: [], keep: [], successes: 0, failures: 0 });

describe('a lane that is full', () => {
  it('sends a message back twice, for seconds, and has it held at the third time: no attempt, no failure, no step towards a dead letter (L3, L4)', async () => {
    const h = await full();
    for (const [receiveCount, delayS] of [[1, 2], [2, 5]] as const) {
      expect(await h.runOne(bodyOf(), { receiveCount })).toMatchObject({ exit: 'retain', delayS });
    }
    expect([h.record(), h.telemetry.count('shed')]).toEqual([undefined, 2]);
    expect(await h.runOne(bodyOf(), { receiveCount: 3 })).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'waiting', home: 'held', attempt: 0, firstEpochMs: t0EpochMs, dueEpochMs: t0EpochMs });
    expect(await h.lane()).toMatchObject({ avail: 0, failures: 0, breaker: undefined, holding: { count: 1, wakeAtEpochMs: t0EpochMs } });
    expect([h.http.sent, h.queues.buried, h.wakeUps.orders]).toEqual([[], [], [{ endpointId: 'acme', atEpochMs: t0EpochMs }]]);

    await freed(h);
    await h.drain();
    expect(h.http.sent).toEqual(['evt_1']);
    expect([h.record(), h.store.bodies.size]).toMatchObject([{ state: 'delivered', attempt: 1 }, 0]);
  });

  it('has what comes join the tail at once while anything is held', async () => {
    const h = await full();
    await h.runOne(bodyOf({ eventId: 'first' }), { receiveCount: 3 });
    h.clock.advance(1);
    expect(await h.runOne(bodyOf({ eventId: 'second' }))).toMatchObject({ exit: 'ack' });
    h.clock.advance(1);
    await freed(h);
    // A free slot of a lane of one is the drain's.
    expect(await h.runOne(bodyOf({ eventId: 'third' }))).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toEqual([]);
    await h.drain();
    expect(h.http.sent).toEqual(['first', 'second', 'third']);
  });

  it('leaves half of a wider lane to the drain while anything is held, and none of it when nothing is', async () => {
    const h = await Harness.create({ maxInFlight: 4 });
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs, isReady: true });
    const gate = Promise.withResolvers<undefined>();
    h.http.script = async () => (await gate.promise, { kind: 'answered', status: 200, bodyExcerpt: '', durationMs: 1, phasesMs: {}, reused: false });
    const run = h.run(['a', 'b', 'c', 'd'].map((eventId) => receivedOf(bodyOf({ eventId }))));
    await expect.poll(() => h.http.sent.length).toBe(2);
    expect((await h.lane()).avail).toBe(2);
    gate.resolve(undefined);
    await run;
  });

  it('has a message held at its first receive while too many are hidden in the queue', async () => {
    const h = await full();
    h.queues.hiddenNow = inFlight.crowdedFrom;
    expect(await h.runOne(bodyOf(), { receiveCount: 1 })).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ home: 'held' });
  });

  it('has a retry held for its due time while too many are hidden in the queue', async () => {
    const h = await Harness.create();
    h.queues.hiddenNow = inFlight.crowdedFrom;
    h.http.script = () => ({ kind: 'answered', status: 503, bodyExcerpt: '', durationMs: 1, phasesMs: {}, reused: false });
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack', delayS: undefined });
    const record = h.record();
    expect(record).toMatchObject({ home: 'held', attempt: 1 });
    const dueEpochMs = record?.state === 'waiting' ? record.dueEpochMs : 0;
    expect([dueEpochMs > h.clock.nowEpochMs(), h.wakeUps.orders]).toEqual([true, [{ endpointId: 'acme', atEpochMs: dueEpochMs }]]);
    expect(await h.lane()).toMatchObject({ avail: 8, claims: new Map(), holding: { count: 1 } });
  });

  it('asks how many are hidden at most every ten seconds', async () => {
    const h = await full();
    let asked = 0;
    const hidden = () => Promise.resolve((asked++, 0));
    h.queues.hidden = hidden;
    for (let i = 0; i < 5; i++) await h.runOne(bodyOf({ eventId: `e${i}` }));
    expect(asked).toBe(1);
    h.clock.advance(inFlight.lookMs);
    await h.runOne(bodyOf());
    expect(asked).toBe(2);
  });

  it('does not count what is held for another endpoint', async () => {
    const h = await full();
    await h.store.put(endpointOf({ endpointId: 'other' }));
    await h.runOne(bodyOf(), { receiveCount: 3 });
    expect(await h.runOne(bodyOf({ endpointId: 'other', eventId: 'y' }))).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toEqual(['y']);
  });
});
