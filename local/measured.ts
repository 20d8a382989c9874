/** What AWS itself would measure of the queues and the functions, at this moment; the embedded AWS publishes no metrics. */
import type { LambdaHost } from './lambda-host.ts';
import type { Sqs } from './sqs.ts';
import type { StackSpec } from './template.ts';

export interface Measured {
  readonly atEpochMs: number;
  readonly queues: readonly MeasuredQueue[];
  /** Invocations, from the start. */
  readonly functions: readonly { readonly name: string; readonly errors: number; readonly throttles: number }[];
}

export interface MeasuredQueue {
  readonly name: string;
  readonly visible: number;
  readonly notVisible: number;
  /** As ApproximateAgeOfOldestMessage: 0 where nothing is counted for it. */
  readonly oldestAgeS: number;
}

interface Parts {
  readonly stack: Pick<StackSpec, 'queues'>;
  readonly sqs: Pick<Sqs, 'stateOf'>;
  readonly hosts: ReadonlyMap<string, Pick<LambdaHost, 'counts'>>;
  readonly clock: { nowMs(): number };
}

export function measured({ stack, sqs, hosts, clock }: Parts): Measured {
  const atEpochMs = clock.nowMs();
  const queues = stack.queues.map(({ name }) => {
    const { ready, inFlight, oldestSentEpochMs = atEpochMs } = sqs.stateOf(name);
    return { name, visible: ready, notVisible: inFlight, oldestAgeS: Math.max(0, Math.round((atEpochMs - oldestSentEpochMs) / 1_000)) };
  });
  return { atEpochMs, queues, functions: [...hosts].map(([name, host]) => ({ name, ...host.counts() })) };
}
