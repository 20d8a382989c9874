import { afterReap } from '../shared/core/decide.ts';
import { shortHash } from '../shared/core/keys.ts';
import type { Claim } from '../shared/core/lane.ts';
import { assertTransition, type DeliveryRecord } from '../shared/core/record.ts';
import type { ReapClaim } from '../shared/ports/index.ts';
import { blankOf } from './decide-copy.ts';
import type { Copy, DeliverDeps } from './types.ts';

/**
 * Clears an expired claim on `copy`'s key (U4). Its owner is dead, for leases outlive every invocation that holds them;
 * if it left no verdict, it may have sent, and one ambiguous attempt is recorded in the same transaction.
 * False where the claim must stay for now: somebody else was quicker, or only another message may speak for it.
 */
export async function reapExpired(deps: DeliverDeps, copy: Copy, claim: Claim): Promise<boolean> {
  const { found, unread } = await deps.records.read([copy.recordKey]);
  if (unread.has(copy.recordKey)) return false;
  const record = found.get(copy.recordKey);
  // Without a record only this payload's own message knows what the dead owner may have sent.
  if (record === undefined && claim.shortHash !== copy.shortHash) return false;
  const ambiguous = ambiguousAttempt(copy, claim, record, deps.clock.nowEpochMs());
  if (ambiguous !== undefined) assertTransition(ambiguous.from, ambiguous.to);
  const { endpointId, eventId } = copy.message;
  const answer = await deps.lanes.reapClaim({ endpointId, claimKey: copy.claimKey, claim, ambiguous });
  if (answer === 'reaped') deps.telemetry.event('claim-reaped', { endpointId, eventId, ambiguous: ambiguous === undefined ? 0 : 1 });
  return answer === 'reaped';
}

/** What the dead owner owes the record; nothing if its verdict is there, for a verdict never goes away while the claim stays. */
function ambiguousAttempt(copy: Copy, claim: Claim, record: DeliveryRecord | undefined, nowEpochMs: number): ReapClaim['ambiguous'] {
  if (record === undefined) return { from: undefined, to: afterReap(blankOf(copy), claim.leaseId, nowEpochMs) };
  if (record.state !== 'waiting' || record.lastLease?.leaseId === claim.leaseId) return undefined;
  // An owner that held another payload than the record's found a conflict, and sent nothing.
  if (claim.shortHash !== shortHash(record.payloadHash)) return undefined;
  return { from: record, to: afterReap(record, claim.leaseId, nowEpochMs) };
}
