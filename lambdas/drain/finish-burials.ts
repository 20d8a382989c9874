import { finishBurial } from '../deliver/bury.ts';
import { drain as limits } from '../shared/limits/numbers.ts';
import type { DrainDeps } from './types.ts';

/**
 * Burials that somebody has begun and left, as far as their body is here: no message would bring those of held deliveries back. One
 * that is young may be under way elsewhere, and would lie twice in the dead-letter queue; else that does no harm, for both copies
 * speak of the same generation.
 * @returns false where one is not finished: the hold must go on until it is
 */
export async function finishBurials(deps: DrainDeps, endpointId: string): Promise<boolean> {
  const begun = await deps.held.burying(endpointId, limits.lookPage);
  if (begun.length === 0) return true;
  const { found, unread } = await deps.records.read(begun);
  const dead = [...found.values()].filter((record) => record.state === 'dead' && record.phase === 'burying');
  const oldEpochMs = deps.clock.nowEpochMs() - limits.burialMs;
  const payloads = await deps.payloads.read(dead);
  const exits = await Promise.all(
    dead.map(async (record) => {
      if (record.lastEpochMs > oldEpochMs) return 'retain';
      const body = payloads.found.get(record.recordKey);
      if (body === undefined) return payloads.unread.has(record.recordKey) ? 'retain' : 'ack';
      const received = { messageId: record.recordKey, receiptHandle: '', body, receiveCount: 1, sentEpochMs: record.firstEpochMs, deadLetterGeneration: undefined };
      return (await finishBurial(deps, received, record)).kind;
    }),
  );
  return unread.size === 0 && !exits.includes('retain');
}
