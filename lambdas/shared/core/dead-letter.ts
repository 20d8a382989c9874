import { hashOf, recordKeyOf, syntheticKeyOf, syntheticKeysOf } from './keys.ts';
import { parseMessage } from './parse.ts';
import type { DeliveryRecord } from './record.ts';

/** A record that a dead letter's copy may belong to, if the payload's hash is the record's own. */
export interface Candidate {
  readonly recordKey: string;
  readonly payloadHash: string;
}

/**
 * The records that a copy may belong to: its delivery's, or one made from its body. The payload tells them apart: a
 * conflict names the same event, and both may be of the same generation.
 */
export function candidatesOf(body: string): Candidate[] {
  const parsed = parseMessage(body);
  const byBody = hashOf(Buffer.from(body));
  if (!parsed.ok) return [{ recordKey: syntheticKeyOf(parsed.endpointId, 'malformed', body), payloadHash: byBody }];
  const { endpointId, claimKey, payloadHash } = parsed.message;
  const synthetic = syntheticKeysOf(endpointId, body).map((recordKey) => ({ recordKey, payloadHash: byBody }));
  return [{ recordKey: recordKeyOf(endpointId, claimKey), payloadHash }, ...synthetic];
}

/** The generation that a message carries. Anyone may send an attribute of this name: what is no generation counts as none. */
export function generationFrom(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

export type CopyVerdict =
  /** Its delivery has gone on or has ended: the copy delivers nothing any more. */
  | 'stale'
  /** It may be the one that a replay sends, or a delivery is under way in its generation. */
  | 'current'
  /** Nothing is known that would tell: no generation, no record, or one that could not be read. */
  | 'unknown';

/** Records as a strongly consistent read found them. */
export interface Read {
  readonly found: ReadonlyMap<string, DeliveryRecord>;
  readonly unread: ReadonlySet<string>;
}

/**
 * Whether a copy in the dead-letter queue may be deleted. It must be stale by every record that it may belong to, and at
 * least by one. What is stale stays so: generations never fall, and nothing but the next one follows what has ended.
 */
export function verdictOf(copy: { readonly body: string; readonly generation: number | undefined }, { found, unread }: Read): CopyVerdict {
  const { generation } = copy;
  if (generation === undefined) return 'unknown';
  const candidates = candidatesOf(copy.body);
  if (candidates.some(({ recordKey }) => unread.has(recordKey))) return 'unknown';
  const own = candidates.flatMap(({ recordKey, payloadHash }) => {
    const record = found.get(recordKey);
    return record?.payloadHash === payloadHash ? [record] : [];
  });
  if (own.length === 0) return 'unknown';
  return own.every((record) => isPast(generation, record)) ? 'stale' : 'current';
}

function isPast(generation: number, record: DeliveryRecord): boolean {
  // The message of a redrive carries the generation before, and may have come here by way of the fault queue: its only body then.
  if ((record.state === 'waiting' && record.home === 'queue') || (record.state === 'dead' && record.phase === 'burying')) return false;
  if (generation !== record.generation) return generation < record.generation;
  switch (record.state) {
    case 'delivered':
    case 'dropped':
      return true;
    case 'dead':
    case 'waiting':
    case 'unknown':
      return false;
  }
}
