import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectedAnswerMs, learnedAfter, readBudgetOf, type Tried } from '../../lambdas/shared/core/adaptive.ts';
import type { Lane } from '../../lambdas/shared/core/lane.ts';
import { binOf, emptyTally, msOf, type Window } from '../../lambdas/shared/core/statistics.ts';
import { adaptive as limits } from '../../lambdas/shared/limits/numbers.ts';
import { closedBreaker, endpointOf, openBreaker, t0EpochMs } from '../support/builders.ts';

const slots = 8;
const { config } = endpointOf({ adaptiveRead: { minMs: 3_000, maxMs: 15_000 } });
const fresh: Tried = { attempt: 0, ambiguous: 0, firstEpochMs: t0EpochMs, isPing: false };

/** So many answers of one duration, with the lane full unless `atOnce` says otherwise, and what else ended. */
function windowOf(answers: number, ms: number, { failed = 0, cutOff = 0, atOnce = slots } = {}): Window {
  const attempts = answers + failed + cutOff;
  return { ...emptyTally, sinceEpochMs: t0EpochMs, attempts, delivered: answers, cutOff, inFlight: atOnce * attempts, answers: new Map([[binOf(ms), answers]]) };
}
const budgetOf = (window: Window | undefined, learnedMs?: number, tried = fresh, breaker?: Lane['breaker']) => readBudgetOf(config, { slots, learnedMs, window, breaker }, tried, t0EpochMs);
const about = (ms: number) => msOf(binOf(ms));

describe('an adaptive read budget', () => {
  it('is three times the p99, between its bounds', () => {
    expect(budgetOf(windowOf(100, 200))).toEqual({ readMs: 3_000, isTight: true });
    expect(budgetOf(windowOf(100, 2_000))).toEqual({ readMs: limits.factor * about(2_000), isTight: true });
    expect(budgetOf(windowOf(100, 6_000))).toEqual({ readMs: 15_000, isTight: false });
  });

  it('is the longest while nothing is known: of few answers, or of none', () => {
    for (const window of [undefined, windowOf(limits.minAnswers - 1, 200)]) expect(budgetOf(window)).toEqual({ readMs: 15_000, isTight: false });
    expect(budgetOf(windowOf(limits.minAnswers, 200)).isTight).toBe(true);
  });

  it('is what the endpoint says, where it is not adaptive', () => {
    expect(readBudgetOf(endpointOf({ budgetsMs: { ...config.budgetsMs, read: 700 } }).config, { slots, learnedMs: 200, window: windowOf(100, 200), breaker: undefined }, fresh, t0EpochMs)).toEqual({ readMs: 700, isTight: false });
  });

  it.each<[string, Partial<Tried>, Lane['breaker']]>([
    ['what may have been cut off before', { ambiguous: 1 }, undefined],
    ['a later attempt, which may be the last', { attempt: 1 }, undefined],
    ['an old one, which may have no other', { firstEpochMs: t0EpochMs - config.retry.maxAgeS * 500 }, undefined],
    ['an operator\'s question', { isPing: true }, undefined],
    ['a canary', {}, openBreaker()],
  ])('is the longest for %s', (_what, more, breaker) => {
    expect(budgetOf(windowOf(100, 200), 200, { ...fresh, ...more }, breaker)).toEqual({ readMs: 15_000, isTight: false });
    expect(budgetOf(windowOf(100, 200), 200, fresh, closedBreaker())).toEqual({ readMs: 3_000, isTight: true });
  });

  it('is the longest where there is one attempt only', () => {
    const once = endpointOf({ adaptiveRead: { minMs: 3_000, maxMs: 15_000 }, retry: { attempts: 1 } }).config;
    expect(readBudgetOf(once, { slots, learnedMs: 200, window: undefined, breaker: undefined }, fresh, t0EpochMs).readMs).toBe(15_000);
  });

  it('takes the longer of what was learned and what is measured now', () => {
    expect([budgetOf(windowOf(100, 200), 2_000).readMs, budgetOf(windowOf(100, 3_000), 200).readMs, budgetOf(undefined, 2_000).readMs]).toEqual([6_000, limits.factor * about(3_000), 6_000]);
  });

  it('is stretched to a full lane, where it was measured with few in flight: one that serves one at a time takes as many times longer', () => {
    expect(budgetOf(windowOf(100, 500, { atOnce: 1 })).readMs).toBe(limits.factor * slots * about(500));
    expect(budgetOf(windowOf(100, 500, { atOnce: 4 })).readMs).toBe(limits.factor * 2 * about(500));
    // The lane may have been larger then.
    expect(budgetOf(windowOf(100, 1_200, { atOnce: 2 * slots })).readMs).toBe(limits.factor * about(1_200));
  });

  it('is the longest once several were cut off: it may have become slow', () => {
    expect(budgetOf(windowOf(100, 200, { cutOff: 2 })).isTight).toBe(true);
    expect(budgetOf(windowOf(100, 200, { cutOff: limits.doubtCutOffs }))).toEqual({ readMs: 15_000, isTight: false });
    // One in a hundred always hangs: that says nothing of the others.
    expect(budgetOf(windowOf(990, 200, { cutOff: 10 })).isTight).toBe(true);
    expect(budgetOf(windowOf(5, 200, { cutOff: 60 }), 200).readMs).toBe(15_000);
    // Of one with hardly any traffic, from the first.
    expect(budgetOf(windowOf(0, 200, { cutOff: 1 }), 200).readMs).toBe(15_000);
  });

  it('stays within its bounds whatever was measured', () => {
    fc.assert(fc.property(fc.nat(400), fc.integer({ min: 1, max: 60_000 }), fc.nat(50), fc.nat(50), fc.integer({ min: 0, max: 64 }), fc.option(fc.nat(70_000), { nil: undefined }), (answers, ms, failed, cutOff, atOnce, learnedMs) => {
      const { readMs, isTight } = budgetOf(windowOf(answers, ms, { failed, cutOff, atOnce }), learnedMs);
      expect(readMs >= 3_000 && readMs <= 15_000 && isTight === readMs < 15_000).toBe(true);
    }));
  });
});

describe('what a lane learns of a window', () => {
  it('is longer at once, and shorter as far as that is seen often enough', () => {
    expect(learnedAfter(windowOf(100, 200), slots, undefined)).toBe(about(200));
    expect(learnedAfter(windowOf(20, 4_000), slots, 200)).toBe(about(4_000));
    expect(learnedAfter(windowOf(limits.memory, 200), slots, 4_000)).toBe(about(200));
    expect(learnedAfter(windowOf(limits.memory / 3, 200), slots, 4_000)).toBe(Math.round(4_000 - (4_000 - about(200)) / 3));
  });

  it('is nothing of a time in which the endpoint fails, however slow: no patience, and no haste', () => {
    for (const failed of [12, 400]) {
      for (const ms of [14_000, 20]) {
        expect(learnedAfter(windowOf(100, ms, { failed }), slots, 900)).toBe(900);
        expect(learnedAfter(windowOf(100, ms, { failed }), slots, undefined)).toBeUndefined();
        expect(expectedAnswerMs({ slots, learnedMs: 900, window: windowOf(100, ms, { failed }) })).toBe(900);
      }
    }
  });

  it('is never shorter by what is left when the slow ones are cut off', () => {
    expect(learnedAfter(windowOf(97, 200, { cutOff: 3 }), slots, 2_000)).toBe(2_000);
    expect(learnedAfter(windowOf(97, 4_000, { cutOff: 3 }), slots, 2_000)).toBe(about(4_000));
  });

  it('is longer by the few answers that patience has found, where much was cut off in haste', () => {
    expect(learnedAfter(windowOf(2, 4_000, { cutOff: 11 }), slots, 200)).toBe(about(4_000));
    expect(learnedAfter(windowOf(1, 8_000, { cutOff: 1 }), slots, 200)).toBe(about(8_000));
    // A hang: the patient ones fail too.
    expect(learnedAfter(windowOf(2, 4_000, { cutOff: 11, failed: 5 }), slots, 200)).toBe(200);
  });

  it('is nothing of few answers', () => {
    expect(learnedAfter(windowOf(limits.minAnswers - 1, 9_000), slots, 300)).toBe(300);
  });
});
