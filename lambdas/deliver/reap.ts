import { afterReap } from '../shared/core/decide.ts';
import { recordKeyOf, shortHash } from '../shared/core/keys.ts';
import type { Claim } from '../shared/core/lane.ts';
import { assertTransition, type DeliveryRecord, type WaitingRecord } from '../shared/core/record.ts';
import type { ReapClaim } from '../shared/ports/index.ts';
import { blankOf } from './decide-copy.ts';
import type { Copy, DeliverDeps } from './types.ts';

/**
 * Clears an expired claim on `copy`'s key (U4). Its owner is dead, for leases outlive every invocation that holds them;
 * if it left no verdict, it may have sent, and one ambiguous attempt is recorded in the same transaction.
 * False where the claim must stay for now: somebody else was quicker, or only another message may speak for it.
 */
export async function reapExpired(deps: DeliverDeps, copy: Copy, claim: Claim): Promise<boolean> {
  const { endpointId } = copy.message;
  // Without a record only this payload's own message knows what the dead owner may have sent.
  return reap(deps, { endpointId, claimKey: copy.claimKey }, claim, () => (claim.shortHash === copy.shortHash ? blankOf(copy) : undefined));
}

/** As `reapExpired`, for one whose message nobody has: where there is no record, the claim stays for that message. */
export async function reapOrphan(deps: DeliverDeps, key: { endpointId: string; claimKey: string }, claim: Claim): Promise<boolean> {
  return reap(deps, key, claim, () => undefined);
}

async function reap(deps: DeliverDeps, { endpointId, claimKey }: { endpointId: string; claimKey: string }, claim: Claim, blank: () => WaitingRecord | undefined): Promise<boolean> {
  const recordKey = recordKeyOf(endpointId, claimKey);
  const { found, unread } = await deps.records.read([recordKey]);
  if (unread.has(recordKey)) return false;
  const record = found.get(recordKey);
  const base = record ?? blank();
  if (base === undefined) return false;
  const ambiguous = ambiguousAttempt(record, base, claim, deps.clock.nowEpochMs());
  if (ambiguous !== undefined) assertTransition(ambiguous.from, ambiguous.to);
  const answer = await deps.lanes.reapClaim({ endpointId, claimKey, claim, ambiguous });
  if (answer === 'reaped') deps.telemetry.event('claim-reaped', { endpointId, eventId: base.eventId, ambiguous: ambiguous === undefined ? 0 : 1 });
  return answer === 'reaped';
}

/** What the dead owner owes the record; nothing if its verdict is there, for a verdict never goes away while the claim stays. */
function ambiguousAttempt(from: DeliveryRecord | undefined, base: DeliveryRecord, claim: Claim, nowEpochMs: number): ReapClaim['ambiguous'] {
  if (base.state !== 'waiting' || base.lastLease?.leaseId === claim.leaseId) return undefined;
  // An owner that held another payload than the record's found a conflict, and sent nothing.
  if (claim.shortHash !== shortHash(base.payloadHash)) return undefined;
  return { from: from as WaitingRecord | undefined, to: afterReap(base, claim.leaseId, nowEpochMs) };
}
