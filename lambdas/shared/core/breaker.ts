import type { BreakerPolicy } from '../limits/endpoint-schema.ts';
import type { AttemptOutcome } from './outcome.ts';

/**
 * The circuit breaker of one endpoint, fleet-wide, as its lane holds it (R7). Every move from closed to open or back begins a
 * new round; what was sent in an earlier one says nothing about this.
 */
export type Breaker = ClosedBreaker | OpenBreaker;

/** Deliveries go. What went wrong lately is counted; as long as nothing does, nothing is written. */
export interface ClosedBreaker {
  readonly state: 'closed';
  readonly round: number;
  /** Beginning of the window in which attempts are counted. */
  readonly sinceEpochMs: number;
  readonly attempts: number;
  readonly failures: number;
  /** Connections in a row that could not be made. */
  readonly connectFailures: number;
  /** The lease whose report was counted last: a write that is repeated finds its own. */
  readonly by: string;
}

/** Nothing goes, but one canary at a time once `untilEpochMs` has come. */
export interface OpenBreaker {
  readonly state: 'open';
  readonly round: number;
  readonly untilEpochMs: number;
  /** Times in a row that it opened without closing: each doubles the time. */
  readonly trips: number;
  /** The delivery that is sent to see how the endpoint is. Expires with its lease. */
  readonly canary: { readonly leaseId: string; readonly expiresEpochMs: number } | undefined;
}

/** What an attempt says about its endpoint's health. */
export type Health =
  /** The host answers, whatever it answers (C4). */
  | 'answered'
  /** A 5xx, or silence after a byte was sent. */
  | 'failed'
  /** No connection. */
  | 'unreachable'
  /** It asks for less (429): neither well nor ill. */
  | 'throttled'
  /** Nothing: what ended it was ours, or a socket that was used before and may just have been old. */
  | 'unknown';

/** What the attempts of one lease say, in the round in which it was admitted. */
export interface HealthReport {
  readonly leaseId: string;
  readonly round: number;
  readonly healths: readonly Health[];
}

export function healthOf(outcome: AttemptOutcome): Health {
  switch (outcome.kind) {
    case 'answered':
      if (outcome.status === 429) return 'throttled';
      return outcome.status >= 500 ? 'failed' : 'answered';
    case 'ambiguous':
      return outcome.reused ? 'unknown' : 'failed';
    case 'unsent':
      return outcome.phase === 'write' ? 'failed' : 'unreachable';
    case 'notStarted':
    case 'invalidConfiguration':
      return 'unknown';
  }
}

/** The round of a lane whose breaker has never counted anything. */
export const firstRound = 0;

/** The breaker after a report, or undefined where the report changes nothing: it is of another round, or all is well. */
export function afterReport(breaker: Breaker | undefined, report: HealthReport, policy: BreakerPolicy, nowEpochMs: number): Breaker | undefined {
  const { round } = report;
  if (round !== (breaker?.round ?? firstRound)) return undefined;
  if (breaker?.state === 'open') return breaker.canary?.leaseId === report.leaseId ? afterCanary(breaker, report, policy, nowEpochMs) : undefined;
  const counted = tallied(breaker, report, policy, nowEpochMs);
  if (counted === undefined) return undefined;
  const isIll = counted.attempts >= policy.minAttempts && counted.failures >= policy.failureRatio * counted.attempts;
  return isIll || counted.connectFailures >= policy.connectFailures ? opened(round, 1, policy, nowEpochMs) : counted;
}

/** True where one delivery may be sent to see how the endpoint is. */
export function mayProbe({ untilEpochMs, canary }: OpenBreaker, policy: BreakerPolicy, nowEpochMs: number): boolean {
  // A time further off than any that is ever set was set by a clock that is wrong, or this one is.
  const isOver = untilEpochMs <= nowEpochMs || untilEpochMs > nowEpochMs + policy.maxOpenS * 1_000;
  return isOver && (canary === undefined || canary.expiresEpochMs <= nowEpochMs);
}

/** 2xx and 4xx close: the host answers. A canary that sent nothing gives its place back, and 429 leaves everything for as long again. */
function afterCanary(breaker: OpenBreaker, report: HealthReport, policy: BreakerPolicy, nowEpochMs: number): Breaker {
  const { round, trips } = breaker;
  const { healths } = report;
  if (healths.includes('answered')) return { state: 'closed', round: round + 1, sinceEpochMs: nowEpochMs, attempts: 0, failures: 0, connectFailures: 0, by: report.leaseId };
  if (healths.some((health) => health === 'failed' || health === 'unreachable')) return opened(round, trips + 1, policy, nowEpochMs);
  if (healths.includes('throttled')) return opened(round, trips, policy, nowEpochMs);
  return { ...breaker, canary: undefined };
}

function opened(round: number, trips: number, { openS, maxOpenS }: BreakerPolicy, nowEpochMs: number): OpenBreaker {
  // The exponent is capped before it is used: it never overflows.
  const seconds = Math.min(maxOpenS, openS * 2 ** Math.min(trips - 1, 16));
  return { state: 'open', round: round + 1, untilEpochMs: nowEpochMs + Math.round(seconds * 1_000), trips, canary: undefined };
}

/** With this report counted in; undefined where nothing is wrong now, nor was. */
function tallied(before: ClosedBreaker | undefined, { healths, leaseId, round }: HealthReport, policy: BreakerPolicy, nowEpochMs: number): ClosedBreaker | undefined {
  const count = (...kinds: readonly Health[]) => healths.filter((health) => kinds.includes(health)).length;
  const reached = count('answered', 'failed');
  const failures = count('failed', 'unreachable');
  const wasWell = before === undefined || (before.failures === 0 && before.connectFailures === 0);
  if (reached + failures === 0 || (wasWell && failures === 0)) return undefined;
  const ageMs = nowEpochMs - (before?.sinceEpochMs ?? -Infinity);
  // A window that begins in the future was begun by another clock.
  const isOver = before === undefined || ageMs < 0 || ageMs > policy.windowS * 1_000;
  const unreachable = count('unreachable');
  return {
    state: 'closed',
    round,
    sinceEpochMs: isOver ? nowEpochMs : before.sinceEpochMs,
    attempts: (isOver ? 0 : before.attempts) + reached + unreachable,
    failures: (isOver ? 0 : before.failures) + failures,
    connectFailures: reached > 0 ? 0 : (before?.connectFailures ?? 0) + unreachable,
    by: leaseId,
  };
}
