import { lease } from '../limits/numbers.ts';

/** Requests that were made to an endpoint on one day of UTC, where its number a day is bounded (O8). */
export interface DaySpent {
  /** Days since the epoch. */
  readonly day: number;
  readonly requests: number;
  /** True once the last one was taken that was allowed then. */
  readonly isSpent: boolean;
}

const dayMs = 86_400_000;

/** What is spent of the day that it is now. */
function dayOf(seen: DaySpent | undefined, nowEpochMs: number): Pick<DaySpent, 'day' | 'requests'> {
  const today = Math.floor(nowEpochMs / dayMs);
  if (seen === undefined || seen.day < today) return { day: today, requests: 0 };
  // Over midnight another worker's clock is ahead: its day has begun. One that is further ahead is wrong, and must not stop an endpoint for days.
  return { day: Math.min(seen.day, Math.floor((nowEpochMs + lease.skewMs) / dayMs)), requests: seen.requests };
}

/** One request more, to be written before it is made; undefined where the day has no room for it. */
export function spendDay(seen: DaySpent | undefined, maxPerDay: number, nowEpochMs: number): DaySpent | undefined {
  const { day, requests } = dayOf(seen, nowEpochMs);
  return requests >= maxPerDay ? undefined : { day, requests: requests + 1, isSpent: requests + 1 >= maxPerDay };
}

/** When the day is over on which requests were counted last. */
export const endOf = ({ day }: Pick<DaySpent, 'day'>): number => (day + 1) * dayMs;

/** Of the day that it is now: requests that were made, how many may be, and when the next day begins. */
export interface Today {
  readonly requests: number;
  readonly most: number;
  readonly untilEpochMs: number;
}

export function todayOf(seen: DaySpent | undefined, maxPerDay: number, nowEpochMs: number): Today {
  const today = dayOf(seen, nowEpochMs);
  return { requests: today.requests, most: maxPerDay, untilEpochMs: endOf(today) };
}

export const isSpent = ({ requests, most }: Today): boolean => requests >= most;
