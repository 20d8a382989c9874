import { afterReap } from '../shared/core/decide.ts';
import { recordKeyOf, shortHash } from '../shared/core/keys.ts';
import type { Claim } from '../shared/core/lane.ts';
import { assertTransition, type DeliveryRecord, type WaitingRecord } from '../shared/core/record.ts';
import type { EndpointConfig } from '../shared/limits/endpoint-schema.ts';
import type { ReapClaim } from '../shared/ports/index.ts';
import { blankOf } from './decide-copy.ts';
import { noteUnknownAgain } from './note-hold.ts';
import type { Copy, DeliverDeps } from './types.ts';

/** Policy of the endpoint as it is known: undefined where there is none that could be used. */
type Policy = EndpointConfig | undefined;

/**
 * Clears an expired claim on `copy`'s key (U4). Its owner is dead, for leases outlive every invocation that holds them;
 * if it left no verdict, it may have sent, and one ambiguous attempt is recorded in the same transaction.
 * False where the claim must stay for now: somebody else was quicker, or only another message may speak for it.
 */
export async function reapExpired(deps: DeliverDeps, copy: Copy, claim: Claim, policy: Policy): Promise<boolean> {
  const { endpointId } = copy.message;
  // Without a record only this payload's own message knows what the dead owner may have sent.
  return reap(deps, { endpointId, claimKey: copy.claimKey, policy }, claim, copy);
}

/** As `reapExpired`, for one whose message nobody has: where there is no record, or nobody else has its payload, the claim stays for that message. */
export async function reapOrphan(deps: DeliverDeps, key: { endpointId: string; claimKey: string; policy: Policy }, claim: Claim): Promise<boolean> {
  return reap(deps, key, claim, undefined);
}

interface Key {
  readonly endpointId: string;
  readonly claimKey: string;
  readonly policy: Policy;
}

async function reap(deps: DeliverDeps, { endpointId, claimKey, policy }: Key, claim: Claim, copy: Copy | undefined): Promise<boolean> {
  const recordKey = recordKeyOf(endpointId, claimKey);
  const { found, unread } = await deps.records.read([recordKey]);
  if (unread.has(recordKey)) return false;
  const record = found.get(recordKey);
  const base = record ?? (copy !== undefined && claim.shortHash === copy.shortHash ? blankOf(copy) : undefined);
  if (base === undefined) return false;
  const ambiguous = ambiguousAttempt(record, base, claim, { nowEpochMs: deps.clock.nowEpochMs(), policy });
  if (ambiguous !== undefined) assertTransition(ambiguous.from, ambiguous.to);
  if (ambiguous?.to.state === 'unknown' && !(await keepsPayload(deps, ambiguous, copy))) return false;
  const answer = await deps.lanes.reapClaim({ endpointId, claimKey, claim, ambiguous });
  if (answer === 'reaped') deps.telemetry.event('claim-reaped', { endpointId, eventId: base.eventId, ambiguous: ambiguous === undefined ? 0 : 1, state: ambiguous?.to.state ?? base.state });
  // Of the drain: its index may show it nowhere by the end of the run, and no copy comes back that would note it.
  if (answer === 'reaped' && ambiguous?.to.state === 'unknown' && deps.serves === 'held') await noteUnknownAgain(deps, ambiguous.to);
  return answer === 'reaped';
}

/** Where its message may go afterwards, its payload must lie beside the record before that says so. */
async function keepsPayload({ payloads, clock }: DeliverDeps, { from, to }: NonNullable<ReapClaim['ambiguous']>, copy: Copy | undefined): Promise<boolean> {
  if (from?.home === 'held') return true;
  // A conflicting message has another payload, and may be the one that finds the claim.
  return copy?.message.payloadHash === to.payloadHash && (await payloads.put(to, copy.received.body, clock.nowEpochMs())) === 'written';
}

/** What the dead owner owes the record; nothing if its verdict is there, for a verdict never goes away while the claim stays. */
function ambiguousAttempt(from: DeliveryRecord | undefined, base: DeliveryRecord, claim: Claim, { nowEpochMs, policy }: { nowEpochMs: number; policy: Policy }): ReapClaim['ambiguous'] {
  if (base.state !== 'waiting' || base.lastLease?.leaseId === claim.leaseId) return undefined;
  const to = afterReap(base, claim.leaseId, nowEpochMs, policy);
  // An owner that held another payload than the record's found a conflict, and sent nothing; or a hold has made the record since, which
  // looks at no claim. Nobody can tell, so it counts where nothing may be sent twice.
  if (claim.shortHash !== shortHash(base.payloadHash) && to.state !== 'unknown') return undefined;
  return { from: from as WaitingRecord | undefined, to };
}
