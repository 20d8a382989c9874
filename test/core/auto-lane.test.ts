import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isWorthIt, laneCeiling, suggestedLane } from '../../lambdas/shared/core/auto-lane.ts';
import { binOf, emptyTally, msOf, type Window } from '../../lambdas/shared/core/statistics.ts';
import { autoLane as limits, lane } from '../../lambdas/shared/limits/numbers.ts';
import { t0EpochMs } from '../support/builders.ts';

const seconds = 300;
const nowEpochMs = t0EpochMs + 1_000 * seconds;
/** Five minutes in which so many a second were offered, and all were answered after `ms`. */
function windowOf(perSecond: number, ms: number, more: Partial<Window> = {}): Window {
  const attempts = Math.max(limits.minAttempts, Math.round(perSecond * seconds));
  return { ...emptyTally, sinceEpochMs: t0EpochMs, attempts, delivered: attempts, offered: perSecond * seconds, answers: new Map([[binOf(ms), attempts]]), ...more };
}
const ceiling = 20;
const of = (window: Window | undefined, slots = 8) => suggestedLane(window, slots, ceiling, nowEpochMs);

describe('a lane that sizes itself', () => {
  it.each<[string, Window, number, string]>([
    ['what is offered times what it takes', windowOf(10, 600), Math.ceil((10 * msOf(binOf(600))) / 1_000), 'offered'],
    ['two at least', windowOf(1, 50), 2, 'floor'],
    ['no more than its share of the fleet', windowOf(40, 1_000), ceiling, 'ceiling'],
    ['four where it is slow, whatever is offered', windowOf(40, 3_500), 4, 'slow'],
    ['fewer where it is slow and little is offered', windowOf(0.8, 3_500), Math.ceil((0.8 * msOf(binOf(3_500))) / 1_000), 'offered'],
    ['twice as many where what came had no room', windowOf(5, 100, { shed: 0.2 * 5 * seconds }), 16, 'shed'],
    ['no more for that where it is slow', windowOf(40, 3_500, { shed: 40 * seconds }), 4, 'slow'],
    ['nor where it fails', windowOf(5, 100, { shed: 5 * seconds, delivered: 100 }), 2, 'floor'],
  ])('has %s', (_what, window, slots, why) => {
    expect(of(window)).toMatchObject({ slots, why });
  });

  it('is not known of a window that says too little', () => {
    expect([of(undefined), of(windowOf(1, 50, { attempts: limits.minAttempts - 1 })), of(windowOf(1, 50, { answers: new Map() }))]).toEqual([undefined, undefined, undefined]);
  });

  it('says what it would give', () => {
    const found = of(windowOf(10, 600));
    expect(found?.sustainablePerSecond).toBeCloseTo((1_000 * (found?.slots ?? 0)) / msOf(binOf(600)));
  });

  it('stays within its bounds, whatever was measured', () => {
    fc.assert(fc.property(fc.double({ min: 0, max: 1_000, noNaN: true }), fc.integer({ min: 1, max: 60_000 }), fc.integer({ min: 1, max: lane.maxSlots }), fc.integer({ min: 1, max: 5_000 }), (perSecond, ms, slots, fleet) => {
      const found = suggestedLane(windowOf(perSecond, ms, { shed: perSecond }), slots, laneCeiling(fleet), nowEpochMs)?.slots ?? 0;
      expect(found >= lane.minSlots && found <= lane.maxSlots && (msOf(binOf(ms)) <= limits.slowMs || found <= limits.slowSlots)).toBe(true);
    }));
  });

  it.each([[8, 8, false], [8, 9, false], [8, 10, true], [8, 6, true], [8, 7, false], [2, 3, true], [4, 3, true], [20, 16, true], [20, 17, false]])('of %d slots is changed to %d: %s', (slots, to, expected) => {
    expect(isWorthIt(slots, to)).toBe(expected);
  });

  it.each([[200, 20], [5, 1], [0, 1], [10_000, lane.maxSlots]])('has of %d slots of all senders %d at most', (fleet, most) => {
    expect(laneCeiling(fleet)).toBe(most);
  });
});
