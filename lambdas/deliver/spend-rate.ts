import { pausedFor, roomFromEpochMs, spend } from '../shared/core/rate.ts';
import { rate as limits } from '../shared/limits/numbers.ts';
import type { Endpoint, LaneState } from '../shared/ports/index.ts';
import { swapped } from './swap.ts';
import type { DeliverDeps, Invocation } from './types.ts';

/** What an endpoint's rate, and what it asked for itself (429), still allow the deliveries of one lease. */
export interface RateGate {
  /** True where one more request may be sent now: taken from the rate, by a conditional write, before it is. Never rejects. */
  take(): Promise<boolean>;
  /** Requests that it had no room for, or of which that is not known. */
  refused(): number;
  /** As it was written last, as far as that is known. */
  nextAtEpochMs(): number | undefined;
  /** When the rate has room for another request, as far as that is known. */
  moreFromEpochMs(): number;
}

/** @param state as the admission found it */
export function createRateGate(deps: DeliverDeps, endpoint: Endpoint, { nextAtEpochMs, pausedUntilEpochMs }: Pick<LaneState, 'nextAtEpochMs' | 'pausedUntilEpochMs'>, invocation: Invocation): RateGate {
  const { endpointId, maxPerSecond } = endpoint.config;
  let from = nextAtEpochMs;
  let refused = 0;
  let last = Promise.resolve(true);

  const takeOne = async (perSecond: number): Promise<boolean> => {
    const result = await swapped(deps, invocation, limits.swaps, (found) => {
      if (found !== undefined) from = found.nextAtEpochMs;
      const spent = spend(from, 1, perSecond, deps.clock.nowEpochMs());
      return spent.requests === 0 ? undefined : { to: spent.nextAtEpochMs, answer: deps.lanes.moveRate(endpointId, from, spent.nextAtEpochMs) };
    });
    if (result.kind === 'moved') from = result.to;
    // Nothing is known of what is left: nothing may be sent.
    else if (result.kind !== 'nothing') deps.telemetry.event('rate-unknown', { endpointId, why: result.kind });
    return result.kind === 'moved';
  };

  const takeOrFault = async (perSecond: number): Promise<boolean> => {
    try {
      return await takeOne(perSecond);
    } catch (error) {
      deps.telemetry.fault('rate-failed', error, { endpointId });
      return false;
    }
  };

  return {
    refused: () => refused,
    nextAtEpochMs: () => from,
    moreFromEpochMs: () => {
      const nowEpochMs = deps.clock.nowEpochMs();
      return Math.max(pausedFor(pausedUntilEpochMs, nowEpochMs), maxPerSecond === null ? nowEpochMs : roomFromEpochMs(from, maxPerSecond, nowEpochMs));
    },
    take: async () => {
      const nowEpochMs = deps.clock.nowEpochMs();
      if (pausedFor(pausedUntilEpochMs, nowEpochMs) > nowEpochMs) {
        refused++;
        return false;
      }
      if (maxPerSecond === null) return true;
      // One after the other, or they would overtake each other; after the first that finds nothing none asks again.
      last = last.then((goesOn) => goesOn && takeOrFault(maxPerSecond));
      const isTaken = await last;
      if (!isTaken) refused++;
      return isTaken;
    },
  };
}
