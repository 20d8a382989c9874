/** Time for tests: from one event to the next, and never while an invocation is under way, which an advance could kill. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SteerableClock } from './clock.ts';
import type { EventSourceMapping } from './event-source-mapping.ts';
import type { Scheduler } from './scheduler.ts';
import type { Sqs } from './sqs.ts';
import type { Wire } from './wire.ts';

export interface Skipped {
  /**
   * No message is ready for an event source, in a poller's hands or in a function's, and no schedule is due or being delivered;
   * only then does the clock move.
   */
  idle: boolean;
  /** Messages in the queues of all event sources, also of those that are switched off. */
  ready: number;
  hidden: number;
  /** One-time schedules that are still to fire. */
  wakeUps: number;
  /** How far the clock was moved: 0 if something is under way or nothing is to come. */
  skippedMs: number;
  nowEpochMs: number;
  /** Highest receive count of a message in these queues. */
  mostReceives: number;
}

export interface SkipOptions {
  /** Furthest move; default: none. */
  limitMs?: number | undefined;
  /** Further than to the next event, so that more come at once; default 0. */
  beyondMs?: number | undefined;
  /** False: goes to messages only, and not to schedules; default true. */
  toWakeUps?: boolean | undefined;
  /** Longest wait for what is under way to end, real time; default 0. */
  waitMs?: number | undefined;
}

/** The parts of an installation that it takes. */
interface Parts {
  sources: readonly Pick<EventSourceMapping, 'queueName' | 'roleName' | 'isPolling' | 'inFlight' | 'begun'>[];
  sqs: Pick<Sqs, 'stateOf'>;
  scheduler: Pick<Scheduler, 'pending' | 'tick'>;
  wire: Pick<Wire, 'handedTo'>;
  clock: Pick<SteerableClock, 'nowMs' | 'advance'>;
}

const lookEveryMs = 5;

/** Moves the clock to when the next hidden message becomes visible, or the next one-time schedule is due. */
export async function skipToNext(parts: Parts, { limitMs = Infinity, beyondMs = 0, toWakeUps = true, waitMs = 0 }: SkipOptions): Promise<Skipped> {
  const endMs = performance.now() + waitMs;
  while (!look(parts).idle && performance.now() < endMs) await sleep(lookEveryMs);
  // From here on without a turn between: what is idle when it is looked at is idle when the clock moves.
  const { visibleEpochMs, dueEpochMs, ...found } = look(parts);
  const { clock } = parts;
  const nextEpochMs = toWakeUps ? Math.min(visibleEpochMs, dueEpochMs) : visibleEpochMs;
  const skippedMs = found.idle && nextEpochMs < Infinity ? Math.max(0, Math.min(limitMs, nextEpochMs - clock.nowMs() + beyondMs)) : 0;
  if (skippedMs > 0) {
    clock.advance(skippedMs);
    // Hands what is visible now to the pollers at once, and fires what is due.
    look(parts);
    void parts.scheduler.tick('at');
  }
  return { ...found, skippedMs, nowEpochMs: clock.nowMs() };
}

function look({ sources, sqs, scheduler, wire, clock }: Parts) {
  const found = sources.map((source) => ({ source, state: sqs.stateOf(source.queueName) }));
  const { oneTime, nextEpochMs: dueEpochMs = Infinity, running } = scheduler.pending();
  // What was handed out and is not begun is on its way to the function.
  const isQuiet = ({ source, state }: (typeof found)[number]) =>
    (state.ready === 0 || !source.isPolling) && source.inFlight === 0 && source.begun === wire.handedTo(source.roleName);
  return {
    idle: found.every(isQuiet) && running === 0 && dueEpochMs > clock.nowMs(),
    ready: found.reduce((sum, { state }) => sum + state.ready, 0),
    hidden: found.reduce((sum, { state }) => sum + state.hidden, 0),
    wakeUps: oneTime,
    visibleEpochMs: Math.min(...found.map(({ state }) => state.nextVisibleEpochMs ?? Infinity)),
    dueEpochMs,
    mostReceives: Math.max(0, ...found.map(({ state }) => state.mostReceives)),
  };
}
