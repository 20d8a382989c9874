/** The dead-letter queue as whoever clears it sees it. */

/** One copy, hidden until it is put back or its look is over. */
export interface DeadLetterCopy {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly body: string;
  /** As its attribute says; undefined where it has none, or one that is no generation. */
  readonly generation: number | undefined;
  /** From then on SQS counts its retention. */
  readonly sentEpochMs: number;
}

/** Every method but `putBack` rejects if the queue does not answer. */
export interface DeadLetterQueue {
  /** Copies that could be received now, as of some seconds ago. */
  ready(): Promise<number>;
  /** True while SQS itself moves messages out of the queue, as the console's redrive has it do. */
  isMoving(): Promise<boolean>;
  /** Up to ten copies; a queue that holds some may answer with none. */
  receive(): Promise<readonly DeadLetterCopy[]>;
  /** Deletes copies; those that are not known to be gone come back. */
  remove(copies: readonly DeadLetterCopy[]): Promise<readonly DeadLetterCopy[]>;
  /** Lets copies be received again, by their receipts. Best effort: how many are not known to be, which are when their look is over. */
  putBack(receiptHandles: readonly string[]): Promise<number>;
}

/** What a walk over the dead-letter queue has found and done. `looked` = `stale` + `kept` + `unknown`. */
export interface Tidied {
  readonly looked: number;
  /** Copies of deliveries that have gone on or ended: they deliver nothing any more. */
  readonly stale: number;
  readonly deleted: number;
  /** Copies that a replay may send. */
  readonly kept: number;
  /** Copies of which nothing is known: no record, no generation, or a record that could not be read. They stay. */
  readonly unknown: number;
}
