/** What it costs that an event is held, and sent later: as at an endpoint that is paused, and then is not. */
import { setTimeout as sleep } from 'node:timers/promises';
import { sendWakeUp } from '../lambdas/shared/adapters/wake-ups.ts';
import type { Lane } from '../lambdas/shared/core/lane.ts';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { newEvent, send } from './events.ts';
import { callers, type Installation } from './installation.ts';
import { meter } from './metered.ts';
import { untilQuiet, type Measured } from './rounds.ts';

const count = 10;
/** Real time. A run of the drain says that nothing is held only ten seconds after the last hold. */
const limitMs = 60_000;
const lookMs = 100;

/** Ten events in a batch, held and then drained together; metered until the lane says that none is held. */
export async function measureHeld(installation: Installation, shape: { name: string; endpointId: string; moreBytes: number }, progress: (line: string) => void): Promise<Measured> {
  const { name, endpointId, moreBytes } = shape;
  const { calls, consumer, bystanders, operator, output, register } = installation;
  progress(`${name}: one round`);
  await register(endpointId, { maxInFlight: 2 * count, status: 'paused' });
  const since = calls.last;
  const events = Array.from({ length: count }, () => ({ ...newEvent(endpointId), moreBytes }));
  await send(installation, events);
  const lane = await laneUntil(installation, endpointId, ({ holding }) => holding?.count === count);
  await untilQuiet(installation);
  await register(endpointId, { maxInFlight: 2 * count });
  const nowEpochMs = Date.now();
  await operator.lanes.moveWakeUp(endpointId, lane.holding?.wakeAtEpochMs ?? nowEpochMs, nowEpochMs);
  await sendWakeUp(operator.sqs, output(outputs.drainQueueUrl), endpointId);
  await laneUntil(installation, endpointId, ({ holding, drain }) => holding === undefined && drain === undefined);
  const requests = events.map(({ eventId }) => consumer.seen.get(eventId) ?? 0);
  if (requests.some((n) => n !== 1)) throw new Error(`${name}: not each event was delivered once (${requests.join(', ')} requests); nothing was measured`);
  return { name, events: count, rounds: [meter(calls.since(since), { producer: callers.producer, bystanders })] };
}

async function laneUntil({ operator }: Installation, endpointId: string, isSo: (lane: Lane) => boolean): Promise<Lane> {
  for (const endsMs = performance.now() + limitMs; performance.now() < endsMs; await sleep(lookMs)) {
    const lane = (await operator.registry.get(endpointId))?.lane;
    if (lane !== undefined && isSo(lane)) return lane;
  }
  throw new Error(`${endpointId}: its lane was not as it had to be after ${limitMs} ms; nothing was measured`);
}
