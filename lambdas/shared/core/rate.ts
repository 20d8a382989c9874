import { lease, rate as limits, throttle } from '../limits/numbers.ts';

/** What is left of an endpoint's rate, and when the next request would be due if all came evenly (GCRA). */
export interface Spent {
  /** How many of the requests may be sent now. */
  readonly requests: number;
  /** To be written before they are. */
  readonly nextAtEpochMs: number;
}

/**
 * Takes up to `wanted` requests out of a rate (O7). After a pause at most one second's worth goes at once, or one request where
 * the rate is below one a second: any second sees at most twice the rate.
 * @param nextAtEpochMs as it was written last; undefined where nothing was ever sent at a rate
 */
export function spend(nextAtEpochMs: number | undefined, wanted: number, perSecond: number, nowEpochMs: number): Spent {
  const intervalMs = 1_000 / perSecond;
  const burstMs = Math.max(1_000, intervalMs);
  const asWritten = Math.max(nowEpochMs, nextAtEpochMs ?? nowEpochMs);
  // Further off than it is ever written at this rate: the rate was lower, or a clock is wrong, which must not stop an endpoint
  // for hours. Then one request goes, and no burst.
  const isBelieved = asWritten <= nowEpochMs + burstMs + lease.skewMs;
  const fromEpochMs = isBelieved ? asWritten : nowEpochMs + burstMs - intervalMs;
  // A rate such as 3 has no exact interval: without the grain its third request would wait.
  const room = Math.floor((nowEpochMs + burstMs - fromEpochMs) / intervalMs + limits.grain);
  const requests = Math.max(0, Math.min(wanted, room));
  // In whole microseconds: whole milliseconds would halve a rate of several hundred.
  return { requests, nextAtEpochMs: Math.round((fromEpochMs + requests * intervalMs) * 1_000) / 1_000 };
}

/** When there is room for one more request, if nobody takes it before; never the past. */
export function roomFromEpochMs(nextAtEpochMs: number | undefined, perSecond: number, nowEpochMs: number): number {
  if (spend(nextAtEpochMs, 1, perSecond, nowEpochMs).requests > 0) return nowEpochMs;
  const intervalMs = 1_000 / perSecond;
  return Math.max(nowEpochMs, Math.ceil((nextAtEpochMs ?? nowEpochMs) + intervalMs - Math.max(1_000, intervalMs)));
}

/** Until when nothing is sent to an endpoint that asked for less; the past, where it is over or was set by a clock that is wrong. */
export function pausedFor(pausedUntilEpochMs: number | undefined, nowEpochMs: number): number {
  const isBelieved = pausedUntilEpochMs !== undefined && pausedUntilEpochMs <= latestPauseEpochMs(nowEpochMs);
  return isBelieved ? pausedUntilEpochMs : 0;
}

/** A pause that ends later was set by a clock that is wrong. */
export function latestPauseEpochMs(nowEpochMs: number): number {
  return nowEpochMs + throttle.maxMs + lease.skewMs;
}
