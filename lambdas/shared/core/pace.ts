import { pace as limits } from '../limits/numbers.ts';
import type { Sample } from './breaker.ts';

/**
 * How long an endpoint's answers took lately. A slow one is served by the drain alone: beside it in a batch, others would wait
 * for their acknowledgement. With hysteresis, so that it does not go back and forth.
 */
export interface Pace {
  readonly isSlow: boolean;
  /** One digit an attempt, the newest last: 0 quick, 1 between, 2 slow. Not begun before an attempt is not quick. */
  readonly recent: string;
}

/** The pace after the attempts of one lease; undefined where all is quick, and was. */
export function afterAnswers(before: Pace | undefined, samples: readonly Sample[]): Pace | undefined {
  const digits = samples.flatMap(({ health, answerMs }) => (health === 'answered' || health === 'failed' ? [digitOf(answerMs)] : [])).join('');
  const recent = ((before?.recent ?? '') + digits).slice(-limits.kept);
  // Of quick ones there is nothing to remember.
  const known = before === undefined ? recent.replace(/^0+/, '') : recent;
  const isSlow = before?.isSlow === true ? !isQuickAgain(known) : isTooSlow(known);
  return !isSlow && /^0*$/.test(known) ? undefined : { isSlow, recent: known };
}

function digitOf(answerMs: number): string {
  if (answerMs > limits.slowMs) return '2';
  return answerMs > limits.quickMs ? '1' : '0';
}

function isTooSlow(recent: string): boolean {
  return count(recent.slice(-limits.few), /2/g) >= limits.slowOfFew || (recent.length === limits.kept && count(recent, /2/g) > limits.outliers);
}

function isQuickAgain(recent: string): boolean {
  return recent.length === limits.kept && count(recent, /[12]/g) <= limits.outliers;
}

const count = (text: string, what: RegExp) => [...text.matchAll(what)].length;
