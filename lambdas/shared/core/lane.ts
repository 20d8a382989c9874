import type { Breaker, OpenBreaker } from './breaker.ts';
import type { FlagReason } from './classify.ts';
import type { DaySpent } from './day.ts';
import type { FailureRow, NoticeSubject, Told } from './escalation.ts';
import type { Pace } from './pace.ts';
import type { Window } from './statistics.ts';

/**
 * The lane of one endpoint as DynamoDB holds it, and the pure questions that a worker asks of it. `avail` plus the slots
 * of all leases equals `slots`; `avail` is negative for a while after the lane was made smaller.
 */
export interface Lane {
  readonly slots: number;
  readonly avail: number;
  /** Version of the configuration that the lane serves; `removed` once the endpoint was removed. */
  readonly cfg: string;
  readonly leases: ReadonlyMap<string, Lease>;
  readonly claims: ReadonlyMap<string, Claim>;
  /** Failures in a row, fleet-wide; 0 after any success. */
  readonly failures: number;
  /** Undefined while it has never counted anything: closed. */
  readonly breaker: Breaker | undefined;
  /** Of an endpoint with a rate: when the next request would be due if all came evenly. */
  readonly nextAtEpochMs: number | undefined;
  /** Of an endpoint whose attempts a day are bounded: those of the day on which the last one was made. */
  readonly day: DaySpent | undefined;
  /** It refuses in a way that its owner must see. Undefined since its last 2xx. */
  readonly flag: Flag | undefined;
  /** The endpoint asked for less (429, or 503 with a time): nothing is sent before. Undefined where it never did. */
  readonly pausedUntilEpochMs: number | undefined;
  /** Undefined while all answers are quick. */
  readonly pace: Pace | undefined;
  /** Rises with every hold and never falls: a drain that saw no more than an older one must not say that nothing is held. */
  readonly holdSeq: number;
  /** Undefined while nothing is held. */
  readonly holding: Holding | undefined;
  /** The drain's run that serves it now. */
  readonly drain: { readonly leaseId: string; readonly expiresEpochMs: number } | undefined;
  /** Since the last success; undefined where the last attempt was one, or all were an operator's. */
  readonly row: FailureRow | undefined;
  /** Of what somebody was told. */
  readonly told: ReadonlyMap<NoticeSubject, Told>;
  /** What its attempts counted since the window began; undefined where nothing did. It decides nothing. */
  readonly window: Window | undefined;
  /** How long 99 of 100 answers would take were the lane full, by windows in which the endpoint was well; undefined where none was. */
  readonly learnedMs: number | undefined;
  /** The sweep changes its size by what is measured (L2). */
  readonly isAuto: boolean;
}

export interface Flag {
  readonly why: FlagReason;
  readonly sinceEpochMs: number;
}

/** That deliveries are held for the endpoint, until the drain has found that none are left. */
export interface Holding {
  /** Of the newest hold. */
  readonly heldAtEpochMs: number;
  /** When the drain is to come: a wake-up was ordered for then. Overdue, it was lost, and the sweep orders another. */
  readonly wakeAtEpochMs: number;
  /** Deliveries that are held, about: a crash may leave it wrong until none are. */
  readonly count: number;
  /** True where some of them may be due: false while all wait for the time of their next attempt, and nobody has come for them yet. */
  readonly isReady: boolean;
}

/** Slots that are kept free for the drain while anything is held that may be due: half of them, and the one of a lane of one. */
export function keptForDrain(slots: number): number {
  return Math.ceil(slots / 2);
}

export interface Lease {
  readonly slots: number;
  readonly expiresEpochMs: number;
}

/** The right to send one delivery, owned by one lease. A claim whose lease is gone or past its expiry is expired. */
export interface Claim {
  readonly leaseId: string;
  /** First characters of the payload hash: only a holder of the same payload may speak for a missing record. */
  readonly shortHash: string;
}

/** `cfg` of a lane whose endpoint was removed; no version equals it. */
export const removedCfg = 'removed';

export function isExpired(lane: Lane, claim: Claim, nowEpochMs: number): boolean {
  const lease = lane.leases.get(claim.leaseId);
  return lease === undefined || lease.expiresEpochMs <= nowEpochMs;
}

/** When the claim's owner can no longer be sending; the past, if its lease is already gone. */
export function claimEndsEpochMs(lane: Lane, claim: Claim): number {
  return lane.leases.get(claim.leaseId)?.expiresEpochMs ?? 0;
}

export interface Wanted {
  readonly claimKey: string;
  readonly shortHash: string;
}

/** Why an admission was refused, in the order in which the reasons must be read. */
export type Refusal<W extends Wanted> =
  /** Our own write came twice: the SDK repeated it. What the item says was granted. */
  | { kind: 'granted'; granted: W[]; others: W[] }
  | { kind: 'noLane' }
  | { kind: 'staleConfig' }
  | {
      kind: 'partly';
      /** Where it is open, nothing may be asked for but a canary. */
      open: OpenBreaker | undefined;
      /** Where it is, only the drain may ask. */
      isSlow: boolean;
      /** May be asked for again, as far as `room` goes. */
      free: W[];
      /** Slots that are free now, expired leases counted. */
      room: number;
      live: { wanted: W; endsEpochMs: number }[];
      expired: { wanted: W; claim: Claim }[];
      expiredLeases: [string, Lease][];
    };

/** Reads a refused admission from the item that came back with it. */
export function readRefusal<W extends Wanted>(
  lane: Lane | undefined,
  asked: { leaseId: string; cfg: string; wanted: readonly W[]; live?: { kept: number } },
  nowEpochMs: number,
): Refusal<W> {
  if (lane?.leases.has(asked.leaseId) === true) {
    const mine = (w: W) => lane.claims.get(w.claimKey)?.leaseId === asked.leaseId;
    return { kind: 'granted', granted: asked.wanted.filter(mine), others: asked.wanted.filter((w) => !mine(w)) };
  }
  if (lane === undefined || lane.cfg === removedCfg) return { kind: 'noLane' };
  if (lane.cfg !== asked.cfg) return { kind: 'staleConfig' };
  const expiredLeases = [...lane.leases].filter(([, lease]) => lease.expiresEpochMs <= nowEpochMs);
  const found: Extract<Refusal<W>, { kind: 'partly' }> = {
    kind: 'partly',
    open: lane.breaker?.state === 'open' ? lane.breaker : undefined,
    isSlow: lane.pace?.isSlow === true,
    free: [],
    room: Math.max(0, lane.avail + expiredLeases.reduce((sum, [, lease]) => sum + lease.slots, 0) - keptIn(lane, asked)),
    live: [],
    expired: [],
    expiredLeases,
  };
  for (const wanted of asked.wanted) {
    const claim = lane.claims.get(wanted.claimKey);
    if (claim === undefined) found.free.push(wanted);
    else if (isExpired(lane, claim, nowEpochMs)) found.expired.push({ wanted, claim });
    else found.live.push({ wanted, endsEpochMs: claimEndsEpochMs(lane, claim) });
  }
  return found;
}

function keptIn(lane: Lane, { live }: { live?: { kept: number } }): number {
  return live === undefined || lane.holding?.isReady !== true ? 0 : live.kept;
}

/** Deliveries in flight now: the slots of leases that have not expired. */
export function inFlight(lane: Lane, nowEpochMs: number): number {
  return [...lane.leases.values()].reduce((sum, lease) => sum + (lease.expiresEpochMs > nowEpochMs ? lease.slots : 0), 0);
}
