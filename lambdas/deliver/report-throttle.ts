import type { Sample } from '../shared/core/breaker.ts';
import { throttle as limits } from '../shared/limits/numbers.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import type { DeliverDeps } from './types.ts';

/** An answer 429 pauses the endpoint for the whole fleet, not just its own delivery (C3). Never rejects: at worst it is asked again. */
export async function reportThrottle(deps: DeliverDeps, { config: { endpointId } }: Endpoint, samples: readonly Sample[]): Promise<number | undefined> {
  if (!samples.some(({ health }) => health === 'throttled')) return undefined;
  const untilEpochMs = deps.clock.nowEpochMs() + limits.pauseMs;
  try {
    await deps.lanes.pauseUntil(endpointId, untilEpochMs);
    deps.telemetry.event('throttled', { endpointId, untilEpochMs });
  } catch (error) {
    deps.telemetry.fault('throttle-failed', error, { endpointId });
  }
  return untilEpochMs;
}
