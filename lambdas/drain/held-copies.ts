import type { Copy } from '../deliver/types.ts';
import { shortHash } from '../shared/core/keys.ts';
import { parseMessage } from '../shared/core/parse.ts';
import type { WaitingRecord } from '../shared/core/record.ts';
import { drain as limits } from '../shared/limits/numbers.ts';
import { buryLost } from './bury-lost.ts';
import type { DrainDeps } from './types.ts';

/** What is held for an endpoint, the longest due first; read ahead, for the next wave must not wait for it. */
export interface HeldCopies {
  /** Those that are due, of about one page; none where no more are, or can be read now. Rejects where the index cannot be read. */
  next(): Promise<readonly Copy[]>;
}

/** `pageSize`: deliveries that are read together. */
export function createHeldCopies(deps: DrainDeps, endpointId: string, { pageSize, isOver }: { pageSize: number; isOver: () => boolean }): HeldCopies {
  /** By record key: once in a run, for the index may still show what has been dealt with. */
  const seen = new Set<string>();
  let from: unknown;
  let isAtEnd = false;
  let ahead: Promise<readonly Copy[]> | undefined;

  const load = async (): Promise<readonly Copy[]> => {
    while (!isAtEnd && !isOver() && seen.size < limits.maxPerRun) {
      const page = await deps.held.page(endpointId, pageSize, from);
      const nowEpochMs = deps.clock.nowEpochMs();
      const due = page.keys.filter((key) => key.dueEpochMs <= nowEpochMs);
      from = page.next;
      isAtEnd = page.next === undefined || due.length < page.keys.length;
      const fresh = due.filter(({ recordKey }) => !seen.has(recordKey) && seen.add(recordKey));
      const { copies, isWhole } = await copiesOf(deps, fresh.map(({ recordKey }) => recordKey));
      // A table that gives no more now would not for the next page either, and what follows must not overtake.
      if (!isWhole) isAtEnd = true;
      if (copies.length > 0) return copies;
    }
    return [];
  };

  return {
    async next() {
      const copies = await (ahead ?? load());
      ahead = undefined;
      if (copies.length > 0) {
        ahead = load();
        // Awaited by the next call, or by nobody: a failure then is not an unhandled one.
        ahead.catch(() => undefined);
      }
      return copies;
    },
  };
}

/** Records, strongly read, then the payloads of those that are still held; in the order of their keys. `isWhole`: none was unread. */
async function copiesOf(deps: DrainDeps, recordKeys: readonly string[]): Promise<{ copies: Copy[]; isWhole: boolean }> {
  if (recordKeys.length === 0) return { copies: [], isWhole: true };
  const { found, unread } = await deps.records.read(recordKeys);
  const held = recordKeys.map((key) => found.get(key)).filter((record): record is WaitingRecord => record?.state === 'waiting' && record.home === 'held');
  if (held.length === 0) return { copies: [], isWhole: unread.size === 0 };
  const payloads = await deps.payloads.read(held);
  const copies: Copy[] = [];
  for (const record of held) {
    const body = payloads.found.get(record.recordKey);
    const copy = body === undefined ? undefined : copyOf(record, body);
    if (copy !== undefined) copies.push(copy);
    else if (!payloads.unread.has(record.recordKey)) await buryLost(deps, record, body);
  }
  return { copies, isWhole: unread.size === 0 && payloads.unread.size === 0 };
}

function copyOf(record: WaitingRecord, body: string): Copy | undefined {
  const parsed = parseMessage(body);
  if (!parsed.ok) return undefined;
  return {
    // What the message asked for again is in the record; asked for twice it would be sent twice.
    message: { ...parsed.message, resend: record.resend },
    claimKey: parsed.message.claimKey,
    recordKey: record.recordKey,
    shortHash: shortHash(record.payloadHash),
    received: {
      messageId: record.recordKey, receiptHandle: '', body, receiveCount: 1, sentEpochMs: record.firstEpochMs, deadLetterGeneration: undefined,
    },
  };
}
