import type { Context } from 'aws-lambda';
import { lease } from '../shared/limits/numbers.ts';
import type { DeliverDeps, Invocation } from './types.ts';

/** What is left of an invocation that begins now, by the later of the two clocks. */
export function invocationOf({ clock }: Pick<DeliverDeps, 'clock'>, context: Pick<Context, 'getRemainingTimeInMillis'>): Invocation {
  const startedEpochMs = clock.nowEpochMs();
  const startedMs = clock.monotonicMs();
  const givenMs = context.getRemainingTimeInMillis();
  return {
    startedEpochMs,
    leaseExpiresEpochMs: startedEpochMs + givenMs + lease.skewMs,
    remainingMs: () => givenMs - Math.max(clock.nowEpochMs() - startedEpochMs, clock.monotonicMs() - startedMs),
  };
}
