/** When an endpoint asks to be called again (R5). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hintedMs, hintedWaitMs, hintsOf, type Hints } from '../../lambdas/shared/core/hints.ts';

/** 2026-10-21 07:00:00 UTC, a Wednesday. */
const nowEpochMs = Date.UTC(2026, 9, 21, 7);
const capMs = 86_400_000;
const minute = 60_000;
const after = (hints: Hints) => hintedMs(hints, capMs, nowEpochMs);

/** Value of Retry-After, and the wait in milliseconds; undefined: it says nothing. */
const retryAfters: [string, number | undefined][] = [
  ['0', 0],
  ['1', 1_000],
  ['120', 120_000],
  ['0120', 120_000],
  ['86399', 86_399_000],
  ['86400', capMs],
  ['86401', capMs],
  ['9999999999', capMs],
  ['9'.repeat(64), capMs],
  ['Wed, 21 Oct 2026 07:28:00 GMT', 28 * minute],
  ['Wed, 21 Oct 2026 07:00:00 GMT', 0],
  ['Wed, 21 Oct 2026 06:59:59 GMT', 0],
  ['Sun, 06 Nov 1994 08:49:37 GMT', 0],
  ['Fri, 31 Dec 9999 23:59:59 GMT', capMs],
  ['Wed, 21 Oct 2026 07:00:60 GMT', minute],
  ['Wednesday, 21-Oct-26 07:28:00 GMT', 28 * minute],
  ['Friday, 21-Oct-77 07:28:00 GMT', 0],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 0],
  ['Wed Oct 21 07:28:00 2026', 28 * minute],
  ['Thu Oct 22 06:00:00 2026', 23 * 60 * minute],
  ['Sun Nov  6 08:49:37 1994', 0],
  ['', undefined],
  [' ', undefined],
  ['soon', undefined],
  ['NaN', undefined],
  ['Infinity', undefined],
  ['-1', undefined],
  ['-0', undefined],
  ['+5', undefined],
  ['1.5', undefined],
  ['1e3', undefined],
  ['0x10', undefined],
  ['120s', undefined],
  ['120, 240', undefined],
  ['120;', undefined],
  ['١٢٠', undefined],
  ['2026-10-21T07:28:00Z', undefined],
  ['21 Oct 2026 07:28:00 GMT', undefined],
  ['Wed, 21 Oct 2026 07:28:00', undefined],
  ['Wed, 21 Oct 2026 07:28:00 CEST', undefined],
  ['Wed, 21 Oct 2026 07:28:00 +0200', undefined],
  ['wed, 21 oct 2026 07:28:00 gmt', undefined],
  ['Wed, 1 Oct 2026 07:28:00 GMT', undefined],
  ['Wed, 31 Sep 2026 07:28:00 GMT', undefined],
  ['Wed, 00 Oct 2026 07:28:00 GMT', undefined],
  ['Sun, 29 Feb 2026 07:28:00 GMT', undefined],
  ['Tue, 29 Feb 2028 07:28:00 GMT', capMs],
  ['Wed, 21 Oct 2026 24:00:00 GMT', undefined],
  ['Wed, 21 Oct 2026 07:60:00 GMT', undefined],
  ['Wed, 21 Oct 2026 07:28:61 GMT', undefined],
  ['Wed, 21 Oct 2026 07:28:00 GMT ', undefined],
  ['Wed, 21 Oct 0026 07:28:00 GMT', 0],
];

/** Value of X-RateLimit-Reset. */
const resets: [string, number | undefined][] = [
  ['30', 30_000],
  ['0', 0],
  ['1.5', 1_500],
  ['999999999', capMs],
  [String(nowEpochMs / 1_000 + 90), 90_000],
  [`${nowEpochMs / 1_000 + 90}.25`, 90_250],
  [String(nowEpochMs + 90_000), 90_000],
  [String(nowEpochMs / 1_000 - 90), 0],
  ['1000000000', 0],
  ['9'.repeat(64), capMs],
  ['-30', undefined],
  ['30s', undefined],
  ['.5', undefined],
  ['1,5', undefined],
  ['Wed, 21 Oct 2026 07:28:00 GMT', undefined],
  ['', undefined],
];

describe('hintedMs', () => {
  it.each(retryAfters)('Retry-After: %j is %s ms', (retryAfter, expected) => {
    expect(after({ retryAfter })).toBe(expected);
  });

  it.each(resets)('X-RateLimit-Reset: %j is %s ms', (rateLimitReset, expected) => {
    expect(after({ rateLimitReset })).toBe(expected);
  });

  it('takes Retry-After first, and the other one where that says nothing', () => {
    expect(after({ retryAfter: '7', rateLimitReset: '30' })).toBe(7_000);
    expect(after({ retryAfter: 'soon', rateLimitReset: '30' })).toBe(30_000);
    expect(hintedMs(undefined, capMs, nowEpochMs)).toBeUndefined();
  });

  it('reads every second of several years as the calendar has it', () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 253_402_300_799 }), (epochS) => {
      const text = new Date(epochS * 1_000).toUTCString();
      expect(hintedMs({ retryAfter: text }, Infinity, 0)).toBe(epochS * 1_000);
    }));
  });
});

describe('hintsOf', () => {
  it('reads what a 429 or a 503 says, and nothing of other answers', () => {
    const headers = { 'retry-after': '7', 'x-ratelimit-reset': '30' };
    expect(hintsOf(429, headers)).toEqual({ retryAfter: '7', rateLimitReset: '30' });
    expect(hintsOf(503, { 'retry-after': '7' })).toEqual({ retryAfter: '7' });
    for (const status of [200, 301, 400, 408, 500, 502, 504]) expect(hintsOf(status, headers)).toBeUndefined();
    expect(hintsOf(503, {})).toBeUndefined();
  });

  it('takes a header that came twice, or is longer than any hint, for none', () => {
    expect(hintsOf(429, { 'retry-after': ['7', '8'] })).toBeUndefined();
    expect(hintsOf(429, { 'retry-after': '7'.repeat(65), 'x-ratelimit-reset': '30' })).toEqual({ rateLimitReset: '30' });
  });
});

/** Anything that a header may hold, more often what looks like a hint. */
const headerText = fc.oneof(
  fc.string({ maxLength: 80 }), fc.bigInt().map(String), fc.double().map(String), fc.nat().map(String),
  fc.date({ noInvalidDate: false }).map((date) => (Number.isNaN(date.getTime()) ? 'Invalid Date' : date.toUTCString())),
);

describe('no input', () => {
  it('yields a wait that is negative, not finite, or beyond the cap; nor one of nothing', () => {
    fc.assert(fc.property(headerText, headerText, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.integer({ min: 1_000, max: capMs }), fc.nat(2 ** 45), (retryAfter, rateLimitReset, random, mostMs, atEpochMs) => {
      const hintMs = hintedMs(hintsOf(503, { 'retry-after': retryAfter, 'x-ratelimit-reset': rateLimitReset }), mostMs, atEpochMs);
      if (hintMs === undefined) return;
      expect(hintMs).toBeGreaterThanOrEqual(0);
      expect(hintMs).toBeLessThanOrEqual(mostMs);
      const waitMs = hintedWaitMs(hintMs, mostMs, random);
      expect(Number.isSafeInteger(waitMs)).toBe(true);
      expect(waitMs).toBeGreaterThanOrEqual(Math.min(1_000, mostMs));
      expect(waitMs).toBeLessThanOrEqual(mostMs);
      // Never before it was asked for, but where the cap forbids it.
      expect(waitMs).toBeGreaterThanOrEqual(Math.min(hintMs, mostMs - 3_000));
    }), { numRuns: 2_000 });
  });

  it.each([[0, 0, 1_000], [0, 0.5, 2_000], [120_000, 0.5, 122_000], [capMs, 0, capMs - 2_000], [capMs, 0.999, capMs - 2]])('%d ms with the chance %d is %d ms', (hintMs, random, expected) => {
    expect(hintedWaitMs(hintMs, capMs, random)).toBe(expected);
  });
});
