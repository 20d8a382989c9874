import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { afterAttempt, afterReap, dead, reasonToGiveUp, type CountedOutcome } from '../../lambdas/shared/core/decide.ts';
import { assertTransition, type AttemptEntry, type DeliveryRecord, type WaitingRecord } from '../../lambdas/shared/core/record.ts';
import { records } from '../../lambdas/shared/limits/numbers.ts';
import { configOf, t0EpochMs, timed, waitingOf } from '../support/builders.ts';
import { countedOutcome, endpointConfig } from '../support/policy-arbitraries.ts';

const verdict = { nowEpochMs: t0EpochMs + 10_000, random: 0.5, leaseId: 'lease-1' };
const answered = (status: number, bodyExcerpt = ''): CountedOutcome => ({ kind: 'answered', status, bodyExcerpt, ...timed(120) });
const ambiguous: CountedOutcome = { kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timed(10_000) };
const unsent: CountedOutcome = { kind: 'unsent', phase: 'connect', cause: 'ECONNREFUSED', ...timed(3) };
const after = (outcome: CountedOutcome, config: Record<string, unknown> = {}, record: Partial<WaitingRecord> = {}) =>
  afterAttempt(waitingOf(record), outcome, configOf(config), verdict);

const waitingRecord = fc
  .record({
    generation: fc.nat(5), attempt: fc.nat(30), ambiguous: fc.nat(5), resend: fc.nat(5),
    firstEpochMs: fc.integer({ min: t0EpochMs - 1e9, max: t0EpochMs }), dueEpochMs: fc.integer({ min: t0EpochMs - 1e9, max: t0EpochMs }),
  })
  .map((overrides) => waitingOf(overrides));

describe('afterAttempt', () => {
  it.each<[string, CountedOutcome, object]>([
    ['2xx', answered(204), { state: 'delivered', attempt: 1 }],
    ['3xx', answered(302), { state: 'dead', phase: 'burying', reason: 'redirected', detail: 'status 302' }],
    ['422', answered(422), { state: 'dead', reason: 'rejected' }],
    ['401', answered(401), { state: 'dead', reason: 'unauthorized' }],
    ['410', answered(410), { state: 'dead', reason: 'gone' }],
    ['429', answered(429), { state: 'waiting', attempt: 1, ambiguous: 0 }],
    ['503', answered(503), { state: 'waiting', attempt: 1, ambiguous: 0 }],
    ['ambiguous', ambiguous, { state: 'waiting', attempt: 1, ambiguous: 1 }],
    ['unsent', unsent, { state: 'waiting', attempt: 1, ambiguous: 0 }],
    ['invalid configuration', { kind: 'invalidConfiguration', detail: 'bad header' }, { state: 'dead', phase: 'burying', reason: 'invalid-configuration', detail: 'bad header', attempt: 0 }],
  ])('%s', (_why, outcome, expected) => {
    expect(after(outcome)).toMatchObject(expected);
  });

  describe('where the endpoint says when to come again', () => {
    const hinting = (status: number, retryAfter: string): CountedOutcome => ({ kind: 'answered', status, bodyExcerpt: '', hints: { retryAfter }, ...timed(120) });
    const dueAfterMs = (outcome: CountedOutcome, attempt = 0, retry = {}) => {
      const next = after(outcome, { retry }, { attempt });
      return next.state === 'waiting' ? next.dueEpochMs - verdict.nowEpochMs : next;
    };

    it.each([
      ['later than its backoff', '3600', 0, 3_602_000],
      ['sooner than its backoff', '1', 5, 3_000],
      ['at once', '0', 5, 2_000],
      ['sooner, past half of its attempts: then the backoff counts', '1', 6, 10_240_000],
      ['later, past half of its attempts', '20000', 6, 20_002_000],
      ['in a form that nobody knows: the backoff counts', 'soon', 1, 10_000],
    ])('waits as it says: %s', (_how, retryAfter, attempt, expected) => {
      expect(dueAfterMs(hinting(503, retryAfter), attempt)).toBe(expected);
      expect(dueAfterMs(hinting(429, retryAfter), attempt)).toBe(expected);
    });

    it('waits no longer than its policy allows, and gives up what would be too old by then', () => {
      expect(dueAfterMs(hinting(503, '9999999999'), 0, { capS: 600 })).toBe(599_000);
      expect(dueAfterMs(hinting(503, '9999999999'))).toBe(86_399_000);
      expect(dueAfterMs(hinting(503, '7200'), 0, { maxAgeS: 3_600 })).toMatchObject({ state: 'dead', reason: 'expired' });
    });

    it('keeps in the history what it asked for', () => {
      expect(after(hinting(503, '120')).history).toMatchObject([{ detail: '503, asks for 120 s' }]);
      expect(after(hinting(503, 'soon')).history).toMatchObject([{ detail: '503' }]);
    });
  });

  it('waits by the policy\'s backoff', () => {
    expect(after(answered(500), {}, { attempt: 1 })).toMatchObject({ attempt: 2, dueEpochMs: verdict.nowEpochMs + 10_000 });
  });

  it('retries what was rejected only where the endpoint asks for it', () => {
    expect(after(answered(404), { onRejected: 'retry' })).toMatchObject({ state: 'waiting', attempt: 1 });
    expect(after(answered(200), { onRejected: 'retry' })).toMatchObject({ state: 'delivered' });
  });

  it('gives up after the last attempt, and where the next one would come too late', () => {
    expect(after(answered(500), { retry: { attempts: 2 } }, { attempt: 1 })).toMatchObject({ state: 'dead', reason: 'exhausted', attempt: 2 });
    const old = { firstEpochMs: verdict.nowEpochMs - 60_000 };
    expect(after(answered(500), { retry: { maxAgeS: 60 } }, old)).toMatchObject({ state: 'dead', reason: 'expired' });
    expect(after(answered(200), { retry: { maxAgeS: 60, attempts: 1 } }, old)).toMatchObject({ state: 'delivered' });
  });

  it('says who wrote the verdict, and what happened', () => {
    const record = after(answered(503, 'busy'));
    expect(record.lastLease).toEqual({ leaseId: 'lease-1', kind: 'settled' });
    expect(record.history).toEqual([{ atEpochMs: verdict.nowEpochMs - 120, durationMs: 120, generation: 0, outcome: 'answered', detail: '503', bodyExcerpt: 'busy' }]);
    expect(after(ambiguous).history[0]).toMatchObject({ outcome: 'ambiguous', detail: 'headers timeout' });
    expect(after(unsent).history[0]).toMatchObject({ outcome: 'unsent', detail: 'connect ECONNREFUSED' });
    expect(after({ ...answered(503), cut: 'body timeout' } as CountedOutcome).history[0]).toMatchObject({ outcome: 'answered', detail: '503, then body timeout' });
  });

  it('is a legal transition for any record, outcome, policy and chance', () => {
    fc.assert(
      fc.property(waitingRecord, countedOutcome, endpointConfig, fc.double({ min: 0, max: 0.999999, noNaN: true }), (record, outcome, config, random) => {
        const next = afterAttempt(record, outcome, config, { ...verdict, random });
        assertTransition(record, next);
        expect(next.attempt).toBe(record.attempt + (outcome.kind === 'invalidConfiguration' ? 0 : 1));
        expect(next.state === 'delivered').toBe(outcome.kind === 'answered' && outcome.status >= 200 && outcome.status < 300);
        if (next.state === 'waiting') {
          expect(Number.isInteger(next.dueEpochMs) && next.dueEpochMs > verdict.nowEpochMs).toBe(true);
          expect(next.dueEpochMs).toBeLessThanOrEqual(record.firstEpochMs + config.retry.maxAgeS * 1_000);
          expect(next.attempt).toBeLessThan(config.retry.attempts);
        }
        expectSameIdentity(record, next);
      }),
      { numRuns: 500 },
    );
  });
});

function expectSameIdentity(from: DeliveryRecord, to: DeliveryRecord): void {
  const { endpointId, recordKey, eventId, payloadHash, generation, resend, firstEpochMs } = from;
  expect(to).toMatchObject({ endpointId, recordKey, eventId, payloadHash, generation, resend, firstEpochMs });
}

describe('what the record says of an answer', () => {
  it.each<[Partial<CountedOutcome & { kind: 'answered' }>, string, string | undefined]>([
    [{ status: 200 }, '200', undefined],
    [{ status: 200, cut: 'body timeout' }, '200, then body timeout', undefined],
    [{ status: 302, redirectsTo: 'https://elsewhere.example' }, '302 to https://elsewhere.example', 'status 302 to https://elsewhere.example'],
    [{ status: 404, cut: 'body ECONNRESET' }, '404, then body ECONNRESET', 'status 404'],
  ])('%o: %s', (answer, entry, why) => {
    const record = after({ ...answered(200), ...answer } as CountedOutcome);
    expect(record.history.at(-1)?.detail).toBe(entry);
    expect(record.state === 'dead' ? record.detail : undefined).toBe(why);
  });
});

describe('afterReap', () => {
  it('counts one ambiguous attempt, due at once or as it was, and is a legal transition', () => {
    fc.assert(
      fc.property(waitingRecord, (record) => {
        const next = afterReap(record, 'lease-9', verdict.nowEpochMs, configOf());
        assertTransition(record, next);
        expect(next).toMatchObject({ state: 'waiting', attempt: record.attempt + 1, ambiguous: record.ambiguous + 1, dueEpochMs: Math.min(record.dueEpochMs, verdict.nowEpochMs), lastLease: { leaseId: 'lease-9', kind: 'reaped' } });
        expectSameIdentity(record, next);
      }),
    );
  });
});

describe('reasonToGiveUp', () => {
  const config = configOf({ retry: { attempts: 3, maxAgeS: 60 } });
  it.each([
    [2, 60_000, undefined],
    [3, 0, 'exhausted'],
    [9, 0, 'exhausted'],
    [0, 60_001, 'expired'],
    [3, 60_001, 'exhausted'],
  ])('after %d attempts and %d ms: %s', (attempt, ageMs, reason) => {
    expect(reasonToGiveUp(waitingOf({ attempt, firstEpochMs: t0EpochMs - ageMs }), config, t0EpochMs)).toBe(reason);
  });
});

describe('history', () => {
  const entry = (n: number): AttemptEntry => ({ atEpochMs: n, durationMs: 1, generation: 0, outcome: 'answered', detail: '500', bodyExcerpt: `body ${n}` });

  it('keeps the first entry and the newest, and an excerpt on the newest only', () => {
    let record: DeliveryRecord = waitingOf({ history: [entry(1)] });
    for (let n = 0; n < 30; n++) record = { ...after(answered(500, `body ${n}`), { retry: { attempts: 25 } }, { history: record.history }), attempt: 0 };
    expect(record.history).toHaveLength(records.maxHistory);
    expect(record.history[0]?.atEpochMs).toBe(1);
    expect(record.history.map((h) => h.bodyExcerpt)).toEqual([...Array<undefined>(records.maxHistory - 1).fill(undefined), 'body 29']);
  });
});

describe('dead', () => {
  it('drops what only a waiting record has', () => {
    const record = dead(waitingOf(), 'disabled', 'x');
    expect(record).toMatchObject({ state: 'dead', phase: 'burying', reason: 'disabled', detail: 'x' });
    expect(Object.keys(record)).not.toContain('dueEpochMs');
    expect(Object.keys(record)).not.toContain('home');
  });
});
