import { afterReport, firstRound, type Breaker, type Sample } from '../shared/core/breaker.ts';
import { breaker as limits } from '../shared/limits/numbers.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import type { DeliverDeps } from './types.ts';

/** A lease, and the breaker as it was when the lease was taken. */
export interface Sender {
  readonly leaseId: string;
  readonly breaker: Breaker | undefined;
}

/**
 * Moves the endpoint's breaker by what a lease's attempts say: one conditional write, and none while all is well. Never
 * rejects: a report that is lost makes the breaker later, while its deliveries have their verdicts already.
 */
export async function reportHealth(deps: DeliverDeps, endpoint: Endpoint, sender: Sender, samples: readonly Sample[]): Promise<void> {
  const { endpointId, breaker: policy } = endpoint.config;
  const report = { leaseId: sender.leaseId, round: sender.breaker?.round ?? firstRound, samples };
  let from = sender.breaker;
  try {
    for (let swap = 0; swap < limits.swaps; swap++) {
      const to = afterReport(from, report, policy, deps.clock.nowEpochMs());
      if (to === undefined) return;
      const answer = await deps.lanes.moveBreaker(endpointId, from, to);
      if (answer.kind === 'moved') return tell(deps, endpointId, from, to);
      if (answer.kind === 'unsure' || answer.lane === undefined) return;
      from = answer.lane.breaker;
      // Counted already: the SDK has repeated the write.
      if (from?.state === 'closed' && from.by === sender.leaseId) return;
    }
    deps.telemetry.event('breaker-report-lost', { endpointId });
  } catch (error) {
    deps.telemetry.fault('breaker-failed', error, { endpointId });
  }
}

/** Its transitions are events that somebody sees (C5). */
function tell(deps: DeliverDeps, endpointId: string, from: Breaker | undefined, to: Breaker): void {
  if (to.round === (from?.round ?? firstRound)) return;
  if (to.state === 'open') deps.telemetry.event('breaker-opened', { endpointId, cause: to.cause, untilEpochMs: to.untilEpochMs, trips: to.trips });
  else deps.telemetry.event('breaker-closed', { endpointId });
}
