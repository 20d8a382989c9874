import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import type { EndpointGauge, FleetMetric } from '../limits/metrics.ts';
import type { CountedOutcome } from '../core/decide.ts';
import type { NoticeSubject, Told } from '../core/escalation.ts';
import type { AttemptOutcome, Timing } from '../core/outcome.ts';
import type { CopyHome } from '../core/receive.ts';
import type { DeadRecord } from '../core/record.ts';
import type { Origin } from './policies.ts';

export type * from './attention.ts';
export type * from './standing.ts';
export type * from './dead-letters.ts';
export type * from './holding.ts';
export type * from './lanes.ts';
export type * from './notices.ts';
export type * from './policies.ts';
export type * from './records.ts';
export type * from './replays.ts';

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
  /** Of the signature scheme `standard`, newest first. */
  readonly secrets: readonly string[];
  /** Of the signature schemes over the body alone. */
  readonly bodySecret: string | undefined;
  /** Left out where nobody has noted it. Nothing is delivered by it. */
  readonly origin?: Origin;
}

/**
 * An endpoint whose stored configuration this program cannot use: another version wrote it, or somebody edited it. It has no
 * `config`, so nothing can be sent by it; it has its version, so that its deliveries are buried only while it is still as it
 * was read, and its secrets, so that a repair keeps them.
 */
export interface InvalidEndpoint extends Omit<Endpoint, 'config'> {
  readonly config: undefined;
  readonly endpointId: string;
  /** Field and bound of each fault, with its value where that cannot be a credential; at most 300 characters. */
  readonly problem: string;
  /** As it is stored: what operators repair. */
  readonly document: Readonly<Record<string, unknown>>;
}

export type StoredEndpoint = Endpoint | InvalidEndpoint;

export interface Endpoints {
  /** Strongly consistent; undefined where the endpoint does not exist. */
  read(endpointId: string): Promise<StoredEndpoint | undefined>;
}

/**
 * Makes an endpoint a disabled one, by a version of its own, if it is still at the version that was read. `changed`: it is not;
 * `busy`: nothing was written, or that is not known.
 */
export type DisableEndpoint = (endpoint: Endpoint, reason: NonNullable<EndpointConfig['disabledFor']>) => Promise<'disabled' | 'changed' | 'busy'>;

/**
 * Writes fields of an endpoint's configuration if it is still at the version that was read, as a version of its own, and with `slots`
 * the size of its lane, those in flight stay counted; `told` notes in the
 * lane that somebody is to be told, and `whileFailingSinceEpochMs` asks that it has not succeeded since. `changed`: it has, or is at another version; `busy`: nothing was written, or that is not known.
 */
export type ChangeStatus = (
  endpoint: { readonly endpointId: string; readonly version: string },
  to: { readonly fields: Partial<Pick<EndpointConfig, 'status' | 'pauses' | 'disabledFor' | 'maxInFlight'>>; readonly slots?: { readonly from: number; readonly to: number; readonly learnedMs?: number }; readonly atEpochMs: number; readonly told?: { readonly subject: NoticeSubject; readonly note: Told }; readonly whileFailingSinceEpochMs?: number },
) => Promise<'written' | 'changed' | 'busy'>;

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
  /** Messages of the delivery queue that are hidden now, as of some seconds ago; undefined where that is not known. */
  hidden(): Promise<number | undefined>;
}

export interface HttpRequest {
  /** The same object for every request of one configuration: what is derived from it is kept with it. */
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly budgetsMs: EndpointConfig['budgetsMs'];
  /** Sockets are used again within one version of an endpoint only, so that an address never outlives its validation. */
  readonly endpointId: string;
  readonly version: string;
  /** What is left for this request by the later of both clocks, in milliseconds; with less than its budgets, no byte of it is sent. */
  readonly remainingMs: () => number;
  /** Header in which the answer may return the consumer's own id for the event. */
  readonly referenceHeader?: string;
  /** Asked once there is room for a socket, and before anything of it is begun: false where it may not be. What it takes is not given back. Never rejects. */
  readonly mayBegin?: () => Promise<boolean>;
  /** False where not even a request that provably never left may be begun a second time within the attempt. */
  readonly freshTry: boolean;
}

export interface Http {
  /** One POST; never rejects for anything that the peer or the network does. */
  post(request: HttpRequest): Promise<AttemptOutcome>;
  /** One GET, whose answer is kept whole, by the same budgets, sockets and guard; never rejects likewise. */
  get(request: Omit<HttpRequest, 'body' | 'freshTry'>): Promise<AttemptOutcome>;
}

export interface Telemetry {
  /** One wide line per attempt; no payload, no secret, only the host of the URL. */
  attempt(line: AttemptLine): void;
  event(name: string, fields: Readonly<Record<string, string | number | undefined>>): void;
  /** A fleet-wide value as of now. */
  gauge(name: FleetMetric, value: number): void;
  /** A value of one endpoint as of now. */
  endpointGauge(endpointId: string, name: EndpointGauge, value: number): void;
  /** A bug or failed infrastructure: somebody must look. */
  fault(name: string, error: unknown, fields?: Readonly<Record<string, string | number | undefined>>): void;
}

export interface FlushedTelemetry extends Telemetry {
  /** Writes metrics out: what a process has counted that is killed before is lost. */
  flush(): void;
}

/** Every key is there in every line, `-` or 0 where it has nothing to say: the logger would leave out what is empty. docs/metrics.md lists them. */
export interface AttemptLine extends Timing {
  readonly endpointId: string;
  readonly eventId: string;
  readonly eventType: string;
  readonly host: string;
  readonly generation: number;
  /** Of its generation, from 1. */
  readonly attempt: number;
  readonly outcome: CountedOutcome['kind'];
  readonly status: number;
  /** Phase that an attempt without a status ended in, and what ended it. */
  readonly phase: string;
  readonly cause: string;
  readonly detail: string;
  /** State of the record that follows from it. */
  readonly state: string;
  /** Milliseconds since the message was sent. */
  readonly latencyMs: number;
  readonly source: CopyHome;
  /** An earlier attempt may have arrived, and the request says so. */
  readonly isPossibleDuplicate: boolean;
  /** Version of the endpoint's configuration. */
  readonly cfg: string;
}
