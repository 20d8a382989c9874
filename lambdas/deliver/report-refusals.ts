import { flagOf } from '../shared/core/classify.ts';
import type { Endpoint, LaneState } from '../shared/ports/index.ts';
import type { DeliverDeps, Heard } from './types.ts';

/**
 * What answers say about the endpoint itself, beside their own deliveries (R4): 410 disables it, 404, 401 and 403 mark it for its
 * owner to see, and a 2xx takes the mark away. Never rejects: the next answer of the kind says it again.
 * @param state the lane as it was admitted
 */
export async function reportRefusals(deps: DeliverDeps, endpoint: Endpoint, state: Pick<LaneState, 'flag'>, heard: readonly Heard[]): Promise<void> {
  const statuses = heard.flatMap(({ outcome, isPing }) => (outcome.kind === 'answered' && !isPing ? [outcome.status] : []));
  const last = statuses.at(-1);
  if (last === undefined) return;
  const { endpointId, onRejected } = endpoint.config;
  try {
    // An operator who has rejections retried expects the endpoint to come back.
    if (statuses.includes(410) && onRejected === 'deadLetter') await disable(deps, endpoint);
    const why = flagOf(last);
    if (why === state.flag?.why || (why === undefined && (last < 200 || last >= 300))) return;
    await deps.lanes.flag(endpointId, why === undefined ? undefined : { why, sinceEpochMs: deps.clock.nowEpochMs() });
    deps.telemetry.event(why === undefined ? 'endpoint-unflagged' : 'endpoint-flagged', { endpointId, why: why ?? state.flag?.why });
  } catch (error) {
    deps.telemetry.fault('refusal-unreported', error, { endpointId });
  }
}

/** Only as it was read: one that was put meanwhile may lead elsewhere. */
async function disable(deps: DeliverDeps, endpoint: Endpoint): Promise<void> {
  const answer = await deps.disableEndpoint(endpoint, { why: 'gone', atEpochMs: deps.clock.nowEpochMs() });
  deps.telemetry.event(answer === 'disabled' ? 'endpoint-disabled' : 'endpoint-not-disabled', { endpointId: endpoint.config.endpointId, why: 'gone', answer });
}
