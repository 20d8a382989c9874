import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffMs } from '../../lambdas/shared/core/backoff.ts';
import { configOf } from '../support/builders.ts';
import { retryPolicy } from '../support/policy-arbitraries.ts';

const policy = (retry: Record<string, unknown> = {}) => configOf({ retry }).retry;
const almostOne = 1 - Number.EPSILON / 2;

describe('backoffMs', () => {
  it.each([
    [1, 5_000],
    [2, 20_000],
    [3, 80_000],
    [4, 320_000],
    [8, 81_920_000],
    [9, 86_400_000],
    [31, 86_400_000],
    [32, 86_400_000],
    [33, 86_400_000],
    [1_100, 86_400_000],
    [Number.MAX_SAFE_INTEGER, 86_400_000],
    [Infinity, 86_400_000],
    [NaN, 86_400_000],
    [0, 5_000],
    [-3, 5_000],
    [2.7, 20_000],
  ])('the ceiling after attempt %d is %d ms', (attempt, ceilingMs) => {
    expect(backoffMs(policy(), attempt, almostOne)).toBe(ceilingMs);
  });

  it('spreads full jitter from a second to the ceiling, and equal jitter over its upper half', () => {
    expect(backoffMs(policy(), 2, 0)).toBe(1_000);
    expect(backoffMs(policy(), 2, 0.5)).toBe(10_000);
    expect(backoffMs(policy({ jitter: 'equal' }), 2, 0)).toBe(10_000);
    expect(backoffMs(policy({ jitter: 'equal' }), 2, 0.5)).toBe(15_000);
  });

  it('takes a list as it is, and its last entry for whatever comes later', () => {
    const list = policy({ delaysS: [1, 60, 7], jitter: 'equal' });
    expect([1, 2, 3, 4, 500, NaN].map((attempt) => backoffMs(list, attempt, almostOne))).toEqual([1_000, 60_000, 7_000, 7_000, 7_000, 7_000]);
  });

  it('does not grow with factor 1', () => {
    expect([1, 2, 50].map((attempt) => backoffMs(policy({ factor: 1 }), attempt, almostOne))).toEqual([5_000, 5_000, 5_000]);
  });

  it('is a finite integer between a second and the cap, for any policy, attempt and chance', () => {
    fc.assert(
      fc.property(retryPolicy, fc.oneof(fc.integer({ min: 1, max: 2_000 }), fc.double()), fc.double({ min: 0, max: almostOne, noNaN: true }), (retry, attempt, random) => {
        const waitMs = backoffMs(retry, attempt, random);
        const mostS = retry.delaysS === undefined ? retry.capS : Math.max(...retry.delaysS);
        expect(Number.isInteger(waitMs)).toBe(true);
        expect(waitMs).toBeGreaterThanOrEqual(1_000);
        expect(waitMs).toBeLessThanOrEqual(mostS * 1_000);
      }),
      { numRuns: 500 },
    );
  });

  it('never shrinks with the attempts, at equal chance', () => {
    fc.assert(
      fc.property(retryPolicy.filter((r) => r.delaysS === undefined), fc.integer({ min: 1, max: 60 }), fc.double({ min: 0, max: almostOne, noNaN: true }), (retry, attempt, random) => {
        expect(backoffMs(retry, attempt + 1, random)).toBeGreaterThanOrEqual(backoffMs(retry, attempt, random));
      }),
    );
  });
});
