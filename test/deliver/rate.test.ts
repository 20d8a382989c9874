/** The flow and an endpoint's rate, beside its lane (O7). */
import { describe, expect, it } from 'vitest';
import { throttle } from '../../lambdas/shared/limits/numbers.ts';
import type { Lanes } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, deliveredOf, receivedOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered } from '../support/fakes.ts';

const batchOf = (h: Harness, ...events: string[]) => events.map((eventId) => receivedOf(bodyOf({ eventId }), { messageId: eventId, sentEpochMs: h.clock.nowEpochMs() }));
const events = (n: number, name = 'e') => Array.from({ length: n }, (_, i) => `${name}${i}`);
const idle = { avail: 8, leases: new Map(), claims: new Map(), failures: 0 };

describe('an endpoint with a rate', () => {
  it('gets no more at once than its rate; what is over comes back, with no attempt and no failure', async () => {
    const h = await Harness.create({ maxPerSecond: 3 });
    const batch = batchOf(h, ...events(10));
    expect(await h.run(batch)).toHaveLength(7);
    expect(h.http.sent).toEqual(['e0', 'e1', 'e2']);
    expect(await h.lane()).toMatchObject(idle);
    expect([h.record({ eventId: 'e3' }), h.queues.delayOf(batch[3] ?? receivedOf(''))]).toEqual([undefined, expect.any(Number)]);
    const said = h.telemetry.events.filter((event) => event.name === 'rate-reached').map((event) => event.fields['copies']);
    expect(said.reduce<number>((sum, copies) => sum + Number(copies), 0)).toBe(7);
    expect(h.telemetry.count('shed')).toBe(0);
  });

  it('has what is over held at the third time, until there is room', async () => {
    const h = await Harness.create({ maxPerSecond: 1 });
    const [first, second] = batchOf(h, 'a', 'b');
    if (first === undefined || second === undefined) throw new Error('two messages');
    expect(await h.run([first, { ...second, receiveCount: 3 }])).toEqual([]);
    expect([h.http.sent, h.record({ eventId: 'b' })]).toMatchObject([['a'], { home: 'held', attempt: 0 }]);
    expect(h.wakeUps.orders).toEqual([{ endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() + 1_000 }]);
  });

  it('gets all of it in time, evenly', async () => {
    const h = await Harness.create({ maxPerSecond: 3 });
    for (let i = 0; i < 30; i++) {
      await h.run(batchOf(h, ...events(10).filter((eventId) => !h.http.sent.includes(eventId))));
      h.clock.advance(100);
    }
    expect([...h.http.sent].sort()).toEqual(events(10));
  });

  it('gets one at a time where it is below one a second', async () => {
    const h = await Harness.create({ maxPerSecond: 0.5 });
    await h.run(batchOf(h, 'a', 'b'));
    h.clock.advance(1_999);
    await h.run(batchOf(h, 'b'));
    expect(h.http.sent).toEqual(['a']);
    h.clock.advance(1);
    await h.run(batchOf(h, 'b'));
    expect(h.http.sent).toEqual(['a', 'b']);
  });

  it('does not keep what needs no request: what is past its age is given up, what was delivered is acknowledged', async () => {
    const h = await Harness.create({ maxPerSecond: 0.5, retry: { maxAgeS: 60 } });
    h.store.seed(deliveredOf({}, { eventId: 'done' }));
    const [done, first, old] = batchOf(h, 'done', 'first', 'old');
    if (first === undefined || done === undefined || old === undefined) throw new Error('three messages');
    // Before what needs one: it takes nothing of the rate.
    expect(await h.run([done, first, { ...old, sentEpochMs: h.clock.nowEpochMs() - 61_000 }])).toEqual([]);
    expect(h.http.sent).toEqual(['first']);
    expect(h.record({ eventId: 'old' })).toMatchObject({ state: 'dead', reason: 'expired', phase: 'buried' });
  });

  it('is one rate for all workers', async () => {
    const h = await Harness.create({ maxPerSecond: 4, maxInFlight: 32 });
    await Promise.all(events(20).map((eventId) => h.run(batchOf(h, eventId))));
    expect(h.http.sent).toHaveLength(4);
  });

  it.each<[string, (h: Harness) => Lanes['moveRate']]>([
    ['has no answer', () => () => Promise.resolve({ kind: 'unsure' })],
    ['is always overtaken', (h) => async () => ({ kind: 'lost', lane: { ...(await h.lane()), nextAtEpochMs: h.clock.nowEpochMs() } })],
    ['throws', () => () => Promise.reject(new Error('a bug'))],
  ])('gets nothing where the write that takes of it %s: its slots return and its messages stay', async (_what, moveRate) => {
    const h = await Harness.create({ maxPerSecond: 3 });
    expect(await h.run(batchOf(h, 'a', 'b'), h.lanesBut({ moveRate: moveRate(h) }))).toEqual(['a', 'b']);
    expect(h.http.requests).toEqual([]);
    expect(await h.lane()).toMatchObject(idle);
    expect(h.telemetry.count('rate-unknown') + h.telemetry.faults.length).toBe(1);
  });
});

it('an endpoint without one has no write for it', async () => {
  const h = await Harness.create();
  let writes = 0;
  await h.run(batchOf(h, ...events(10)), h.lanesBut({ moveRate: (...args) => (writes++, h.store.lanes.moveRate(...args)) }));
  expect([writes, h.http.sent.length]).toEqual([0, 10]);
});

describe('an endpoint that answers 429', () => {
  const pausedMs = throttle.pauseMs;

  it('gets nothing for a while, from anybody; what comes is no attempt, and is held at the third time', async () => {
    const h = await Harness.create({ retry: { baseS: 60, factor: 1 } });
    h.http.script = () => answered(429);
    const [first, second, third] = batchOf(h, 'a', 'b', 'c');
    if (first === undefined || second === undefined || third === undefined) throw new Error('three messages');
    expect(await h.run([first])).toEqual(['a']);
    expect(await h.lane()).toMatchObject({ ...idle, failures: 1, breaker: undefined, pausedUntilEpochMs: h.clock.nowEpochMs() + pausedMs });
    expect(await h.run([second, { ...third, receiveCount: 3 }])).toEqual(['b']);
    expect([h.http.sent, h.record({ eventId: 'b' }), h.record({ eventId: 'c' })]).toMatchObject([['a'], undefined, { home: 'held', attempt: 0 }]);
    expect(h.wakeUps.orders).toEqual([{ endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() + pausedMs }]);

    h.clock.advance(pausedMs);
    h.http.script = () => answered(200);
    await h.drain();
    expect(h.http.sent).toEqual(['a', 'c']);
  });

  it('ends the wave that finds it out, and is asked again later however often it answers so', async () => {
    const h = await Harness.create({ maxInFlight: 2 });
    h.http.script = () => answered(429);
    await h.run(batchOf(h, ...events(6)));
    expect(h.http.sent).toHaveLength(2);
    for (let i = 0; i < 30; i++) {
      h.clock.advance(pausedMs);
      await h.run(batchOf(h, `later${i}`));
    }
    expect([h.http.sent.length, (await h.lane()).breaker]).toEqual([32, undefined]);
  });

  it('is not left alone for longer than that by a clock that was wrong', async () => {
    const h = await Harness.create();
    await h.store.lanes.pauseUntil('acme', h.clock.nowEpochMs() + 86_500_000, h.clock.nowEpochMs());
    await h.run(batchOf(h, 'a'));
    expect(h.http.sent).toEqual(['a']);
  });
});
