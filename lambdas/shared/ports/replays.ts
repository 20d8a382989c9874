import type { Lane } from '../core/lane.ts';
import type { DeadRecord, UnknownRecord, WaitingRecord } from '../core/record.ts';

/** One dead delivery as the index knows it: it may be seconds behind the record. */
export interface DeadKey {
  readonly recordKey: string;
  /** Of the index: only the index reads it. */
  readonly partition: string;
  /** When it died. */
  readonly lastEpochMs: number;
}

export interface DeadRange {
  /** Undefined: of all endpoints. */
  readonly endpointId: string | undefined;
  /** Inclusive. */
  readonly fromEpochMs: number;
  /** Exclusive. */
  readonly toEpochMs: number;
}

export interface DeadIndex {
  /**
   * Of one endpoint, oldest first; of all, one endpoint after the other, each oldest first. A page may be empty though more follows.
   * `next` is where the next page begins, undefined at the end; any key may be. Rejects where the index cannot be read.
   */
  page(range: DeadRange, limit: number, after: DeadKey | undefined): Promise<{ keys: readonly DeadKey[]; next: DeadKey | undefined }>;
}

/** One delivery's way from dead, or unknown, to held. `to` has a lease of this very move, by which its repeat is recognised. */
export interface Move {
  readonly from: DeadRecord | UnknownRecord;
  readonly to: WaitingRecord;
  readonly claimKey: string;
}

export interface Replays {
  /**
   * Moves all of these deliveries of one endpoint, or none: each record is still as it was read, nobody has a claim on any, and the
   * endpoint's lane is there and learns of them. Its wake-up becomes `nowEpochMs`, so that a run of the drain that is alive comes again.
   */
  move(endpointId: string, moves: readonly Move[], nowEpochMs: number): Promise<ReplayMoveAnswer>;
}

export type ReplayMoveAnswer =
  | { readonly kind: 'moved' }
  /** Nothing was moved. */
  | {
      readonly kind: 'refused';
      /** Of records that are not as they were read, by key: `own` where an earlier try of this very move was applied. */
      readonly changed: ReadonlyMap<string, 'own' | 'other'>;
      /** Where the lane refused: as it is, or undefined where there is none. */
      readonly lane: { readonly found: Lane | undefined } | undefined;
    }
  /** Nothing was moved: a throttle, or a conflict with another write. */
  | { readonly kind: 'notApplied' }
  /** It may have been applied, or may be yet. */
  | { readonly kind: 'unsure' };
