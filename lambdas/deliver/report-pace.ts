import { isDeepStrictEqual } from 'node:util';
import type { Sample } from '../shared/core/breaker.ts';
import { afterAnswers, type Pace } from '../shared/core/pace.ts';
import { pace as limits } from '../shared/limits/numbers.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import { swapped } from './swap.ts';
import type { DeliverDeps, Invocation } from './types.ts';

/**
 * Notes how long a lease's answers took: one conditional write, and none while all are quick. Never rejects: what is lost makes a
 * slow endpoint known a little later.
 * @returns the pace as far as it is known now
 */
export async function reportPace(
  deps: DeliverDeps,
  { config: { endpointId } }: Endpoint,
  before: Pace | undefined,
  samples: readonly Sample[],
  invocation: Invocation,
): Promise<Pace | undefined> {
  let from = before;
  try {
    const result = await swapped(deps, invocation, limits.swaps, (found) => {
      if (found !== undefined) from = found.pace;
      const to = afterAnswers(from, samples);
      return isDeepStrictEqual(from, to) ? undefined : { to, answer: deps.lanes.movePace(endpointId, from, to) };
    });
    if (result.kind !== 'moved') return from;
    const [was, is] = [from?.isSlow === true, result.to?.isSlow === true];
    if (was !== is) deps.telemetry.event(is ? 'endpoint-slow' : 'endpoint-quick', { endpointId });
    return result.to;
  } catch (error) {
    deps.telemetry.fault('pace-failed', error, { endpointId });
    return from;
  }
}
