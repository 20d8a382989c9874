import type { EndpointConfig, RetryPolicy } from '../limits/endpoint-schema.ts';
import { adaptive as limits } from '../limits/numbers.ts';
import type { Lane } from './lane.ts';
import { countIn, percentile, type Window } from './statistics.ts';

/** What a lane knows of how long its endpoint takes. */
export interface Learned {
  readonly slots: number;
  /** Of windows that have ended; undefined where none has taught anything. */
  readonly learnedMs: number | undefined;
  readonly window: Window | undefined;
  readonly breaker: Lane['breaker'];
}

/** A delivery that is due. */
export interface Tried {
  readonly attempt: number;
  readonly ambiguous: number;
  readonly firstEpochMs: number;
  /** An operator's question, which is asked once. */
  readonly isPing: boolean;
}

/** For how long an attempt waits for its answer (T5). */
export interface ReadBudget {
  readonly readMs: number;
  /** True where the endpoint might have got more time: that it was cut off then says little of its health. */
  readonly isTight: boolean;
}

/**
 * Three times what 99 of 100 answers take, between the bounds. The longest instead where nothing is known, or several were cut off
 * lately: it may have become slow, and only patience finds that out.
 */
export function readBudgetOf({ adaptiveRead, budgetsMs, retry }: EndpointConfig, lane: Learned, tried: Tried, nowEpochMs: number): ReadBudget {
  if (adaptiveRead === null) return { readMs: budgetsMs.read, isTight: false };
  const { minMs, maxMs } = adaptiveRead;
  const expectedMs = expectedAnswerMs(lane);
  if (expectedMs === undefined || isDoubtful(lane.window) || lane.breaker?.state === 'open' || !mayBeHasty(tried, retry, nowEpochMs)) return { readMs: maxMs, isTight: false };
  const readMs = Math.round(Math.min(maxMs, Math.max(minMs, limits.factor * expectedMs)));
  return { readMs, isTight: readMs < maxMs };
}

/**
 * Only a first attempt that others can follow: no delivery is lost by haste, and what was cut off is learned at the next. Nor a
 * canary, nor a ping: their verdict must count.
 */
function mayBeHasty({ attempt, ambiguous, firstEpochMs, isPing }: Tried, { attempts, maxAgeS }: RetryPolicy, nowEpochMs: number): boolean {
  const isYoung = nowEpochMs - firstEpochMs < (maxAgeS * 1_000) / 2;
  return !isPing && attempt === 0 && ambiguous === 0 && attempts > 1 && isYoung;
}

/** What 99 of 100 answers of a full lane would take: the longer of what is measured now and what was learned. */
export function expectedAnswerMs({ slots, learnedMs, window }: Pick<Learned, 'slots' | 'learnedMs' | 'window'>): number | undefined {
  const nowMs = window === undefined ? undefined : fullLaneMs(window, slots);
  return nowMs === undefined ? learnedMs : Math.max(nowMs, learnedMs ?? 0);
}

/** What a lane knows after a window: longer at once, and shorter as far as that is seen often enough. */
export function learnedAfter(window: Window, slots: number, beforeMs: number | undefined): number | undefined {
  // Where there was haste, the few answers of patience are believed.
  const seenMs = fullLaneMs(window, slots, isHasty(window) ? 1 : limits.minAnswers);
  if (seenMs === undefined || beforeMs === undefined) return seenMs ?? beforeMs;
  // What was cut off took longer than any answer says.
  if (seenMs >= beforeMs || isHasty(window)) return Math.max(seenMs, beforeMs);
  return Math.round(beforeMs - (beforeMs - seenMs) * Math.min(1, countIn(window.answers) / limits.memory));
}

/**
 * An endpoint that serves one request at a time takes as many times longer as there are at once: measured with few in flight, a
 * percentile is stretched to a full lane. Undefined of a window with too few answers, or too many failures: neither teaches anything.
 */
function fullLaneMs(window: Window, slots: number, minAnswers: number = limits.minAnswers): number | undefined {
  const { attempts, delivered, cutOff, answers, inFlight } = window;
  // What was cut off in haste says nothing of its health.
  if (countIn(answers) < minAnswers || delivered < limits.healthyShare * (attempts - cutOff)) return undefined;
  const p99 = percentile(answers, limits.share);
  return p99 === undefined ? undefined : Math.round(p99 * Math.max(1, slots / Math.max(1, inFlight / attempts)));
}

function isDoubtful(window: Window | undefined): boolean {
  return window !== undefined && isHasty(window) && (window.cutOff >= limits.doubtCutOffs || 2 * window.cutOff >= window.attempts);
}

function isHasty({ cutOff, attempts }: Window): boolean {
  return cutOff > limits.doubtShare * attempts;
}
