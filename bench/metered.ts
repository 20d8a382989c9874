/** From the call log to what is billed, and from there to dollars. Pure: every figure of a cost comes through here. */
import type { CallEntry } from '../local/call-log.ts';
import { type Billed, prices } from './prices.ts';

/** Requests that one party made of one SQS API, as SQS bills them. */
export interface SqsUse {
  /** `Lambda` polls and deletes under the function's role; all else under that role is the function's own. */
  readonly who: 'producer' | 'Lambda' | 'function';
  readonly api: string;
  readonly requests: number;
}

export interface Metered {
  readonly quantities: Readonly<Record<Billed, number>>;
  readonly sqs: readonly SqsUse[];
  /** Polls that brought nothing: not billed here, for Lambda's idle pollers make them whether or not anything is sent. */
  readonly emptyReceives: number;
  /** Calls that no price is known for, as `caller service:operation`. */
  readonly unpriced: readonly string[];
}

export interface Callers {
  /** Access key id of whoever sends the events. */
  readonly producer: string;
  /** Who only sets up and watches; everybody else's calls are billed. */
  readonly bystanders: ReadonlySet<string>;
}

/** Reads; whatever else DynamoDB metered counts as a write, the dearer of the two. */
const reads = new Set(['GetItem', 'BatchGetItem', 'Query', 'Scan', 'TransactGetItems']);
/** SQS bills each 64 KiB of a request. Source: SQS pricing page. */
const sqsChunkBytes = 65_536;
/** An answer that holds a message has at least its receipt handle in it. */
const emptyReceiveBytes = '{"Messages":[]}'.length;

/** Sums up the calls of one measurement. An entry that is not billable by its service is listed, never dropped. */
export function meter(calls: readonly CallEntry[], callers: Callers): Metered {
  const quantities: Record<Billed, number> = { writeUnits: 0, readUnits: 0, sqsRequests: 0, fairQueueRequests: 0, schedules: 0, invocations: 0 };
  const sqs = new Map<string, SqsUse>();
  const unpriced: string[] = [];
  let emptyReceives = 0;

  for (const request of requestsOf(calls)) {
    if (callers.bystanders.has(request.caller)) continue;
    if (request.service === 'dynamodb' && request.capacityUnits !== undefined) {
      quantities[reads.has(request.operation) ? 'readUnits' : 'writeUnits'] += request.capacityUnits;
    } else if (request.service === 'sqs' && isEmptyReceive(request)) {
      emptyReceives += 1;
    } else if (request.service === 'sqs') {
      const use = sqsUse(request, callers.producer);
      const key = `${use.who} ${use.api}`;
      sqs.set(key, { ...use, requests: use.requests + (sqs.get(key)?.requests ?? 0) });
      quantities.sqsRequests += use.requests;
      // Which of a fair queue's requests carry the surcharge could not be verified: all of them is the most it can be.
      quantities.fairQueueRequests += use.requests;
      if (use.who === 'Lambda' && use.api !== 'ReceiveMessage') quantities.invocations += 1;
    } else if (request.service === 'scheduler') {
      quantities.schedules += firesLater(request.operation) ? 1 : 0;
    } else {
      unpriced.push(`${request.caller} ${request.service}:${request.operation}`);
    }
  }
  return { quantities, sqs: [...sqs.values()], emptyReceives, unpriced };
}

interface Request extends Pick<CallEntry, 'caller' | 'service' | 'operation'> {
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** Of all its entries; undefined where none was metered. */
  readonly capacityUnits: number | undefined;
}

/** A request to several resources has an entry for each, under one sequence number. */
function requestsOf(calls: readonly CallEntry[]): Request[] {
  return [...Map.groupBy(calls, (call) => call.seq).values()].map((entries) => {
    const { caller = '', service = '', operation = '' } = entries[0] ?? {};
    const sum = (of: (entry: CallEntry) => number | undefined) => entries.reduce((total, entry) => total + (of(entry) ?? 0), 0);
    const isMetered = entries.some((entry) => entry.capacityUnits !== undefined);
    return {
      caller,
      service,
      operation,
      requestBytes: sum((entry) => entry.requestBytes),
      responseBytes: sum((entry) => entry.responseBytes),
      capacityUnits: isMetered ? sum((entry) => entry.capacityUnits) : undefined,
    };
  });
}

function isEmptyReceive({ operation, responseBytes }: Request): boolean {
  return operation === 'ReceiveMessage' && responseBytes <= emptyReceiveBytes;
}

/** The payload travels one way, so the larger direction is what is billed. */
function sqsUse({ caller, operation, requestBytes, responseBytes }: Request, producer: string): SqsUse {
  const requests = Math.max(1, Math.ceil(Math.max(requestBytes, responseBytes) / sqsChunkBytes));
  // Lambda deletes what an invocation has done in one request, so its deletes also count the invocations.
  const isLambda = operation === 'ReceiveMessage' || operation.startsWith('DeleteMessage');
  return { who: caller === producer ? 'producer' : isLambda ? 'Lambda' : 'function', api: operation, requests };
}

/** Scheduler bills what it fires: looking at a schedule or taking it away fires nothing. */
function firesLater(operation: string): boolean {
  return !/^(Get|List|Delete)/.test(operation);
}

export interface BillLine {
  readonly billed: Billed;
  /** Quantity of one delivered event. */
  readonly perEvent: number;
  /** Of a million delivered events, at list prices. */
  readonly usd: number;
}

/** What `events` delivered events cost that together used `quantities`. */
export function bill(quantities: Metered['quantities'], events: number): BillLine[] {
  return (Object.keys(prices) as Billed[]).map((billed) => {
    const perEvent = quantities[billed] / events;
    return { billed, perEvent, usd: perEvent * prices[billed].usdPerMillion };
  });
}

/** Dollars of a million events: of the given lines, or of all. */
export function usdOf(lines: readonly BillLine[], only?: readonly Billed[]): number {
  return lines.filter(({ billed }) => only === undefined || only.includes(billed)).reduce((sum, { usd }) => sum + usd, 0);
}
