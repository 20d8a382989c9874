/** Time for tests: from one event to the next, and never while an invocation is under way, which an advance could kill. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SteerableClock } from './clock.ts';
import type { RunningSource } from './embedded-aws.ts';
import type { Sqs } from './sqs.ts';
import type { Wire } from './wire.ts';

export interface Skipped {
  /** No message is ready, in a poller's hands or in a function's; only then does the clock move. */
  idle: boolean;
  /** Messages in the queues of all event sources. */
  ready: number;
  hidden: number;
  /** How far the clock was moved: 0 if something is under way or nothing is hidden. */
  skippedMs: number;
  nowEpochMs: number;
  /** Highest receive count of a message in these queues. */
  mostReceives: number;
}

export interface SkipOptions {
  /** Furthest move; default: none. */
  limitMs?: number | undefined;
  /** Further than to the next message, so that more come at once; default 0. */
  beyondMs?: number | undefined;
  /** Longest wait for what is under way to end, real time; default 0. */
  waitMs?: number | undefined;
}

/** The parts of an installation that it takes. */
interface Parts {
  sources: readonly (Pick<RunningSource, 'queueName' | 'roleName'> & { source: Pick<RunningSource['source'], 'inFlight' | 'begun'> })[];
  sqs: Pick<Sqs, 'stateOf'>;
  wire: Pick<Wire, 'handedTo'>;
  clock: Pick<SteerableClock, 'nowMs' | 'advance'>;
}

const lookEveryMs = 5;

/** Moves the clock to when the next hidden message becomes visible. */
export async function skipToNext(parts: Parts, { limitMs = Infinity, beyondMs = 0, waitMs = 0 }: SkipOptions): Promise<Skipped> {
  const endMs = performance.now() + waitMs;
  while (!look(parts).idle && performance.now() < endMs) await sleep(lookEveryMs);
  // From here on without a turn between: what is idle when it is looked at is idle when the clock moves.
  const { nextEpochMs, ...found } = look(parts);
  const { clock } = parts;
  const skippedMs = found.idle && found.hidden > 0 ? Math.max(0, Math.min(limitMs, nextEpochMs - clock.nowMs() + beyondMs)) : 0;
  if (skippedMs > 0) {
    clock.advance(skippedMs);
    // Hands what is visible now to the pollers at once.
    look(parts);
  }
  return { ...found, skippedMs, nowEpochMs: clock.nowMs() };
}

function look({ sources, sqs, wire }: Parts) {
  const states = sources.map(({ queueName }) => sqs.stateOf(queueName));
  const ready = states.reduce((sum, state) => sum + state.ready, 0);
  return {
    ready,
    hidden: states.reduce((sum, state) => sum + state.hidden, 0),
    // What was handed out and is not begun is on its way to the function.
    idle: ready === 0 && sources.every(({ source, roleName }) => source.inFlight === 0 && source.begun === wire.handedTo(roleName)),
    nextEpochMs: Math.min(...states.map((state) => state.nextVisibleEpochMs ?? Infinity)),
    mostReceives: Math.max(0, ...states.map((state) => state.mostReceives)),
  };
}
