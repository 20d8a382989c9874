/** Attempts that were made at an endpoint on one day of UTC, where their number a day is bounded (O8). */
export interface DaySpent {
  /** Days since the epoch. */
  readonly day: number;
  readonly attempts: number;
  /** True once the last one was taken that was allowed then. */
  readonly isSpent: boolean;
}

const dayMs = 86_400_000;

/** What is spent of the day that it is now. */
function dayOf(seen: DaySpent | undefined, nowEpochMs: number): Pick<DaySpent, 'day' | 'attempts'> {
  const today = Math.floor(nowEpochMs / dayMs);
  if (seen === undefined || seen.day < today) return { day: today, attempts: 0 };
  // Another worker's clock is ahead, and its day has begun: a day that went back would begin anew with the next that is ahead. One
  // that is further off is wrong, and must not stop an endpoint for days.
  return { day: Math.min(seen.day, today + 1), attempts: seen.attempts };
}

/** One attempt more, to be written before it is made; undefined where the day has no room for it. */
export function spendDay(seen: DaySpent | undefined, maxPerDay: number, nowEpochMs: number): DaySpent | undefined {
  const { day, attempts } = dayOf(seen, nowEpochMs);
  return attempts >= maxPerDay ? undefined : { day, attempts: attempts + 1, isSpent: attempts + 1 >= maxPerDay };
}

/** When the day is over on which attempts were counted last. */
export const endOf = ({ day }: Pick<DaySpent, 'day'>): number => (day + 1) * dayMs;

/** Of the day that it is now: attempts that were counted, how many may be made, and when the next day begins. */
export interface Today {
  readonly attempts: number;
  readonly most: number;
  readonly untilEpochMs: number;
}

/** Undefined where nothing is bounded. */
export function todayOf(seen: DaySpent | undefined, maxPerDay: number | null, nowEpochMs: number): Today | undefined {
  if (maxPerDay === null) return undefined;
  const today = dayOf(seen, nowEpochMs);
  return { attempts: today.attempts, most: maxPerDay, untilEpochMs: endOf(today) };
}

export const isSpent = (today: Today | undefined): today is Today => today !== undefined && today.attempts >= today.most;
