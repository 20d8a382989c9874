/** What waits for more than a minute, who comes for it and when, and what it leaves to the others of its endpoint. */
import { describe, expect, it } from 'vitest';
import type { Hints } from '../../lambdas/shared/core/hints.ts';
import { hold as holds, throttle } from '../../lambdas/shared/limits/numbers.ts';
import { bodyOf, openBreaker, receivedOf, t0EpochMs } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered, type HttpOutcome } from '../support/fakes.ts';

const batchOf = (h: Harness, ...events: string[]) => events.map((eventId) => receivedOf(bodyOf({ eventId }), { messageId: eventId, sentEpochMs: h.clock.nowEpochMs() }));
const hinting = (status: number, hints: Hints): HttpOutcome => ({ ...answered(status), hints } as HttpOutcome);
const wakeAfterMs = async (h: Harness) => ((await h.lane()).holding?.wakeAtEpochMs ?? Number.NaN) - t0EpochMs;

describe('the drain', () => {
  const waits: Record<string, string> = { a: '4000', b: '3000', c: '2000', d: '1000', e: '500', f: '100' };
  const script = ({ headers }: { headers: Readonly<Record<string, string>> }) => hinting(503, { retryAfter: waits[headers['webhook-id'] ?? ''] ?? '' });

  it('comes when the first is due, however workers that hold at the same time overtake each other', async () => {
    const h = await Harness.create();
    h.http.script = script;
    await Promise.all(Object.keys(waits).map((eventId) => h.run(batchOf(h, eventId))));
    expect(h.http.sent).toHaveLength(6);
    expect([await wakeAfterMs(h), h.wakeUps.orders.at(-1)?.atEpochMs]).toEqual([102_000, t0EpochMs + 102_000]);
  });

  it('is told of all that a wave has held at once, when its slots are given back', async () => {
    const h = await Harness.create();
    h.http.script = script;
    const writes: string[] = [];
    const { lanes: stored } = h.store;
    const lanes = h.lanesBut({
      giveBack: (give) => (writes.push('give back'), stored.giveBack(give)),
      hold: (id, note) => (writes.push(`hold ${note.count}`), stored.hold(id, note)),
    });
    expect(await h.run(batchOf(h, ...Object.keys(waits)), lanes)).toEqual([]);
    expect([writes, h.wakeUps.orders]).toEqual([['give back', 'hold 6'], [{ endpointId: 'acme', atEpochMs: t0EpochMs + 102_000 }]]);
  });

  it.each(['lost', 'unsure'] as const)('learns of it from the messages where the slots are not known to be given back: %s', async (answer) => {
    const h = await Harness.create();
    h.http.script = script;
    const batch = batchOf(h, 'a');
    expect(await h.run(batch, h.lanesBut({ giveBack: () => Promise.resolve(answer) }))).toEqual(['a']);
    expect([h.record({ eventId: 'a' }), (await h.lane()).holding]).toMatchObject([{ home: 'held' }, undefined]);
    h.clock.advance(60_000);
    expect(await h.run(batch)).toEqual([]);
    expect((await h.lane()).holding).toMatchObject({ wakeAtEpochMs: t0EpochMs + 4_002_000, isReady: false });
  });

  it('is asked for again where its wake-up cannot be noted: the message comes back when it is due', async () => {
    const h = await Harness.create();
    h.http.script = () => hinting(503, { retryAfter: '4000' });
    await h.run(batchOf(h, 'a'));
    await h.store.lanes.pauseUntil('acme', 0, t0EpochMs + 9_000_000);
    h.http.script = () => hinting(503, { retryAfter: '100' });
    h.clock.advance(4_000_000);
    const b = batchOf(h, 'b');
    await h.store.lanes.moveWakeUp('acme', t0EpochMs + 4_002_000, t0EpochMs + 9_000_000);
    expect(await h.run(b, h.lanesBut({ moveWakeUp: () => Promise.resolve({ kind: 'unsure' }) }))).toEqual(['b']);
    expect(h.record({ eventId: 'b' })).toMatchObject({ home: 'held' });
    expect(h.queues.delays).toEqual([{ messageId: 'b', seconds: 102 }]);
  });

  it.each([
    ['of which all of the lane is left to it', 1, undefined],
    ['whose breaker may be tried', 8, openBreaker({ untilEpochMs: t0EpochMs })],
  ])('is not woken by what comes to an endpoint that asked to be left alone, %s', async (_which, maxInFlight, breaker) => {
    const h = await Harness.create({ maxInFlight });
    await h.store.lanes.pauseUntil('acme', t0EpochMs + 3_600_000, t0EpochMs);
    if (breaker !== undefined) await h.store.lanes.moveBreaker('acme', undefined, breaker);
    await h.store.lanes.hold('acme', { count: 0, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs + holds.pausedLookMs, isReady: true });
    for (let i = 0; i < 20; i++) {
      h.clock.advance(5_000);
      expect(await h.run(batchOf(h, `x${i}`))).toEqual([]);
    }
    expect([h.wakeUps.orders, await wakeAfterMs(h), h.http.sent]).toEqual([[], holds.pausedLookMs, []]);
  });

  it('gives up what is past its age though its endpoint asked to be left alone for longer', async () => {
    const h = await Harness.create({ maxInFlight: 1, retry: { maxAgeS: 600 } });
    await h.store.lanes.pauseUntil('acme', t0EpochMs + 86_400_000, t0EpochMs);
    await h.store.lanes.hold('acme', { count: 0, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs, isReady: true });
    await h.run(batchOf(h, 'a'));
    while (h.clock.nowEpochMs() < t0EpochMs + 1_000_000) {
      h.clock.advance(1_000);
      if ((await wakeAfterMs(h)) <= h.clock.nowEpochMs() - t0EpochMs) await h.drain();
    }
    expect([h.record({ eventId: 'a' }), h.http.sent]).toMatchObject([{ state: 'dead', phase: 'buried', reason: 'expired' }, []]);
  });
});

describe('a lane of one', () => {
  it('gets its slot back when the drain has sent what waited, though more came meanwhile', async () => {
    const h = await Harness.create({ maxInFlight: 1, retry: { baseS: 200, factor: 1, capS: 200, maxAgeS: 3_600 } });
    h.http.script = () => answered(500);
    await h.run(batchOf(h, 'first'));
    h.http.script = async ({ headers }) => {
      // One comes while the drain sends, and joins what is held.
      if (headers['webhook-id'] === 'first') expect(await h.run(batchOf(h, 'second'))).toEqual([]);
      return answered(200);
    };
    h.clock.advance(200_000);
    await h.drain();
    h.clock.advance(1_000);
    await h.drain();
    expect([h.http.sent, (await h.lane()).holding]).toMatchObject([['first', 'first', 'second'], { isReady: false }]);
    expect(await h.run(batchOf(h, 'third'))).toEqual([]);
    expect(h.http.sent.at(-1)).toBe('third');
  });
});

describe('an endpoint that says when to come again', () => {
  it.each(['0', 'Mon, 05 Jan 2026 09:00:00 GMT'])('429, in the past (%s): is left alone as if it had said nothing', async (retryAfter) => {
    const h = await Harness.create();
    h.http.script = () => hinting(429, { retryAfter });
    await h.run(batchOf(h, 'a'));
    expect((await h.lane()).pausedUntilEpochMs).toBe(t0EpochMs + throttle.pauseMs);
    await h.run(batchOf(h, 'b'));
    expect(h.http.sent).toEqual(['a']);
  });

  it('503, in the past: only its delivery waits', async () => {
    const h = await Harness.create();
    h.http.script = () => hinting(503, { retryAfter: '0' });
    await h.run(batchOf(h, 'a'));
    expect((await h.lane()).pausedUntilEpochMs).toBeUndefined();
  });
});

describe('an endpoint that is gone', () => {
  it('is disabled before the next wave of the same invocation', async () => {
    const h = await Harness.create({ maxInFlight: 2 });
    h.http.script = () => answered(410);
    expect(await h.run(batchOf(h, 'a', 'b', 'c', 'd'))).toEqual([]);
    expect([h.http.sent, h.record({ eventId: 'c' })]).toMatchObject([['a', 'b'], { state: 'dead', reason: 'disabled' }]);
    expect([h.telemetry.count('endpoint-disabled'), h.telemetry.count('endpoint-not-disabled')]).toEqual([1, 0]);
  });
});
