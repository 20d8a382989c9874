import { candidatesOf, verdictOf, type CopyVerdict } from '../core/dead-letter.ts';
import { dlqWalk } from '../limits/numbers.ts';
import type { DeadLetterCopy, DeadLetterQueue, Records, Tidied } from '../ports/index.ts';

export interface WalkDeps {
  readonly queue: DeadLetterQueue;
  readonly records: Pick<Records, 'read'>;
}

export interface WalkOptions {
  /** Asked before each page: false ends the walk. */
  readonly mayGoOn: () => boolean;
  /** Nothing is deleted. */
  readonly isDryRun?: boolean;
  readonly onPage?: (soFar: Tidied) => void;
}

/** `end`: all that was to be had; `bound`: it might not go on; `moving`: SQS moves messages out of the queue. */
export type Walked = Tidied & {
  readonly stop: 'end' | 'bound' | 'moving';
  /** Copies that are still hidden, for putting them back failed: they return when their look is over. */
  readonly hidden: number;
  /** When the oldest copy was sent that the walk has seen and left; undefined where it has left none. */
  readonly oldestSentEpochMs: number | undefined;
};

/**
 * One walk over the dead-letter queue that deletes what is stale (core/dead-letter.ts), and lets everything else be received
 * again at its end, so that it gets on. Who dies on the way leaves copies hidden until their look is over, and no copy too few.
 * Rejects if the queue does not answer; what it has received is put back then, too.
 */
export async function tidyDeadLetters({ queue, records }: WalkDeps, { mayGoOn, isDryRun = false, onPage }: WalkOptions): Promise<Walked> {
  const looked = new Set<string>();
  /** Newest receipts by message; bodies are not kept, for a queue may hold many. */
  const hidden = new Map<string, string>();
  let oldestSentEpochMs: number | undefined;
  const counts = { stale: 0, current: 0, unknown: 0, deleted: 0 };
  const soFar = (): Tidied => ({ looked: looked.size, stale: counts.stale, deleted: counts.deleted, kept: counts.current, unknown: counts.unknown });

  const walk = async (): Promise<Walked['stop']> => {
    let fruitless = 0;
    while (fruitless < dlqWalk.emptyReceives) {
      if (!mayGoOn()) return 'bound';
      // A copy that is hidden here would be missed by the redrive.
      if (await queue.isMoving()) return 'moving';
      const page = await queue.receive();
      for (const { messageId, receiptHandle } of page) hidden.set(messageId, receiptHandle);
      // A copy that comes a second time was hidden for its whole time; and a queue may answer emptily once although it holds some.
      const fresh = page.filter(({ messageId }) => !looked.has(messageId));
      fruitless = fresh.length === 0 ? fruitless + 1 : 0;
      if (fresh.length > 0) await look(fresh);
      onPage?.(soFar());
    }
    return 'end';
  };

  const look = async (copies: readonly DeadLetterCopy[]): Promise<void> => {
    const verdicts = await verdictsOf(records, copies);
    for (const { messageId } of copies) looked.add(messageId);
    for (const verdict of verdicts.values()) counts[verdict]++;
    for (const [{ sentEpochMs }, verdict] of verdicts) if (verdict !== 'stale') oldestSentEpochMs = Math.min(sentEpochMs, oldestSentEpochMs ?? Infinity);
    if (isDryRun) return;
    const stale = copies.filter((copy) => verdicts.get(copy) === 'stale');
    const left = new Set(await queue.remove(stale));
    for (const copy of stale.filter((one) => !left.has(one))) {
      hidden.delete(copy.messageId);
      counts.deleted++;
    }
  };

  let stop: Walked['stop'];
  let left = 0;
  try {
    stop = await walk();
  } finally {
    left = await queue.putBack([...hidden.values()]);
  }
  return { ...soFar(), stop, hidden: left, oldestSentEpochMs };
}

async function verdictsOf(records: Pick<Records, 'read'>, copies: readonly DeadLetterCopy[]): Promise<Map<DeadLetterCopy, CopyVerdict>> {
  const read = await records.read(copies.flatMap(({ body }) => candidatesOf(body).map(({ recordKey }) => recordKey)));
  return new Map(copies.map((copy) => [copy, verdictOf(copy, read)]));
}
