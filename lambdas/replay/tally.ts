import { replay as limits } from '../shared/limits/numbers.ts';
import type { ReplayCounts, ReplayProblem } from '../shared/limits/replay-request.ts';

/** What became of one delivery, and why where somebody has to know. */
export interface Outcome {
  readonly kind: Exclude<keyof ReplayCounts, 'selected'>;
  readonly why?: string;
}

/** Whose outcome it is, as far as that is known. */
interface Named {
  readonly endpointId: string;
  readonly eventId: string | undefined;
}

/** Counts of one call, and the first explanations. */
export interface Tally {
  select(count: number): void;
  add(delivery: Named, outcome: Outcome): void;
  counts(): ReplayCounts;
  problems(): readonly ReplayProblem[];
}

export function createTally(): Tally {
  const counts: ReplayCounts = { selected: 0, replayed: 0, sentAgain: 0, noPayload: 0, noEndpoint: 0, disabled: 0, capped: 0, busy: 0, gone: 0 };
  const problems: ReplayProblem[] = [];
  return {
    select(count) {
      counts.selected += count;
    },
    add({ endpointId, eventId }, { kind, why }) {
      counts[kind]++;
      if (why !== undefined && problems.length < limits.maxProblems) problems.push({ endpointId, eventId, why });
    },
    counts: () => ({ ...counts }),
    problems: () => problems,
  };
}
