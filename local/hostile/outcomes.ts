/** What a sender owes as the outcome of an attempt, as data that tests and the demo compare and print. */
import type { AttemptEntry } from '../../lambdas/shared/core/record.ts';

/**
 * How an attempt ends, by what was on the wire: a complete status line other than 1xx wins over any later fault
 * (`delivered` if 2xx, else `answered`); without one, `ambiguous` if a byte of the request was written, else `unsent`.
 */
export type Outcome =
  | { readonly group: 'delivered' | 'answered'; readonly status: number }
  /** `write` until the whole request is the kernel's, `headers` from then on. */
  | { readonly group: 'ambiguous'; readonly phase: 'write' | 'headers' }
  | { readonly group: 'unsent'; readonly phase: 'dns' | 'address' | 'connect' | 'tls' | 'write' };

export const delivered: Outcome = { group: 'delivered', status: 200 };
export const answered = (status: number): Outcome => ({ group: 'answered', status });
export const ambiguous = (phase: 'write' | 'headers'): Outcome => ({ group: 'ambiguous', phase });
export const unsent = (phase: 'dns' | 'address' | 'connect' | 'tls' | 'write'): Outcome => ({ group: 'unsent', phase });

/** As one cell of a table: `delivered 200`, `ambiguous headers`; alternatives are joined by `or`. */
export function outcomeText(...outcomes: readonly Outcome[]): string {
  return outcomes.map((o) => `${o.group} ${'status' in o ? String(o.status).padStart(3, '0') : o.phase}`).join(' or ');
}

/** The outcome that a record keeps of an attempt; the cause behind the phase, or what cut an answer short, is left out. */
export function outcomeTextOf(entry: AttemptEntry): string {
  const [what = ''] = entry.detail.split(/[ ,]/);
  if (entry.outcome !== 'answered') return `${entry.outcome} ${what}`;
  const status = Number(what);
  return outcomeText(status >= 200 && status < 300 ? { group: 'delivered', status } : answered(status));
}

/** Whether a recorded attempt ended in one of the ways that are owed. */
export function isOwed(entry: AttemptEntry, owed: readonly Outcome[]): boolean {
  return owed.some((outcome) => outcomeText(outcome) === outcomeTextOf(entry));
}
