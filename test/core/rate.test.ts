import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { spend } from '../../lambdas/shared/core/rate.ts';
import { t0EpochMs } from '../support/builders.ts';

/** What a bucket that is full holds; below one request more than goes at once. */
const burstOf = (perSecond: number) => Math.max(1, perSecond);

describe('a rate', () => {
  it.each([
    [1, 1], [3, 3], [5, 5], [7, 7], [1_000, 1_000], [0.5, 1], [0.01, 1], [2.5, 2], [1.9, 1],
  ])('of %d a second lets %d go at once after a pause, and then one for each interval', (perSecond, burst) => {
    const first = spend(undefined, 5_000, perSecond, t0EpochMs);
    expect(first.requests).toBe(burst);
    expect(spend(first.nextAtEpochMs, 1, perSecond, t0EpochMs).requests).toBe(0);
    expect(spend(first.nextAtEpochMs, 1, perSecond, t0EpochMs + Math.ceil(1_000 / perSecond)).requests).toBe(1);
    expect(spend(first.nextAtEpochMs, 5_000, perSecond, t0EpochMs + 3_600_000).requests).toBe(burst);
  });

  it.each([501, 700, 999, 300])('of %d a second is kept where each is asked for by itself', (perSecond) => {
    let next: number | undefined;
    let sent = 0;
    for (let ms = 0; ms < 10_000; ms++) {
      for (;;) {
        const spent = spend(next, 1, perSecond, t0EpochMs + ms);
        if (spent.requests === 0) break;
        next = spent.nextAtEpochMs;
        sent++;
      }
    }
    expect(sent / (10 * perSecond + perSecond)).toBeGreaterThan(0.99);
  });

  it('is not spent by what is not asked for, nor by asking in vain', () => {
    expect(spend(undefined, 2, 10, t0EpochMs)).toEqual({ requests: 2, nextAtEpochMs: t0EpochMs + 200 });
    expect(spend(undefined, 0, 10, t0EpochMs)).toEqual({ requests: 0, nextAtEpochMs: t0EpochMs });
    expect(spend(t0EpochMs + 1_000, 3, 10, t0EpochMs)).toEqual({ requests: 0, nextAtEpochMs: t0EpochMs + 1_000 });
  });

  it('waits for a clock that is a little ahead, and not for one that is wrong', () => {
    expect(spend(t0EpochMs + 6_000, 1, 1, t0EpochMs).requests).toBe(0);
    expect(spend(t0EpochMs + 6_001, 1, 1, t0EpochMs)).toEqual({ requests: 1, nextAtEpochMs: t0EpochMs + 1_000 });
    // No burst: two clocks that disbelieve each other would else lift the rate.
    expect(spend(t0EpochMs + 86_400_000, 50, 10, t0EpochMs)).toEqual({ requests: 1, nextAtEpochMs: t0EpochMs + 1_000 });
  });

  it('is never passed, in any stretch of time, however it is asked', () => {
    const perSecond = fc.oneof(fc.integer({ min: 1, max: 50 }), fc.double({ min: 0.01, max: 50, noNaN: true }));
    const asked = fc.array(fc.tuple(fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 1, max: 30 })), { maxLength: 60 });
    fc.assert(
      fc.property(perSecond, asked, (rate, asks) => {
        let nowEpochMs = t0EpochMs;
        let next: number | undefined;
        const sent: [number, number][] = [];
        for (const [waitMs, wanted] of asks) {
          nowEpochMs += waitMs;
          const { requests, nextAtEpochMs } = spend(next, wanted, rate, nowEpochMs);
          expect(requests).toBeLessThanOrEqual(wanted);
          expect(Number.isInteger(Math.round(nextAtEpochMs * 1_000)) && nextAtEpochMs >= (next ?? 0)).toBe(true);
          next = nextAtEpochMs;
          sent.push([nowEpochMs, requests]);
        }
        for (const [i, [fromMs]] of sent.entries()) {
          let sum = 0;
          for (const [toMs, requests] of sent.slice(i)) {
            sum += requests;
            expect(sum).toBeLessThanOrEqual(((toMs - fromMs) / 1_000) * rate + burstOf(rate) + 1e-3);
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});
