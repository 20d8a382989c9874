/** What an endpoint may be sent in a day (O8). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSpent, spendDay, todayOf, type DaySpent } from '../../lambdas/shared/core/day.ts';

const dayMs = 86_400_000;
const midnight = 20_000 * dayMs;
const noon = midnight + dayMs / 2;
const of = (attempts: number, more: Partial<DaySpent> = {}): DaySpent => ({ day: 20_000, attempts, isSpent: false, ...more });

describe('one attempt of a day', () => {
  it.each<[string, DaySpent | undefined, number, DaySpent | undefined]>([
    ['the first of all', undefined, noon, of(1)],
    ['one more', of(1), noon, of(2)],
    ['the last', of(2), noon, of(3, { isSpent: true })],
    ['none', of(3, { isSpent: true }), noon, undefined],
    ['none, where fewer are allowed than were made', of(7), noon, undefined],
    ['one more, where more are allowed since it was spent', of(2, { isSpent: true }), noon, of(3, { isSpent: true })],
    ['none, in the last millisecond', of(3, { isSpent: true }), midnight + dayMs - 1, undefined],
    ['the first of the next day', of(3, { isSpent: true }), midnight + dayMs, of(1, { day: 20_001 })],
    ['one of the day that has begun elsewhere', of(1, { day: 20_001 }), midnight + dayMs - 5_000, of(2, { day: 20_001 })],
    ['none of the day that has begun elsewhere, once it is spent', of(3, { day: 20_001, isSpent: true }), midnight + dayMs - 5_000, undefined],
    ['one of tomorrow, where a clock was ahead by a week: what it counted still counts', of(1, { day: 20_007 }), noon, of(2, { day: 20_001 })],
    ['none, where a clock was ahead and its day is spent', of(3, { day: 20_007, isSpent: true }), noon, undefined],
    ['the first of its own day, two days after that', of(3, { day: 20_001, isSpent: true }), noon + 2 * dayMs, of(1, { day: 20_002 })],
  ])('is %s', (_what, seen, nowEpochMs, next) => {
    expect(spendDay(seen, 3, nowEpochMs)).toEqual(next);
  });

  it('says what is left, and until when', () => {
    expect(todayOf(undefined, 3, noon)).toEqual({ attempts: 0, most: 3, untilEpochMs: midnight + dayMs });
    expect(todayOf(of(3), 3, midnight)).toEqual({ attempts: 3, most: 3, untilEpochMs: midnight + dayMs });
    expect([of(2), of(3), of(4)].map((seen) => isSpent(todayOf(seen, 3, noon)))).toEqual([false, true, true]);
    expect(isSpent(todayOf(of(3), 3, midnight + dayMs))).toBe(false);
  });
});

it('never lets more through in a day, whoever counts it, with clocks that are up to a day ahead', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(fc.record({ waitMs: fc.integer({ min: 0, max: dayMs / 4 }), aheadMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: dayMs - 1 })) }), { maxLength: 200 }), (most, steps) => {
      const made = new Map<number, number>();
      let [seen, nowEpochMs]: [DaySpent | undefined, number] = [undefined, midnight];
      for (const { waitMs, aheadMs } of steps) {
        nowEpochMs += waitMs;
        const next = spendDay(seen, most, nowEpochMs + aheadMs);
        // Refused only once the day is spent that it is somewhere.
        if (next === undefined) expect(made.get(seen?.day ?? 0)).toBe(most);
        else made.set(next.day, (made.get(next.day) ?? 0) + 1);
        if (next !== undefined && seen !== undefined) expect(next.day).toBeGreaterThanOrEqual(seen.day);
        seen = next ?? seen;
      }
      expect(Math.max(0, ...made.values())).toBeLessThanOrEqual(most);
    }),
  );
});
