import type { CountedOutcome } from '../shared/core/decide.ts';
import type { Message } from '../shared/core/parse.ts';
import type { FunctionLimits } from '../shared/limits/relations.ts';
import type { Wanted } from '../shared/core/lane.ts';
import type { CopyHome } from '../shared/core/receive.ts';
import type { Clock, DisableEndpoint, Http, Lanes, Payloads, Queues, Random, ReceivedMessage, Records, StoredEndpoint, Telemetry, WakeUps } from '../shared/ports/index.ts';

/** Everything that the flow needs from outside, so that it runs the same in Lambda and in tests. */
export interface DeliverDeps {
  /** What this function's copies are: receives of the delivery queue, or held deliveries that the drain takes. */
  readonly serves: CopyHome;
  readonly clock: Clock;
  readonly random: Random;
  readonly endpoints: EndpointCache;
  readonly disableEndpoint: DisableEndpoint;
  readonly lanes: Lanes;
  readonly records: Records;
  readonly queues: Queues;
  readonly payloads: Pick<Payloads, 'put' | 'remove'>;
  readonly wakeUps: WakeUps;
  readonly inFlight: InFlightGuard;
  readonly http: Http;
  readonly telemetry: Telemetry;
  /** As configured. Not measured: a clock that was set during a start must not decide a verdict. */
  readonly limits: FunctionLimits;
}

export interface InFlightGuard {
  /** True where so many messages are hidden in the delivery queue that what waits must be held instead. Never rejects. */
  isCrowded(): Promise<boolean>;
}

/** How an attempt ended, as it is told to what watches the endpoint. */
export interface Heard {
  readonly outcome: CountedOutcome;
  /** True for an operator's test event. */
  readonly isPing: boolean;
  /** True where it was cut off by a budget that is shorter than the endpoint's longest: of its health that says nothing. */
  readonly isHasty: boolean;
}

export interface EndpointCache {
  /** From the cache, or read. A miss is read strongly and never cached. */
  get(endpointId: string): Promise<StoredEndpoint | undefined>;
  /** Read now, whatever the cache says. */
  refresh(endpointId: string): Promise<StoredEndpoint | undefined>;
}

/** One received copy of a well-formed message. Copies of one event differ in their receipt only. */
export interface Copy extends Wanted {
  readonly received: ReceivedMessage;
  readonly message: Message;
  readonly recordKey: string;
  /** Of the drain: it is not held, but unknown, and is to be looked for. */
  readonly isUnknown?: boolean;
  /** Held for an operator who waits for what the endpoint answers: neither rate nor day holds it up. */
  readonly isPing?: boolean;
}

/** What becomes of a received message. */
export type Exit =
  /** Its next home is durable: left out of batchItemFailures, so SQS deletes it. */
  | { kind: 'ack' }
  /** Stays in the queue. A delay was asked for where it matters; otherwise it returns at the queue's own timeout. */
  | { kind: 'retain' };

/** One invocation of the function. */
export interface Invocation {
  readonly startedEpochMs: number;
  /** Leases of this invocation end here: after its deadline, by which Lambda has killed it, plus clock skew. */
  readonly leaseExpiresEpochMs: number;
  /** By the later of the two clocks: a wall clock that was set back must not lengthen an invocation. */
  remainingMs(): number;
}
