import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import { pingDueEpochMs, pingEventType } from '../limits/names.ts';
import { lease } from '../limits/numbers.ts';
import { appended, common, doubtsOf, type AttemptEntry, type DeliveredRecord, type DeliveryRecord, type Resolution, type StuckReason, type UnknownRecord, type WaitingRecord } from './record.ts';

/** A test event, which only the hold brings, due before all others; a producer's event of that type is one like any other. */
export function isPing({ eventType, home, dueEpochMs }: WaitingRecord): boolean {
  return home === 'held' && eventType === pingEventType && dueEpochMs === pingDueEpochMs;
}

/** Whether so much of it may have arrived that nothing is to be sent before somebody has looked (U3, U4). */
export function mustLook(record: DeliveryRecord, { onAmbiguous, maxAmbiguous }: Pick<EndpointConfig, 'onAmbiguous' | 'maxAmbiguous'>): boolean {
  const most = onAmbiguous === 'reconcile' ? 1 : maxAmbiguous;
  return most !== null && doubtsOf(record) >= most;
}

/** What may have arrived, as unknown: looked for first when the endpoint says so, or left to a person at once. */
export function unknownFrom(record: WaitingRecord, { lookup }: Pick<EndpointConfig, 'lookup'>, nowEpochMs: number, detail: string): UnknownRecord {
  const unknown = { ...common(record), state: 'unknown', sinceEpochMs: nowEpochMs, looks: 0, detail } as const;
  if (lookup === null) return { ...unknown, nextLookEpochMs: undefined, stuck: 'no-lookup' };
  return { ...unknown, nextLookEpochMs: nextLookEpochMs(unknown, lookup, nowEpochMs), stuck: undefined };
}

type Lookup = NonNullable<EndpointConfig['lookup']>;

/** What a look has found. `detail` is for the record. */
export type Found =
  /** The effect of this very event. */
  | { readonly kind: 'matches'; readonly reference: string | undefined; readonly detail: string }
  /** Something else under its identifier; `detail` names the difference. */
  | { readonly kind: 'differs'; readonly detail: string }
  | { readonly kind: 'absent'; readonly detail: string }
  /** It failed, and proves nothing. */
  | { readonly kind: 'failed'; readonly detail: string }
  /** It could not be made, nor could another one. */
  | { readonly kind: 'impossible'; readonly stuck: StuckReason; readonly detail: string };

export interface Look {
  /** When its request began: what the consumer has done since then it need not show. */
  readonly startedEpochMs: number;
  readonly nowEpochMs: number;
  readonly leaseId: string;
}

/** The record that follows a look (U5): the one place in which what was found becomes a state. */
export function afterLook(record: UnknownRecord, found: Found, lookup: Lookup, look: Look): DeliveredRecord | WaitingRecord | UnknownRecord {
  const entry: AttemptEntry = {
    atEpochMs: look.startedEpochMs,
    durationMs: Math.max(0, look.nowEpochMs - look.startedEpochMs),
    generation: record.generation,
    outcome: 'look',
    detail: found.detail,
  };
  const looked = {
    ...common(record),
    lastEpochMs: look.nowEpochMs,
    lastLease: { leaseId: look.leaseId, kind: 'settled' },
    history: appended(record.history, entry),
  } as const;
  const anew = record.anewFrom === undefined ? {} : { anewFrom: record.anewFrom };
  const still = { ...looked, state: 'unknown', sinceEpochMs: record.sinceEpochMs, looks: record.looks + 1, ...anew, detail: found.detail } as const;
  const stuck = (why: StuckReason): UnknownRecord => ({ ...still, nextLookEpochMs: undefined, stuck: why });
  const again = (why: StuckReason): UnknownRecord =>
    looksOf(still) < lookup.delaysS.length ? { ...still, nextLookEpochMs: nextLookEpochMs(still, lookup, look.nowEpochMs), stuck: undefined } : stuck(why);

  switch (found.kind) {
    case 'matches':
      return { ...looked, state: 'delivered', via: 'lookup', ...(found.reference === undefined ? {} : { reference: found.reference }) };
    case 'differs':
      return stuck('different');
    case 'impossible':
      return stuck(found.stuck);
    case 'failed':
      return again('look-failed');
    case 'absent':
      if (look.startedEpochMs < provesFromEpochMs(record, lookup)) return again('absent');
      // What did not arrive may be sent: it is answered for.
      return { ...looked, state: 'waiting', home: 'held', dueEpochMs: look.nowEpochMs, cleared: record.ambiguous };
  }
}

/** From when on an absence proves that it did not arrive; never, where the endpoint does not say so. */
function provesFromEpochMs({ sinceEpochMs }: Pick<UnknownRecord, 'sinceEpochMs'>, { absenceProvesAfterS }: Lookup): number {
  // Whoever looks may be ahead of whoever sent.
  return absenceProvesAfterS === null ? Infinity : sinceEpochMs + absenceProvesAfterS * 1_000 + lease.skewMs;
}

/** Looks of the round under way: of all, or of those since an operator had it looked for anew. */
export function looksOf({ looks, anewFrom = 0 }: Pick<UnknownRecord, 'looks' | 'anewFrom'>): number {
  return looks - anewFrom;
}

/** When the next look is due; the last one not before an absence would prove something, where it ever does. */
function nextLookEpochMs(record: Pick<UnknownRecord, 'looks' | 'anewFrom' | 'sinceEpochMs'>, lookup: Lookup, nowEpochMs: number): number {
  const dueEpochMs = nowEpochMs + Math.ceil((lookup.delaysS[looksOf(record)] ?? 0) * 1_000);
  const provesFrom = provesFromEpochMs(record, lookup);
  const isLast = looksOf(record) >= lookup.delaysS.length - 1;
  return isLast && provesFrom !== Infinity ? Math.max(dueEpochMs, provesFrom) : dueEpochMs;
}

/** The same delivery, asked for once more. `looks` rises, or a note that comes late would take the place of a larger one; of its round it says nothing. */
export function withResend(record: UnknownRecord, resend: number): UnknownRecord {
  return { ...record, resend, looks: record.looks + 1, anewFrom: (record.anewFrom ?? 0) + 1 };
}

/** The same delivery, looked for no more: a person must decide. */
export function leftToPerson(record: UnknownRecord, why: { stuck: StuckReason; detail: string }, nowEpochMs: number, leaseId: string): UnknownRecord {
  return { ...record, ...why, looks: record.looks + 1, nextLookEpochMs: undefined, lastEpochMs: nowEpochMs, lastLease: { leaseId, kind: 'settled' } };
}

/**
 * The same delivery, looked for anew from now on, because an operator asks for it. `sinceEpochMs` stays: no time of processing begins anew.
 * `looks` rises, for what an earlier look has found, and is still to be written, must not win over this.
 */
export function lookedForAnew(record: UnknownRecord, nowEpochMs: number, leaseId: string): UnknownRecord {
  const looks = record.looks + 1;
  return { ...record, looks, anewFrom: looks, nextLookEpochMs: nowEpochMs, stuck: undefined, lastEpochMs: nowEpochMs, lastLease: { leaseId, kind: 'settled' } };
}

/** An unknown delivery of which an operator knows that it has arrived. */
export function knownToBeDelivered(record: UnknownRecord, resolved: Resolution, leaseId: string, reference: string | undefined): DeliveredRecord {
  return {
    ...common(record), state: 'delivered', via: 'operator', resolved, lastEpochMs: resolved.atEpochMs, lastLease: { leaseId, kind: 'settled' },
    ...(reference === undefined ? {} : { reference }),
  };
}
