import { ageMs } from '../shared/core/age.ts';
import { deliver as limits } from '../shared/limits/numbers.ts';
import { buryUnclaimed } from './bury.ts';
import type { Settled } from './deliver-one.ts';
import { holdCopies, mustHold } from './hold.ts';
import { reportOffers } from './report-offers.ts';
import { exitOfRepeat, splitRepeats } from './repeats.ts';
import { putBackUntried } from './retain.ts';
import { sendWaves, type Pacing, type Waves } from './waves.ts';
import type { Copy, DeliverDeps, Exit, Invocation } from './types.ts';

type Exits = Map<string, Exit>;

/** All received copies for one endpoint: sent in waves while that is quick; what is left is held, or comes back for another try. */
export async function deliverGroup(deps: DeliverDeps, copies: readonly Copy[], invocation: Invocation): Promise<Exits> {
  const { firsts, repeats } = splitRepeats(copies);
  const endpointId = copies[0]?.message.endpointId ?? '';
  const settled = new Map<Copy, Settled>();
  const waves = await sendWaves(deps, endpointId, firsts, quickWaves(deps, settled), invocation);
  const exits: Exits = new Map(waves.exits);
  for (const [copy, { exit }] of settled) exits.set(copy.received.messageId, exit);
  await Promise.all([
    leave(deps, waves, invocation, exits),
    ...repeats.map(async (copy) => {
      const untried = () => putBackUntried(deps, copy.received, waves, invocation);
      exits.set(copy.received.messageId, await exitOfRepeat(deps, copy, settled, untried, invocation));
    }),
  ]);
  return exits;
}

/** Slots are used again within an invocation while that is quick: the messages of other endpoints in the batch wait for their answer. */
function quickWaves({ clock }: DeliverDeps, settled: Map<Copy, Settled>): Pacing {
  const startedMs = clock.monotonicMs();
  return {
    spending: undefined,
    goesOn: (lastMs) => clock.monotonicMs() + lastMs - startedMs <= limits.waveMs,
    more: () => Promise.resolve([]),
    wait: () => Promise.resolve(false),
    settled: (wave) => wave.forEach((one, copy) => settled.set(copy, one)),
  };
}

/** Words for why deliveries were not tried: the names of events. */
const events = { done: 'shed', full: 'shed', unknown: 'shed', open: 'breaker-open', slow: 'left-to-drain', rate: 'rate-reached', paused: 'paused' } as const;

/** No attempt, no failure, no step towards a dead letter (L3); but what is past its age is given up here too. */
async function leave(deps: DeliverDeps, waves: Waves, invocation: Invocation, exits: Exits): Promise<void> {
  const { left, endpoint, stop } = waves;
  if (left.length === 0 || endpoint?.config === undefined) return;
  const { config } = endpoint;
  deps.telemetry.event(stop.kind === 'rate' && stop.isDaySpent ? 'day-spent' : events[stop.kind], { endpointId: config.endpointId, copies: left.length });
  const nowEpochMs = deps.clock.nowEpochMs();
  // Of one that begins a new generation the age begins anew.
  const isOld = ({ received, message }: Copy) => received.deadLetterGeneration === undefined && message.resend === 0 && ageMs(received.sentEpochMs, config, nowEpochMs) > config.retry.maxAgeS * 1_000;
  const old = left.filter(isOld);
  const young = left.filter((copy) => !isOld(copy));
  // Beside what becomes of them: nobody waits for a measurement.
  const reported = reportOffers(deps, config.endpointId, left, stop);
  const [isCrowded, expired] = await Promise.all([
    deps.inFlight.isCrowded(),
    old.length === 0 ? new Map<string, Exit>() : buryUnclaimed(deps, old, endpoint, invocation),
  ]);
  for (const [id, exit] of expired) exits.set(id, exit);
  const held = young.filter((copy) => mustHold(copy.received, waves, isCrowded, nowEpochMs));
  const back = young.filter((copy) => !held.includes(copy));
  for (const [id, exit] of await holdCopies(deps, held, { ...waves, config }, invocation)) exits.set(id, exit);
  await Promise.all(back.map(async (copy) => exits.set(copy.received.messageId, await putBackUntried(deps, copy.received, waves, invocation))));
  await reported;
}
