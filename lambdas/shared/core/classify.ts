import type { DeadReason } from './record.ts';

export type StatusVerdict = { kind: 'delivered' } | { kind: 'retry' } | { kind: 'rejected'; reason: DeadReason };

const rejections: Readonly<Record<number, DeadReason>> = {
  401: 'unauthorized',
  403: 'unauthorized',
  404: 'not-found',
  410: 'gone',
  413: 'payload-refused',
};
const transient4xx = new Set([408, 425, 429]);

/** The status matrix (R4). A status outside 200–499 that is not 3xx counts as the server's trouble, and is retried. */
export function classifyStatus(status: number): StatusVerdict {
  if (status >= 200 && status < 300) return { kind: 'delivered' };
  if (status >= 300 && status < 400) return { kind: 'rejected', reason: 'redirected' };
  if (status >= 400 && status < 500 && !transient4xx.has(status)) {
    return { kind: 'rejected', reason: rejections[status] ?? 'rejected' };
  }
  return { kind: 'retry' };
}

/** What a lane remembers of an endpoint that refuses, for its owner to see; undefined for a status that says nothing of the kind. */
export type FlagReason = 'unauthorized' | 'not-found';

export function flagOf(status: number): FlagReason | undefined {
  const reason = rejections[status];
  return reason === 'unauthorized' || reason === 'not-found' ? reason : undefined;
}
