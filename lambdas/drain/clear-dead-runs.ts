import { reapOrphan } from '../deliver/reap.ts';
import { isExpired, type Lane } from '../shared/core/lane.ts';
import type { DrainDeps } from './types.ts';

/**
 * Clears what a dead run has left in the lane. What it had delivered or buried is held no more, so nobody would come for its claim
 * by way of its message, as it is with messages of the delivery queue.
 */
export async function clearDeadRuns(deps: DrainDeps, endpointId: string, lane: Lane): Promise<void> {
  const nowEpochMs = deps.clock.nowEpochMs();
  const policy = lane.claims.size === 0 ? undefined : (await deps.endpoints.get(endpointId))?.config;
  for (const [claimKey, claim] of lane.claims) {
    if (isExpired(lane, claim, nowEpochMs)) await reapOrphan(deps, { endpointId, claimKey, policy }, claim);
  }
  for (const [leaseId, lease] of lane.leases) {
    if (lease.expiresEpochMs <= nowEpochMs) await deps.lanes.reapLease(endpointId, leaseId, lease);
  }
}
