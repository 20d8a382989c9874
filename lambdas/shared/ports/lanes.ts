import type { Claim, Lane, Lease, Wanted } from '../core/lane.ts';
import type { DeliveryRecord, WaitingRecord } from '../core/record.ts';

/** A lane as one worker sees it: every method is one conditional write. */
export interface Lanes {
  /** Takes slots and claims for all of `wanted`, or none. */
  admit(ask: Admission): Promise<AdmitAnswer>;
  /**
   * Returns a lease's slots. Claims in `release` are removed; where `keep` holds any, lease and claims stay, without
   * slots, until they expire.
   */
  giveBack(give: GiveBack): Promise<GiveBackAnswer>;
  /** Returns the slots of an expired lease, if it is still exactly `seen`. */
  reapLease(endpointId: string, leaseId: string, seen: Lease): Promise<void>;
  /**
   * Removes an expired claim, and in the same transaction writes `write.to` over a record that is exactly `write.from`,
   * or checks that the record is exactly `unchanged`.
   */
  reapClaim(reap: ReapClaim): Promise<'reaped' | 'lost'>;
}

export interface Admission {
  readonly endpointId: string;
  readonly cfg: string;
  readonly leaseId: string;
  readonly expiresEpochMs: number;
  readonly wanted: readonly Wanted[];
}

export type AdmitAnswer =
  | { kind: 'granted' }
  /** With the item as it was; undefined where there is none. */
  | { kind: 'refused'; lane: Lane | undefined }
  /** The write may have been applied. */
  | { kind: 'unsure' }
  /** The write was not applied. */
  | { kind: 'throttled' };

export interface GiveBack {
  readonly endpointId: string;
  readonly leaseId: string;
  readonly expiresEpochMs: number;
  readonly slots: number;
  readonly release: readonly string[];
  readonly keep: readonly string[];
  /** Attempts of this lease by verdict, in the order in which they ended. */
  readonly successes: number;
  readonly failures: number;
}

/** `lost`: the lease had been reaped, and claims of it may be left; their messages must not be acknowledged. */
export type GiveBackAnswer = 'done' | 'lost' | 'unsure';

export interface ReapClaim {
  readonly endpointId: string;
  readonly claimKey: string;
  readonly claim: Claim;
  readonly nowEpochMs: number;
  readonly recordKey: string;
  readonly change:
    | { readonly kind: 'ambiguousAttempt'; readonly from: DeliveryRecord | undefined; readonly to: WaitingRecord }
    | { readonly kind: 'none'; readonly unchanged: DeliveryRecord | undefined };
}
