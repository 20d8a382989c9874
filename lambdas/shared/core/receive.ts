import type { DeliveryRecord } from './record.ts';

/** What a message says of itself to a record. */
export interface Received {
  readonly eventId: string;
  readonly payloadHash: string;
  readonly resend: number;
  /** The generation that a dead letter's copy carries; undefined on a producer's message. */
  readonly deadLetterGeneration: number | undefined;
}

export type ReceiveDecision =
  | { kind: 'proceed' }
  /** Start the next generation, then proceed. */
  | { kind: 'renew'; why: 'redrive' | 'resend' }
  | { kind: 'early'; dueEpochMs: number }
  /** Its payload waits beside the record: the drain sends it, and this copy is one too many. */
  | { kind: 'held' }
  /** May have arrived, and its payload lies beside the record: this copy is one too many, and is never sent. */
  | { kind: 'unknown' }
  /** Of the drain: the effect is to be looked for now. */
  | { kind: 'look' }
  | { kind: 'conflict'; detail: string }
  | { kind: 'buryAgain' }
  /** Nothing is left to do for this copy: its home is the record. */
  | { kind: 'done'; why: 'delivered' | 'dropped' | 'stale-dead' | 'redrive-without-record' | 'left-to-person' | 'looked-for-later' };

/** Where a copy comes from: a receive of the delivery queue, or the drain, which took it from beside its record. */
export type CopyHome = 'queue' | 'held';

/**
 * What a receive finds in the record, and what it does (the table of docs/architecture.md). Claims are judged before:
 * the caller owns the claim of this key.
 */
export function decideReceive(received: Received, record: DeliveryRecord | undefined, nowEpochMs: number, home: CopyHome = 'queue'): ReceiveDecision {
  if (record === undefined) {
    // A redrive whose record is gone was erased or is older than any record: sending it would revive it.
    return received.deadLetterGeneration === undefined ? { kind: 'proceed' } : { kind: 'done', why: 'redrive-without-record' };
  }
  if (record.eventId !== received.eventId) return { kind: 'conflict', detail: 'another event id has the same key' };
  if (record.payloadHash !== received.payloadHash) {
    return { kind: 'conflict', detail: 'the same event id came with another payload' };
  }
  const resend = received.resend > record.resend;
  switch (record.state) {
    case 'waiting':
      if (record.home === 'held' && home === 'queue') return { kind: 'held' };
      return record.dueEpochMs <= nowEpochMs ? { kind: 'proceed' } : { kind: 'early', dueEpochMs: record.dueEpochMs };
    case 'unknown':
      if (home === 'queue') return { kind: 'unknown' };
      if (record.nextLookEpochMs === undefined) return { kind: 'done', why: 'left-to-person' };
      return record.nextLookEpochMs <= nowEpochMs ? { kind: 'look' } : { kind: 'done', why: 'looked-for-later' };
    case 'delivered':
      return resend ? { kind: 'renew', why: 'resend' } : { kind: 'done', why: 'delivered' };
    case 'dead':
      if (record.phase === 'burying') return { kind: 'buryAgain' };
      if (received.deadLetterGeneration === record.generation) return { kind: 'renew', why: 'redrive' };
      return resend ? { kind: 'renew', why: 'resend' } : { kind: 'done', why: 'stale-dead' };
    case 'dropped':
      // An operator has said that it is never sent again: neither a redrive nor a resend revives it.
      return { kind: 'done', why: 'dropped' };
  }
}
