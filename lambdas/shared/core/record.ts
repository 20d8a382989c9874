/** The record of one delivery: what the Deliveries table knows of one event for one endpoint. */

/** How an attempt ended, as the record keeps it. */
export interface AttemptEntry {
  readonly atEpochMs: number;
  readonly durationMs: number;
  readonly generation: number;
  readonly outcome: 'answered' | 'ambiguous' | 'unsent';
  /** The status code of an answer; else the phase and cause, such as `connect ECONNREFUSED`. */
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
  | 'invalid-configuration';

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
  /** Largest `resend` that has been honoured. */
  readonly resend: number;
  /** The age of this generation counts from here. */
  readonly firstEpochMs: number;
  readonly lastEpochMs: number;
  /** The lease that wrote the newest verdict, and how: by its owner, or by whoever reaped it. */
  readonly lastLease: { readonly leaseId: string; readonly kind: 'settled' | 'reaped' } | undefined;
  readonly history: readonly AttemptEntry[];
}

export type WaitingRecord = Common & { readonly state: 'waiting'; readonly home: 'queue'; readonly dueEpochMs: number };
export type DeliveredRecord = Common & { readonly state: 'delivered' };
/** `burying` until the dead-letter queue has its copy. */
export type DeadRecord = Common & {
  readonly state: 'dead';
  readonly phase: 'burying' | 'buried';
  readonly reason: DeadReason;
  readonly detail: string;
};
export type DeliveryRecord = WaitingRecord | DeliveredRecord | DeadRecord;

/** A record's state as one word; `absent` means the same as waiting in generation 0, attempt 0. */
export type StateName = 'absent' | 'waiting' | 'delivered' | 'burying' | 'buried';

export function stateName(record: DeliveryRecord | undefined): StateName {
  if (record === undefined) return 'absent';
  return record.state === 'dead' ? record.phase : record.state;
}

/** What may follow what. Anything else is a bug, and `assertTransition` says so before it is written. */
export const transitions: Readonly<Record<StateName, readonly StateName[]>> = {
  absent: ['waiting', 'delivered', 'burying'],
  waiting: ['waiting', 'delivered', 'burying'],
  delivered: ['waiting', 'burying'],
  burying: ['buried'],
  buried: ['waiting', 'burying'],
};

/**
 * Checks a write against the table and the counters: within a generation attempts only rise, a new generation starts
 * from zero, and only a terminal record may start one.
 */
export function assertTransition(from: DeliveryRecord | undefined, to: DeliveryRecord): void {
  const [before, after] = [stateName(from), stateName(to)];
  // A redrive whose record has ended starts beyond the generation that its copy carries.
  const generation = from?.generation ?? to.generation;
  const attempt = from?.attempt ?? 0;
  const fresh = to.generation === generation + 1 && to.attempt === 0 && (before === 'delivered' || before === 'buried');
  const onward = to.generation === generation && to.attempt >= attempt && to.attempt <= attempt + 1;
  const replays = before === 'delivered' || before === 'buried';
  if (transitions[before].includes(after) && (replays ? fresh : onward)) return;
  throw new Error(
    `illegal transition ${before} (generation ${generation}, attempt ${attempt}) to ${after} (generation ${to.generation}, attempt ${to.attempt})`,
  );
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
    resend: 0,
    firstEpochMs,
    lastEpochMs: firstEpochMs,
    lastLease: undefined,
    history: [],
  };
}
