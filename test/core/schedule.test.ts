/** A retry schedule and the window that its policy promises (T4). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffMs } from '../../lambdas/shared/core/backoff.ts';
import { scheduleProblem } from '../../lambdas/shared/core/schedule.ts';
import { configOf } from '../support/builders.ts';
import { retryPolicy } from '../support/policy-arbitraries.ts';

const problemOf = (retry: Record<string, unknown> = {}, budgetsMs = {}) => {
  const config = configOf({ retry, budgetsMs });
  return scheduleProblem(config.retry, config.budgetsMs);
};

describe('scheduleProblem', () => {
  it('takes the defaults', () => {
    expect(problemOf()).toBeUndefined();
  });

  it.each<[string, Record<string, unknown>, Record<string, number>, 'long' | 'short' | undefined]>([
    ['equal jitter with the other defaults', { jitter: 'equal' }, {}, 'long'],
    ['equal jitter and a longer window', { jitter: 'equal', maxAgeS: 300_000 }, {}, undefined],
    ['exactly its window', { delaysS: [166], attempts: 3, maxAgeS: 217 }, { connection: 2_000, total: 15_000 }, undefined],
    ['a second more than its window', { delaysS: [167], attempts: 3, maxAgeS: 217 }, { connection: 2_000, total: 15_000 }, 'long'],
    ['exactly a third of its window', { delaysS: [100], attempts: 3, maxAgeS: 453 }, { connection: 2_000, total: 15_000 }, undefined],
    ['less than a third of its window', { delaysS: [100], attempts: 3, maxAgeS: 454 }, { connection: 2_000, total: 15_000 }, 'short'],
    ['six attempts over minutes', { attempts: 6 }, {}, 'short'],
    ['one attempt', { attempts: 1 }, {}, 'short'],
    ['25 attempts', { attempts: 25 }, {}, 'long'],
    ['25 attempts within a week', { attempts: 25, maxAgeS: 604_800, capS: 40_000 }, {}, undefined],
    ['budgets that alone do not fit', { attempts: 4, delaysS: [1], maxAgeS: 60 }, { connection: 2_000, total: 15_000 }, 'long'],
  ])('%s', (_how, retry, budgetsMs, kind) => {
    expect(problemOf(retry, budgetsMs)?.kind).toBe(kind);
  });

  it('shows the sum', () => {
    expect(problemOf({ attempts: 4 })?.message).toBe(
      'retry: 4 attempts × 17 s + 52.5 s of backoff as expected with full jitter (at most 5 + 20 + 80) = 120.5 s, must be at least a third of maxAgeS, 86400 s of 259200 s, or deliveries are given up long before: more attempts, a larger baseS, factor or capS, or a smaller maxAgeS',
    );
    expect(problemOf({ attempts: 25 })?.message).toMatch(/^retry: 25 attempts × 17 s \+ 745812.5 s of .*81920 \+ 86400 \+ 86400 \+ 86400 \+ 86400 \+ …\) = 746237.5 s, must be at most maxAgeS, 259200 s/);
  });

  it('expects of a schedule what it comes to on average', () => {
    fc.assert(fc.property(retryPolicy, (retry) => {
      const config = configOf({ retry });
      const problem = scheduleProblem(config.retry, config.budgetsMs);
      const middle = Array.from({ length: config.retry.attempts - 1 }, (_, i) => backoffMs(config.retry, i + 1, 0.5)).reduce((sum, ms) => sum + ms, 0);
      const spanS = config.retry.attempts * 17 + middle / 1_000;
      // The floor of a second, and rounding, which a schedule of such waits may come to.
      const slackS = config.retry.attempts;
      if (problem === undefined) {
        expect(spanS).toBeLessThanOrEqual(config.retry.maxAgeS + slackS);
        expect(spanS).toBeGreaterThanOrEqual(config.retry.maxAgeS / 3 - slackS);
      } else if (problem.kind === 'long') expect(spanS).toBeGreaterThan(config.retry.maxAgeS - slackS);
      else expect(spanS).toBeLessThan(config.retry.maxAgeS / 3 + slackS);
    }));
  });
});
