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
  const change = changeFor(copy, claim, record, deps.clock.nowEpochMs());
  if (change === undefined) return false;
  if (change.kind === 'ambiguousAttempt') assertTransition(change.from, change.to);
  const answer = await deps.lanes.reapClaim({
    endpointId: copy.message.endpointId,
    claimKey: copy.claimKey,
    claim,
    nowEpochMs: deps.clock.nowEpochMs(),
    recordKey: copy.recordKey,
    change,
  });
  if (answer === 'reaped') {
    deps.telemetry.event('claim-reaped', {
      endpointId: copy.message.endpointId,
      eventId: copy.message.eventId,
      recorded: change.kind,
    });
  }
  return answer === 'reaped';
}

function changeFor(
  copy: Copy,
  claim: Claim,
  record: DeliveryRecord | undefined,
  nowEpochMs: number,
): ReapClaim['change'] | undefined {
  if (record === undefined) {
    // Without a record only this payload's own message knows what the dead owner may have sent.
    if (claim.shortHash !== copy.shortHash) return undefined;
    return { kind: 'ambiguousAttempt', from: undefined, to: afterReap(blankOf(copy), claim.leaseId, nowEpochMs) };
  }
  const hasVerdict = record.state !== 'waiting' || record.lastLease?.leaseId === claim.leaseId;
  // An owner that held another payload than the record's found a conflict, and sent nothing.
  const ownerSentNothing = claim.shortHash !== shortHash(record.payloadHash);
  if (hasVerdict || ownerSentNothing) return { kind: 'none', unchanged: record };
  return { kind: 'ambiguousAttempt', from: record, to: afterReap(record, claim.leaseId, nowEpochMs) };
}
