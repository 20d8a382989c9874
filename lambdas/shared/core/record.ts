/** The record of one delivery: what the Deliveries table knows of one event for one endpoint. */
import { records } from '../limits/numbers.ts';

/** How an attempt ended, as the record keeps it. */
export interface AttemptEntry {
  readonly atEpochMs: number;
  readonly durationMs: number;
  readonly generation: number;
  /** `look`: no attempt, but a look at what an earlier one has done. */
  readonly outcome: 'answered' | 'ambiguous' | 'unsent' | 'look';
  /** The status code of an answer, with what cut it short, such as `200, then body timeout`; else the phase and cause, such as `connect ECONNREFUSED`; of a look what it found. */
  readonly detail: string;
  /** At most 512 bytes of a failure's body, kept on the newest entry only; never of a success. */
  readonly bodyExcerpt?: string;
}

/** Why a delivery is dead. */
export type DeadReason =
  | 'malformed'
  | 'unknown-endpoint'
  | 'conflict'
  | 'disabled'
  | 'rejected'
  | 'redirected'
  | 'unauthorized'
  | 'not-found'
  | 'gone'
  | 'payload-refused'
  | 'exhausted'
  | 'expired'
  | 'invalid-configuration'
  /** More were held for its endpoint than may be. */
  | 'hold-limit'
  /** Held, and its payload is gone: erased, or lost by a fault. There is nothing to send, and no copy in the dead-letter queue. */
  | 'payload-missing'
  /** A test event that was not accepted: nobody replays it, so it has no copy in the dead-letter queue. */
  | 'ping-failed';

/** Why an unknown delivery is looked for no more: a person must decide. */
export type StuckReason =
  /** The endpoint declares no look-up. */
  | 'no-lookup'
  /** Something was found under its identifier, and it is another event's, or has another content. */
  | 'different'
  /** It was not found, as often as it may be looked for; that proves nothing. */
  | 'absent'
  /** The last look that it may have failed. */
  | 'look-failed'
  /** It cannot be looked for: the look-up cannot be sent as it is configured, or needs an id that was never returned. */
  | 'invalid-lookup'
  /** Its payload is gone, so that nothing can be compared or sent. */
  | 'payload-missing'
  /** There is no such endpoint any more, or it is disabled, or cannot be used as it is stored. */
  | 'no-endpoint';

/** What an operator has decided about an unknown delivery. */
export interface Resolution {
  readonly as: 'delivered' | 'resend';
  /** The operator's reason, and who that was: at most `records.maxDetailLength` characters each. */
  readonly why: string;
  readonly by: string;
  readonly atEpochMs: number;
}

interface Common {
  readonly endpointId: string;
  readonly recordKey: string;
  readonly eventId: string | undefined;
  readonly eventType: string | undefined;
  readonly payloadHash: string;
  /** Rises with each replay, redrive and resend; attempts and age start anew with it. */
  readonly generation: number;
  /** Attempts of this generation that have a verdict. */
  readonly attempt: number;
  /** Attempts of all generations that may have reached the consumer without an answer. */
  readonly ambiguous: number;
  /** Of these, those that somebody has answered for: an authoritative absence, or whoever asked for the next generation. The rest are its *doubts*. */
  readonly cleared: number;
  /** Largest `resend` that has been honoured. */
  readonly resend: number;
  /** The age of this generation counts from here. */
  readonly firstEpochMs: number;
  readonly lastEpochMs: number;
  /** The lease that wrote the newest verdict, and how: by its owner, or by whoever reaped it. */
  readonly lastLease: { readonly leaseId: string; readonly kind: 'settled' | 'reaped' } | undefined;
  readonly history: readonly AttemptEntry[];
  /** The id that the consumer has given the event, as its last answer or a look said. */
  readonly reference?: string;
  /** An operator's newest decision; it stays, whatever follows it. */
  readonly resolved?: Resolution;
}

/** `home`: where its payload waits, in the delivery queue or held beside the record. */
export type WaitingRecord = Common & { readonly state: 'waiting'; readonly home: 'queue' | 'held'; readonly dueEpochMs: number };
/**
 * May have reached the consumer, and is never sent again by itself: it is looked for, or a person decides. Its payload lies beside it.
 */
export type UnknownRecord = Common & {
  readonly state: 'unknown';
  /** When that became known: the consumer's processing time counts from here. */
  readonly sinceEpochMs: number;
  /**
   * Rises with each look, and with whatever else follows from one, and never falls: a write that was decided from an earlier one loses.
   * How many were made: `looksOf` in reconcile.ts.
   */
  readonly looks: number;
  /** `looks` as it was when an operator had it looked for anew: the schedule counts from there. Left out where nobody has. */
  readonly anewFrom?: number;
  /** When it is looked for next; undefined where a person must decide. */
  readonly nextLookEpochMs: number | undefined;
  /** Why a person must; undefined while it is looked for. */
  readonly stuck: StuckReason | undefined;
  /** What is known of it: how the attempt ended, or what the last look found. */
  readonly detail: string;
};
/** `via`: how that is known. */
export type DeliveredRecord = Common & { readonly state: 'delivered'; readonly via: 'response' | 'lookup' | 'operator' };
/** `burying` until the dead-letter queue has its copy. */
export type DeadRecord = Common & {
  readonly state: 'dead';
  readonly phase: 'burying' | 'buried';
  readonly reason: DeadReason;
  readonly detail: string;
};
/** What an operator has put an end to: it was dead for `reason`, or unknown, and nothing follows it. */
export type DroppedRecord = Common & {
  readonly state: 'dropped';
  readonly reason: DeadReason | 'unknown';
  readonly detail: string;
  /** The operator's reason, and who that was: at most `records.maxDetailLength` characters each. */
  readonly why: string;
  readonly by: string;
  readonly droppedEpochMs: number;
};
/** What an attempt may leave. */
export type AttemptedRecord = WaitingRecord | DeliveredRecord | DeadRecord | UnknownRecord;
export type DeliveryRecord = AttemptedRecord | DroppedRecord;

/** A record's state as one word; `absent` means the same as waiting in generation 0, attempt 0. */
export type StateName = 'absent' | 'waiting' | 'held' | 'unknown' | 'delivered' | 'burying' | 'buried' | 'dropped';

export function stateName(record: DeliveryRecord | undefined): StateName {
  if (record === undefined) return 'absent';
  if (record.state === 'waiting' && record.home === 'held') return 'held';
  return record.state === 'dead' ? record.phase : record.state;
}

/** One legal move of a record. */
export interface Transition {
  readonly from: StateName;
  readonly to: StateName;
  /** `next`: a generation after the one before, whose attempts start from 0. */
  readonly generation: 'same' | 'next';
  /** What may be added to the attempts of the same generation. */
  readonly attempts: readonly (0 | 1)[];
  readonly why: string;
}

/** What may follow what. Anything else is a bug, and `assertTransition` says so before it is written. */
export const transitions: readonly Transition[] = [
  { from: 'absent', to: 'waiting', generation: 'same', attempts: [1], why: 'the first attempt failed, or was reaped' },
  { from: 'absent', to: 'delivered', generation: 'same', attempts: [1], why: 'the first attempt was answered 2xx' },
  { from: 'absent', to: 'burying', generation: 'same', attempts: [0, 1], why: 'rejected, or given up before it was sent' },
  { from: 'waiting', to: 'waiting', generation: 'same', attempts: [0, 1], why: 'another attempt failed, or was reaped; or a resend was noted' },
  { from: 'waiting', to: 'delivered', generation: 'same', attempts: [1], why: 'answered 2xx' },
  { from: 'waiting', to: 'burying', generation: 'same', attempts: [0, 1], why: 'attempts, age, a rejection, or an endpoint that is not delivered to' },
  { from: 'absent', to: 'held', generation: 'same', attempts: [0], why: 'held before anything was sent' },
  { from: 'waiting', to: 'held', generation: 'same', attempts: [0], why: 'held; nothing else of it changes, so it needs no claim' },
  { from: 'held', to: 'held', generation: 'same', attempts: [0, 1], why: 'an attempt of the drain failed, or was reaped; or a resend was noted' },
  { from: 'held', to: 'delivered', generation: 'same', attempts: [1], why: 'answered 2xx' },
  { from: 'held', to: 'burying', generation: 'same', attempts: [0, 1], why: 'attempts, age, a rejection, or an endpoint that is not delivered to' },
  { from: 'held', to: 'buried', generation: 'same', attempts: [0, 1], why: 'a ping that was not accepted, or a payload that is gone: there is nothing to replay' },
  { from: 'absent', to: 'unknown', generation: 'same', attempts: [1], why: 'the first attempt may have arrived, or was reaped' },
  { from: 'waiting', to: 'unknown', generation: 'same', attempts: [0, 1], why: 'an attempt may have arrived, or was reaped; or an earlier one, and the endpoint is reconciled now' },
  { from: 'held', to: 'unknown', generation: 'same', attempts: [0, 1], why: 'an attempt of the drain may have arrived, or was reaped; or an earlier one, and the endpoint is reconciled now' },
  { from: 'unknown', to: 'unknown', generation: 'same', attempts: [0], why: 'a look that proved nothing, or was put off; left to a person; a resend was noted' },
  { from: 'unknown', to: 'delivered', generation: 'same', attempts: [0], why: 'a look has found it; or an operator knows' },
  { from: 'unknown', to: 'held', generation: 'same', attempts: [0], why: 'an authoritative absence' },
  { from: 'unknown', to: 'held', generation: 'next', attempts: [], why: 'an operator has it sent again' },
  { from: 'unknown', to: 'dropped', generation: 'same', attempts: [0], why: 'an operator drops it: it is never sent again' },
  { from: 'burying', to: 'buried', generation: 'same', attempts: [0], why: 'the dead-letter queue has its copy' },
  { from: 'buried', to: 'dropped', generation: 'same', attempts: [0], why: 'an operator drops it: it is never sent again' },
  { from: 'buried', to: 'waiting', generation: 'next', attempts: [], why: 'redrive or resend' },
  { from: 'buried', to: 'held', generation: 'next', attempts: [], why: 'a replay; or a redrive or resend that cannot be sent now' },
  { from: 'delivered', to: 'held', generation: 'next', attempts: [], why: 'a resend that cannot be sent now' },
  { from: 'buried', to: 'burying', generation: 'next', attempts: [], why: 'a redrive of what still cannot be sent' },
  { from: 'delivered', to: 'waiting', generation: 'next', attempts: [], why: 'resend' },
  { from: 'delivered', to: 'burying', generation: 'next', attempts: [], why: 'a resend to an endpoint that is not delivered to' },
];

/** Checks a write against the table. */
export function assertTransition(from: DeliveryRecord | undefined, to: DeliveryRecord): void {
  const [before, after] = [stateName(from), stateName(to)];
  // A redrive whose record has ended starts beyond the generation that its copy carries.
  const generation = from?.generation ?? to.generation;
  const attempt = from?.attempt ?? 0;
  const isLegal = transitions.some((row) => {
    if (row.from !== before || row.to !== after) return false;
    if (row.generation === 'next') return to.generation === generation + 1 && to.attempt === 0;
    return to.generation === generation && row.attempts.some((more) => to.attempt === attempt + more);
  });
  if (isLegal) return;
  throw new Error(
    `illegal transition ${before} (generation ${generation}, attempt ${attempt}) to ${after} (generation ${to.generation}, attempt ${to.attempt})`,
  );
}

/** Ambiguous attempts that nobody has answered for: each may have arrived. */
export function doubtsOf({ ambiguous, cleared }: DeliveryRecord): number {
  return ambiguous - cleared;
}

/** The fields that every state has, without those of the state it leaves. */
export function common(record: DeliveryRecord) {
  const { endpointId, recordKey, eventId, eventType, payloadHash, generation, attempt, ambiguous, cleared, resend } = record;
  const { firstEpochMs, lastEpochMs, lastLease, history, reference, resolved } = record;
  return {
    endpointId, recordKey, eventId, eventType, payloadHash, generation, attempt, ambiguous, cleared, resend,
    firstEpochMs, lastEpochMs, lastLease, history,
    ...(reference === undefined ? {} : { reference }),
    ...(resolved === undefined ? {} : { resolved }),
  };
}

/** Bounded: the first entry and the newest are kept; an excerpt stays on the newest only, for every write is billed by size. */
export function appended(history: readonly AttemptEntry[], entry: AttemptEntry): AttemptEntry[] {
  const older = history.map(({ bodyExcerpt: _dropped, ...rest }) => rest);
  const [first, ...later] = [...older, entry];
  if (first === undefined) return [entry];
  return [first, ...later.slice(-(records.maxHistory - 1))];
}

/** The record that a message without one starts from. */
export function blankRecord(
  from: { endpointId: string; recordKey: string; eventId: string | undefined; eventType: string | undefined; payloadHash: string },
  firstEpochMs: number,
): WaitingRecord {
  return {
    ...from,
    state: 'waiting',
    home: 'queue',
    dueEpochMs: firstEpochMs,
    generation: 0,
    attempt: 0,
    ambiguous: 0,
    cleared: 0,
    resend: 0,
    firstEpochMs,
    lastEpochMs: firstEpochMs,
    lastLease: undefined,
    history: [],
  };
}
