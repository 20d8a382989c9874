import { describe, expect, it } from 'vitest';
import { alarmText, evidenceOf, sentenceOf, type Evidence } from '../../lambdas/shared/core/evidence.ts';
import { binOf, emptyTally, msOf, type Window } from '../../lambdas/shared/core/statistics.ts';
import { laneOf, openBreaker, t0EpochMs } from '../support/builders.ts';

const nowEpochMs = t0EpochMs + 120_000;
const dayMs = 86_400_000;
const windowOf = (more: Partial<Window>): Window => ({ ...emptyTally, sinceEpochMs: t0EpochMs, ...more });

describe('the evidence of a lane', () => {
  it('is what was measured, and what the lane allows at that', () => {
    const window = windowOf({ attempts: 40, delivered: 30, offered: 240, shed: 60, answers: new Map([[binOf(200), 30]]), failures: new Map([[binOf(10_000), 10]]), lastFailure: 'headers timeout' });
    const lane = laneOf({ slots: 8, leases: new Map([['l1', { slots: 3, expiresEpochMs: nowEpochMs + 1 }], ['l2', { slots: 2, expiresEpochMs: nowEpochMs }]]), holding: { count: 412, heldAtEpochMs: 0, wakeAtEpochMs: 0, isReady: true }, breaker: openBreaker({ untilEpochMs: nowEpochMs + 1 }) });
    const [p50, p95] = [msOf(binOf(200)), msOf(binOf(10_000))];
    expect(evidenceOf(lane, window, nowEpochMs)).toEqual({
      window: { sinceEpochMs: t0EpochMs, attempts: 40, failed: 10, lastFailure: 'headers timeout' },
      latencyMs: { p50, p95, p99: p95 }, slots: 8, inFlight: 3, shedShare: 0.25, backlog: 412, offeredPerSecond: 2, sustainablePerSecond: 8_000 / p95, breaker: 'open',
    });
    expect(evidenceOf({ ...lane, breaker: openBreaker({ untilEpochMs: nowEpochMs }) }, undefined, nowEpochMs)).toEqual({
      window: undefined, latencyMs: undefined, slots: 8, inFlight: 3, shedShare: undefined, backlog: 412, offeredPerSecond: undefined, sustainablePerSecond: undefined, breaker: 'half-open',
    });
    const day = { day: Math.floor(nowEpochMs / dayMs), attempts: 40, isSpent: false };
    expect(evidenceOf({ ...lane, day }, window, nowEpochMs, 100).today).toEqual({ attempts: 40, most: 100, untilEpochMs: (day.day + 1) * dayMs });
    expect(evidenceOf({ ...lane, day: { ...day, day: day.day - 1 } }, window, nowEpochMs, 100).today).toMatchObject({ attempts: 0 });
    expect(evidenceOf(laneOf(), windowOf({ offered: 1 }), t0EpochMs)).toMatchObject({ shedShare: 0, offeredPerSecond: 1, latencyMs: undefined, breaker: 'closed' });
  });
});

describe('the sentence', () => {
  const base: Evidence = { window: undefined, latencyMs: { p50: 100, p95: 10_000, p99: 10_000 }, slots: 8, inFlight: 0, shedShare: 0, backlog: 0, offeredPerSecond: 3.2, sustainablePerSecond: 0.8, breaker: 'closed' };

  it.each<[Partial<Evidence>, string]>([
    [{}, '95 of 100 requests end within 10.0 s; 8 at a time are then 48.0 a minute. 3.2 a second are offered: it falls behind. To keep up, 95 of 100 must end within 2.5 s.'],
    [{ offeredPerSecond: 0.5 }, '95 of 100 requests end within 10.0 s; 8 at a time are then 48.0 a minute. 30.0 a minute are offered: it keeps up.'],
    [{ offeredPerSecond: 0.5, shedShare: 0.2 }, '95 of 100 requests end within 10.0 s; 8 at a time are then 48.0 a minute. 30.0 a minute are offered, yet 20 % of what came found no room: it comes in bursts, or is held up.'],
    [{ offeredPerSecond: 0.5, window: { sinceEpochMs: 0, attempts: 40, failed: 38, lastFailure: '503' } }, '95 of 100 requests end within 10.0 s; 8 at a time are then 48.0 a minute. 30.0 a minute are offered, which the lane allows, but 38 of 40 attempts failed.'],
    [{ offeredPerSecond: 0.8 }, '95 of 100 requests end within 10.0 s; 8 at a time are then 48.0 a minute. 48.0 a minute are offered: it keeps up.'],
    [{ offeredPerSecond: 0 }, '95 of 100 requests end within 10.0 s; 8 at a time are then 48.0 a minute.'],
    [{ offeredPerSecond: undefined, latencyMs: { p50: 1, p95: 40, p99: 50 }, sustainablePerSecond: 200 }, '95 of 100 requests end within 40 ms; 8 at a time are then 200.0 a second.'],
    [{ latencyMs: undefined, sustainablePerSecond: undefined }, 'No attempt was measured lately.'],
    [{ offeredPerSecond: 0.5, today: { attempts: 99, most: 100, untilEpochMs: dayMs } }, '95 of 100 requests end within 10.0 s; 8 at a time are then 48.0 a minute. 30.0 a minute are offered: it keeps up.'],
    [{ latencyMs: undefined, today: { attempts: 100, most: 100, untilEpochMs: dayMs } }, '100 attempts a day are allowed, and 100 were counted today: nothing more is sent before 00:00 UTC. No attempt was measured lately.'],
    [{ offeredPerSecond: 0, today: { attempts: 120, most: 100, untilEpochMs: dayMs } }, '100 attempts a day are allowed, and 120 were counted today: nothing more is sent before 00:00 UTC. 95 of 100 requests end within 10.0 s; 8 at a time are then 48.0 a minute.'],
  ])('of %j does the arithmetic', (more, text) => {
    expect(sentenceOf({ ...base, ...more })).toBe(text);
  });
});

describe('the text of an alarm', () => {
  const evidence = (more: Partial<Window>, lane = laneOf()) => evidenceOf(lane, windowOf(more), nowEpochMs);

  it.each<[Partial<Window>, number, string]>([
    [{ attempts: 40, delivered: 2, lastFailure: '503' }, 0, 'acme: 38 of 40 attempts failed in 2 min (503). Others unaffected. 0 waiting, none lost. Next: sluice status acme'],
    [{ attempts: 40, delivered: 40, offered: 100, shed: 33 }, 1, 'acme: No room for 33 % of what came. One other needs attention too. 0 waiting, none lost. Next: sluice status acme'],
    [{ attempts: 1, delivered: 0 }, 7, 'acme: 1 of 1 attempts failed in 2 min. 7 others need attention too. 0 waiting, none lost. Next: sluice status acme'],
    [{}, 0, 'acme: needs attention. Others unaffected. 0 waiting, none lost. Next: sluice status acme'],
  ])('of %j with %d others says what is wrong, who else is affected, what waits, and what to do', (window, others, text) => {
    expect(alarmText('acme', evidence(window), others, nowEpochMs)).toBe(text);
  });

  it('says that a breaker is open', () => {
    expect(alarmText('acme', evidence({}, laneOf({ breaker: openBreaker({ untilEpochMs: nowEpochMs + 1 }) })), 0, nowEpochMs)).toContain('Its breaker is open.');
  });
});
