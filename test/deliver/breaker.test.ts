/** The flow and the circuit breaker: what opens it, what waits, who is the canary, and what a canary's end means (R7, C3, C4). */
import { beforeEach, describe, expect, it } from 'vitest';
import type { Breaker, Cause, OpenBreaker } from '../../lambdas/shared/core/breaker.ts';
import { breaker as defaults } from '../../lambdas/shared/limits/numbers.ts';
import type { Lanes } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, closedBreaker, deliveredOf, endpointOf, openBreaker, receivedOf, timed } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { ambiguous, answered, noSocket, unsent, type HttpOutcome } from '../support/fakes.ts';

const oldSocket = { ...ambiguous, cause: 'ECONNRESET', reused: true } as HttpOutcome;
const openMs = defaults.openS * 1_000;
let h: Harness;
beforeEach(async () => {
  // Nothing is put back for its own age here, and every retry is due at once.
  h = await Harness.create({ retry: { baseS: 1, factor: 1, attempts: 25 } });
});

const batchOf = (...events: string[]) => events.map((eventId) => receivedOf(bodyOf({ eventId }), { messageId: eventId, sentEpochMs: h.clock.nowEpochMs() }));
const events = (n: number, name = 'e') => Array.from({ length: n }, (_, i) => `${name}${i}`);
const said = (name: string) => h.telemetry.events.filter((event) => event.name === name).map((event) => event.fields);

/** Opens it by five connections that cannot be made; its time begins now. */
async function trip(): Promise<void> {
  h.http.script = () => unsent;
  await h.run(batchOf(...events(5, 'dead')));
  h.http.requests.length = 0;
  h.http.script = () => answered(200);
}

/** The deliveries of a batch that were sent, after the breaker's time has come. */
async function probe(outcome: HttpOutcome, ...batch: string[]): Promise<Breaker | undefined> {
  h.clock.advance(openMs);
  h.http.script = () => outcome;
  await h.serve(batchOf(...batch));
  return (await h.lane()).breaker;
}

describe('an endpoint that fails', () => {
  it.each<[string, HttpOutcome, number, Cause]>([
    ['connections that cannot be made', unsent, defaults.connectFailures, 'unreachable'],
    ['a 503', answered(503), defaults.minAttempts, 'failing'],
    ['silence', ambiguous, defaults.minAttempts, 'failing'],
  ])('is left alone after so many times %s', async (_what, outcome, times, cause) => {
    h.http.script = () => outcome;
    for (const eventId of events(times - 1)) await h.run(batchOf(eventId));
    expect((await h.lane()).breaker).toMatchObject({ state: 'closed' });
    await h.run(batchOf('last'));
    expect((await h.lane()).breaker).toEqual(openBreaker({ cause, untilEpochMs: h.clock.nowEpochMs() + openMs }));
    expect(said('breaker-opened')).toEqual([{ endpointId: 'acme', cause, untilEpochMs: h.clock.nowEpochMs() + openMs, trips: 1 }]);
    await h.run(batchOf(...events(10, 'more')));
    expect(h.http.requests).toHaveLength(times);
  });

  it.each<[string, HttpOutcome]>([
    ['a rejection (C4)', answered(422)],
    ['a 404', answered(404)],
    ['no socket of ours', noSocket],
    ['a socket that was used before and broke', oldSocket],
  ])('is not left alone for %s, however often', async (_what, outcome) => {
    h.http.script = () => outcome;
    for (const eventId of events(40)) await h.run(batchOf(eventId));
    expect([h.http.requests.length, (await h.lane()).breaker]).toEqual([40, undefined]);
  });

  it('is left alone within a batch too: the wave that finds it out is the last', async () => {
    h = await Harness.create({ maxInFlight: 5 });
    h.http.script = () => unsent;
    // Those that were tried come back for their next attempt; the others are held.
    expect(await h.run(batchOf(...events(10)))).toEqual(events(5));
    expect(h.http.requests).toHaveLength(5);
    expect((await h.lane()).breaker).toMatchObject({ state: 'open' });
  });

  it('is left alone where it answers, but later than its own ceiling (L5)', async () => {
    h = await Harness.create({ breaker: { slowP95Ms: 3_000 } });
    h.http.script = () => ({ ...answered(200), ...timed(3_001), phasesMs: { headers: 3_001 } });
    // The drain sends what is left of them once they are slow.
    for (const eventId of events(20)) await h.serve(batchOf(eventId));
    expect((await h.lane()).breaker).toEqual(openBreaker({ cause: 'slow', untilEpochMs: h.clock.nowEpochMs() + 600_000 }));
    h.clock.advance(600_000);
    await h.serve(batchOf('slow-again'));
    expect((await h.lane()).breaker).toMatchObject({ state: 'open', round: 2, cause: 'slow', trips: 1, untilEpochMs: h.clock.nowEpochMs() + 600_000 });
    h.clock.advance(600_000);
    h.http.script = () => answered(200);
    await h.serve(batchOf('quick'));
    expect((await h.lane()).breaker).toMatchObject({ state: 'closed', round: 3 });
  });

  it('has no write more while all is well', async () => {
    let moves = 0;
    const moveBreaker: Lanes['moveBreaker'] = (...args) => (moves++, h.store.lanes.moveBreaker(...args));
    await h.run(batchOf(...events(10)), h.lanesBut({ moveBreaker }));
    expect(moves).toBe(0);
  });
});

describe('while it is open', () => {
  beforeEach(trip);

  it('what comes is held until its end, without an attempt and without a failure (R8)', async () => {
    const { untilEpochMs } = (await h.lane()).breaker as OpenBreaker;
    expect(await h.run(batchOf(...events(10)))).toEqual([]);
    expect([h.http.requests.length, h.store.held().map(({ eventId }) => eventId).sort()]).toEqual([0, events(10)]);
    expect([...h.store.bodies.values()]).toEqual(events(10).map((eventId) => bodyOf({ eventId })));
    expect(said('breaker-open')).toEqual([{ endpointId: 'acme', copies: 10 }]);
    expect(said('shed')).toEqual([]);
    expect(await h.lane()).toMatchObject({ avail: 8, failures: 5, holding: { wakeAtEpochMs: untilEpochMs, count: 10 } });
    // One order for all of them, for when it may be tried.
    await h.run(batchOf('later'));
    expect(h.wakeUps.orders).toEqual([{ endpointId: 'acme', atEpochMs: untilEpochMs }]);
  });

  it('what comes twice in a batch is held once, and comes back', async () => {
    const batch = [...batchOf('twice'), receivedOf(bodyOf({ eventId: 'twice' }), { messageId: 'again' })];
    expect(await h.run(batch)).toEqual(['again']);
    expect(await h.run(batch.slice(1))).toEqual([]);
    expect(await h.lane()).toMatchObject({ holding: { count: 1 } });
  });

  it('what comes does not wait for an end that no clock could have set', async () => {
    const { breaker } = await h.lane();
    await h.store.lanes.moveBreaker('acme', breaker, openBreaker({ untilEpochMs: h.clock.nowEpochMs() + 86_400_000 }));
    await h.run(batchOf('a'));
    expect(h.wakeUps.orders).toEqual([{ endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() }]);
  });

  it('what is past its age is given up all the same', async () => {
    const one = await h.runOne(bodyOf({ eventId: 'aged' }), { sentEpochMs: h.clock.nowEpochMs() - 4 * 86_400_000 });
    expect(one.exit).toBe('ack');
    expect(h.record({ eventId: 'aged' })).toMatchObject({ state: 'dead', reason: 'expired', phase: 'buried', detail: 'found expired before it could be sent' });
    expect(h.http.requests).toEqual([]);
  });

  it('other endpoints are delivered to', async () => {
    const other = { endpointId: 'other', eventId: 'x' };
    await h.store.put(endpointOf({ endpointId: 'other' }));
    await h.run([...batchOf('a'), receivedOf(bodyOf(other), { messageId: 'x' })]);
    expect(h.http.sent).toEqual(['x']);
  });

  it('a late report of what was sent before changes nothing', async () => {
    const { breaker } = await h.lane();
    // Admitted before it opened, ended after.
    const late: Lanes['admit'] = () => Promise.resolve({ kind: 'granted', avail: 7, failures: 0, breaker: undefined, nextAtEpochMs: undefined, day: undefined, pausedUntilEpochMs: undefined, pace: undefined, flag: undefined, holding: undefined, window: undefined, slots: 8, learnedMs: undefined });
    for (const outcome of [answered(200), unsent]) {
      h.http.script = () => outcome;
      await h.run(batchOf(`late-${outcome.kind}`), h.lanesBut({ admit: late }));
      expect((await h.lane()).breaker).toEqual(breaker);
    }
  });
});

describe('when its time has come', () => {
  beforeEach(trip);

  it.each<[string, HttpOutcome]>([
    ['200', answered(200)],
    ['200 and a broken body', { ...answered(200), cut: 'body ECONNRESET' } as HttpOutcome],
    ['404', answered(404)],
  ])('one delivery is sent, and by %s it closes: the others follow at once', async (_what, outcome) => {
    expect(await probe(outcome, ...events(6))).toMatchObject({ state: 'closed', round: 2, failed: { hits: 0 } });
    expect([...h.http.sent].sort()).toEqual(events(6));
    expect(said('breaker-closed')).toEqual([{ endpointId: 'acme' }]);
    expect(await h.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map() });
  });

  it.each<[string, HttpOutcome, number, Cause]>([
    ['503', answered(503), 2, 'failing'],
    ['silence', ambiguous, 2, 'failing'],
    ['no connection', unsent, 2, 'unreachable'],
    ['429', answered(429), 1, 'unreachable'],
  ])('one delivery is sent, and by %s it opens again: the others wait', async (_what, outcome, trips, cause) => {
    expect(await probe(outcome, ...events(6))).toEqual(openBreaker({ round: 2, cause, trips, untilEpochMs: h.clock.nowEpochMs() + trips * openMs }));
    expect(h.http.sent).toEqual(['e0']);
    expect(await h.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map() });
  });

  it('live traffic leaves it to the drain', async () => {
    h.clock.advance(openMs);
    expect(await h.run(batchOf('a'))).toEqual([]);
    expect([h.http.sent, h.record({ eventId: 'a' }), (await h.lane()).breaker]).toMatchObject([[], { home: 'held' }, { canary: undefined }]);
  });

  it('a canary whose verdict cannot be written counts all the same', async () => {
    h.clock.advance(openMs);
    h.http.script = () => answered(503);
    await h.serve(batchOf('a'), h.recordsBut({ write: () => Promise.reject(new Error('a bug')) }));
    expect([h.http.sent, (await h.lane()).breaker]).toMatchObject([['a'], { state: 'open', trips: 2 }]);
  });

  it('a canary whose admission the SDK repeats has its verdict counted', async () => {
    h.clock.advance(openMs);
    const repeated: Lanes['admit'] = async (ask) => {
      const answer = await h.store.lanes.admit(ask);
      return answer.kind === 'granted' ? h.store.lanes.admit(ask) : answer;
    };
    await h.serve(batchOf('a'), h.lanesBut({ admit: repeated }));
    expect([h.http.sent, (await h.lane()).breaker?.state]).toEqual([['a'], 'closed']);
  });

  it('a canary that says nothing ends its batch: the others do not follow it one by one', async () => {
    await probe(oldSocket, ...events(6));
    expect(h.http.sent).toEqual(['e0']);
  });

  it('opens for longer each time, up to its cap, and closes as if nothing had been', async () => {
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      h.clock.advance(defaults.maxOpenS * 1_000);
      h.http.script = () => unsent;
      await h.serve(batchOf(`again${i}`));
      const { breaker } = await h.lane();
      waits.push(breaker?.state === 'open' ? breaker.untilEpochMs - h.clock.nowEpochMs() : 0);
    }
    expect(waits).toEqual([60, 120, 240, 480, 900, 900, 900, 900].map((s) => s * 1_000));
    h.clock.advance(defaults.maxOpenS * 1_000);
    h.http.script = () => answered(200);
    await h.serve(batchOf('well'));
    await trip();
    expect((await h.lane()).breaker).toMatchObject({ state: 'open', trips: 1 });
  });

  it.each<[string, HttpOutcome]>([
    ['finds no socket of ours', noSocket],
    ['dies on a socket that was used before', oldSocket],
  ])('a canary that %s makes room for another', async (_what, outcome) => {
    expect(await probe(outcome, 'a')).toEqual(openBreaker({ cause: 'unreachable', untilEpochMs: h.clock.nowEpochMs() }));
    h.http.script = () => answered(200);
    await h.serve(batchOf('b'));
    expect((await h.lane()).breaker).toMatchObject({ state: 'closed' });
  });

  it('a canary whose delivery turns out to be done makes room for another', async () => {
    h.store.seed(deliveredOf({}, { eventId: 'done' }));
    expect(await probe(answered(200), 'done')).toMatchObject({ state: 'open', canary: undefined });
    expect(h.http.requests).toEqual([]);
  });

  it('a canary that is refused, because somebody sends that delivery, leaves the place free', async () => {
    h.clock.advance(openMs);
    const { breaker } = await h.lane();
    await h.store.lanes.moveBreaker('acme', breaker, closedBreaker({ round: 2 }));
    await h.claimElsewhere({ eventId: 'a' });
    await h.store.lanes.moveBreaker('acme', (await h.lane()).breaker, openBreaker({ round: 3, untilEpochMs: h.clock.nowEpochMs() }));
    await h.serve(batchOf('a'));
    expect([h.http.sent, (await h.lane()).breaker]).toMatchObject([[], { state: 'open', round: 3, canary: undefined }]);
    await h.serve(batchOf('a', 'b'));
    expect(h.http.sent).toEqual(['b']);
  });

  it('a canary that needs no request is followed by the next', async () => {
    h.store.seed(deliveredOf({}, { eventId: 'done' }));
    expect(await probe(answered(200), 'done', 'a', 'b')).toMatchObject({ state: 'closed' });
    expect(h.http.sent).toEqual(['a', 'b']);
  });

  it('a canary whose process dies is replaced when its lease has expired', async () => {
    h.clock.advance(openMs);
    h.http.script = () => new Promise(() => undefined);
    void h.serve(batchOf('a'));
    await expect.poll(() => h.http.sent).toEqual(['a']);
    h.http.script = () => answered(200);
    await h.serve(batchOf('b'));
    expect(h.http.sent).toEqual(['a']);
    h.clock.advance(60_000);
    await h.serve(batchOf('b'));
    expect([h.http.sent, (await h.lane()).breaker?.state]).toEqual([['a', 'b'], 'closed']);
  });

  it('a canary that may have been admitted is given back', async () => {
    h.clock.advance(openMs);
    const unsure: Lanes['admit'] = async (ask) => {
      const answer = await h.store.lanes.admit(ask);
      return ask.canaryOf === undefined ? answer : { kind: 'unsure' };
    };
    await h.serve(batchOf('a'), h.lanesBut({ admit: unsure }));
    expect(h.http.requests).toEqual([]);
    expect(await h.lane()).toMatchObject({ avail: 8, breaker: { state: 'open', round: 1, canary: undefined } });
  });

  it('of many workers at that moment one sends', async () => {
    h.clock.advance(openMs);
    const gate = Promise.withResolvers<HttpOutcome>();
    h.http.script = () => gate.promise;
    const runs = Array.from({ length: 50 }, (_, i) => h.serve(batchOf(`w${i}`)));
    let refused = 0;
    for (const run of runs) void run.then(({ stop }) => void (refused += stop.kind === 'open' ? 1 : 0));
    await expect.poll(() => refused).toBe(49);
    expect(h.http.requests).toHaveLength(1);
    gate.resolve(answered(200));
    await Promise.all(runs);
    expect((await h.lane()).breaker).toMatchObject({ state: 'closed' });
  });
});

describe('a report', () => {
  const failing = (moveBreaker: Lanes['moveBreaker']) => {
    h.http.script = () => answered(503);
    return h.run(batchOf('a'), h.lanesBut({ moveBreaker }));
  };

  it('that others overtake is counted on what they left', async () => {
    let others = 2;
    await failing(async (id, from, to) => {
      const { breaker } = await h.lane();
      if (others-- > 0) await h.store.lanes.moveBreaker(id, breaker, closedBreaker({ failed: { sinceEpochMs: h.clock.nowEpochMs(), attempts: 9 - others, hits: 5 }, by: `other${others}` }));
      return h.store.lanes.moveBreaker(id, from, to);
    });
    expect((await h.lane()).breaker).toMatchObject({ failed: { attempts: 10, hits: 6 } });
  });

  it('whose write the SDK repeats is counted once', async () => {
    await failing(async (...args) => {
      await h.store.lanes.moveBreaker(...args);
      return h.store.lanes.moveBreaker(...args);
    });
    expect((await h.lane()).breaker).toMatchObject({ failed: { attempts: 1, hits: 1 } });
  });

  it('whose write the SDK repeats is told all the same', async () => {
    h.http.script = () => unsent;
    await h.run(batchOf(...events(5)), h.lanesBut({
      moveBreaker: async (...args) => {
        await h.store.lanes.moveBreaker(...args);
        return h.store.lanes.moveBreaker(...args);
      },
    }));
    expect(said('breaker-opened')).toHaveLength(1);
    expect((await h.lane()).breaker).toMatchObject({ state: 'open' });
  });

  it('of every worker at once is counted', async () => {
    h = await Harness.create({ maxInFlight: 32, breaker: { minAttempts: 1_000, failureRatio: 1 } });
    h.http.script = () => answered(503);
    const gate = Promise.withResolvers<undefined>();
    let waiting = 0;
    const moveBreaker: Lanes['moveBreaker'] = async (...args) => {
      if (++waiting >= 32) gate.resolve(undefined);
      await gate.promise;
      return h.store.lanes.moveBreaker(...args);
    };
    await Promise.all(events(32).map((eventId) => h.run(batchOf(eventId), h.lanesBut({ moveBreaker }))));
    expect((await h.lane()).breaker).toMatchObject({ failed: { attempts: 32, hits: 32 } });
  });

  it('is given up where the time is needed for what must follow it', async () => {
    const slow: Lanes['moveBreaker'] = async () => {
      h.clock.advance(1_100);
      return { kind: 'lost', lane: { ...(await h.lane()), breaker: closedBreaker({ failed: { sinceEpochMs: h.clock.nowEpochMs(), attempts: 1, hits: 1 }, by: `${h.clock.nowEpochMs()}` }) } };
    };
    const invocation = h.invocation();
    h.http.script = () => {
      h.clock.advance(25_000);
      return answered(503);
    };
    await h.run(batchOf('a'), h.lanesBut({ moveBreaker: slow }), invocation);
    expect(invocation.remainingMs()).toBeGreaterThan(1_200);
    expect(said('breaker-report-lost')).toEqual([{ endpointId: 'acme', why: 'lost' }]);
    expect(await h.lane()).toMatchObject({ avail: 8, leases: new Map() });
  });

  it.each<[string, Lanes['moveBreaker']]>([
    ['has no answer', () => Promise.resolve({ kind: 'unsure' })],
    ['finds no lane', () => Promise.resolve({ kind: 'lost', lane: undefined })],
    ['is always overtaken', async () => ({ kind: 'lost', lane: { ...(await h.lane()), breaker: closedBreaker({ failed: { sinceEpochMs: h.clock.nowEpochMs(), attempts: 1, hits: 1 }, by: 'other' }) } })],
    ['throws', () => Promise.reject(new Error('a bug'))],
  ])('that %s does not undo its deliveries', async (_what, moveBreaker) => {
    await failing(moveBreaker);
    expect(said('breaker-report-lost').length + h.telemetry.faults.length).toBe(1);
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'waiting', attempt: 1 });
    expect(await h.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map() });
  });
});
