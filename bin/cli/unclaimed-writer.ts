import { randomBytes } from 'node:crypto';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import { pauseBriefly } from '../../lambdas/shared/adapters/repeat.ts';
import { claimKeyOf, isSyntheticKey } from '../../lambdas/shared/core/keys.ts';
import type { Claim } from '../../lambdas/shared/core/lane.ts';
import { assertTransition, type DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';
import { awsCalls, hold } from '../../lambdas/shared/limits/numbers.ts';
import type { LaneGuard, PayloadName } from '../../lambdas/shared/ports/index.ts';
import { registryOf } from './endpoint-commands.ts';
import type { Output } from './output.ts';
import type { Target } from './target.ts';

/** What an operator changes of one delivery. */
export interface Change<From extends DeliveryRecord, To extends DeliveryRecord> {
  /** Of this very change, and in `lastLease` of what it writes: by it alone its own repeat is known, and of two operators only one may take it for theirs. */
  readonly leaseId: string;
  /** The record as it is now, where the change may still be made of it. */
  readonly still: (now: DeliveryRecord | undefined) => From | undefined;
  readonly to: (from: From) => To;
}

/** `busy`: it is as it was, as far as is known. `moved`: somebody or something else has taken it further meanwhile. */
export type Changed = { readonly kind: 'written' | 'moved' } | { readonly kind: 'busy'; readonly why: string };

/** What one try came to. `unwritten`: it may be repeated; with the claim that stood in its way. */
export type Tried =
  | { readonly kind: 'written' }
  | { readonly kind: 'busy'; readonly why: string }
  | { readonly kind: 'unwritten'; readonly claim?: Claim & { readonly endsEpochMs: number } };

export function leaseIdOf(prefix: string): string {
  return `${prefix}-${ulid(Date.now(), randomBytes(10))}`;
}

export type UnclaimedWriter = ReturnType<typeof createUnclaimedWriter>;

/** An operator's writes over records on which nobody has a claim: whoever sends would settle over them. */
export function createUnclaimedWriter(target: Target) {
  const tables = { endpoints: target.endpointsTable, deliveries: target.deliveriesTable };
  const [records, lanes, registry] = [createDynamoDbRecords(target.db, tables), createDynamoDbLanes(target.db, tables), registryOf(target)];
  /** What a write requires of each endpoint's lane. */
  const required = new Map<string, LaneGuard['lane']>();

  /** Tries `write`, some times, until it is known what has become of it; each time from the record as it is then. */
  async function change<From extends DeliveryRecord, To extends DeliveryRecord>(record: From, wanted: Change<From, To>, write: (from: From, to: To) => Promise<Tried>): Promise<Changed> {
    let from = record;
    for (let tries = 0; tries <= awsCalls.repeats; tries++) {
      const to = wanted.to(from);
      assertTransition(from, to);
      const tried = await write(from, to);
      if (tried.kind !== 'unwritten') return tried;
      const { claim } = tried;
      if (claim !== undefined && claim.endsEpochMs > Date.now()) return { kind: 'busy', why: 'a worker has a claim on it' };
      const { found, unread } = await records.read([record.recordKey]);
      if (!unread.has(record.recordKey)) {
        const now = found.get(record.recordKey);
        // A write whose answer was lost.
        if (now?.lastLease?.leaseId === wanted.leaseId) return { kind: 'written' };
        const next = wanted.still(now);
        if (next === undefined) return { kind: 'moved' };
        from = next;
        // Of a worker that died after its verdict: while its claim stays, that does not go away, and nobody else may come for it.
        if (claim !== undefined) await lanes.reapClaim({ endpointId: record.endpointId, claimKey: claimKeyOf(record.eventId ?? ''), claim, ambiguous: undefined });
      }
      // The endpoint was written meanwhile, or the write met another one.
      required.delete(record.endpointId);
      await pauseBriefly();
    }
    return { kind: 'busy', why: 'DynamoDB did not take the write now' };
  }

  /** Over exactly `from`. A record whose key was made from a body has no claims. */
  async function writeOnce(from: DeliveryRecord, to: DeliveryRecord): Promise<Tried> {
    const { answer, claim } = isSyntheticKey(from.recordKey) ? { answer: await records.write(from, to), claim: undefined } : await records.writeUnclaimed(from, to, await guardOf(from));
    if (answer === 'written') return { kind: 'written' };
    return { kind: 'unwritten', ...(claim === undefined ? {} : { claim }) };
  }

  async function guardOf({ endpointId, eventId }: DeliveryRecord): Promise<LaneGuard> {
    const lane = required.get(endpointId) ?? (await laneOf(endpointId));
    required.set(endpointId, lane);
    return { endpointId, claimKey: claimKeyOf(eventId ?? ''), lane };
  }

  async function laneOf(endpointId: string): Promise<LaneGuard['lane']> {
    const found = await registry.get(endpointId);
    return found === undefined ? { kind: 'absent' } : { kind: 'atVersion', cfg: found.endpoint.version };
  }

  return {
    change,
    write: <From extends DeliveryRecord>(record: From, wanted: Change<From, DeliveryRecord>) => change(record, wanted, writeOnce),
  };
}

/** Removes payloads of what is never sent again: it is that all the same where one stays. */
export function createPayloadRemover(target: Target) {
  const payloads = createDynamoDbPayloads(target.db, target.payloadsTable);
  let left = 0;
  return {
    remove: (name: PayloadName): Promise<void> => payloads.remove(name).catch(() => void left++),
    report(out: Output): void {
      if (left > 0) out.note(`${left} payloads could not be removed; they end by themselves within ${hold.payloadTtlS / 86_400} days.`);
    },
  };
}
