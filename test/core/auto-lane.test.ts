import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isWorthIt, laneCeiling, suggestedLane, type SizedLane } from '../../lambdas/shared/core/auto-lane.ts';
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
const laneWith = (more: Partial<SizedLane> = {}): SizedLane => ({ slots: 8, pace: undefined, holding: undefined, nextAtEpochMs: undefined, day: undefined, pausedUntilEpochMs: undefined, ...more });
const of = (window: Window | undefined, more: Partial<SizedLane> = {}) => suggestedLane(window, laneWith(more), ceiling, nowEpochMs);
const byLaw = (perSecond: number, ms: number) => Math.ceil((perSecond * msOf(binOf(ms))) / 1_000);
const ready = { holding: { heldAtEpochMs: 0, wakeAtEpochMs: 0, count: 1, isReady: true } };

describe('a lane that sizes itself', () => {
  it.each<[string, Window, Partial<SizedLane>, number, string]>([
    ['what is offered times what it takes', windowOf(10, 600), {}, byLaw(10, 600), 'offered'],
    ['half of what it had, where that is more than is asked for', windowOf(1, 50), { slots: 16 }, 8, 'floor'],
    ['five at least', windowOf(1, 50), { slots: 6 }, 5, 'floor'],
    ['twice as many as were in flight on average when one began', windowOf(1, 50, { inFlight: 300 * 5.5 }), { slots: 16 }, 11, 'floor'],
    ['no more than its share of the fleet', windowOf(40, 1_000), {}, ceiling, 'ceiling'],
    ['four where it is slow, whatever is offered', windowOf(40, 3_500), {}, 4, 'slow'],
    ['half of what it had where it is slow', windowOf(40, 3_500), { slots: 20 }, 10, 'slow'],
    ['four until it is well below that', windowOf(40, 2_500), { slots: 4 }, 4, 'slow'],
    ['more once it is', windowOf(4, 1_500), { slots: 4 }, byLaw(4, 1_500), 'offered'],
    ['four where the drain alone serves it', windowOf(40, 1_500), { pace: { isSlow: true, recent: '222' } }, 4, 'slow'],
    ['twice as many where what came had no room', windowOf(5, 100, { shed: 0.2 * 5 * seconds }), {}, 16, 'short'],
    ['twice as many while what is held is due', windowOf(0, 200, { attempts: 14_000, delivered: 14_000 }), ready, 16, 'short'],
    ['no more for that where it is slow', windowOf(40, 3_500, { shed: 40 * seconds }), ready, 4, 'slow'],
    ['no more where its own rate holds it up', windowOf(6, 100, { shed: 2 * seconds }), { nextAtEpochMs: nowEpochMs }, 5, 'floor'],
    ['no more where its day is spent', windowOf(6, 100, { shed: 2 * seconds }), { day: { day: Math.floor(t0EpochMs / 86_400_000), attempts: 9, isSpent: true } }, 5, 'floor'],
    ['twice as many where another day was spent', windowOf(6, 100, { shed: 2 * seconds }), { day: { day: Math.floor(t0EpochMs / 86_400_000) - 1, attempts: 9, isSpent: true } }, 16, 'short'],
    ['twice as many where it had a rate once', windowOf(6, 100, { shed: 2 * seconds }), { nextAtEpochMs: t0EpochMs - 1 }, 16, 'short'],
    ['no more where it asked for less', windowOf(6, 100, { shed: 2 * seconds }), { pausedUntilEpochMs: t0EpochMs + 1 }, 5, 'floor'],
    ['what it has while it fails', windowOf(20, 8, { delivered: 0 }), { slots: 16 }, 16, 'failing'],
  ])('has %s', (_what, window, more, slots, why) => {
    expect(of(window, more)).toMatchObject({ slots, why });
  });

  it('is as large in the morning as in the evening, though p95 is nearly slow and the night was quiet', () => {
    let slots = 16;
    for (let i = 0; i < 6; i++) slots = of(windowOf(0.1, 2_500), { slots })?.slots ?? slots;
    expect(slots).toBe(limits.leastSlots);
    expect(of(windowOf(5, 2_500, { shed: 2 * seconds }), { slots })?.slots).toBeGreaterThan(slots);
  });

  it('comes to rest under steady bursts, and under a load that it can just not serve', () => {
    // Forty every ten seconds, of 300 ms each: what the lane takes in two turns has room.
    const bursts = (slots: number) => windowOf(4, 300, { shed: Math.max(0, 40 - 2 * slots) * 30, inFlight: 1_200 * Math.min(slots, 18) });
    // Fourteen every two seconds at a consumer that serves six at a time, in 600 ms each: they wait for each other.
    const crowded = (slots: number) => windowOf(7, 600 * Math.ceil(Math.min(slots, 14) / 6), { shed: Math.max(0, 14 - 3 * slots) * 150, inFlight: 2_100 * Math.min(slots, 7) });
    // So many at once every ten seconds, each an invocation of its own: in flight rises to that, and what is above the lane finds no room.
    const ramp = (burst: number) => (slots: number) => windowOf(burst / 10, 300, { shed: Math.max(0, burst - 2 * slots) * 30, inFlight: 30 * burst * (Math.min(slots, burst) / 2) });
    for (const load of [bursts, crowded, ...[12, 16, 20, 24].map(ramp)]) {
      let slots = 8;
      const sizes = Array.from({ length: 20 }, () => {
        const to = of(load(slots), { slots })?.slots ?? slots;
        return (slots = isWorthIt(slots, to) ? to : slots);
      });
      expect(new Set(sizes.slice(10)).size, sizes.join()).toBeLessThanOrEqual(1);
    }
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
      const found = suggestedLane(windowOf(perSecond, ms, { shed: perSecond }), laneWith({ slots }), laneCeiling(fleet), nowEpochMs)?.slots ?? 0;
      expect(found >= lane.minSlots && found <= lane.maxSlots && (msOf(binOf(ms)) <= limits.slowMs || found <= Math.max(limits.slowSlots, Math.ceil(slots / 2)))).toBe(true);
    }));
  });

  it.each([[8, 8, false], [8, 9, false], [8, 10, true], [8, 6, true], [8, 7, false], [2, 3, true], [4, 3, true], [20, 16, true], [20, 17, false]])('of %d slots is changed to %d: %s', (slots, to, expected) => {
    expect(isWorthIt(slots, to)).toBe(expected);
  });

  it.each([[200, 20], [5, 1], [0, 1], [10_000, lane.maxSlots]])('has of %d slots of all senders %d at most', (fleet, most) => {
    expect(laneCeiling(fleet)).toBe(most);
  });
});
