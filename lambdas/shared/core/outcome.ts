import { phases, type Phase } from '../limits/phases.ts';
import type { Hints } from './hints.ts';

export { phases, type Phase };

/** What every attempt that began can say about its time and its socket. */
export interface Timing {
  /** Milliseconds from its start to its outcome, the wait for a socket included. */
  readonly durationMs: number;
  /** Milliseconds of each phase that it came to; a socket used again has no phases of set-up. */
  readonly phasesMs: Readonly<Partial<Record<Phase, number>>>;
  /** True where the socket had served an earlier request: its death then says little about the endpoint. */
  readonly reused: boolean;
}

/** How one attempt ended. The group is decided by what was put on the wire, never by an error's name. */
export type AttemptOutcome =
  /**
   * A whole status line arrived: it wins over any fault that came later. `cut` names what ended the rest early, if anything
   * did; `redirectsTo` is the origin that a redirect names, without path and query, for they may hold a token; `hints` are
   * what it says of when to come again; `reference` is the id that it returns in the header that was asked for; `body` the
   * whole body, of a look only.
   */
  | ({ kind: 'answered'; status: number; bodyExcerpt: string; cut?: string; redirectsTo?: string; hints?: Hints; reference?: string; body?: Buffer } & Timing)
  /** At least one byte of the request may have left, and no status came: the consumer may have acted. */
  | ({ kind: 'ambiguous'; phase: 'write' | 'headers'; cause: string } & Timing)
  /** Nothing of the request left: safe to repeat, but the endpoint's side was at fault. */
  | ({ kind: 'unsent'; phase: 'dns' | 'address' | 'connect' | 'tls' | 'write'; cause: string } & Timing)
  /** Nothing left, and the endpoint has no part in it: no attempt is counted. */
  | { kind: 'notStarted'; why: 'no-socket' | 'stale-socket' | 'no-time' | 'not-allowed' }
  /** The endpoint's configuration cannot be sent: repeating cannot help. */
  | { kind: 'invalidConfiguration'; detail: string };

/** True of an attempt that ended while its answer was waited for. */
export function isCutOff(outcome: AttemptOutcome): boolean {
  return outcome.kind === 'ambiguous' && outcome.phase === 'headers' && outcome.cause === 'timeout';
}
