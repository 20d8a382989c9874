/** Values of the domain with everything filled in, so that a test states only what it is about. */
import type { ClosedBreaker, OpenBreaker } from '../../lambdas/shared/core/breaker.ts';
import { dead, dropped } from '../../lambdas/shared/core/decide.ts';
import { claimKeyOf, hashOf, recordKeyOf, shortHash } from '../../lambdas/shared/core/keys.ts';
import type { Lane } from '../../lambdas/shared/core/lane.ts';
import type { Timing } from '../../lambdas/shared/core/outcome.ts';
import { blankRecord, type DeadReason, type DeadRecord, type DeliveredRecord, type DeliveryRecord, type DroppedRecord, type UnknownRecord, type WaitingRecord } from '../../lambdas/shared/core/record.ts';
import { endpointSchema, type EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { formatSecret } from '../../lambdas/shared/limits/secret.ts';
import type { Endpoint, ReceivedMessage } from '../../lambdas/shared/ports/index.ts';

/** A Monday in 2026; every test that needs a time starts from it. */
export const t0EpochMs = Date.UTC(2026, 0, 5, 10);
export const secret = formatSecret(Buffer.alloc(32, 7));
/** The payload of `bodyOf` unless another is given. */
export const payloadText = '{"amount":1}';

export function configOf(overrides: Readonly<Record<string, unknown>> = {}): EndpointConfig {
  return endpointSchema.parse({ endpointId: 'acme', url: 'https://hooks.example.com/in', ...overrides });
}

export function endpointOf(overrides: Readonly<Record<string, unknown>> = {}, version = 'V1'): Endpoint {
  return { config: configOf(overrides), version, secrets: [secret], bodySecret: undefined };
}

/** The body of a message; `payload` is source text and stands in the body as it is. */
export function bodyOf(fields: { endpointId?: string; eventId?: string; payload?: string; resend?: number } = {}): string {
  const { endpointId = 'acme', eventId = 'evt_1', payload = payloadText, resend } = fields;
  const extra = resend === undefined ? '' : `,"resend":${resend}`;
  return `{"endpointId":"${endpointId}","eventId":"${eventId}"${extra},"payload":${payload}}`;
}

let messages = 0;

/** One received copy; every call is another message. */
export function receivedOf(body: string, overrides: Partial<ReceivedMessage> = {}): ReceivedMessage {
  const messageId = `m${++messages}`;
  return {
    messageId, receiptHandle: `receipt-${messageId}`, body, receiveCount: 1, sentEpochMs: t0EpochMs, deadLetterGeneration: undefined, ...overrides,
  };
}

export interface Names {
  readonly endpointId?: string;
  readonly eventId?: string;
  readonly payload?: string;
}

/** Keys and hashes of the delivery that `bodyOf(names)` asks for. */
export function namesOf(names: Names = {}) {
  const { endpointId = 'acme', eventId = 'evt_1', payload = payloadText } = names;
  const payloadHash = hashOf(Buffer.from(payload));
  const claimKey = claimKeyOf(eventId);
  return { endpointId, eventId, payloadHash, claimKey, recordKey: recordKeyOf(endpointId, claimKey), shortHash: shortHash(payloadHash) };
}

export function waitingOf(overrides: Partial<WaitingRecord> = {}, names: Names = {}): WaitingRecord {
  const { endpointId, eventId, payloadHash, recordKey } = namesOf(names);
  return { ...blankRecord({ endpointId, eventId, eventType: undefined, payloadHash, recordKey }, t0EpochMs), ...overrides };
}

export function deliveredOf(overrides: Partial<WaitingRecord> = {}, names: Names = {}): DeliveredRecord {
  const { state: _state, home: _home, dueEpochMs: _due, ...common } = waitingOf({ attempt: 1, ...overrides }, names);
  return { ...common, state: 'delivered', via: 'response' };
}

/** Unknown since its one attempt, and looked for a minute later unless `overrides` say otherwise. */
export function unknownOf(overrides: Partial<UnknownRecord> = {}, names: Names = {}): UnknownRecord {
  const { state: _state, home: _home, dueEpochMs: _due, ...common } = waitingOf({ attempt: 1, ambiguous: 1 }, names);
  return {
    ...common, state: 'unknown', sinceEpochMs: t0EpochMs, looks: 0, nextLookEpochMs: t0EpochMs + 60_000, stuck: undefined, detail: 'headers timeout', ...overrides,
  };
}

export function deadOf(phase: DeadRecord['phase'], overrides: Partial<WaitingRecord> = {}, reason: DeadReason = 'rejected'): DeadRecord {
  return { ...dead(waitingOf({ attempt: 1, ...overrides }), reason, 'status 422'), phase };
}

export function droppedOf(overrides: Partial<WaitingRecord> = {}, reason: DeadReason = 'rejected'): DroppedRecord {
  return dropped(deadOf('buried', overrides, reason), { why: 'closed their account', by: 'ada', nowEpochMs: t0EpochMs + 60_000, leaseId: 'drop-1' });
}

/** A record in every state that has one, in generation 0. */
export function everyState(): DeliveryRecord[] {
  return [waitingOf(), unknownOf(), deliveredOf(), deadOf('burying'), deadOf('buried'), droppedOf()];
}

export function closedBreaker(overrides: Partial<ClosedBreaker> = {}): ClosedBreaker {
  const none = { sinceEpochMs: 0, attempts: 0, hits: 0 };
  return { state: 'closed', round: 0, failed: none, slow: none, connectFailures: 0, by: 'l0', ...overrides };
}

export function openBreaker(overrides: Partial<OpenBreaker> = {}): OpenBreaker {
  return { state: 'open', round: 1, cause: 'failing', untilEpochMs: t0EpochMs + 30_000, trips: 1, canary: undefined, ...overrides };
}

export function laneOf(overrides: Partial<Lane> = {}): Lane {
  return {
    slots: 8, avail: 8, cfg: 'V1', leases: new Map(), claims: new Map(), failures: 0, breaker: undefined, nextAtEpochMs: undefined, day: undefined, pausedUntilEpochMs: undefined,
    pace: undefined, flag: undefined, holdSeq: 0, holding: undefined, drain: undefined, window: undefined, learnedMs: undefined, isAuto: false, row: undefined, told: new Map(), ...overrides,
  };
}

/** The timing of an outcome of which nothing but its length matters. */
export function timed(durationMs: number): Timing {
  return { durationMs, phasesMs: {}, reused: false };
}
