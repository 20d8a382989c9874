import type { Claim } from '../core/lane.ts';
import type { DeadRecord, DeliveryRecord, WaitingRecord } from '../core/record.ts';

/** Records of deliveries. Every write is conditional on the record that it was decided from. */
export interface Records {
  /** Strongly consistent. A key that could not be read is in `unread`: that is not "no record". */
  read(keys: readonly string[]): Promise<{ found: ReadonlyMap<string, DeliveryRecord>; unread: ReadonlySet<string> }>;
  /**
   * Writes `to` if the record is still `from`. The writer owns the delivery's claim, or the key is synthetic. A hold that came
   * between is kept: a delivery that waits on then waits there.
   */
  write(from: DeliveryRecord | undefined, to: DeliveryRecord): Promise<WriteAnswer>;
  /**
   * As `write`, for a delivery that nobody may claim now: also requires the lane to be as `guard` says. A claim that
   * stood in the way comes back with the answer.
   */
  writeUnclaimed(
    from: DeliveryRecord | undefined,
    to: DeliveryRecord,
    guard: LaneGuard,
  ): Promise<{ answer: WriteAnswer; claim?: Claim & { readonly endsEpochMs: number } }>;
  /**
   * Makes a waiting delivery a held one, if it is still `from` in all but what a hold changes. Needs no claim: it changes
   * neither generation nor attempt. `to` is `from`, held; or the first record of a delivery that has none.
   */
  hold(from: WaitingRecord | undefined, to: WaitingRecord): Promise<WriteAnswer>;
  /** Marks a burial as complete. Repeats are harmless. */
  markBuried(record: DeadRecord): Promise<WriteAnswer>;
  /** Takes a buried record out of what operators are shown as dead: a new delivery has taken its content up. Best effort. */
  retire(record: DeadRecord): Promise<void>;
}

/** `lost`: the condition failed. `unsure`: the write may have been applied. `failed`: it was not. */
export type WriteAnswer = 'written' | 'lost' | 'unsure' | 'failed';

/** No live or expired claim of the key, and either no endpoint, or the endpoint at this version. */
export interface LaneGuard {
  readonly endpointId: string;
  readonly claimKey: string;
  readonly lane: { readonly kind: 'absent' } | { readonly kind: 'atVersion'; readonly cfg: string };
}
