import { flagOf } from '../shared/core/classify.ts';
import type { Endpoint, LaneState } from '../shared/ports/index.ts';
import type { DeliverDeps, Heard } from './types.ts';

/**
 * What answers say about the endpoint itself, beside their own deliveries (R4): 404, 401 and 403 mark it for its owner to see, a
 * 2xx takes the mark away. Never rejects: the next answer of the kind says it again.
 * @param state the lane as it was admitted
 */
export async function reportRefusals(deps: DeliverDeps, { config: { endpointId } }: Endpoint, state: Pick<LaneState, 'flag'>, heard: readonly Heard[]): Promise<void> {
  const last = statusesOf(heard).at(-1);
  if (last === undefined) return;
  const why = flagOf(last);
  const isSuccess = last >= 200 && last < 300;
  if (why === state.flag?.why || (why === undefined && !isSuccess)) return;
  try {
    await deps.lanes.flag(endpointId, why === undefined ? undefined : { why, sinceEpochMs: deps.clock.nowEpochMs() });
    deps.telemetry.event(why === undefined ? 'endpoint-unflagged' : 'endpoint-flagged', { endpointId, why: why ?? state.flag?.why });
  } catch (error) {
    deps.telemetry.fault('refusal-unreported', error, { endpointId });
  }
}

/** True where the endpoint says that it is gone. An operator who has rejections retried expects it to come back. */
export function isGone({ config }: Endpoint, heard: readonly Heard[]): boolean {
  return config.onRejected === 'deadLetter' && statusesOf(heard).includes(410);
}

/**
 * Disables an endpoint that is gone, if it is still as it was read: one that was put meanwhile may lead elsewhere. Not before the
 * lease is given back, for nobody would come for its claims. Never rejects: the next 410 says it again.
 */
export async function disableGone(deps: DeliverDeps, endpoint: Endpoint): Promise<void> {
  const { endpointId } = endpoint.config;
  try {
    const answer = await deps.disableEndpoint(endpoint, { why: 'gone', atEpochMs: deps.clock.nowEpochMs() });
    deps.telemetry.event(answer === 'disabled' ? 'endpoint-disabled' : 'endpoint-not-disabled', { endpointId, why: 'gone', answer });
  } catch (error) {
    deps.telemetry.fault('refusal-unreported', error, { endpointId });
  }
}

/** In the order in which the attempts ended; without an operator's test events, whose answers say enough to who sent them. */
function statusesOf(heard: readonly Heard[]): number[] {
  return heard.flatMap(({ outcome, isPing }) => (outcome.kind === 'answered' && !isPing ? [outcome.status] : []));
}
