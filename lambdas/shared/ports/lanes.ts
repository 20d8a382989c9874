import type { Breaker, OpenBreaker } from '../core/breaker.ts';
import type { Claim, Lane, Lease, Wanted } from '../core/lane.ts';
import type { WaitingRecord } from '../core/record.ts';

/** A lane as one worker sees it: every method is one conditional write. */
export interface Lanes {
  /** Takes slots and claims for all of `wanted`, or none. */
  admit(ask: Admission): Promise<AdmitAnswer>;
  /** `giveBack` of one lease and `admit` of the next, both or neither: the slots never lie idle between two waves. */
  exchange(give: GiveBack, ask: Admission): Promise<AdmitAnswer>;
  /**
   * Returns a lease's slots. Claims in `release` are removed; where `keep` holds any, lease and claims stay, without
   * slots, until they expire.
   */
  giveBack(give: GiveBack): Promise<GiveBackAnswer>;
  /** Returns the slots of an expired lease, if it is still exactly `seen`. */
  reapLease(endpointId: string, leaseId: string, seen: Lease): Promise<void>;
  /** Removes a claim that the caller has seen expired, if it is still that claim. */
  reapClaim(reap: ReapClaim): Promise<ReapAnswer>;
  /** Writes the breaker `to`, if it is still exactly `from`. */
  moveBreaker(endpointId: string, from: Breaker | undefined, to: Breaker): Promise<MoveAnswer>;
  /** Writes when the next request would be due, if that is still exactly `from`. */
  moveRate(endpointId: string, fromEpochMs: number | undefined, toEpochMs: number): Promise<MoveAnswer>;
}

export type MoveAnswer =
  | { kind: 'moved' }
  /** Another write was quicker; with the lane as it was then, undefined where there is none. */
  | { kind: 'lost'; lane: Lane | undefined }
  /** It may have been written, or not. */
  | { kind: 'unsure' };

export interface Admission {
  readonly endpointId: string;
  readonly cfg: string;
  readonly leaseId: string;
  readonly expiresEpochMs: number;
  readonly wanted: readonly Wanted[];
  /** The open breaker, exactly as it was seen, whose canary this becomes; undefined where the breaker must be closed. */
  readonly canaryOf?: OpenBreaker;
}

export type AdmitAnswer =
  /** With the slots that are left, the breaker and the rate, as of this write. */
  | ({ kind: 'granted' } & Pick<Lane, 'avail' | 'breaker' | 'nextAtEpochMs'>)
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
  /** Written with it in one transaction, over a record that is still `from`; undefined where the owner left its verdict. */
  readonly ambiguous: { readonly from: WaitingRecord | undefined; readonly to: WaitingRecord } | undefined;
}

export type ReapAnswer = 'reaped' | 'lost';
