import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import { retry } from '../limits/numbers.ts';

/**
 * Age of a delivery, in milliseconds. It stands still while its endpoint is paused, for at most 30 days of each pause: what an
 * operator keeps back on purpose must not be given up for it, nor be kept for ever.
 */
export function ageMs(firstEpochMs: number, { pauses }: Pick<EndpointConfig, 'pauses'>, nowEpochMs: number): number {
  let pausedMs = 0;
  let countedTo = firstEpochMs;
  // Those of the endpoint and those of the whole installation may overlap.
  for (const { fromEpochMs, toEpochMs } of pauses.toSorted((a, b) => a.fromEpochMs - b.fromEpochMs)) {
    const to = Math.min(toEpochMs ?? nowEpochMs, nowEpochMs, fromEpochMs + retry.maxPauseS * 1_000);
    pausedMs += Math.max(0, to - Math.max(fromEpochMs, countedTo));
    countedTo = Math.max(countedTo, to);
  }
  return nowEpochMs - firstEpochMs - pausedMs;
}

/** The pauses of an endpoint that is put: one begins when it becomes paused, and ends when it no longer is. */
export function pausesAfter(before: EndpointConfig['pauses'], status: EndpointConfig['status'], nowEpochMs: number): EndpointConfig['pauses'] {
  const last = before.at(-1);
  const isOpen = last?.toEpochMs === null;
  if (status === 'paused') return isOpen ? before : [...before, { fromEpochMs: nowEpochMs, toEpochMs: null }].slice(-retry.maxPauses);
  return isOpen ? [...before.slice(0, -1), { ...last, toEpochMs: nowEpochMs }] : before;
}
