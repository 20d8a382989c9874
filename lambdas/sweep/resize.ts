import { isWorthIt, suggestedLane } from '../shared/core/auto-lane.ts';
import type { Window } from '../shared/core/statistics.ts';
import type { ChangeStatus, Clock, Endpoints, SeenLane, Telemetry } from '../shared/ports/index.ts';

export interface ResizeDeps {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly endpoints: Endpoints;
  readonly changeStatus: ChangeStatus;
  /** The most slots that one endpoint may have. */
  readonly laneCeiling: number;
}

/**
 * Gives a lane that sizes itself as many slots as its last window asks for (L2), as a version of the endpoint of its own. Best effort:
 * where somebody has changed it meanwhile, or nothing was written, the next window asks again. Never rejects.
 */
export async function resize(deps: ResizeDeps, { endpointId, lane }: SeenLane, window: Window, learnedMs: number | undefined): Promise<void> {
  const atEpochMs = deps.clock.nowEpochMs();
  const suggested = lane.isAuto ? suggestedLane(window, lane, deps.laneCeiling, atEpochMs) : undefined;
  if (suggested === undefined || !isWorthIt(lane.slots, suggested.slots)) return;
  try {
    const endpoint = await deps.endpoints.read(endpointId);
    // As the lane was seen: what was put meanwhile may lead elsewhere.
    if (endpoint?.config?.autoLane !== true || endpoint.version !== lane.cfg || endpoint.config.maxInFlight !== lane.slots) return;
    const { from, to } = { from: lane.slots, to: suggested.slots };
    // What was learned was of a full lane: a wider one may take as many times longer.
    const slots = { from, to, ...(learnedMs === undefined ? {} : { learnedMs: Math.round(learnedMs * Math.max(1, to / from)) }) };
    const answer = await deps.changeStatus({ endpointId, version: endpoint.version }, { fields: { maxInFlight: to }, slots, atEpochMs });
    if (answer === 'written') deps.telemetry.event('lane-resized', { endpointId, from, to, why: suggested.why });
  } catch (error) {
    deps.telemetry.fault('resize-failed', error, { endpointId });
  }
}
