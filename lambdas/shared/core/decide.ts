import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import { hints as hintLimits } from '../limits/numbers.ts';
import { ageMs } from './age.ts';
import { backoffMs } from './backoff.ts';
import { classifyStatus } from './classify.ts';
import { hintedMs, hintedWaitMs } from './hints.ts';
import type { AttemptOutcome } from './outcome.ts';
import { isPing, mustLook, unknownFrom } from './reconcile.ts';
import { appended, common, type AttemptedRecord, type AttemptEntry, type DeadReason, type DeadRecord, type DeliveredRecord, type DeliveryRecord, type DroppedRecord, type Resolution, type UnknownRecord, type WaitingRecord } from './record.ts';

/** Outcomes that count as an attempt. */
export type CountedOutcome = Exclude<AttemptOutcome, { kind: 'notStarted' }>;

export interface Verdict {
  readonly nowEpochMs: number;
  /** In [0, 1). */
  readonly random: number;
  readonly leaseId: string;
}

/** The record that follows an attempt: the one place in which an outcome becomes a state. */
export function afterAttempt(
  record: WaitingRecord,
  outcome: CountedOutcome,
  config: EndpointConfig,
  verdict: Verdict,
): AttemptedRecord {
  const hintMs = outcome.kind === 'answered' ? hintedMs(outcome.hints, config.retry.capS * 1_000, verdict.nowEpochMs) : undefined;
  const next = counted(record, outcome, verdict, hintMs);
  if (outcome.kind === 'invalidConfiguration') return dead(next, 'invalid-configuration', outcome.detail);
  if (outcome.kind === 'answered') {
    const status = classifyStatus(outcome.status);
    if (status.kind === 'delivered') return delivered(next);
    if (status.kind === 'rejected' && config.onRejected === 'deadLetter') return dead(next, status.reason, `status ${statusOf(outcome)}`);
  }
  // Before anything gives it up: a dead letter says that it was not delivered, and of this one nobody knows.
  if (outcome.kind === 'ambiguous' && mustLook(next, config)) return unknownFrom(next, config, verdict.nowEpochMs, next.history.at(-1)?.detail ?? '');
  return waitOrGiveUp(next, config, verdict, hintMs);
}

/** The record that follows a ping: it is sent once, and what became of it is kept for who asked. */
export function afterPing(record: AttemptedRecord): AttemptedRecord {
  if (record.state === 'delivered') return record;
  return { ...dead(record, 'ping-failed', record.history.at(-1)?.detail ?? 'no attempt'), phase: 'buried' };
}

/**
 * The record that follows the expiry of a claim whose owner left no verdict (U4): one ambiguous attempt, by the endpoint's policy due at
 * once, or unknown. Without a policy, as of an endpoint that is gone, nothing is sent that it could forbid: it waits to be buried.
 */
export function afterReap(record: WaitingRecord, leaseId: string, nowEpochMs: number, config: EndpointConfig | undefined): WaitingRecord | UnknownRecord {
  const entry: AttemptEntry = {
    atEpochMs: nowEpochMs,
    durationMs: 0,
    generation: record.generation,
    outcome: 'ambiguous',
    detail: 'the sender died before it could settle',
  };
  const next: WaitingRecord = {
    ...record,
    attempt: record.attempt + 1,
    ambiguous: record.ambiguous + 1,
    // Due at once, for the claim had to expire first; and in its old place among what is held.
    dueEpochMs: Math.min(record.dueEpochMs, nowEpochMs),
    lastEpochMs: nowEpochMs,
    lastLease: { leaseId, kind: 'reaped' },
    history: appended(record.history, entry),
  };
  // A test event has no effect that would have to be looked for.
  if (config === undefined || isPing(record) || !mustLook(next, config)) return next;
  return unknownFrom(next, config, nowEpochMs, entry.detail);
}

/** Why a delivery that is about to be sent must be given up instead, if it must. */
export function reasonToGiveUp(record: WaitingRecord, config: EndpointConfig, nowEpochMs: number): DeadReason | undefined {
  if (record.attempt >= config.retry.attempts) return 'exhausted';
  if (ageMs(record.firstEpochMs, config, nowEpochMs) > config.retry.maxAgeS * 1_000) return 'expired';
  return undefined;
}

/** The same delivery, held: nothing else of it changes but the largest `resend`, for which no copy is left to ask. */
export function held(record: WaitingRecord, resend: number): WaitingRecord {
  return { ...record, home: 'held', resend: Math.max(record.resend, resend) };
}

/** A dead record on its way to the dead-letter queue. */
export function dead(record: DeliveryRecord, reason: DeadReason, detail: string): DeadRecord {
  return { ...common(record), state: 'dead', phase: 'burying', reason, detail };
}

export interface Drop {
  readonly why: string;
  readonly by: string;
  readonly nowEpochMs: number;
  /** A token of this very write: of two operators only one may take it for their own. */
  readonly leaseId: string;
}

/** A buried or unknown record that an operator puts an end to: what it died of, and when, stays. */
export function dropped(record: DeadRecord | UnknownRecord, { why, by, nowEpochMs, leaseId }: Drop): DroppedRecord {
  const { detail } = record;
  const reason = record.state === 'unknown' ? 'unknown' : record.reason;
  return { ...common(record), lastLease: { leaseId, kind: 'settled' }, state: 'dropped', reason, detail, why, by, droppedEpochMs: nowEpochMs };
}

/** The next generation of a terminal record: fresh attempts and age, the history kept. */
export function renewed(record: DeliveryRecord, nowEpochMs: number, resend: number): WaitingRecord {
  return {
    ...common(record),
    state: 'waiting',
    home: 'queue',
    dueEpochMs: nowEpochMs,
    generation: record.generation + 1,
    attempt: 0,
    // Whoever asks for it again has answered for what may have arrived.
    cleared: record.ambiguous,
    resend: Math.max(record.resend, resend),
    firstEpochMs: nowEpochMs,
    lastEpochMs: nowEpochMs,
  };
}

/** An unknown delivery that an operator has sent again: held in its next generation, due now. Whoever asks for it answers for what may have arrived. */
export function resent(record: UnknownRecord, resolved: Resolution, leaseId: string): WaitingRecord {
  return { ...held(renewed(record, resolved.atEpochMs, record.resend), record.resend), resolved, lastLease: { leaseId, kind: 'settled' } };
}

function counted(record: WaitingRecord, outcome: CountedOutcome, verdict: Verdict, hintMs: number | undefined): WaitingRecord {
  if (outcome.kind === 'invalidConfiguration') return { ...record, lastEpochMs: verdict.nowEpochMs };
  const entry: AttemptEntry = {
    atEpochMs: verdict.nowEpochMs - outcome.durationMs,
    durationMs: outcome.durationMs,
    generation: record.generation,
    outcome: outcome.kind,
    detail: outcome.kind === 'answered' ? answerOf(outcome, hintMs) : `${outcome.phase} ${outcome.cause}`,
    ...(outcome.kind === 'answered' && outcome.bodyExcerpt !== '' ? { bodyExcerpt: outcome.bodyExcerpt } : {}),
  };
  return {
    ...record,
    attempt: record.attempt + 1,
    ambiguous: record.ambiguous + (outcome.kind === 'ambiguous' ? 1 : 0),
    lastEpochMs: verdict.nowEpochMs,
    lastLease: { leaseId: verdict.leaseId, kind: 'settled' },
    history: appended(record.history, entry),
    ...(outcome.kind === 'answered' && outcome.reference !== undefined ? { reference: outcome.reference } : {}),
  };
}

type Answered = CountedOutcome & { kind: 'answered' };

/** The status, what ended the rest of the answer early, and when the endpoint asks for the next attempt. */
function answerOf(outcome: Answered, hintMs: number | undefined): string {
  const cut = outcome.cut === undefined ? '' : `, then ${outcome.cut}`;
  return `${statusOf(outcome)}${cut}${hintMs === undefined ? '' : `, asks for ${Math.round(hintMs / 1_000)} s`}`;
}

function statusOf({ status, redirectsTo }: Answered): string {
  return redirectsTo === undefined ? String(status) : `${status} to ${redirectsTo}`;
}

function waitOrGiveUp(record: WaitingRecord, config: EndpointConfig, verdict: Verdict, hintMs: number | undefined): AttemptedRecord {
  if (record.attempt >= config.retry.attempts) return dead(record, 'exhausted', `${record.attempt} attempts`);
  const dueEpochMs = verdict.nowEpochMs + waitMs(config, record.attempt, verdict.random, hintMs);
  const leftMs = config.retry.maxAgeS * 1_000 - ageMs(record.firstEpochMs, config, verdict.nowEpochMs);
  if (dueEpochMs > verdict.nowEpochMs + leftMs) return dead(record, 'expired', `the next attempt would come after ${config.retry.maxAgeS} s`);
  return { ...record, dueEpochMs };
}

/**
 * What the endpoint asks for comes before the backoff (R5). One that always asks for a moment would have used its attempts up
 * within minutes: past half of them it is only ever left alone for longer.
 */
function waitMs({ retry }: EndpointConfig, attempt: number, random: number, hintMs: number | undefined): number {
  const ownMs = backoffMs(retry, attempt, random);
  if (hintMs === undefined) return ownMs;
  const askedMs = hintedWaitMs(hintMs, retry.capS * 1_000, random);
  return attempt <= retry.attempts * hintLimits.soonerShare ? askedMs : Math.max(askedMs, ownMs);
}

function delivered(record: WaitingRecord): DeliveredRecord {
  return { ...common(record), state: 'delivered', via: 'response' };
}
