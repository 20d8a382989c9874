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
  };
}

export const leaseValue = (lease: Lease): [number, number] => [lease.slots, lease.expiresEpochMs];
export const claimValue = (claim: Claim): [string, string] => [claim.leaseId, claim.shortHash];
