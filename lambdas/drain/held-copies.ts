import type { Copy } from '../deliver/types.ts';
import { shortHash } from '../shared/core/keys.ts';
import { parseMessage } from '../shared/core/parse.ts';
import { isPing } from '../shared/core/reconcile.ts';
import type { DeliveryRecord, UnknownRecord, WaitingRecord } from '../shared/core/record.ts';
import { drain as limits } from '../shared/limits/numbers.ts';
import type { HeldPage } from '../shared/ports/index.ts';
import { buryLost, leaveLost } from './bury-lost.ts';
import type { DrainDeps } from './types.ts';

/** What is held for an endpoint, the longest due first; read ahead, for the next wave must not wait for it. */
export interface HeldCopies {
  /** Those that are due, of about one page; none where no more are, or can be read now. Rejects where the index cannot be read. */
  next(): Promise<readonly Copy[]>;
}

interface Pages {
  /** Deliveries that are read together. */
  readonly pageSize: number;
  readonly isOver: () => boolean;
  /**
   * By record key, of all sources of a run: each delivery is taken once in a run. An index may still show what has been dealt with;
   * and what was looked for and is held then cannot be claimed again by the very write that gives its claim back.
   */
  readonly seen: Set<string>;
}

export function createHeldCopies(deps: DrainDeps, endpointId: string, pages: Pages): HeldCopies {
  return createCopies(deps, pages, {
    page: (limit, from) => deps.held.page(endpointId, limit, from),
    isOf: (record) => record.state === 'waiting' && record.home === 'held',
    lost: (record, body) => buryLost(deps, record as WaitingRecord, body),
  });
}

/** What is to be looked for, the longest due first. */
export function createUnknownCopies(deps: DrainDeps, endpointId: string, pages: Pages): HeldCopies {
  return createCopies(deps, pages, {
    page: (limit, from) => deps.held.unknown(endpointId, limit, from),
    isOf: (record) => record.state === 'unknown',
    lost: (record, body) => leaveLost(deps, record as UnknownRecord, body),
  });
}

interface Source {
  page(limit: number, from: unknown): Promise<HeldPage>;
  /** Whether a record is still what its index says. */
  isOf(record: DeliveryRecord): boolean;
  /** One whose payload is gone, or cannot be read. */
  lost(record: DeliveryRecord, body: string | undefined): Promise<void>;
}

function createCopies(deps: DrainDeps, { pageSize, isOver, seen }: Pages, source: Source): HeldCopies {
  let from: unknown;
  let isAtEnd = false;
  let ahead: Promise<readonly Copy[]> | undefined;

  const load = async (): Promise<readonly Copy[]> => {
    while (!isAtEnd && !isOver() && seen.size < limits.maxPerRun) {
      const page = await source.page(pageSize, from);
      const nowEpochMs = deps.clock.nowEpochMs();
      const due = page.keys.filter((key) => key.dueEpochMs <= nowEpochMs);
      from = page.next;
      isAtEnd = page.next === undefined || due.length < page.keys.length;
      const fresh = due.filter(({ recordKey }) => !seen.has(recordKey) && seen.add(recordKey));
      const { copies, isWhole } = await copiesOf(deps, source, fresh.map(({ recordKey }) => recordKey));
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

/** Records, strongly read, then the payloads of those that still belong to the source; in the order of their keys. `isWhole`: none was unread. */
async function copiesOf(deps: DrainDeps, source: Source, recordKeys: readonly string[]): Promise<{ copies: Copy[]; isWhole: boolean }> {
  if (recordKeys.length === 0) return { copies: [], isWhole: true };
  const { found, unread } = await deps.records.read(recordKeys);
  const held = recordKeys.map((key) => found.get(key)).filter((record) => record !== undefined && source.isOf(record)) as DeliveryRecord[];
  if (held.length === 0) return { copies: [], isWhole: unread.size === 0 };
  const payloads = await deps.payloads.read(held);
  const copies: Copy[] = [];
  for (const record of held) {
    const body = payloads.found.get(record.recordKey);
    const copy = body === undefined ? undefined : copyOf(record, body);
    if (copy !== undefined) copies.push(copy);
    else if (!payloads.unread.has(record.recordKey)) await source.lost(record, body);
  }
  return { copies, isWhole: unread.size === 0 && payloads.unread.size === 0 };
}

function copyOf(record: DeliveryRecord, body: string): Copy | undefined {
  const parsed = parseMessage(body);
  if (!parsed.ok) return undefined;
  return {
    // What the message asked for again is in the record; asked for twice it would be sent twice.
    message: { ...parsed.message, resend: record.resend },
    claimKey: parsed.message.claimKey,
    recordKey: record.recordKey,
    shortHash: shortHash(record.payloadHash),
    ...(record.state === 'unknown' ? { isUnknown: true } : {}),
    ...(record.state === 'waiting' && isPing(record) ? { isPing: true } : {}),
    received: {
      messageId: record.recordKey, receiptHandle: '', body, receiveCount: 1, sentEpochMs: record.firstEpochMs, deadLetterGeneration: undefined,
    },
  };
}
