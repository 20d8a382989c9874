import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CrashHarness } from './crash-harness.ts';
import type { Scenario } from './crash-run.ts';

/** One test a scenario, all in one installation. Prints once what was crashed. */
export function describeCrashes(title: string, scenarios: readonly Scenario[]): void {
  describe(title, () => {
    let harness: CrashHarness;
    beforeAll(async () => {
      harness = await CrashHarness.start();
    });
    afterAll(() => harness.close());

    it.each(scenarios)('$name', { timeout: 300_000 }, async (scenario) => {
      const { effects, crashes, problems } = await harness.crashEverywhere(scenario);
      console.log(`${scenario.name}: ${crashes} crashes around ${effects.length} effects: ${effects.join(', ')}`);
      expect(problems).toEqual([]);
      // A scenario without effects would prove nothing. Looks that are made every few seconds are not in every run, and what the sweep
      // measures at its end comes when the scenario may be over.
      const regular = effects.filter((effect) => !/GetQueueAttributes|GetItem|index\/unknown/.test(effect));
      expect(crashes).toBeGreaterThanOrEqual(2 * regular.length - 2);
    });
  });
}
