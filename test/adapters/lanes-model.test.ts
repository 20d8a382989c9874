/** Random histories of one endpoint on DynamoDB, over real HTTP and with operations at the same time, against a sequential model. */
import { describe, expect, it } from 'vitest';
import { runLanesModel } from '../support/lanes-model.ts';
import { repeating, seededRuns, type SeededRun } from '../support/seeds.ts';

/** Replayed by every run: each catches many of the mutants of lanes-mutants.test.ts within these histories. */
const stored: readonly SeededRun[] = [
  { seed: 1, runs: 50, why: 'stored' },
  { seed: 4, runs: 20, why: 'stored' },
];

describe('a lane and its records, through any history', () => {
  it.each(seededRuns('LANES', stored, 100))('seed $seed, $runs histories, $why', { timeout: 600_000 }, async (run) => {
    console.log(repeating('LANES', run));
    const { message } = await runLanesModel(run);
    expect(message).toBeUndefined();
  });
});
