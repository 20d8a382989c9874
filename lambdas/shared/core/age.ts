import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import { retry } from '../limits/numbers.ts';

/**
 * Age of a delivery, in milliseconds. It stands still while its endpoint is paused, for at most 30 days of each pause: what an
 * operator keeps back on purpose must not be given up for it, nor be kept for ever.
 */
export function ageMs(firstEpochMs: number, { pauses }: Pick<EndpointConfig, 'pauses'>, nowEpochMs: number): number {
  const paused = pauses.reduce((sum, { fromEpochMs, toEpochMs }) => {
    const to = Math.min(toEpochMs ?? nowEpochMs, nowEpochMs, fromEpochMs + retry.maxPauseS * 1_000);
    return sum + Math.max(0, to - Math.max(fromEpochMs, firstEpochMs));
  }, 0);
  return nowEpochMs - firstEpochMs - paused;
}

/** The pauses of an endpoint that is put: one begins when it becomes paused, and ends when it no longer is. */
export function pausesAfter(before: EndpointConfig['pauses'], status: EndpointConfig['status'], nowEpochMs: number): EndpointConfig['pauses'] {
  const last = before.at(-1);
  const isOpen = last?.toEpochMs === null;
  if (status === 'paused') return isOpen ? before : [...before, { fromEpochMs: nowEpochMs, toEpochMs: null }].slice(-retry.maxPauses);
  return isOpen ? [...before.slice(0, -1), { ...last, toEpochMs: nowEpochMs }] : before;
}
