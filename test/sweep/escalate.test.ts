/** Who is told of an endpoint that fails, when, and how often (R12, R4). */
import { beforeEach, describe, expect, it } from 'vitest';
import { escalate } from '../../lambdas/sweep/escalate.ts';
import { stepOf } from '../../lambdas/shared/core/escalation.ts';
import { awsCalls, escalation as limits, sweep } from '../../lambdas/shared/limits/numbers.ts';
import { endpointOf, t0EpochMs } from '../support/builders.ts';
import { dayMs, EscalateHarness, minuteMs } from '../support/escalate-harness.ts';

let e: EscalateHarness;
beforeEach(async () => void (e = await EscalateHarness.create()));

describe('an endpoint that fails', () => {
  it('is warned of at the tenth attempt in a row, alerted at the fiftieth, once each, and told well with its first success', async () => {
    await e.attempts(9, 503);
    await e.run();
    expect(e.steps()).toEqual([]);
    await e.attempts(1, 503);
    await e.run();
    await e.next();
    await e.next();
    expect(e.steps()).toEqual(['warn']);
    expect(e.fake.notices[0]).toMatchObject({
      v: 1, endpointId: 'acme', tenantId: 'shop', text: 'acme: 10 attempts in a row failed in 1 min (last: 503). 0 waiting, none lost. Next: sluice status acme',
      evidence: { slots: 32, window: { attempts: 10, failed: 10 }, says: expect.stringContaining('95 of 100') as string },
    });
    await e.attempts(40, 503);
    await e.next();
    await e.next();
    expect(e.steps()).toEqual(['warn', 'alert']);
    await e.attempts(1, 200);
    await e.next();
    await e.next();
    expect(e.steps()).toEqual(['warn', 'alert', 'recovered']);
    // The next row begins anew, once the first is over for long enough.
    await e.attempts(10, 503);
    await e.next();
    expect(e.steps()).toEqual(['warn', 'alert', 'recovered']);
    e.h.clock.advance(limits.quietMs);
    await e.next();
    expect(e.steps()).toEqual(['warn', 'alert', 'recovered', 'warn']);
  });

  it('is told once by ten who see it at the same time', async () => {
    await e.attempts(10, 503);
    const lane = await e.h.lane();
    await Promise.all([...Array(10).keys()].map(() => e.runOn(lane)));
    expect(e.steps()).toEqual(['warn']);
  });

  it.each([
    ['the topic does not answer', { notices: { publish: () => Promise.reject(new Error('away')) } }, 'notice-failed'],
    ['its endpoint cannot be read', { endpoints: { read: () => Promise.reject(new Error('away')) } }, 'notice-failed'],
  ])('is told by the next run where %s', async (_what, more, fault) => {
    await e.attempts(10, 503);
    await e.run(more);
    expect([e.steps(), e.h.telemetry.faults.map(({ name }) => name)]).toEqual([[], [fault]]);
    await e.next();
    expect(e.steps()).toEqual(['warn']);
  });

  it('is told at least once where who claimed it died: before it was told, or before that was noted', async () => {
    await e.attempts(10, 503);
    // Killed right after the claim: nothing more is done, and nothing is thrown.
    const dead = new Promise<never>(() => undefined);
    void e.run({ notices: { publish: () => dead } });
    await expect.poll(async () => (await e.h.lane()).told.get('row')).toMatchObject({ isTold: false });
    // Somebody may be at it.
    await e.run();
    expect(e.steps()).toEqual([]);
    await e.next();
    expect(e.steps()).toEqual(['warn']);

    // Killed after it was told: once more.
    await e.attempts(40, 503);
    e.h.clock.advance(minuteMs);
    void e.run({ lanes: { moveTold: (endpointId, subject, from, to) => (to?.isTold === true ? dead : e.h.store.lanes.moveTold(endpointId, subject, from, to)) } });
    await expect.poll(() => e.steps()).toEqual(['warn', 'alert']);
    await e.next();
    await e.next();
    expect(e.steps()).toEqual(['warn', 'alert', 'alert']);
  });
});

describe('one that answers, and never well', () => {
  const failing = async (n: number, spanMs: number) => {
    await e.attempts(1, 400);
    e.h.clock.advance(spanMs);
    await e.attempts(n - 1, 400);
  };

  it('is disabled after a hundred in a row over a day; what comes then is dead at once; put again it begins anew', async () => {
    await failing(limits.disableFrom, limits.disableAfterMs);
    await e.run();
    expect(e.steps()).toEqual(['disable']);
    expect(await e.config()).toMatchObject({ status: 'disabled', disabledFor: { why: 'failing' } });
    await e.next();
    await e.next();
    expect(e.steps()).toEqual(['disable']);
    await e.attempts(1, 200);
    expect(e.h.record({ eventId: e.lastEventId })).toMatchObject({ state: 'dead', reason: 'disabled' });
    await e.h.store.put(endpointOf({}, 'V9'));
    await e.next();
    expect([(await e.h.lane()).failures, e.steps()]).toEqual([0, ['disable']]);
  });

  it.each([
    ['fewer', limits.disableFrom - 1, limits.disableAfterMs],
    ['sooner', limits.disableFrom, limits.disableAfterMs - 1],
  ])('is not disabled where there are %s', async (_what, n, spanMs) => {
    await failing(n, spanMs);
    await e.run();
    expect([e.steps(), (await e.config())?.status]).toEqual([['alert'], 'enabled']);
  });

  it('stays as it is where it was put or has succeeded meanwhile: that decides', async () => {
    await failing(limits.disableFrom, limits.disableAfterMs);
    const stale = await e.h.lane();
    await e.attempts(1, 200);
    await e.runOn(stale);
    expect([e.steps(), (await e.config())?.status]).toEqual([[], 'enabled']);
    expect((await e.h.lane()).told).toEqual(new Map());
  });

  it('is disabled once, and told, where who disabled it died before it told', async () => {
    await failing(limits.disableFrom, limits.disableAfterMs);
    await e.run({ notices: { publish: () => Promise.reject(new Error('killed')) } });
    expect([e.steps(), (await e.config())?.status]).toEqual([[], 'disabled']);
    const { version } = (await e.h.store.endpoints.read('acme')) ?? {};
    await e.next();
    expect([e.steps(), (await e.h.store.endpoints.read('acme'))?.version]).toEqual([['disable'], version]);
  });
});

describe('one that does not answer', () => {
  it('is paused after a week of attempts, whatever it failed before, and what comes is held', async () => {
    await e.attempts(3, 503);
    e.h.clock.advance(dayMs);
    await e.attempts(60, 'silent');
    await e.run();
    for (let day = 1; day < 7; day++) {
      e.h.clock.advance(dayMs);
      await e.attempts(1, 'silent');
    }
    e.h.clock.advance(dayMs - minuteMs);
    await e.attempts(1, 'silent');
    await e.run();
    expect(e.steps()).toEqual(['alert']);
    e.h.clock.advance(minuteMs);
    await e.attempts(1, 'silent');
    await e.run();
    expect(e.steps()).toEqual(['alert', 'pause']);
    expect(await e.config()).toMatchObject({ status: 'paused', pauses: [{ fromEpochMs: e.h.clock.nowEpochMs(), toEpochMs: null }] });
    await e.next();
    expect(e.steps()).toEqual(['alert', 'pause']);
  });

  it.each([[1, 0], [9, 0], [10, 1]])('of %d silent attempts is told %d times before', async (n, told) => {
    await e.attempts(n, 'silent');
    await e.run();
    expect(e.steps()).toHaveLength(told);
  });
});

describe('one that refuses', () => {
  it('is told once: flagged as unauthorized or not found', async () => {
    await e.attempts(1, 404);
    await e.run();
    await e.next();
    expect(e.fake.notices.map(({ step, text }) => [step, text])).toEqual([['refusing', 'acme: refuses deliveries as not-found: its URL or its credentials have changed. They go to the dead-letter queue. Next: ask its owner; sluice dlq ls --endpoint acme']]);
    await e.attempts(1, 200);
    await e.next();
    await e.attempts(1, 403);
    await e.next();
    expect(e.steps()).toEqual(['refusing', 'refusing']);
  });

  it('is told once: gone, and disabled by who heard it', async () => {
    await e.attempts(1, 410);
    await e.run();
    await e.next();
    expect(e.fake.notices.map(({ step, text }) => [step, text.slice(0, 45)])).toEqual([['gone', 'acme: disabled, for it answered 410: it is go']]);
  });
});

describe('a run', () => {
  const flagged = async (n: number) => {
    const names = [...Array(n).keys()].map((i) => `e${i}`);
    for (const endpointId of names) {
      await e.h.store.put(endpointOf({ endpointId }));
      await e.h.store.lanes.flag(endpointId, { why: 'not-found', sinceEpochMs: 1 });
    }
    return () => Promise.all(names.map(async (endpointId) => ({ endpointId, lane: await e.h.lane(endpointId) })));
  };

  it('tells so many, and the rest is told by the next', async () => {
    const seen = await flagged(limits.maxNotices + 5);
    for (let i = 0; i < 2; i++) await escalate(e.deps(), await seen(), e.h.clock.monotonicMs());
    expect(new Set(e.fake.notices.map(({ endpointId }) => endpointId)).size).toBe(limits.maxNotices + 5);
  });

  it.each([
    ['cannot be told', { notices: { publish: () => Promise.reject(new Error('away')) } }],
    ['cannot be read', { endpoints: { read: () => Promise.reject(new Error('away')) } }],
  ])('tries no more than it would tell where they %s', async (_what, more) => {
    const seen = await flagged(limits.maxNotices + 5);
    await escalate(e.deps(more), await seen(), e.h.clock.monotonicMs());
    expect(e.h.telemetry.faults).toHaveLength(limits.maxNotices);
  });

  it('ends in time where the topic hangs, and the sweep still has its time for the one that it has begun', async () => {
    const seen = await flagged(40);
    const [startedMs, callMs] = [e.h.clock.monotonicMs(), awsCalls.maxAttempts * awsCalls.requestMs];
    e.h.clock.advance(5_000);
    await escalate(e.deps({ notices: { publish: () => (e.h.clock.advance(callMs), Promise.reject(new Error('no answer'))) } }), await seen(), startedMs);
    expect(e.h.clock.monotonicMs() - startedMs).toBeLessThanOrEqual(limits.untilMs + callMs);
    expect(e.h.telemetry.count('notices-left')).toBe(1);
    // Read, claim, change, tell, mark: with all attempts of each.
    expect(limits.untilMs + 5 * callMs).toBeLessThan(sweep.timeoutS * 1_000);
  });
});

it.each([
  [9, 0, 0, undefined], [10, 0, 0, 'warn'], [49, 49, 0, 'warn'], [50, 50, 0, 'alert'],
  [100, 100, limits.disableAfterMs, 'disable'], [100, 99, limits.disableAfterMs, 'alert'], [99, 100, limits.disableAfterMs, 'alert'], [100, 100, limits.disableAfterMs - 1, 'alert'],
  [10, 0, limits.pauseAfterMs, 'pause'], [9, 0, limits.pauseAfterMs, undefined], [10, 0, limits.pauseAfterMs - 1, 'warn'],
] as const)('%d failures in a row, %d of them answered, over %d ms, come to %s', (failures, answered, spanMs, step) => {
  const lastEpochMs = t0EpochMs + spanMs;
  const row = { sinceEpochMs: t0EpochMs, lastEpochMs, answered, ...(answered > 0 ? { answeredEpochMs: lastEpochMs, unansweredEpochMs: undefined } : { answeredEpochMs: undefined, unansweredEpochMs: t0EpochMs }) };
  expect(stepOf(row, failures, 'enabled')).toBe(step);
  expect(stepOf(row, failures, 'paused')).toBe(failures >= 50 ? 'alert' : failures >= 10 ? 'warn' : undefined);
});

describe('one that has spent its day (O8)', () => {
  const spend = async (attempts: number, isSpent: boolean) => {
    const { day: from } = await e.h.lane();
    await e.h.store.lanes.moveDay('acme', from, { day: Math.floor(e.h.clock.nowEpochMs() / dayMs), attempts, isSpent });
  };
  const bounded = (maxPerDay: number | null) => e.h.store.put(endpointOf({ tenantId: 'shop', maxPerDay }, `V${maxPerDay}`));

  it('is told once, and once more on the next day that is', async () => {
    await bounded(100);
    await spend(99, false);
    await e.run();
    expect(e.steps()).toEqual([]);
    await spend(100, true);
    await e.next();
    await e.next();
    expect(e.fake.notices.map(({ step, text }) => [step, text])).toEqual([['spent', 'acme: 100 attempts a day are allowed, and 100 were counted today: nothing more is sent before 00:00 UTC. What comes is held, and is given up past its age. 0 waiting, none lost. Next: sluice status acme, and for more sluice endpoint put acme --set maxPerDay=N']]);
    expect(e.fake.notices[0]?.evidence).toMatchObject({ today: { attempts: 100, most: 100 } });
    e.h.clock.advance(dayMs);
    await e.next();
    // The mark of a day that is over goes.
    expect([e.steps(), (await e.h.lane()).told.size]).toEqual([['spent'], 0]);
    await spend(100, true);
    await e.next();
    expect(e.steps()).toEqual(['spent', 'spent']);
  });

  it('is told by one of ten who see it at the same time', async () => {
    await bounded(100);
    await spend(100, true);
    const lane = await e.h.lane();
    await Promise.all([...Array(10).keys()].map(() => e.runOn(lane)));
    expect(e.steps()).toEqual(['spent']);
  });

  it.each([[100], [150]])('is told where a bound of %d is set after so many were made', async (maxPerDay) => {
    await bounded(200);
    await spend(150, false);
    await bounded(maxPerDay);
    await e.run();
    expect(e.steps()).toEqual(['spent']);
  });

  it.each([[200], [null]])('is not told once %j are allowed', async (maxPerDay) => {
    await bounded(100);
    await spend(100, true);
    await bounded(maxPerDay);
    await e.run();
    expect(e.steps()).toEqual([]);
  });
});
