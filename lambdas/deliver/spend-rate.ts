import { spend } from '../shared/core/rate.ts';
import { rate as limits } from '../shared/limits/numbers.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import { swapped } from './swap.ts';
import type { DeliverDeps, Invocation } from './types.ts';

/**
 * How many of `wanted` requests an endpoint's rate allows now: all where it has none. One conditional write takes them, before
 * they are sent. Never rejects: where nothing is known nothing may be sent.
 * @param nextAtEpochMs as the admission found it
 */
export async function spendRate(deps: DeliverDeps, endpoint: Endpoint, nextAtEpochMs: number | undefined, wanted: number, invocation: Invocation): Promise<number> {
  const { endpointId, maxPerSecond } = endpoint.config;
  if (maxPerSecond === null) return wanted;
  try {
    const result = await swapped(invocation, limits.swaps, (found) => {
      const from = found === undefined ? nextAtEpochMs : found.nextAtEpochMs;
      const spent = spend(from, wanted, maxPerSecond, deps.clock.nowEpochMs());
      return spent.requests === 0 ? undefined : { to: spent.requests, answer: deps.lanes.moveRate(endpointId, from, spent.nextAtEpochMs) };
    });
    return result.kind === 'moved' ? result.to : 0;
  } catch (error) {
    deps.telemetry.fault('rate-failed', error, { endpointId });
    return 0;
  }
}
