/** What every benchmark is, whatever it measures; the command line needs nothing else of it. */

export type Cell = string | number;

/** One line of the table named `table`. Columns carry their unit last; one that ends in Usd is dollars. */
export type Row = Readonly<Record<string, Cell>> & { readonly table: string };

/** A number that must not be passed, as data: who says so stands beside it. */
export type Limit = { readonly name: string; readonly source: string } & Bound;
type Bound = { readonly max: number } | { readonly min: number };

/** A limit with what was measured. */
export type Ceiling = Limit & { readonly value: number; readonly ok: boolean };

export interface Report {
  readonly name: string;
  readonly rows: readonly Row[];
  readonly ceilings: readonly Ceiling[];
  /** What the figures leave out, and what could not be verified; a line each. */
  readonly notes: readonly string[];
}

/** A benchmark's module exports one as `bench`. */
export interface Bench {
  /**
   * Runs to the end and leaves nothing behind.
   * @param progress told what is under way, a line at a time; never part of the result.
   * @throws Error where what ran was not what was to be measured: no figure is better than a wrong one.
   */
  run(progress: (line: string) => void): Promise<Report>;
}

/** Judges a value. NaN passes no limit. */
export function judge(limit: Limit, value: number): Ceiling {
  return { ...limit, value, ok: 'max' in limit ? value <= limit.max : value >= limit.min };
}
