import { hintedMs } from '../shared/core/hints.ts';
import { throttle as limits } from '../shared/limits/numbers.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import type { DeliverDeps, Heard } from './types.ts';

/**
 * An answer 429, or a 503 that says for how long, pauses the endpoint for the whole fleet, not just its own delivery (R5, C3).
 * Never rejects: at worst it is asked again.
 * @returns until when, where any of the answers asked for it
 */
export async function reportThrottle(deps: DeliverDeps, { config }: Endpoint, heard: readonly Heard[]): Promise<number | undefined> {
  const nowEpochMs = deps.clock.nowEpochMs();
  const waitsMs = heard.flatMap(({ outcome }) => {
    if (outcome.kind !== 'answered') return [];
    const hintMs = hintedMs(outcome.hints, config.retry.capS * 1_000, nowEpochMs);
    // Less than that, or a time that is past by our clock, is no time at all: it must not take away the pause that a bare 429 brings.
    if (hintMs !== undefined && hintMs >= limits.leastHintMs) return [hintMs];
    return outcome.status === 429 ? [limits.pauseMs] : [];
  });
  if (waitsMs.length === 0) return undefined;
  const untilEpochMs = nowEpochMs + Math.ceil(Math.max(...waitsMs));
  const { endpointId } = config;
  try {
    await deps.lanes.pauseUntil(endpointId, untilEpochMs, nowEpochMs);
    deps.telemetry.event('throttled', { endpointId, untilEpochMs });
  } catch (error) {
    deps.telemetry.fault('throttle-failed', error, { endpointId });
  }
  return untilEpochMs;
}
