import { isDeepStrictEqual } from 'node:util';
import { afterReport, firstRound, type Breaker, type Sample } from '../shared/core/breaker.ts';
import { breaker as limits } from '../shared/limits/numbers.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import { swapped } from './swap.ts';
import type { DeliverDeps, Invocation } from './types.ts';

/** A lease, and the breaker as it was when the lease was taken. */
export interface Sender {
  readonly endpoint: Endpoint;
  readonly leaseId: string;
  readonly breaker: Breaker | undefined;
}

/**
 * Moves the endpoint's breaker by what a lease's attempts say: one conditional write, and none while all is well. Never
 * rejects: a report that is lost makes the breaker later, while its deliveries have their verdicts already.
 * @returns the breaker as far as it is known now
 */
export async function reportHealth(deps: DeliverDeps, sender: Sender, samples: readonly Sample[], invocation: Invocation): Promise<Breaker | undefined> {
  const { endpoint, leaseId } = sender;
  const { endpointId, breaker: policy } = endpoint.config;
  const report = { leaseId, round: sender.breaker?.round ?? firstRound, samples };
  let from = sender.breaker;
  let written: Breaker | undefined;
  try {
    const result = await swapped(deps, invocation, limits.swaps, (found) => {
      if (found !== undefined) from = found.breaker;
      // Counted already: the SDK has repeated the write.
      if (written !== undefined && isDeepStrictEqual(from, written)) return undefined;
      const to = afterReport(from, report, policy, deps.clock.nowEpochMs());
      if (to === undefined) return undefined;
      written = to;
      return { to, answer: deps.lanes.moveBreaker(endpointId, from, to) };
    });
    if (result.kind === 'moved') from = result.to;
    if (written !== undefined && isDeepStrictEqual(from, written)) tell(deps, endpointId, report.round, written);
    else if (result.kind !== 'nothing') deps.telemetry.event('breaker-report-lost', { endpointId, why: result.kind });
  } catch (error) {
    deps.telemetry.fault('breaker-failed', error, { endpointId });
  }
  return from;
}

/** Its transitions are events that somebody sees (C5). */
function tell(deps: DeliverDeps, endpointId: string, round: number, to: Breaker): void {
  if (to.round === round) return;
  if (to.state === 'open') deps.telemetry.event('breaker-opened', { endpointId, cause: to.cause, untilEpochMs: to.untilEpochMs, trips: to.trips });
  else deps.telemetry.event('breaker-closed', { endpointId });
}
