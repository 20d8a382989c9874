import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import { countIn, msOf, percentile, type Bins } from './statistics.ts';

/** What a budget would have done to deliveries that arrived (T11). */
export interface CutOff {
  readonly budgetMs: number;
  readonly successes: number;
  readonly cutOff: number;
  /** Of the successes; 0 of none. */
  readonly share: number;
  /** What 99 of 100 took; undefined of none. */
  readonly p99Ms: number | undefined;
}

/**
 * The longest that an answer may take in the end. A read budget that follows what is measured counts with its longest: what it cuts off
 * sooner is tried again with that.
 */
export function longestAnswerMs({ adaptiveRead, budgetsMs }: Pick<EndpointConfig, 'adaptiveRead' | 'budgetsMs'>): number {
  return Math.min(adaptiveRead?.maxMs ?? budgetsMs.read, budgetsMs.total);
}

/** Of answers that were counted from the socket on, so that set-up and write count as if they were waiting: rather too many than too few. */
export function cutOffBy(budgetMs: number, answers: Bins): CutOff {
  const successes = countIn(answers);
  const cutOff = [...answers].reduce((sum, [bin, count]) => sum + (msOf(bin) > budgetMs ? count : 0), 0);
  return { budgetMs, successes, cutOff, share: successes === 0 ? 0 : cutOff / successes, p99Ms: percentile(answers, 0.99) };
}
