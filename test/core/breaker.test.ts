import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { afterReport, forgotten, mayProbe, sampleOf, triedFromEpochMs, type Breaker, type Health, type OpenBreaker } from '../../lambdas/shared/core/breaker.ts';
import type { AttemptOutcome } from '../../lambdas/shared/core/outcome.ts';
import { closedBreaker, endpointOf, openBreaker, t0EpochMs, timed } from '../support/builders.ts';

const policy = endpointOf().config.breaker;
const failedOf = (attempts: number, hits: number, sinceEpochMs = t0EpochMs) => ({ sinceEpochMs, attempts, hits });
const withCanary = openBreaker({ canary: { leaseId: 'l1', expiresEpochMs: t0EpochMs + 65_000 } });
const of = (health: Health, times = 1): Health[] => Array.from({ length: times }, () => health);

function after(breaker: Breaker | undefined, healths: readonly Health[], { round = breaker?.round ?? 0, leaseId = 'l1', nowEpochMs = t0EpochMs, answerMs = 1, slowP95Ms = null as number | null } = {}) {
  const samples = healths.map((health) => ({ health, answerMs }));
  return afterReport(breaker, { leaseId, round, samples }, { ...policy, slowP95Ms }, nowEpochMs);
}

describe('the health of an endpoint', () => {
  it.each<[string, AttemptOutcome, Health]>([
    ...[200, 204, 302, 400, 404, 408, 410, 499].map((status): [string, AttemptOutcome, Health] => [String(status), { kind: 'answered', status, bodyExcerpt: '', ...timed(1) }, 'answered']),
    ...[500, 502, 503, 599, 999].map((status): [string, AttemptOutcome, Health] => [String(status), { kind: 'answered', status, bodyExcerpt: '', ...timed(1) }, 'failed']),
    ['429', { kind: 'answered', status: 429, bodyExcerpt: '', ...timed(1) }, 'throttled'],
    ['200 and a broken body', { kind: 'answered', status: 200, bodyExcerpt: '', cut: 'body ECONNRESET', ...timed(1) }, 'answered'],
    ['silence', { kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timed(1) }, 'failed'],
    ['a socket that was used before and broke', { kind: 'ambiguous', phase: 'headers', cause: 'ECONNRESET', ...timed(1), reused: true }, 'unknown'],
    ['silence on a socket that was used before', { kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timed(1), reused: true }, 'failed'],
    ['a closed port', { kind: 'unsent', phase: 'connect', cause: 'ECONNREFUSED', ...timed(1) }, 'unreachable'],
    ['no such name', { kind: 'unsent', phase: 'dns', cause: 'ENOTFOUND', ...timed(1) }, 'unreachable'],
    ['a certificate that is not trusted', { kind: 'unsent', phase: 'tls', cause: 'SELF_SIGNED_CERT_IN_CHAIN', ...timed(1) }, 'unreachable'],
    ['a connection that was closed before a byte', { kind: 'unsent', phase: 'write', cause: 'EPIPE', ...timed(1) }, 'failed'],
    ['no socket of ours', { kind: 'notStarted', why: 'no-socket' }, 'unknown'],
    ['a configuration that cannot be sent', { kind: 'invalidConfiguration', detail: 'x' }, 'unknown'],
  ])('by %s', (_what, outcome, health) => {
    expect(sampleOf(outcome)).toMatchObject({ health });
  });
});

it('the time of an answer is without the wait for a socket of ours, and without the set-up of a new one', () => {
  const phasesMs = { connection: 2_000, dns: 10, connect: 20, tls: 30, write: 1, headers: 300, body: 40 };
  expect(sampleOf({ kind: 'answered', status: 200, bodyExcerpt: '', durationMs: 2_401, phasesMs, reused: false })).toEqual({ health: 'answered', answerMs: 341 });
  expect(sampleOf({ kind: 'notStarted', why: 'no-time' })).toEqual({ health: 'unknown', answerMs: 0 });
});

describe('a closed breaker', () => {
  it.each<[string, Breaker | undefined, Health[]]>([
    ['nothing was ever wrong', undefined, of('answered', 50)],
    ['nothing is wrong any more', closedBreaker({ round: 2 }), of('answered', 50)],
    ['nothing was sent', closedBreaker({ failed: failedOf(3, 3) }), []],
    ['nothing says anything', closedBreaker({ failed: failedOf(3, 3) }), [...of('unknown', 30), ...of('throttled', 30)]],
  ])('costs no write where %s', (_why, breaker, healths) => {
    expect(after(breaker, healths)).toBeUndefined();
  });

  it('counts from the first failure, successes too', () => {
    const first = after(undefined, ['failed', 'answered']);
    expect(first).toEqual(closedBreaker({ failed: failedOf(2, 1), by: 'l1' }));
    expect(after(first, of('answered', 3), { leaseId: 'l2', nowEpochMs: t0EpochMs + 1 })).toEqual(closedBreaker({ failed: failedOf(5, 1), by: 'l2' }));
  });

  it('opens at half of twenty, and not before', () => {
    const nineteen = closedBreaker({ failed: failedOf(18, 9) });
    expect(after(nineteen, ['failed'])).toMatchObject({ state: 'closed', failed: { attempts: 19, hits: 10 } });
    expect(after(nineteen, ['failed', 'answered'])).toEqual(openBreaker());
    expect(after(closedBreaker({ failed: failedOf(18, 8) }), ['failed', 'answered'])).toMatchObject({ state: 'closed', failed: { attempts: 20, hits: 9 } });
  });

  it('opens by one report that is bad enough', () => {
    expect(after(undefined, of('failed', 20))).toEqual(openBreaker());
  });

  it('opens after five connections in a row that could not be made, however long they take', () => {
    const four = closedBreaker({ failed: failedOf(4, 4, t0EpochMs - 3_600_000), connectFailures: 4 });
    expect(after(four, ['unreachable'])).toEqual(openBreaker({ cause: 'unreachable' }));
    expect(after(four, ['answered'])).toMatchObject({ connectFailures: 0 });
    expect(after(four, ['failed'])).toMatchObject({ state: 'closed', connectFailures: 0 });
    expect(after(four, ['throttled'])).toMatchObject({ connectFailures: 0 });
    expect(after(four, ['unknown'])).toBeUndefined();
  });

  it.each([['it is over', 60_001], ['it began in the future, by another clock', -5_001]])('begins a new window where %s', (_why, ageMs) => {
    const bad = closedBreaker({ failed: failedOf(19, 19) });
    expect(after(bad, ['failed'], { nowEpochMs: t0EpochMs + ageMs })).toEqual(closedBreaker({ failed: failedOf(1, 1, t0EpochMs + ageMs), by: 'l1' }));
    expect(after(bad, ['failed'], { nowEpochMs: t0EpochMs + 60_000 })).toMatchObject({ state: 'open' });
  });

  it('opens where more than one in twenty is slower than the ceiling, whatever the status', () => {
    const slow = (attempts: number, hits: number, sinceEpochMs = t0EpochMs) => closedBreaker({ slow: { sinceEpochMs, attempts, hits } });
    const late = { slowP95Ms: 3_000, answerMs: 3_001 };
    const asSlow = openBreaker({ cause: 'slow', untilEpochMs: t0EpochMs + 600_000 });
    expect(after(slow(19, 1), ['answered'], late)).toEqual(asSlow);
    expect(after(slow(19, 1), ['failed'], late)).toEqual(asSlow);
    expect(after(slow(18, 1), ['answered'], late)).toMatchObject({ state: 'closed', slow: { attempts: 19, hits: 2 } });
    expect(after(slow(19, 1), ['answered'], { ...late, answerMs: 3_000 })).toMatchObject({ state: 'closed', slow: { attempts: 20, hits: 1 } });
    expect(after(slow(39, 1), ['answered'], late)).toMatchObject({ state: 'closed', slow: { attempts: 40, hits: 2 } });
    expect(after(slow(19, 19, t0EpochMs - 300_001), ['answered'], late)).toMatchObject({ state: 'closed', slow: failedOf(1, 1) });
    // What has no answer has no latency of its own, and an endpoint without a ceiling is not watched.
    expect(after(slow(19, 19), of('unreachable', 1), late)).toMatchObject({ state: 'closed', slow: { attempts: 19, hits: 19 } });
    expect(after(slow(19, 19), of('answered', 9), { answerMs: 20_000 })).toBeUndefined();
    expect(after(undefined, ['answered'], { slowP95Ms: 3_000 })).toEqual(closedBreaker({ slow: failedOf(1, 0), by: 'l1' }));
  });

  it('ignores what another round reports', () => {
    for (const round of [0, 2]) expect(after(closedBreaker({ round: 1 }), of('unreachable', 32), { round })).toBeUndefined();
  });
});

describe('an open breaker', () => {
  it('may be tried by one delivery when its time has come', () => {
    const at = (breaker: OpenBreaker, ms: number) => mayProbe(breaker, policy, t0EpochMs + ms);
    expect([at(openBreaker(), 29_999), at(openBreaker(), 30_000)]).toEqual([false, true]);
    expect([at(withCanary, 64_999), at(withCanary, 65_000)]).toEqual([false, true]);
  });

  it('is not held open by a clock that was wrong', () => {
    // Its time and what clocks may differ by, no more: at the cap, for its first opening, and where it was slow.
    const most = [[openBreaker({ trips: 9 }), 905_000], [openBreaker(), 35_000], [openBreaker({ cause: 'slow' }), 605_000]] as const;
    for (const [breaker, ms] of most) {
      const far = { ...breaker, untilEpochMs: t0EpochMs + ms };
      expect([mayProbe(far, policy, t0EpochMs), triedFromEpochMs(far, policy, t0EpochMs)]).toEqual([false, far.untilEpochMs]);
      expect([mayProbe(far, policy, t0EpochMs - 1), triedFromEpochMs(far, policy, t0EpochMs - 1)]).toEqual([true, t0EpochMs - 1]);
    }
    const canary = (ms: number) => mayProbe(openBreaker({ untilEpochMs: t0EpochMs, canary: { leaseId: 'l1', expiresEpochMs: t0EpochMs + ms } }), policy, t0EpochMs);
    expect([canary(910_000), canary(910_001)]).toEqual([false, true]);
  });

  it.each<[string, Health[], Breaker]>([
    ['closes where its canary is answered', ['answered'], closedBreaker({ round: 2, by: 'l1' })],
    ['opens again for twice as long where it fails', ['failed'], openBreaker({ round: 2, trips: 2, untilEpochMs: t0EpochMs + 60_000 })],
    ['opens again for twice as long where there is no connection', ['unreachable'], openBreaker({ round: 2, cause: 'unreachable', trips: 2, untilEpochMs: t0EpochMs + 60_000 })],
    ['opens again for as long where it is asked to wait', ['throttled'], openBreaker({ round: 2, trips: 1 })],
    ['has room for another canary where it sent nothing', [], openBreaker()],
    ['has room for another canary where its answer says nothing', ['unknown'], openBreaker()],
  ])('%s', (_what, healths, expected) => {
    expect(after(withCanary, healths)).toEqual(expected);
  });

  it('stays open where its canary is answered later than the ceiling, and no longer each time', () => {
    const expected = openBreaker({ round: 2, cause: 'slow', trips: 1, untilEpochMs: t0EpochMs + 600_000 });
    expect(after(withCanary, ['answered'], { slowP95Ms: 3_000, answerMs: 3_001 })).toEqual(expected);
    expect(after(withCanary, ['answered'], { slowP95Ms: 3_000, answerMs: 3_000 })).toMatchObject({ state: 'closed' });
  });

  it('doubles its time up to the cap, however often', () => {
    const seconds = (trips: number) => (after({ ...withCanary, trips }, ['failed']) as OpenBreaker).untilEpochMs - t0EpochMs;
    expect([1, 2, 3, 4, 5, 6, 30, 1_100].map(seconds)).toEqual([60, 120, 240, 480, 900, 900, 900, 900].map((s) => s * 1_000));
  });

  it.each([
    ['of an earlier round', { round: 0 }],
    ['of this round, but not the canary\'s', { leaseId: 'l2' }],
    ['of a round to come', { round: 2 }],
  ])('ignores a report %s', (_what, more) => {
    for (const health of ['answered', 'failed', 'unreachable'] as const) expect(after(withCanary, of(health, 32), more)).toBeUndefined();
  });
});

it.each<[string, Breaker | undefined, Breaker | undefined]>([
  ['nothing that was ever counted', undefined, undefined],
  ['nothing that is counted', closedBreaker({ round: 3, by: 'l7' }), undefined],
  ['open', openBreaker({ round: 7 }), closedBreaker({ round: 8, by: '' })],
  ['failures', closedBreaker({ failed: failedOf(9, 1) }), closedBreaker({ round: 1, by: '' })],
  ['slow answers', closedBreaker({ slow: failedOf(9, 0) }), closedBreaker({ round: 1, by: '' })],
  ['connections that failed', closedBreaker({ connectFailures: 1 }), closedBreaker({ round: 1, by: '' })],
])('forgotten is %s, in a new round', (_what, before, expected) => {
  expect(forgotten(before)).toEqual(expected);
});

it('never goes back a round, stays open no longer than its cap, and closes by its canary alone', () => {
  const health = fc.constantFrom<Health>('answered', 'failed', 'unreachable', 'throttled', 'unknown');
  const report = fc.record({ healths: fc.array(health, { maxLength: 8 }), roundsAgo: fc.integer({ min: -1, max: 3 }), isCanary: fc.boolean(), waitsMs: fc.integer({ min: -400_000, max: 400_000 }) });
  fc.assert(
    fc.property(fc.array(report, { maxLength: 60 }), (reports) => {
      let breaker = undefined as Breaker | undefined;
      let nowEpochMs = t0EpochMs;
      for (const { healths, roundsAgo, isCanary, waitsMs } of reports) {
        nowEpochMs += waitsMs;
        if (isCanary && breaker?.state === 'open' && mayProbe(breaker, policy, nowEpochMs)) breaker = { ...breaker, canary: { leaseId: 'canary', expiresEpochMs: nowEpochMs + 35_000 } };
        const before: Breaker | undefined = breaker;
        const next = after(before, healths, { round: (before?.round ?? 0) - roundsAgo, leaseId: isCanary ? 'canary' : 'other', nowEpochMs });
        if (next === undefined) continue;
        expect(roundsAgo).toBe(0);
        expect([0, 1]).toContain(next.round - (before?.round ?? 0));
        if (next.round !== (before?.round ?? 0)) expect(next.state === 'open' ? next.untilEpochMs - nowEpochMs : 0).toBeLessThanOrEqual(policy.maxOpenS * 1_000);
        if (before?.state === 'open') expect(before.canary?.leaseId).toBe(isCanary ? 'canary' : 'other');
        if (next.state === 'closed' && before?.state === 'open') expect(healths).toContain('answered');
        breaker = next;
      }
    }),
    { numRuns: 500 },
  );
});
