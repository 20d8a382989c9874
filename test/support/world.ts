/** What the contract suites run on: the fakes of the flow's tests, and the DynamoDB adapters. */
import { expect } from 'vitest';
import type { Lane } from '../../lambdas/shared/core/lane.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import type { Admission, Endpoint, GiveBack, Lanes, Records } from '../../lambdas/shared/ports/index.ts';
import { endpointOf, namesOf, t0EpochMs } from './builders.ts';

export interface World {
  readonly lanes: Lanes;
  readonly records: Records;
  put(endpoint: Endpoint): Promise<void>;
  remove(endpointId: string): Promise<void>;
  lane(endpointId: string): Promise<Lane | undefined>;
}

/** When the leases of these tests end. */
export const expiresEpochMs = t0EpochMs + 35_000;

let endpoints = 0;

/** One endpoint of its own in a world, and the writes on its lane with everything filled in. */
export class LaneSubject {
  readonly endpointId = `ep-${++endpoints}`;
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  put(maxInFlight = 8, version = 'V1'): Promise<void> {
    return this.#world.put(endpointOf({ endpointId: this.endpointId, maxInFlight }, version));
  }

  ask(eventIds: readonly string[], more: Partial<Admission> = {}): Admission {
    const wanted = eventIds.map((eventId) => this.names(eventId)).map(({ claimKey, shortHash }) => ({ claimKey, shortHash }));
    return { endpointId: this.endpointId, cfg: 'V1', leaseId: 'l1', expiresEpochMs, wanted, ...more };
  }

  give(more: Partial<GiveBack> = {}): GiveBack {
    return { endpointId: this.endpointId, leaseId: 'l1', expiresEpochMs, slots: 1, release: [], keep: [], successes: 0, failures: 0, ...more };
  }

  key(eventId: string): string {
    return this.names(eventId).claimKey;
  }

  names(eventId: string) {
    return namesOf({ endpointId: this.endpointId, eventId });
  }

  /** The lane, checked for what must hold in any state. */
  async lane(): Promise<Lane> {
    const lane = await this.#world.lane(this.endpointId);
    if (lane === undefined) throw new Error('no lane');
    expectBalanced(lane);
    return lane;
  }

  async record(eventId: string): Promise<DeliveryRecord | undefined> {
    const { recordKey } = this.names(eventId);
    return (await this.#world.records.read([recordKey])).found.get(recordKey);
  }
}

/** Every write changes `avail` and a lease by the same number. */
export function expectBalanced(lane: Lane): void {
  const leased = [...lane.leases.values()].reduce((sum, lease) => sum + lease.slots, 0);
  expect(lane.avail + leased).toBe(lane.slots);
}
