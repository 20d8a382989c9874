/** Leases in a lane, and the lane's item, both by the real adapters: nothing of what is weighed is written by hand. */
import { randomBytes } from 'node:crypto';
import { type AttributeValue, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { sk } from '../lambdas/shared/adapters/dynamodb-lane-item.ts';
import { claimKeyOf, hashOf, shortHash } from '../lambdas/shared/core/keys.ts';
import { emptyTally } from '../lambdas/shared/core/statistics.ts';
import { ulid } from '../lambdas/shared/core/version.ts';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { statistics } from '../lambdas/shared/limits/numbers.ts';
import type { Installation } from './installation.ts';
import { itemSizeBytes } from './item-size.ts';

/** Far enough that nothing reaps it while a benchmark runs. */
const leaseMs = 3_600_000;

export interface HeldLease {
  readonly leaseId: string;
  readonly claimKeys: readonly string[];
  readonly expiresEpochMs: number;
}

/** Takes one lease with `claims` claims, as another worker would. @throws Error unless the lane grants it. */
export async function holdLease({ operator }: Installation, endpointId: string, version: string, claims: number): Promise<HeldLease> {
  // As the deliver function makes them (lambdas/deliver/deps.ts): a longer id would weigh more.
  const leaseId = randomBytes(8).toString('base64url');
  const expiresEpochMs = Date.now() + leaseMs;
  const wanted = Array.from({ length: claims }, () => {
    const eventId = `evt_${ulid(Date.now(), randomBytes(10))}`;
    return { claimKey: claimKeyOf(eventId), shortHash: shortHash(hashOf(Buffer.from(eventId))) };
  });
  const answer = await operator.lanes.admit({ endpointId, cfg: version, leaseId, expiresEpochMs, wanted });
  if (answer.kind !== 'granted') throw new Error(`the lane of ${endpointId} granted no lease of ${claims}: ${answer.kind}`);
  return { leaseId, expiresEpochMs, claimKeys: wanted.map(({ claimKey }) => claimKey) };
}

export async function giveBackLease({ operator }: Installation, endpointId: string, { leaseId, expiresEpochMs, claimKeys }: HeldLease): Promise<void> {
  const none = { keep: [], successes: 0, failures: 0 };
  const answer = await operator.lanes.giveBack({ endpointId, leaseId, expiresEpochMs, slots: claimKeys.length, release: claimKeys, ...none });
  if (answer !== 'done') throw new Error(`the lane of ${endpointId} took no lease back: ${answer}`);
}

export async function laneSizeBytes(installation: Installation, endpointId: string): Promise<number> {
  return itemSizeBytes(await laneItem(installation, endpointId));
}

async function laneItem({ operator, output }: Installation, endpointId: string): Promise<Record<string, AttributeValue>> {
  const Key = marshall({ pk: endpointId, sk: sk.lane });
  const { Item } = await operator.db.send(new GetItemCommand({ TableName: output(outputs.endpointsTable), Key, ConsistentRead: true }));
  if (Item === undefined) throw new Error(`endpoint ${endpointId} has no lane`);
  return Item;
}

/** A window as large as one gets: every bin, and counters of a busy endpoint. */
export async function countWindow({ operator }: Installation, endpointId: string): Promise<void> {
  const answers = new Map([...Array(statistics.maxBins).keys()].map((i) => [50 + i, 123]));
  const tally = { ...emptyTally, attempts: 4_000, delivered: 3_900, unconnected: 12, offered: 4_000, shed: 150, busyMs: 1_234_567, answers, lastFailure: 'headers timeout' };
  await operator.lanes.countOffers(endpointId, { tally, atEpochMs: Date.now() });
}
