/** Every AWS call of the installation, as seen on the wire: what tests replay against IAM policies and what costs are metered from. */

export interface CallEntry {
  /** Grows with each call; members of one transaction share it. */
  seq: number;
  /** By the steered clock. */
  atMs: number;
  /** Access key id of the request, which is how functions are told apart. */
  caller: string;
  service: string;
  /** What IAM checks, such as `sqs:SendMessage` also for a batch. */
  action: string;
  /** What was called, such as `SendMessageBatch`. */
  operation: string;
  /** ARN, or `*` where the action has no resource. */
  resource: string;
  /** `ok`, or the error code. */
  outcome: string;
  /** Real time. */
  durationMs: number;
  /** Of the whole request, on its first entry: sums over entries are sums over requests. */
  requestBytes: number;
  responseBytes?: number;
  /** DynamoDB read or write units, on the first entry of each table. */
  capacityUnits?: number;
}

export type NewCallEntry = Omit<CallEntry, 'seq'>;

const defaultCapacity = 200_000;

/** A bounded log: beyond its capacity the oldest entries go. */
export class CallLog {
  private entries: CallEntry[] = [];
  private seq = 0;
  private readonly capacity: number;

  constructor(capacity: number = defaultCapacity) {
    this.capacity = capacity;
  }

  /** The newest sequence number; `since` it there is nothing yet. */
  get last(): number {
    return this.seq;
  }

  /** Adds the entries of one call. @returns their sequence number. */
  record(...entries: NewCallEntry[]): number {
    const seq = ++this.seq;
    for (const entry of entries) this.entries.push({ seq, ...entry });
    // In steps of a quarter: cutting one entry at a time would copy the whole log for every call.
    if (this.entries.length > this.capacity * 1.25) this.entries = this.entries.slice(-this.capacity);
    return seq;
  }

  /** Entries after the call numbered `seq`, oldest first. */
  since(seq: number): CallEntry[] {
    let low = 0;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.entries[middle]?.seq ?? Infinity) <= seq) low = middle + 1;
      else high = middle;
    }
    return this.entries.slice(low);
  }
}
