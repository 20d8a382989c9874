import { claimKeyOf, isSyntheticKey, recordKeyOf } from '../shared/core/keys.ts';
import type { DeadRecord, DeliveryRecord } from '../shared/core/record.ts';
import { isSelected } from '../shared/core/selection.ts';
import { replay as limits } from '../shared/limits/numbers.ts';
import type { ReplaySelect } from '../shared/limits/replay-request.ts';
import type { DeadKey } from '../shared/ports/index.ts';
import type { Place } from './cursor.ts';
import { pauseBetweenTries } from './tries.ts';
import type { ReplayDeps } from './types.ts';

/** One delivery of a selection; without its record where that could not be read. */
export interface Selected {
  readonly key: DeadKey;
  readonly record: DeadRecord | undefined;
}

export interface Page {
  /** In the order of their keys: oldest first. */
  readonly selected: readonly Selected[];
  /** Where the next page begins; undefined at the end. */
  readonly next: DeadKey | undefined;
}

/** The next deliveries of a selection. An index lags: what is found to be dead no more is not selected. Rejects where the index cannot be read. */
export async function pageOf(deps: ReplayDeps, select: ReplaySelect, { after, toEpochMs }: Place): Promise<Page> {
  const { endpointId, eventIds, fromEpochMs = 0 } = select;
  const range = { fromEpochMs, toEpochMs };
  if (endpointId !== undefined && eventIds !== undefined && !hasSyntheticReason(select)) {
    const named = eventIds.map((eventId): DeadKey => ({ recordKey: recordKeyOf(endpointId, claimKeyOf(eventId)), partition: '', lastEpochMs: 0 }));
    const selected = (await readSelected(deps, select, range, named)).map(({ key, record }) => ({ key: { ...key, lastEpochMs: record?.lastEpochMs ?? 0 }, record }));
    return { selected: selected.filter(({ key }) => after === undefined || compare(key, after) > 0).toSorted((a, b) => compare(a.key, b.key)), next: undefined };
  }
  const { keys, next } = await deps.dead.page({ endpointId, ...range }, limits.page, after);
  return { selected: await readSelected(deps, select, range, keys), next };
}

async function readSelected(deps: ReplayDeps, select: ReplaySelect, range: Range, keys: readonly DeadKey[]): Promise<Selected[]> {
  if (keys.length === 0) return [];
  const distinct = new Map(keys.map((key) => [key.recordKey, key]));
  const { found, unread } = await readPatiently(deps, [...distinct.keys()]);
  return [...distinct.values()].flatMap((key): Selected[] => {
    if (unread.includes(key.recordKey)) return [{ key, record: undefined }];
    const record = found.get(key.recordKey);
    return isSelected(record, { ...select, ...range }) ? [{ key, record }] : [];
  });
}

/** Their keys are made from bodies, so they are found by the index only. */
function hasSyntheticReason({ reason }: ReplaySelect): boolean {
  return reason === 'malformed' || reason === 'conflict';
}

function compare(a: DeadKey, b: DeadKey): number {
  return a.lastEpochMs - b.lastEpochMs || (a.recordKey < b.recordKey ? -1 : Number(a.recordKey > b.recordKey));
}

interface Range {
  readonly fromEpochMs: number;
  readonly toEpochMs: number;
}

/** A message of no delivery of its own can only be sent again. */
export function isSynthetic({ recordKey }: DeadRecord): boolean {
  return isSyntheticKey(recordKey);
}

/** Records, strongly consistent; what a throttle has left out is asked for again, a bounded number of times. */
export async function readPatiently(deps: Pick<ReplayDeps, 'records' | 'pause' | 'random'>, keys: readonly string[]) {
  const found = new Map<string, DeliveryRecord>();
  let unread = [...keys];
  for (let tries = 0; tries < limits.tries && unread.length > 0; tries++) {
    if (tries > 0) await pauseBetweenTries(deps, tries);
    const answer = await deps.records.read(unread);
    for (const [key, record] of answer.found) found.set(key, record);
    unread = [...answer.unread];
  }
  return { found, unread };
}
