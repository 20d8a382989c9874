/** What an endpoint may be sent in a day (O8). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSpent, spendDay, todayOf, type DaySpent } from '../../lambdas/shared/core/day.ts';
import { lease } from '../../lambdas/shared/limits/numbers.ts';

const dayMs = 86_400_000;
const midnight = 20_000 * dayMs;
const noon = midnight + dayMs / 2;
const of = (requests: number, more: Partial<DaySpent> = {}): DaySpent => ({ day: 20_000, requests, isSpent: false, ...more });

describe('one request of a day', () => {
  it.each<[string, DaySpent | undefined, number, DaySpent | undefined]>([
    ['the first of all', undefined, noon, of(1)],
    ['one more', of(1), noon, of(2)],
    ['the last', of(2), noon, of(3, { isSpent: true })],
    ['none', of(3, { isSpent: true }), noon, undefined],
    ['none, where fewer are allowed than were made', of(7), noon, undefined],
    ['one more, where more are allowed since it was spent', of(2, { isSpent: true }), noon, of(3, { isSpent: true })],
    ['none, in the last millisecond', of(3, { isSpent: true }), midnight + dayMs - 1, undefined],
    ['the first of the next day', of(3, { isSpent: true }), midnight + dayMs, of(1, { day: 20_001 })],
    ['one of the day that has begun elsewhere', of(1, { day: 20_001 }), midnight + dayMs - lease.skewMs, of(2, { day: 20_001 })],
    ['one of today, where a clock was ahead by a week: what it counted still counts', of(1, { day: 20_007 }), noon, of(2)],
    ['none of today, where a clock was ahead and it is spent', of(3, { day: 20_007, isSpent: true }), noon, undefined],
  ])('is %s', (_what, seen, nowEpochMs, next) => {
    expect(spendDay(seen, 3, nowEpochMs)).toEqual(next);
  });

  it('says what is left, and until when', () => {
    expect(todayOf(undefined, 3, noon)).toEqual({ requests: 0, most: 3, untilEpochMs: midnight + dayMs });
    expect(todayOf(of(3), 3, midnight)).toEqual({ requests: 3, most: 3, untilEpochMs: midnight + dayMs });
    expect([of(2), of(3), of(4)].map((seen) => isSpent(todayOf(seen, 3, noon)))).toEqual([false, true, true]);
    expect(isSpent(todayOf(of(3), 3, midnight + dayMs))).toBe(false);
  });
});

it('never lets more through in a day, whatever the times', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(fc.integer({ min: 0, max: dayMs / 4 }), { maxLength: 200 }), (most, waits) => {
      const made = new Map<number, number>();
      let [seen, nowEpochMs]: [DaySpent | undefined, number] = [undefined, midnight];
      for (const waitMs of waits) {
        nowEpochMs += waitMs;
        const next = spendDay(seen, most, nowEpochMs);
        const day = Math.floor(nowEpochMs / dayMs);
        // Refused only once the day is spent.
        if (next === undefined) expect(made.get(day)).toBe(most);
        else made.set(day, (made.get(day) ?? 0) + 1);
        seen = next ?? seen;
      }
      expect(Math.max(0, ...made.values())).toBeLessThanOrEqual(most);
    }),
  );
});
