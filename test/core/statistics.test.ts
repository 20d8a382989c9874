import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CountedOutcome } from '../../lambdas/shared/core/decide.ts';
import {
  binOf, boundedBin, countIn, emptyTally, isEmpty, isOver, merged, mergedBins, msOf, percentile, percentilesOf, tallyOf, type Bins, type Window,
} from '../../lambdas/shared/core/statistics.ts';
import { statistics as limits } from '../../lambdas/shared/limits/numbers.ts';
import { t0EpochMs, timed } from '../support/builders.ts';

const binsOf = (durations: readonly number[]): Bins => mergedBins(...durations.map((ms) => new Map([[binOf(ms), 1]])));
const windowOf = (more: Partial<Window> = {}): Window => ({ ...emptyTally, sinceEpochMs: t0EpochMs, ...more });
const fresh = { window: undefined, inFlight: 1, offered: 0, cutOff: 0 };
const duration = fc.oneof(fc.integer({ min: limits.minMs, max: 200 }), fc.integer({ min: limits.minMs, max: limits.maxMs }));

describe('a percentile', () => {
  it('is within 5 % of the exact one, whatever the durations, and however they were merged', () => {
    fc.assert(fc.property(fc.array(duration, { minLength: 1, maxLength: 300 }), fc.constantFrom(0.5, 0.95, 0.99), fc.nat(), (durations, share, cut) => {
      const at = cut % (durations.length + 1);
      const found = percentile(mergedBins(binsOf(durations.slice(0, at)), binsOf(durations.slice(at))), share);
      const sorted = durations.toSorted((a, b) => a - b);
      const exact = sorted[Math.ceil(share * sorted.length - limits.rankGrain) - 1] as number;
      // Rounded to whole milliseconds.
      expect(Math.abs((found as number) - exact)).toBeLessThanOrEqual(0.05 * exact + 0.5);
    }));
  });

  it.each([[[], undefined], [[0], limits.minMs], [[-5, Number.MIN_VALUE], limits.minMs], [[1e12, Infinity], limits.maxMs]] as [number[], number | undefined][])(
    'of %j is at a bound, or none', (durations, bound) => {
      const found = percentile(binsOf(durations), 0.99);
      expect(found === undefined ? found : Math.abs(found - (bound as number)) <= 0.05 * (bound as number) + 0.5).toBe(bound === undefined ? undefined : true);
    });

  it('of twenty leaves one beyond the 95th, and of a hundred one beyond the 99th', () => {
    const one = [...Array<number>(19).fill(100), 5_000];
    expect(percentile(binsOf(one), 0.95)).toBe(msOf(binOf(100)));
    expect(percentile(binsOf([...one, 5_000]), 0.95)).toBe(msOf(binOf(5_000)));
    expect(percentile(binsOf([...Array<number>(99).fill(100), 5_000]), 0.99)).toBe(msOf(binOf(100)));
  });
});

describe('the bins of a lane', () => {
  it('stay bounded, and never make a duration look quicker, nor slower by much', () => {
    fc.assert(fc.property(fc.array(duration, { minLength: 1, maxLength: 200 }), (durations) => {
      const known = new Set<number>();
      for (const ms of durations) {
        const bin = boundedBin(ms, known);
        expect(bin).toBeGreaterThanOrEqual(binOf(ms));
        expect(msOf(bin)).toBeLessThanOrEqual(1.5 * Math.max(ms, limits.minMs));
        known.add(bin);
      }
      expect(known.size).toBeLessThanOrEqual(limits.maxBins + (binOf(limits.maxMs) - binOf(limits.minMs)) / limits.coarseBins + 2);
    }));
  });

  it('are exact while they are few', () => {
    expect([10, 11, 20_000].map((ms) => boundedBin(ms, new Set([binOf(400)])))).toEqual([10, 11, 20_000].map(binOf));
  });
});

describe('what a lease counts for', () => {
  const ok: CountedOutcome = { kind: 'answered', status: 204, bodyExcerpt: '', ...timed(260), phasesMs: { connection: 10, connect: 30, tls: 20, write: 1, headers: 200, body: 4 } };
  const outcomes: CountedOutcome[] = [
    ok,
    { kind: 'answered', status: 503, bodyExcerpt: '', ...timed(50) },
    { kind: 'answered', status: 302, bodyExcerpt: '', ...timed(60) },
    { kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timed(10_000.4) },
    { kind: 'unsent', phase: 'connect', cause: 'timeout', ...timed(3_000) },
    { kind: 'unsent', phase: 'write', cause: 'EPIPE', ...timed(2) },
    { kind: 'invalidConfiguration', detail: 'x' },
  ];

  it('is its attempts by how they ended, their time in a slot, and their time from the socket on', () => {
    const tally = tallyOf(outcomes, { ...fresh, offered: 4, inFlight: 3, cutOff: 1 });
    expect(tally).toMatchObject({ attempts: 6, delivered: 1, unconnected: 1, cutOff: 1, inFlight: 18, offered: 4, shed: 0, busyMs: 260 + 50 + 60 + 10_000 + 3_000 + 2 });
    expect([...tally.answers]).toEqual([[binOf(250), 1]]);
    expect([countIn(tally.failures), tally.failures.get(binOf(10_000))]).toEqual([5, 1]);
    expect(tallyOf([ok, ok], fresh).answers.get(binOf(250))).toBe(2);
    expect([isEmpty(tallyOf([{ kind: 'invalidConfiguration', detail: 'x' }], fresh)), isEmpty(tallyOf([], { ...fresh, offered: 1 })), isEmpty(tallyOf([ok], fresh))]).toEqual([true, false, false]);
  });

  it('is counted more coarsely where the lane has many bins, and never by one that is far away', () => {
    // A failure that took its whole time, and quick answers enough to fill the rest.
    const before = windowOf({ failures: new Map([[binOf(15_000), 1]]), answers: new Map([...Array(limits.maxBins - 1).keys()].map((i) => [20 + i, 1])) });
    const [bin] = [...tallyOf([{ ...ok, durationMs: 600, phasesMs: {} }], { ...fresh, window: before }).answers.keys()];
    expect(bin).toBe(Math.ceil(binOf(600) / limits.coarseBins) * limits.coarseBins);
  });

  it('adds up, in any order', () => {
    const [a, b] = [tallyOf(outcomes, { ...fresh, offered: 1 }), { ...tallyOf([ok], { ...fresh, offered: 2 }), shed: 3 }];
    expect(merged(a, b)).toEqual({ ...merged(b, a), answers: merged(a, b).answers, failures: merged(a, b).failures });
    expect(merged(a, b)).toMatchObject({ attempts: 7, delivered: 2, offered: 3, shed: 3 });
    expect(percentilesOf(merged(a, b))).toEqual({ p50: msOf(binOf(250)), p95: msOf(binOf(10_000)), p99: msOf(binOf(10_000)) });
    expect(percentilesOf(emptyTally)).toBeUndefined();
  });
});

it.each([
  [299, 1_000, 0, false], [300, 19, 0, false], [420, 20, 0, true], [420, 0, 20, true], [3_599, 1, 0, false], [3_600, 1, 0, true], [-5, 1_000, 0, false],
])('a window of %d s with %d attempts and %d sheds is over: %s', (ageS, attempts, shed, expected) => {
  for (const endpointId of ['acme', 'other', 'e1', 'e2', 'e3']) expect(isOver(endpointId, windowOf({ attempts, shed }), t0EpochMs + ageS * 1_000)).toBe(expected);
});

it('windows that began together end in different runs of the sweep', () => {
  const endsS = (endpointId: string) => [...Array(limits.spreadS + 1).keys()].find((s) => isOver(endpointId, windowOf({ attempts: 100 }), t0EpochMs + (limits.windowS + s) * 1_000)) as number;
  const minutes = Map.groupBy([...Array(300).keys()].map((i) => endsS(`customer-${i}`)), (s) => Math.floor(s / 60));
  expect([...minutes.values()].map((some) => some.length).every((n) => n > 75)).toBe(true);
});
