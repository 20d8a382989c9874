import { rate as limits } from '../limits/numbers.ts';

/** What is left of an endpoint's rate, and when the next request would be due if all came evenly (GCRA). */
export interface Spent {
  /** How many of the requests may be sent now. */
  readonly requests: number;
  /** To be written before they are. */
  readonly nextAtEpochMs: number;
}

/**
 * Takes up to `wanted` requests out of a rate (O7). After a pause at most one second's worth goes at once, or one request where
 * the rate is below one a second.
 * @param nextAtEpochMs as it was written last; undefined where nothing was ever sent at a rate
 */
export function spend(nextAtEpochMs: number | undefined, wanted: number, perSecond: number, nowEpochMs: number): Spent {
  const intervalMs = 1_000 / perSecond;
  const burstMs = Math.max(1_000, intervalMs);
  const asWritten = Math.max(nowEpochMs, nextAtEpochMs ?? nowEpochMs);
  // Further off than it is ever written, but for clocks that differ: one that is wrong must not stop an endpoint for hours.
  const fromEpochMs = asWritten > nowEpochMs + burstMs + limits.mostSkewMs ? nowEpochMs : asWritten;
  // A rate such as 3 has no exact interval: without the grain its third request would wait.
  const room = Math.floor((nowEpochMs + burstMs - fromEpochMs) / intervalMs + limits.grain);
  const requests = Math.max(0, Math.min(wanted, room));
  return { requests, nextAtEpochMs: Math.ceil(fromEpochMs + requests * intervalMs) };
}
