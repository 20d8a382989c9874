/** Whether some order of what was asked at the same time explains what was answered, and what is there now. */
import { isDeepStrictEqual } from 'node:util';
import type { Instant, State } from './state.ts';

export interface Asked {
  /** One after the other; those of others may come between. What the last one sees is the answer. */
  readonly instants: readonly Instant[];
  readonly answer: unknown;
}

interface Progress {
  readonly at: number;
  readonly seen: unknown;
}

/** The states that such an order leads through, or undefined where there is none: all orders are tried. */
export function explain(from: State, asked: readonly Asked[], to: State): readonly State[] | undefined {
  const follow = (state: State, progress: readonly Progress[], path: readonly State[]): readonly State[] | undefined => {
    let ended = true;
    for (const [i, { instants, answer }] of asked.entries()) {
      const { at, seen } = progress[i] as Progress;
      const instant = instants[at];
      if (instant === undefined) continue;
      ended = false;
      const next = instant(state, seen);
      if (at === instants.length - 1 && !isDeepStrictEqual(next.seen, answer)) continue;
      const found = follow(next.state, progress.with(i, { at: at + 1, seen: next.seen }), [...path, next.state]);
      if (found !== undefined) return found;
    }
    return ended && isDeepStrictEqual(state, to) ? path : undefined;
  };
  return follow(from, asked.map(() => ({ at: 0, seen: undefined })), []);
}

/** What the model says of one order, the one in which the calls were issued: for the message of a failure. */
export function predict(from: State, asked: readonly Pick<Asked, 'instants'>[]): { readonly answers: readonly unknown[]; readonly state: State } {
  let state = from;
  const answers = asked.map(({ instants }) => {
    let seen: unknown;
    for (const instant of instants) ({ state, seen } = instant(state, seen));
    return seen;
  });
  return { answers, state };
}
