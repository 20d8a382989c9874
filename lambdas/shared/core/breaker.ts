import type { BreakerPolicy } from '../limits/endpoint-schema.ts';
import { breaker as limits, lease, stageBounds } from '../limits/numbers.ts';
import type { AttemptOutcome } from './outcome.ts';

/**
 * The circuit breaker of one endpoint, fleet-wide, as its lane holds it (R7, L5). Every move from closed to open or back begins
 * a new round; what was sent in an earlier one says nothing about this.
 */
export type Breaker = ClosedBreaker | OpenBreaker;

/** Deliveries go. What went wrong lately is counted; as long as nothing does, nothing is written. */
export interface ClosedBreaker {
  readonly state: 'closed';
  readonly round: number;
  /** Of the attempts in a window, those that failed. */
  readonly failed: Share;
  /** Of the attempts in a longer one, those that took longer than the endpoint's ceiling; counted only where it has one. */
  readonly slow: Share;
  /** Connections in a row that could not be made. */
  readonly connectFailures: number;
  /** The lease whose report was counted last: a write that is repeated finds its own, unless another has come between. */
  readonly by: string;
}

/** How many of the attempts since the beginning of a window. */
export interface Share {
  readonly sinceEpochMs: number;
  readonly attempts: number;
  readonly hits: number;
}

/** Nothing goes, but one canary at a time once `untilEpochMs` has come. */
export interface OpenBreaker {
  readonly state: 'open';
  readonly round: number;
  readonly cause: Cause;
  readonly untilEpochMs: number;
  /** Times in a row that it opened without closing: each doubles the time. */
  readonly trips: number;
  /** The delivery that is sent to see how the endpoint is. Expires with its lease. */
  readonly canary: { readonly leaseId: string; readonly expiresEpochMs: number } | undefined;
}

/** Why a breaker opened: too many failures, no connection several times in a row, or answers that take too long. */
export type Cause = 'failing' | 'unreachable' | 'slow';

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
  /** Nothing: what ended it was ours, or a socket that was used before and broke, which may just have been old. */
  | 'unknown';

export interface Sample {
  readonly health: Health;
  /** From the first byte of the request to the end of the answer: neither the wait for a socket of ours nor the set-up of a new one, which a canary always needs. */
  readonly answerMs: number;
}

/** What the attempts of one lease say, in the round in which it was admitted. */
export interface HealthReport {
  readonly leaseId: string;
  readonly round: number;
  readonly samples: readonly Sample[];
}

export function sampleOf(outcome: AttemptOutcome): Sample {
  const { write = 0, headers = 0, body = 0 } = 'phasesMs' in outcome ? outcome.phasesMs : {};
  return { health: healthOf(outcome), answerMs: write + headers + body };
}

function healthOf(outcome: AttemptOutcome): Health {
  switch (outcome.kind) {
    case 'answered':
      if (outcome.status === 429) return 'throttled';
      return outcome.status >= 500 ? 'failed' : 'answered';
    case 'ambiguous':
      // An old socket breaks. One that is silent for a whole budget has a slow endpoint at its end.
      return outcome.reused && outcome.cause !== 'timeout' ? 'unknown' : 'failed';
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
  const cause = causeOf(counted, policy);
  return cause === undefined ? counted : opened(round, cause, 1, policy, nowEpochMs);
}

/** True where one delivery may be sent to see how the endpoint is. */
export function mayProbe(breaker: OpenBreaker, policy: BreakerPolicy, nowEpochMs: number): boolean {
  return probedFromEpochMs(breaker, policy, nowEpochMs) <= nowEpochMs;
}

/** When a delivery may be sent to see how the endpoint is: its time has come, and no canary is under way. */
export function probedFromEpochMs(breaker: OpenBreaker, policy: BreakerPolicy, nowEpochMs: number): number {
  const { canary } = breaker;
  const endsEpochMs = canary === undefined ? nowEpochMs : believed(canary.expiresEpochMs, longestLeaseMs, nowEpochMs);
  return Math.max(triedFromEpochMs(breaker, policy, nowEpochMs), endsEpochMs);
}

/** When an open breaker may be tried: now, where its end is not to be believed. */
export function triedFromEpochMs({ untilEpochMs, cause, trips }: OpenBreaker, policy: BreakerPolicy, nowEpochMs: number): number {
  return believed(untilEpochMs, openMs(cause, trips, policy), nowEpochMs);
}

/**
 * The breaker as if nothing had been, in a new round: for an endpoint that was changed, what was found out before says nothing,
 * nor does what is still under way. Undefined where nothing was.
 */
export function forgotten(breaker: Breaker | undefined): ClosedBreaker | undefined {
  if (breaker === undefined) return undefined;
  const isQuiet = breaker.state === 'closed' && breaker.failed.hits + breaker.slow.attempts + breaker.connectFailures === 0;
  return isQuiet ? undefined : { ...quiet, round: breaker.round + 1 };
}

/** A lease ends with the longest invocation that there may be. */
const longestLeaseMs = stageBounds.maxTimeoutS * 1_000 + lease.skewMs;

/** A time further off than it is ever set was set by a clock that is wrong, or this one is: it must not stop an endpoint for hours. */
function believed(epochMs: number, longestMs: number, nowEpochMs: number): number {
  return epochMs > nowEpochMs + longestMs + lease.skewMs ? nowEpochMs : epochMs;
}

/** An answer closes, whatever it says, unless it came too late. A canary that sent nothing gives its place back, and 429 leaves everything for as long again. */
function afterCanary(breaker: OpenBreaker, { samples, leaseId }: HealthReport, policy: BreakerPolicy, nowEpochMs: number): Breaker {
  const { round, cause, trips } = breaker;
  const again = (why: Cause, times: number) => opened(round, why, times, policy, nowEpochMs);
  const [sample] = samples;
  switch (sample?.health) {
    case 'answered':
      if (isSlow(sample, policy)) return again('slow', trips);
      return { ...quiet, round: round + 1, by: leaseId };
    case 'failed':
      return again('failing', trips + 1);
    case 'unreachable':
      return again('unreachable', trips + 1);
    case 'throttled':
      return again(cause, trips);
    case 'unknown':
    case undefined:
      return { ...breaker, canary: undefined };
  }
}

const empty: Share = { sinceEpochMs: 0, attempts: 0, hits: 0 };
const quiet: ClosedBreaker = { state: 'closed', round: firstRound, failed: empty, slow: empty, connectFailures: 0, by: '' };

function opened(round: number, cause: Cause, trips: number, policy: BreakerPolicy, nowEpochMs: number): OpenBreaker {
  return { state: 'open', round: round + 1, cause, untilEpochMs: nowEpochMs + openMs(cause, trips, policy), trips, canary: undefined };
}

function openMs(cause: Cause, trips: number, { openS, maxOpenS }: BreakerPolicy): number {
  // The exponent is capped before it is used: it never overflows.
  return 1_000 * (cause === 'slow' ? limits.slowOpenS : Math.min(maxOpenS, openS * 2 ** Math.min(trips - 1, 16)));
}

function causeOf({ failed, slow, connectFailures }: ClosedBreaker, policy: BreakerPolicy): Cause | undefined {
  if (connectFailures >= policy.connectFailures) return 'unreachable';
  if (failed.attempts >= policy.minAttempts && failed.hits >= policy.failureRatio * failed.attempts) return 'failing';
  // The 95th percentile is above the ceiling where more than one in twenty is.
  return slow.attempts >= limits.slowMinAttempts && slow.hits > limits.slowShare * slow.attempts ? 'slow' : undefined;
}

/** With this report counted in; undefined where there is nothing to count, for nothing is wrong now, nor was. */
function tallied(before: ClosedBreaker = quiet, { samples, leaseId, round }: HealthReport, policy: BreakerPolicy, nowEpochMs: number): ClosedBreaker | undefined {
  const reached = samples.filter(({ health }) => health === 'answered' || health === 'failed');
  const unreachable = samples.filter(({ health }) => health === 'unreachable').length;
  const hits = unreachable + reached.filter(({ health }) => health === 'failed').length;
  const wasWell = before.failed.hits === 0 && before.connectFailures === 0;
  const watchesTime = policy.slowP95Ms !== null && reached.length > 0;
  // Also one that asks for less is there.
  const isThere = reached.length > 0 || samples.some(({ health }) => health === 'throttled');
  const says = reached.length + unreachable > 0 || (isThere && before.connectFailures > 0);
  if (!says || (hits === 0 && wasWell && !watchesTime)) return undefined;
  const slowOnes = reached.filter((sample) => isSlow(sample, policy)).length;
  return {
    state: 'closed',
    round,
    // Not before something goes wrong: whatever was well before would only make it look better.
    failed: hits === 0 && wasWell ? empty : counted(before.failed, { attempts: reached.length + unreachable, hits }, policy.windowS, nowEpochMs),
    slow: watchesTime ? counted(before.slow, { attempts: reached.length, hits: slowOnes }, limits.slowWindowS, nowEpochMs) : before.slow,
    connectFailures: isThere ? 0 : before.connectFailures + unreachable,
    by: leaseId,
  };
}

function isSlow({ answerMs }: Sample, { slowP95Ms }: BreakerPolicy): boolean {
  return slowP95Ms !== null && answerMs > slowP95Ms;
}

function counted(before: Share, now: Omit<Share, 'sinceEpochMs'>, windowS: number, nowEpochMs: number): Share {
  const ageMs = nowEpochMs - before.sinceEpochMs;
  // A window that begins in the future was begun by another clock; a little ahead they all are.
  const isOver = ageMs < -lease.skewMs || ageMs > windowS * 1_000;
  if (isOver) return { sinceEpochMs: nowEpochMs, ...now };
  return { sinceEpochMs: before.sinceEpochMs, attempts: before.attempts + now.attempts, hits: before.hits + now.hits };
}
