import type { Bench } from './bench.ts';

export interface Entry {
  /** One line for the help. */
  readonly summary: string;
  /** Loaded only to be run: help and usage errors answer at once. */
  readonly load: () => Promise<{ readonly bench: Bench }>;
}

/** Every benchmark by its name: a file in this folder and a line here. */
export const benches: Readonly<Record<string, Entry>> = {
  cost: { summary: 'capacity units, requests and dollars of a delivered event, metered at the wire', load: () => import('./cost.ts') },
  churn: { summary: 'receives a message and time of one endpoint with a backlog, short and long', load: () => import('./churn.ts') },
  fairness: { summary: 'latency of a healthy endpoint beside a sick one, over that beside a quick one', load: () => import('./fairness.ts') },
  throughput: { summary: 'the whole attempt beside bare undici at the same concurrency, https and http', load: () => import('./throughput.ts') },
};
