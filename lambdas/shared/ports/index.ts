import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import type { AttemptOutcome } from '../core/outcome.ts';
import type { DeadRecord } from '../core/record.ts';

export type * from './lanes.ts';
export type * from './records.ts';

/** The world's time and chance, as arguments. */
export interface Clock {
  /** Wall clock, milliseconds since the epoch. */
  nowEpochMs(): number;
  /** Monotonic, milliseconds; only differences mean anything. */
  monotonicMs(): number;
}

export interface Random {
  /** In [0, 1). */
  number(): number;
  /** Unique over the fleet; letters, digits, `-` and `_`. */
  leaseId(): string;
}

/** An endpoint as the sender needs it. */
export interface Endpoint {
  readonly config: EndpointConfig;
  /** ULID: a re-created endpoint never equals its past. */
  readonly version: string;
  /** Newest first. */
  readonly secrets: readonly string[];
}

export interface Endpoints {
  /** Strongly consistent; undefined where the endpoint does not exist. */
  read(endpointId: string): Promise<Endpoint | undefined>;
}

/** One message as SQS handed it over. */
export interface ReceivedMessage {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly body: string;
  readonly receiveCount: number;
  readonly sentEpochMs: number;
  readonly deadLetterGeneration: number | undefined;
}

export interface Queues {
  /** Hides the message for this many seconds from now. Best effort: on failure it returns at the queue's own timeout. */
  delay(message: ReceivedMessage, seconds: number): Promise<void>;
  /** Sends the untouched body with the reason to the dead-letter queue. Rejects if it is not known to be stored. */
  bury(body: string, record: DeadRecord): Promise<void>;
}

export interface HttpRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly budgetsMs: EndpointConfig['budgetsMs'];
  /** Socket pools are per endpoint version, so that an address never outlives its validation. */
  readonly poolKey: string;
}

export interface Http {
  /** One POST; never rejects for anything that the peer or the network does. */
  post(request: HttpRequest): Promise<Exclude<AttemptOutcome, { kind: 'notStarted'; why: 'no-time' }>>;
}

export interface Telemetry {
  /** One wide line per attempt; no payload, no secret, only the host of the URL. */
  attempt(line: AttemptLine): void;
  event(name: string, fields: Readonly<Record<string, string | number | undefined>>): void;
  /** A bug or failed infrastructure: somebody must look. */
  fault(name: string, error: unknown, fields?: Readonly<Record<string, string | number | undefined>>): void;
}

export interface AttemptLine {
  readonly endpointId: string;
  readonly eventId: string;
  readonly host: string;
  readonly generation: number;
  readonly attempt: number;
  readonly outcome: AttemptOutcome['kind'];
  readonly detail: string;
  readonly durationMs: number;
  readonly state: string;
}
