import type { Breaker, ClosedBreaker, OpenBreaker } from '../core/breaker.ts';
import type { Claim, Lane, Lease } from '../core/lane.ts';

/** Sort keys of the Endpoints table. */
export const sk = { config: 'config', lane: 'lane' } as const;

export interface LaneItem {
  readonly slots: number;
  readonly avail: number;
  readonly cfg: string;
  /** Lease id to [slots, expiry]: lists, for names inside maps are billed with every write. */
  readonly leases: Record<string, [number, number]>;
  /** Claim key to [lease id, first characters of the payload hash]. */
  readonly claims: Record<string, [string, string]>;
  readonly failures?: number;
  /** Of a closed breaker: round, beginning of the window, attempts, failures, connections in a row that failed, the lease that reported last. */
  readonly tally?: [number, number, number, number, number, string];
  /** Of an open breaker: round, its end, trips in a row, and the canary's lease and expiry, empty where there is none. */
  readonly open?: [number, number, number, string, number];
}

export function toLane(item: Record<string, unknown>): Lane {
  const raw = item as unknown as LaneItem;
  return {
    slots: raw.slots,
    avail: raw.avail,
    cfg: raw.cfg,
    leases: new Map(Object.entries(raw.leases).map(([id, [slots, expiresEpochMs]]): [string, Lease] => [id, { slots, expiresEpochMs }])),
    claims: new Map(Object.entries(raw.claims).map(([key, [leaseId, shortHash]]): [string, Claim] => [key, { leaseId, shortHash }])),
    failures: raw.failures ?? 0,
    breaker: toBreaker(raw),
  };
}

export function toBreaker({ open, tally }: Pick<LaneItem, 'open' | 'tally'>): Breaker | undefined {
  if (open !== undefined) {
    const [round, untilEpochMs, trips, leaseId, expiresEpochMs] = open;
    return { state: 'open', round, untilEpochMs, trips, canary: leaseId === '' ? undefined : { leaseId, expiresEpochMs } };
  }
  if (tally === undefined) return undefined;
  const [round, sinceEpochMs, attempts, failures, connectFailures, by] = tally;
  return { state: 'closed', round, sinceEpochMs, attempts, failures, connectFailures, by };
}

export const openValue = ({ round, untilEpochMs, trips, canary }: OpenBreaker): NonNullable<LaneItem['open']> => [
  round, untilEpochMs, trips, canary?.leaseId ?? '', canary?.expiresEpochMs ?? 0,
];
export const tallyValue = (closed: ClosedBreaker): NonNullable<LaneItem['tally']> => [
  closed.round, closed.sinceEpochMs, closed.attempts, closed.failures, closed.connectFailures, closed.by,
];

export const leaseValue = (lease: Lease): [number, number] => [lease.slots, lease.expiresEpochMs];
export const claimValue = (claim: Claim): [string, string] => [claim.leaseId, claim.shortHash];
