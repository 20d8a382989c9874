/** The model's histories on conditions that lack one clause: each lack must show. `npm run explore -- --mutants` shows it in the smallest worlds. */
import { describe, expect, it } from 'vitest';
import { catchers, nameOf } from '../explore/catchers.ts';
import { clausesOfLanesModel, runLanesModel } from '../support/lanes-model.ts';

/** Histories of one seed, and further seeds: what is issued at the same time is answered in an order that no seed decides. */
const runs = 100;
const furtherSeeds = [11, 12, 13, 14];

describe('the model', () => {
  it('meets every clause that the explorer knows', { timeout: 120_000 }, async () => {
    expect((await clausesOfLanesModel({ seed: 1, runs: 60 })).map(nameOf).sort()).toEqual(catchers.map(nameOf).sort());
  });

  it.each(catchers.map((catcher) => [catcher.guards, catcher] as const))('without a clause: %s', { timeout: 200_000 }, async (_guards, dropped) => {
    for (const seed of [dropped.seed, ...furtherSeeds]) {
      if ((await runLanesModel({ seed, runs, dropped, shrinks: false })).failed) return;
    }
    expect.unreachable('nothing shows that the clause is gone');
  });
});
