import type { BudgetsMs, RetryPolicy } from '../limits/endpoint-schema.ts';
import { retry as limits } from '../limits/numbers.ts';
import { ceilingS } from './backoff.ts';

/** A retry schedule that does not keep what its policy promises. `message` shows the sum. */
export interface ScheduleProblem {
  /** `long`: its age limit cuts it off. `short`: it gives up long before that; an operator may want it so. */
  readonly kind: 'long' | 'short';
  readonly message: string;
}

/**
 * Whether a schedule fits its delivery window, `maxAgeS`, and uses at least a third of it (T4). Of the waits between attempts
 * the expected length counts: half of the ceiling with full jitter, three quarters with equal jitter.
 */
export function scheduleProblem(retry: RetryPolicy, budgetsMs: BudgetsMs): ScheduleProblem | undefined {
  const { attempts, maxAgeS, jitter } = retry;
  const attemptS = (budgetsMs.connection + budgetsMs.total) / 1_000;
  const ceilings = Array.from({ length: attempts - 1 }, (_, i) => ceilingS(retry, i + 1));
  const waitS = ceilings.reduce((sum, s) => sum + s, 0) * (jitter === 'full' ? 0.5 : 0.75);
  const spanS = attempts * attemptS + waitS;
  const sum = `${attempts} attempts × ${number(attemptS)} s + ${number(waitS)} s of backoff as expected with ${jitter} jitter (${waitsOf(ceilings)}) = ${number(spanS)} s`;
  if (spanS > maxAgeS) {
    return { kind: 'long', message: `retry: ${sum}, must be at most maxAgeS, ${number(maxAgeS)} s: fewer attempts, a smaller capS, factor or baseS, or a larger maxAgeS (at most ${number(limits.maxMaxAgeS)})` };
  }
  const leastS = maxAgeS * limits.leastSpanShare;
  if (spanS >= leastS) return undefined;
  return { kind: 'short', message: `retry: ${sum}, must be at least a third of maxAgeS, ${number(leastS)} s of ${number(maxAgeS)} s, or deliveries are given up long before: more attempts, a larger baseS, factor or capS, or a smaller maxAgeS` };
}

/** The longest waits, one by one. */
function waitsOf(ceilings: readonly number[]): string {
  if (ceilings.length === 0) return 'none';
  const shown = ceilings.slice(0, limits.shownWaits).map(number).join(' + ');
  return `at most ${shown}${ceilings.length > limits.shownWaits ? ' + …' : ''}`;
}

const number = (s: number): string => String(Math.round(s * 10) / 10);
