/** Seeds of random runs: printed, repeated on demand, and kept where one has found something. */
import { randomInt } from 'node:crypto';

/** A random test run that can be had again. */
export interface SeededRun {
  readonly seed: number;
  /** Histories that are made from the seed. */
  readonly runs: number;
  /** Why it is run, for whoever reads the output. */
  readonly why: string;
}

/**
 * What a property test runs, in order: the stored seeds, then a random one. `NAME_SEED` repeats that one seed alone;
 * `NAME_RUNS` says how many histories it, or the random one, makes instead of `runs`.
 */
export function seededRuns(name: string, stored: readonly SeededRun[], runs: number, env: NodeJS.ProcessEnv = process.env): SeededRun[] {
  const many = integerIn(env, `${name}_RUNS`, 1) ?? runs;
  const seed = integerIn(env, `${name}_SEED`, -(2 ** 31));
  if (seed !== undefined) return [{ seed, runs: many, why: 'asked for' }];
  return [...stored, { seed: randomInt(2 ** 31), runs: many, why: 'random' }];
}

/** The words before a command that repeat a run. */
export function repeating(name: string, { seed, runs }: Pick<SeededRun, 'seed' | 'runs'>): string {
  return `${name}_SEED=${seed} ${name}_RUNS=${runs}`;
}

function integerIn(env: NodeJS.ProcessEnv, name: string, least: number): number | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= least && value < 2 ** 31) return value;
  throw new Error(`${name} is ${text}: it must be a whole number from ${least} to ${2 ** 31 - 1}`);
}
