import { syntheticKeysOf } from '../shared/core/keys.ts';
import { decideReceive, type ReceiveDecision } from '../shared/core/receive.ts';
import { blankRecord, type DeadRecord, type DeliveryRecord, type WaitingRecord } from '../shared/core/record.ts';
import type { Copy, DeliverDeps } from './types.ts';

export type CopyDecision =
  | ReceiveDecision
  /** A redrive of what was buried by its body, under a parser that did not take it: a new delivery now. */
  | { kind: 'takeUp'; buried: DeadRecord }
  /** Something that the decision needs could not be read: nothing may be done on it. */
  | { kind: 'unread' };

/**
 * What a receive finds, and what it does. A redrive without a record gets one more look: its home may be a record that was
 * made from its body. An acknowledgement on "no record" alone would lose the only copy.
 */
export async function decideCopy(
  deps: DeliverDeps,
  copy: Copy,
  record: DeliveryRecord | undefined,
  nowEpochMs: number,
): Promise<CopyDecision> {
  const { deadLetterGeneration, body } = copy.received;
  const decision = decideReceive({ ...copy.message, deadLetterGeneration }, record, nowEpochMs, deps.serves);
  if (decision.kind !== 'done' || decision.why !== 'redrive-without-record') return decision;
  const { found, unread } = await deps.records.read(syntheticKeysOf(copy.message.endpointId, body));
  const buried = [...found.values()].find((r) => r.state === 'dead' && r.generation === deadLetterGeneration);
  if (buried?.state === 'dead') return { kind: 'takeUp', buried };
  return unread.size > 0 ? { kind: 'unread' } : decision;
}

/**
 * The record that a copy without one starts from. A redriven copy starts beyond the generation that it carries, or it would
 * be a redrive of itself if its acknowledgement were lost.
 */
export function blankOf(copy: Copy): WaitingRecord {
  const { endpointId, eventId, eventType, payloadHash } = copy.message;
  const { sentEpochMs, deadLetterGeneration } = copy.received;
  const blank = blankRecord({ endpointId, eventId, eventType, payloadHash, recordKey: copy.recordKey }, sentEpochMs);
  return deadLetterGeneration === undefined ? blank : { ...blank, generation: deadLetterGeneration + 1 };
}
