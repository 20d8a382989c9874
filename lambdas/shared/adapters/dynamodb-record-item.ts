import { noEndpoint } from '../core/keys.ts';
import type { AttemptEntry, DeadReason, DeliveredRecord, DeliveryRecord, DroppedRecord, Resolution, StuckReason } from '../core/record.ts';
import { records } from '../limits/numbers.ts';

/** Attributes that only some states have; a write removes those that its state lacks. */
export const optionalAttributes = [
  'home', 'dueEpochMs', 'phase', 'reason', 'detail', 'why', 'by', 'droppedEpochMs', 'lastLease', 'gpk', 'gsk', 'ttlEpochS', 'eventId', 'eventType',
  'via', 'sinceEpochMs', 'looks', 'anewFrom', 'nextLookEpochMs', 'stuck', 'reference', 'resolved', 'upk', 'cleared',
] as const;

export type RecordItem = Record<string, unknown>;

/** The item of a record, without its key. History entries are lists: names inside maps are billed with every write. */
export function toItem(record: DeliveryRecord): RecordItem {
  const { recordKey: _key, history, lastLease, cleared, resolved, ...fields } = record;
  return {
    v: versionOf(record),
    ...fields,
    // Left out where it is what its absence says: nearly every record has no doubts.
    ...(cleared === 0 ? {} : { cleared }),
    ...(resolved === undefined ? {} : { resolved: [resolved.as, resolved.why, resolved.by, resolved.atEpochMs] }),
    ...(record.state === 'delivered' && record.via === 'response' ? { via: undefined } : {}),
    history: history.map((h) => [h.atEpochMs, h.durationMs, h.generation, h.outcome, h.detail, h.bodyExcerpt ?? '']),
    ...(lastLease === undefined ? {} : { lastLease: [lastLease.leaseId, lastLease.kind] }),
    ...attention(record),
    // Only terminal records end by themselves; a time to live decides nothing else.
    ...(record.state === 'waiting' || record.state === 'unknown' ? {} : { ttlEpochS: Math.ceil(endedEpochMs(record) / 1_000) + records.ttlS }),
  };
}

/** The oldest program that may decide from it: an older one must leave it alone. */
function versionOf(record: DeliveryRecord): number {
  if (record.state === 'unknown') return records.unknownVersion;
  if (record.state === 'dropped') return records.droppedVersion;
  return record.state === 'waiting' && record.home === 'held' ? records.heldVersion : records.version;
}

const endedEpochMs = (record: DeliveryRecord) => (record.state === 'dropped' ? record.droppedEpochMs : record.lastEpochMs);

/** Partition of the attention index. */
export function attentionKey(state: 'held' | 'burying' | 'dead' | 'unknown', endpointId: string): string {
  return `${state}#${endpointId === '' ? noEndpoint : endpointId}`;
}

/** Partition of the index over all that is unknown. */
export function unknownKey(shard: number): string {
  return `unknown#${shard}`;
}

/** By the record's key, so that one endpoint's share is spread. */
function shardOf({ recordKey }: DeliveryRecord): number {
  return (recordKey.codePointAt(recordKey.length - 1) ?? 0) % records.unknownShards;
}

/** What the sparse indexes sort by: of what is held when it is due, of what is dead when it died, of what is unknown when it is looked for, and since when it is. */
function attention(record: DeliveryRecord): RecordItem {
  if (record.state === 'waiting' && record.home === 'held') return { gpk: attentionKey('held', record.endpointId), gsk: record.dueEpochMs };
  if (record.state === 'unknown') {
    return { gpk: attentionKey('unknown', record.endpointId), gsk: record.nextLookEpochMs ?? records.neverEpochMs + record.sinceEpochMs, upk: unknownKey(shardOf(record)) };
  }
  if (record.state !== 'dead' || record.reason === 'ping-failed') return {};
  return { gpk: attentionKey(record.phase === 'buried' ? 'dead' : 'burying', record.endpointId), gsk: record.lastEpochMs };
}

/** Reads an item. Throws on a newer version: an older program must not decide from what it cannot read. */
export function toRecord(item: RecordItem): DeliveryRecord {
  const version = item['v'] as number;
  if (version > records.newestVersion) throw new Error(`record version ${version} is newer than this program's ${records.newestVersion}`);
  const lastLease = item['lastLease'] as [string, 'settled' | 'reaped'] | undefined;
  const resolved = item['resolved'] as [Resolution['as'], string, string, number] | undefined;
  const history = item['history'] as [number, number, number, AttemptEntry['outcome'], string, string][];
  const common = {
    endpointId: item['endpointId'] as string,
    recordKey: item['pk'] as string,
    eventId: item['eventId'] as string | undefined,
    eventType: item['eventType'] as string | undefined,
    payloadHash: item['payloadHash'] as string,
    generation: item['generation'] as number,
    attempt: item['attempt'] as number,
    ambiguous: item['ambiguous'] as number,
    cleared: (item['cleared'] as number | undefined) ?? 0,
    resend: item['resend'] as number,
    firstEpochMs: item['firstEpochMs'] as number,
    lastEpochMs: item['lastEpochMs'] as number,
    lastLease: lastLease === undefined ? undefined : { leaseId: lastLease[0], kind: lastLease[1] },
    history: history.map(([atEpochMs, durationMs, generation, outcome, detail, bodyExcerpt]): AttemptEntry => ({
      atEpochMs, durationMs, generation, outcome, detail, ...(bodyExcerpt === '' ? {} : { bodyExcerpt }),
    })),
    ...(item['reference'] === undefined ? {} : { reference: item['reference'] as string }),
    ...(resolved === undefined ? {} : { resolved: { as: resolved[0], why: resolved[1], by: resolved[2], atEpochMs: resolved[3] } }),
  };
  switch (item['state'] as DeliveryRecord['state']) {
    case 'waiting':
      return { ...common, state: 'waiting', home: item['home'] as 'queue' | 'held', dueEpochMs: item['dueEpochMs'] as number };
    case 'delivered':
      return { ...common, state: 'delivered', via: (item['via'] as DeliveredRecord['via'] | undefined) ?? 'response' };
    case 'unknown':
      return {
        ...common,
        state: 'unknown',
        sinceEpochMs: item['sinceEpochMs'] as number,
        looks: item['looks'] as number,
        ...(item['anewFrom'] === undefined ? {} : { anewFrom: item['anewFrom'] as number }),
        nextLookEpochMs: item['nextLookEpochMs'] as number | undefined,
        stuck: item['stuck'] as StuckReason | undefined,
        detail: item['detail'] as string,
      };
    case 'dead':
      return {
        ...common,
        state: 'dead',
        phase: item['phase'] as 'burying' | 'buried',
        reason: item['reason'] as DeadReason,
        detail: item['detail'] as string,
      };
    case 'dropped':
      return {
        ...common,
        state: 'dropped',
        reason: item['reason'] as DroppedRecord['reason'],
        detail: item['detail'] as string,
        why: item['why'] as string,
        by: item['by'] as string,
        droppedEpochMs: item['droppedEpochMs'] as number,
      };
  }
}
