/** What is held: payloads beside their records, the index that finds them, and the orders that bring the drain. */

/** Names one payload: two messages with one event id and different payloads never share one. */
export interface PayloadName {
  readonly recordKey: string;
  readonly payloadHash: string;
  /** Of the delivery that it is held for: what removes the payload of one generation, late, must not take that of the next. */
  readonly generation: number;
}

/** The bodies of messages that are held. */
export interface Payloads {
  /** Keeps the untouched body of a message. Repeats are harmless. */
  put(name: PayloadName, body: string, nowEpochMs: number): Promise<'written' | 'failed'>;
  /** Bodies by record key. One that could not be read is in `unread`: that is not "no payload". */
  read(names: readonly PayloadName[]): Promise<{ found: ReadonlyMap<string, string>; unread: ReadonlySet<string> }>;
  /** Best effort: what is left over ends by itself, months later. */
  remove(name: PayloadName): Promise<void>;
}

/** One delivery as the index knows it: it may be seconds behind the record. */
export interface HeldKey {
  readonly recordKey: string;
  readonly dueEpochMs: number;
}

export interface HeldPage {
  readonly keys: readonly HeldKey[];
  /** Where the next page begins; undefined at the end. */
  readonly next: unknown;
}

export interface HeldIndex {
  /** What is held for an endpoint, the longest due first, those that are due later included. */
  page(endpointId: string, limit: number, from?: unknown): Promise<HeldPage>;
  /** What is unknown and is to be looked for, the longest due first, those that are due later included. */
  unknown(endpointId: string, limit: number, from?: unknown): Promise<HeldPage>;
  /** Record keys of burials that are begun and not finished, the oldest first. */
  burying(endpointId: string, limit: number): Promise<readonly string[]>;
}

export interface WakeUps {
  /** Has the drain come at or soon after a time, at once where it is past. Rejects if that is not known to be ordered. */
  order(endpointId: string, atEpochMs: number, nowEpochMs: number): Promise<void>;
}
