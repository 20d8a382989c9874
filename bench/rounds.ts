/** Rounds of events through a real installation, each metered on its own. */
import { setTimeout as sleep } from 'node:timers/promises';
import { GetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { newEvent, send } from './events.ts';
import { callers, type Installation } from './installation.ts';
import { meter, type Metered } from './metered.ts';

/** One batch of events, delivered by one invocation; sent and measured again in every round. */
export interface Shape {
  readonly name: string;
  readonly rounds: number;
  /** The endpoint of each event, ten at most; asked anew in every try, so that a shape may register new ones. */
  readonly endpoints: () => Promise<readonly string[]> | readonly string[];
}

export interface Measured {
  readonly name: string;
  /** Events of a round. */
  readonly events: number;
  readonly rounds: readonly Metered[];
}

/** A round in which something else ran than was meant is repeated this often. */
const maxTries = 3;
/** A queue that is not empty by then never will be; real time. */
const quietLimitMs = 60_000;
const lookMs = 20;

/** Measures a shape. @throws Error if its events were not delivered once each, by one invocation, in `maxTries` tries. */
export async function measure(installation: Installation, shape: Shape, progress: (line: string) => void): Promise<Measured> {
  const rounds: Metered[] = [];
  let events = 0;
  let tries = 0;
  while (rounds.length < shape.rounds) {
    progress(`${shape.name}: round ${rounds.length + 1} of ${shape.rounds}`);
    const { metered, deliveries } = await deliver(installation, await shape.endpoints());
    const problem = problemOf(metered, deliveries);
    if (problem === undefined) {
      events = deliveries.length;
      rounds.push(metered);
      tries = 0;
      continue;
    }
    progress(`${shape.name}: not counted: ${problem}`);
    tries += 1;
    if (tries === maxTries) throw new Error(`${shape.name}: ${problem}, in ${maxTries} tries; nothing was measured`);
  }
  return { name: shape.name, events, rounds };
}

/** Sends an event to each endpoint, waits until the queue has forgotten them all, and meters every call of that time. */
async function deliver(installation: Installation, endpoints: readonly string[]): Promise<{ metered: Metered; deliveries: readonly number[] }> {
  const { calls, consumer, bystanders } = installation;
  const events = endpoints.map(newEvent);
  const since = calls.last;
  await send(installation, events);
  await untilQuiet(installation);
  return {
    metered: meter(calls.since(since), { producer: callers.producer, bystanders }),
    deliveries: events.map(({ eventId }) => consumer.seen.get(eventId) ?? 0),
  };
}

/** Why a round must not be counted: the figures would be those of something else. */
export function problemOf(metered: Metered, deliveries: readonly number[]): string | undefined {
  const wrong = deliveries.filter((requests) => requests !== 1);
  if (wrong.length > 0) return `${wrong.length} of ${deliveries.length} events were not delivered exactly once (${wrong.join(', ')} requests)`;
  const { invocations } = metered.quantities;
  return invocations === 1 ? undefined : `${deliveries.length} events took ${invocations} invocations instead of one`;
}

/**
 * Messages are deleted once their invocation is over, so an empty queue means that every call has been made and noted.
 * @throws Error if it is not empty in `limitMs`
 */
export async function untilQuiet({ operator, output }: Installation, limitMs: number = quietLimitMs): Promise<void> {
  const names = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible', 'ApproximateNumberOfMessagesDelayed'] as const;
  const get = new GetQueueAttributesCommand({ QueueUrl: output(outputs.deliveryQueueUrl), AttributeNames: [...names] });
  for (const endMs = performance.now() + limitMs; ; await sleep(lookMs)) {
    const { Attributes = {} } = await operator.sqs.send(get);
    const left = names.reduce((sum, name) => sum + Number(Attributes[name]), 0);
    if (left === 0) return;
    if (performance.now() > endMs) throw new Error(`${left} messages were still in the delivery queue after ${limitMs} ms; nothing was measured`);
  }
}
