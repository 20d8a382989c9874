/** How one attempt ended. The group is decided by what was put on the wire, never by an error's name. */
export type AttemptOutcome =
  /** A whole response head arrived: its status wins over any fault that came later. */
  | { kind: 'answered'; status: number; bodyExcerpt: string; durationMs: number }
  /** At least one byte of the request may have left, and no status came: the consumer may have acted. */
  | { kind: 'ambiguous'; phase: 'write' | 'headers'; cause: string; durationMs: number }
  /** Nothing of the request left: safe to repeat, but the endpoint's side was at fault. */
  | { kind: 'unsent'; phase: 'dns' | 'address' | 'connect' | 'tls'; cause: string; durationMs: number }
  /** Nothing left, and the endpoint has no part in it: no attempt is counted. */
  | { kind: 'notStarted'; why: 'no-socket' | 'no-time' }
  /** The endpoint's configuration cannot be sent: repeating cannot help. */
  | { kind: 'invalidConfiguration'; detail: string };
