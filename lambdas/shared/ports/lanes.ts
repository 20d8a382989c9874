import type { Breaker, OpenBreaker } from '../core/breaker.ts';
import type { DaySpent } from '../core/day.ts';
import type { NoticeSubject, Told } from '../core/escalation.ts';
import type { Claim, Flag, Lane, Lease, Wanted } from '../core/lane.ts';
import type { Pace } from '../core/pace.ts';
import type { UnknownRecord, WaitingRecord } from '../core/record.ts';
import type { Tally, Window } from '../core/statistics.ts';

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
  /** Writes how many attempts the day has seen, if that is still exactly `from`. */
  moveDay(endpointId: string, from: DaySpent | undefined, to: DaySpent): Promise<MoveAnswer>;
  /** Writes the pace, if it is still exactly `from`. */
  movePace(endpointId: string, from: Pace | undefined, to: Pace | undefined): Promise<MoveAnswer>;
  /** Marks what the endpoint's answers say of it, or takes the mark away. The last to say so is believed; best effort. */
  flag(endpointId: string, flag: Flag | undefined): Promise<void>;
  /** Notes that nothing is to be sent before a time, unless a later one is noted that can be believed; best effort. */
  pauseUntil(endpointId: string, untilEpochMs: number, nowEpochMs: number): Promise<void>;
  /**
   * Notes that `count` more deliveries are held, after their records say so; the wake-up stays as it is where there is one.
   * `isReady`: they may be sent before it, were there room.
   */
  hold(endpointId: string, note: { count: number; nowEpochMs: number; wakeAtEpochMs: number; isReady: boolean }): Promise<HoldAnswer>;
  /** Writes that somebody is told, or takes the note away, if it is still exactly `from`. */
  moveTold(endpointId: string, subject: NoticeSubject, from: Told | undefined, to: Told | undefined): Promise<MoveAnswer>;
  /** Counts deliveries that came and got no lease; best effort, and twice where an answer is lost: it decides nothing. */
  countOffers(endpointId: string, counted: NonNullable<GiveBack['counted']>): Promise<void>;
  /**
   * Takes out a window that has ended, exactly as it is now; undefined where it is gone already, or that is not known. In the same
   * write the lane learns how long answers take, unless that is undefined.
   */
  takeWindow(endpointId: string, seen: Window, learnedMs: number | undefined): Promise<Window | undefined>;
  /** Notes another wake-up, if that is still exactly `from`. */
  moveWakeUp(endpointId: string, fromEpochMs: number, toEpochMs: number): Promise<MoveAnswer>;
  /** Begins a run of the drain where anything is held, and no other run is alive. Until it ends, the wake-up is its expiry. */
  beginDrain(endpointId: string, run: DrainRun, nowEpochMs: number): Promise<BeginAnswer>;
  /** Ends a run, if it is still this one's, nothing was held since `seq`, and nobody has asked for another. */
  endDrain(endpointId: string, end: DrainEnd): Promise<MoveAnswer>;
}

export type HoldAnswer =
  /** With the lane as it was before. */
  | { kind: 'noted'; before: Lane }
  /** No such endpoint. */
  | { kind: 'noLane' }
  /** It may have been noted, or not. */
  | { kind: 'unsure' };

export type BeginAnswer =
  /** With the lane as it is now, and the wake-up as it was, and whether anything might have been due. */
  | { kind: 'begun'; lane: Lane; wakeAtEpochMs: number; wasReady: boolean }
  | { kind: 'refused'; lane: Lane | undefined }
  /** It may have begun, or not. */
  | { kind: 'unsure' };

export interface DrainRun {
  readonly leaseId: string;
  readonly expiresEpochMs: number;
}

export interface DrainEnd {
  readonly leaseId: string;
  /** The newest hold that it has looked for. */
  readonly seq: number;
  /** The wake-up as it saw it last: its own expiry, unless somebody has asked for it since. */
  readonly seenEpochMs: number;
  /** Deliveries that it has taken out of the hold. */
  readonly taken: number;
  /** When it is to come again; undefined where nothing is held any more. */
  readonly wakeAtEpochMs: number | undefined;
  /** Set where it has moved deliveries from one index to the other, which may not show them yet: as a hold at that time does. */
  readonly movedEpochMs?: number | undefined;
  /** False where it has seen that nothing is due before. */
  readonly isReady: boolean;
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
  /** Of a receive of the delivery queue: the slots that it leaves to the drain while anything is held. Undefined where it is the drain that asks. */
  readonly live?: { readonly kept: number };
  /** The open breaker, exactly as it was seen, whose canary this becomes; undefined where the breaker must be closed. */
  readonly canaryOf?: OpenBreaker;
}

export type AdmitAnswer =
  /** With what the lane said as of this write. */
  | ({ kind: 'granted' } & LaneState)
  /** With the item as it was; undefined where there is none. */
  | { kind: 'refused'; lane: Lane | undefined }
  /** The write may have been applied. */
  | { kind: 'unsure' }
  /** The write was not applied. */
  | { kind: 'throttled' };

/** What a sender must know of a lane beside its own lease: the slots that are left, health, rate, and whether anything is held. */
export type LaneState = Pick<Lane, 'avail' | 'failures' | 'breaker' | 'nextAtEpochMs' | 'day' | 'pausedUntilEpochMs' | 'pace' | 'flag' | 'holding' | 'window' | 'slots' | 'learnedMs'>;

export interface GiveBack {
  readonly endpointId: string;
  readonly leaseId: string;
  readonly expiresEpochMs: number;
  readonly slots: number;
  readonly release: readonly string[];
  readonly keep: readonly string[];
  /** Attempts of this lease by verdict; an operator's ping that was not accepted is none. */
  readonly successes: number;
  readonly failures: number;
  /**
   * Of its failures, those that were answered with a status, and when. `isFirst`: the lane that was admitted had no failures in a row,
   * so that a row begins. Another wave may have begun it meanwhile: its beginning is then a little too late.
   */
  readonly failed?: { readonly answered: number; readonly atEpochMs: number; readonly isFirst: boolean };
  /** What its attempts count for, and when, for a window that begins with them. */
  readonly counted?: { readonly tally: Tally; readonly atEpochMs: number };
}

/** `lost`: the lease had been reaped, and claims of it may be left; their messages must not be acknowledged. */
export type GiveBackAnswer = 'done' | 'lost' | 'unsure';

export interface ReapClaim {
  readonly endpointId: string;
  readonly claimKey: string;
  readonly claim: Claim;
  /** Written with it in one transaction, over a record that is still `from`; undefined where the owner left its verdict. */
  readonly ambiguous: { readonly from: WaitingRecord | undefined; readonly to: WaitingRecord | UnknownRecord } | undefined;
}

export type ReapAnswer = 'reaped' | 'lost';
