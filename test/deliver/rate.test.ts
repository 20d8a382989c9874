/** The flow and an endpoint's rate, beside its lane (O7). */
import { describe, expect, it } from 'vitest';
import { hold, throttle } from '../../lambdas/shared/limits/numbers.ts';
import { pingDueEpochMs, pingEventType } from '../../lambdas/shared/limits/names.ts';
import type { Lanes } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, deliveredOf, endpointOf, receivedOf, timed, waitingOf } from '../support/builders.ts';
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

describe('an endpoint that takes so many attempts a day (O8)', () => {
  const dayMs = 86_400_000;
  const nextDay = (h: Harness) => h.clock.advance(dayMs - (h.clock.nowEpochMs() % dayMs));

  it('gets no more of them, from all workers together; what is over is held, with no attempt and no failure', async () => {
    const h = await Harness.create({ maxPerDay: 3, maxInFlight: 32 });
    expect(await h.run(batchOf(h, ...events(2)))).toEqual([]);
    await Promise.all(events(10, 'f').map((eventId) => h.run(batchOf(h, eventId))));
    expect(h.http.sent).toHaveLength(3);
    expect(h.http.sent.slice(0, 2)).toEqual(['e0', 'e1']);
    expect(await h.lane()).toMatchObject({ ...idle, avail: 32, day: { attempts: 3, isSpent: true }, holding: { count: 9 } });
    expect(h.telemetry.count('day-spent')).toBe(9);
    // It looks at what has come of age meanwhile, and not once a minute.
    expect(h.wakeUps.orders[0]?.atEpochMs).toBe(h.clock.nowEpochMs() + hold.pausedLookMs);
  });

  it('gets as many on the next day, of what was held the oldest first', async () => {
    const h = await Harness.create({ maxPerDay: 3 });
    await h.run(batchOf(h, ...events(3)));
    for (const eventId of events(4, 'f')) {
      h.clock.advance(1_000);
      await h.run(batchOf(h, eventId));
    }
    h.clock.advance(hold.pausedLookMs);
    const admissions = { count: 0 };
    await h.drain(h.lanesBut({ admit: (ask) => (admissions.count++, h.store.lanes.admit(ask)) }));
    expect([h.http.sent, admissions.count]).toEqual([events(3), 0]);
    nextDay(h);
    await h.drain();
    expect(h.http.sent).toEqual([...events(3), 'f0', 'f1', 'f2']);
    expect(await h.lane()).toMatchObject({ day: { attempts: 3, isSpent: true }, holding: { count: 1 } });
  });

  it('counts every attempt: what fails has its share, however often it is tried', async () => {
    const h = await Harness.create({ maxPerDay: 3, retry: { baseS: 1, factor: 1, attempts: 20 } });
    h.http.script = () => answered(500);
    for (let i = 0; i < 10; i++) {
      await h.run(batchOf(h, 'a'));
      h.clock.advance(2_000);
    }
    expect(h.http.sent).toEqual(['a', 'a', 'a']);
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'waiting', attempt: 3, home: 'held' });
  });

  it('gives up what is past its age while it is spent', async () => {
    const h = await Harness.create({ maxPerDay: 1, retry: { maxAgeS: 3_600 } });
    await h.run(batchOf(h, 'a'));
    await h.run(batchOf(h, 'b'));
    h.clock.advance(3_700_000);
    await h.drain();
    expect([h.http.sent, h.record({ eventId: 'b' })]).toMatchObject([['a'], { state: 'dead', reason: 'expired' }]);
  });

  it.each([{ maxPerDay: 1 }, { maxPerSecond: 0.01 }])('is asked all the same by a ping, which is an operator\'s, and by that alone: %j', async (most) => {
    const h = await Harness.create(most);
    const [a, b, c] = batchOf(h, 'a', 'b', 'c').map((received) => ({ ...received, receiveCount: 3 }));
    if (a === undefined || b === undefined || c === undefined) throw new Error('three messages');
    for (const received of [a, b, c]) await h.run([received]);
    const ping = waitingOf({ home: 'held', dueEpochMs: pingDueEpochMs }, { eventId: 'p' });
    h.store.seed({ ...ping, eventType: pingEventType });
    await h.store.payloads.put(ping, bodyOf({ eventId: 'p' }).replace('{', `{"eventType":"${pingEventType}",`), h.clock.nowEpochMs());
    h.clock.advance(30_000);
    await h.drain();
    expect(h.http.sent).toEqual(['a', 'p']);
    expect(await h.lane()).toMatchObject({ ...idle, holding: { count: expect.any(Number) as number } });
  });

  it.each([
    [{ maxPerDay: 1 }, { maxPerDay: 2 }], [{ maxPerDay: 1 }, {}], [{ maxPerSecond: 0.01 }, { maxPerSecond: 10 }],
  ])('is asked more at once where %j becomes %j, though the drain knows it as it was', async (before, after) => {
    const h = await Harness.create(before);
    const [a, b] = batchOf(h, 'a', 'b').map((received) => ({ ...received, receiveCount: 3 }));
    if (a === undefined || b === undefined) throw new Error('two messages');
    await h.run([a]);
    await h.run([b]);
    h.clock.advance(11_000);
    await h.drain();
    expect(h.http.sent).toEqual(['a']);
    await h.store.put(endpointOf(after, 'V2'));
    await h.drain();
    expect(h.http.sent).toEqual(['a', 'b']);
  });

  it('loses nothing of its day while there is no socket', async () => {
    const h = await Harness.create({ maxPerDay: 3 });
    const http = { get: h.http.get.bind(h.http), post: () => Promise.resolve({ kind: 'notStarted' as const, why: 'no-socket' as const }) };
    for (let i = 0; i < 5; i++) await h.run(batchOf(h, 'a', 'b', 'c'), { http });
    expect([h.http.sent, (await h.lane()).day]).toEqual([[], undefined]);
  });

  it('does not keep its slots where the configuration cannot be read that may allow more', async () => {
    const h = await Harness.create({ maxPerDay: 2, maxInFlight: 2 });
    expect(await h.run(batchOf(h, 'a', 'b', 'c', 'd'))).toEqual([]);
    await h.store.put(endpointOf({ maxPerDay: 3, maxInFlight: 2 }, 'V2'));
    const unread = { ...h.deps.endpoints, refresh: () => Promise.reject(new Error('throttled')) };
    h.clock.advance(30_000);
    await h.drain({ endpoints: unread });
    expect([h.http.sent, await h.lane(), h.telemetry.faults.map(({ name }) => name)]).toMatchObject([['a', 'b'], { avail: 2, leases: new Map(), holding: { count: 2 } }, ['endpoint-unread']]);
  });

  it('is looked at all the same: a look is no attempt', async () => {
    const lookup = { url: 'https://api.example.test/e/{eventId}', match: { '$.id': 'eventId' } };
    const h = await Harness.create({ maxPerDay: 1, onAmbiguous: 'reconcile', lookup });
    h.http.script = () => ({ kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timed(10_000) });
    await h.run(batchOf(h, 'a'));
    await h.run(batchOf(h, 'b'));
    expect([h.record({ eventId: 'a' }), h.record({ eventId: 'b' })]).toMatchObject([{ state: 'unknown' }, { home: 'held' }]);
    h.clock.advance(3_600_000);
    await h.drain();
    expect([h.http.sent, h.http.lookRequests.length, (await h.lane()).day]).toMatchObject([['a'], 1, { attempts: 1 }]);
  });

  it('loses nothing of its day to what the rate refuses', async () => {
    const h = await Harness.create({ maxPerDay: 3, maxPerSecond: 1 });
    for (let i = 0; i < 3; i++) {
      await h.run(batchOf(h, ...events(10, `${i}-`)));
      h.clock.advance(1_000);
    }
    expect(h.http.sent).toHaveLength(3);
    expect(h.telemetry.count('day-spent')).toBe(1);
  });

  it('loses nothing of its rate where the day is spent', async () => {
    const h = await Harness.create({ maxPerDay: 1, maxPerSecond: 1 });
    await h.run(batchOf(h, 'a'));
    const { nextAtEpochMs } = await h.lane();
    h.clock.advance(10_000);
    await h.run(batchOf(h, 'b'));
    expect(await h.lane()).toMatchObject({ nextAtEpochMs });
  });

  it.each<[string, (h: Harness) => Lanes['moveDay']]>([
    ['has no answer', () => () => Promise.resolve({ kind: 'unsure' })],
    ['is always overtaken', (h) => async () => ({ kind: 'lost', lane: await h.lane() })],
    ['throws', () => () => Promise.reject(new Error('a bug'))],
  ])('gets nothing where the write that takes of it %s: its slots return and its messages stay', async (_what, moveDay) => {
    const h = await Harness.create({ maxPerDay: 3 });
    expect(await h.run(batchOf(h, 'a', 'b'), h.lanesBut({ moveDay: moveDay(h) }))).toEqual(['a', 'b']);
    expect(h.http.requests).toEqual([]);
    expect(await h.lane()).toMatchObject(idle);
    expect(h.telemetry.count('rate-unknown') + h.telemetry.faults.length).toBe(1);
  });
});

it('an endpoint without either has no write for it', async () => {
  const h = await Harness.create();
  let writes = 0;
  const { lanes } = h.store;
  await h.run(batchOf(h, ...events(10)), h.lanesBut({ moveRate: (...args) => (writes++, lanes.moveRate(...args)), moveDay: (...args) => (writes++, lanes.moveDay(...args)) }));
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
