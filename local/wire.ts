/** The one endpoint of the embedded AWS: every SDK of the installation talks to it, and it notes every call. */
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { CallLog, type NewCallEntry } from './call-log.ts';
import { type Access, dynamoDbAccess, schedulerAccess, sqsAccess } from './call-resources.ts';
import type { SteerableClock } from './clock.ts';
import { AwsError, type Emulator, type JsonObject, account } from './emulator.ts';
import { Interference, type Stop } from './interference.ts';
import { type LambdaApi, lambdaAccess } from './lambda-api.ts';
import { meter } from './metering.ts';
import type { Scheduler } from './scheduler.ts';
import type { Sns } from './sns.ts';

/** Larger than any request of the services behind it; DynamoDB's BatchWriteItem takes 16 MB. */
const maxRequestBytes = 17 * 1024 * 1024;
/** Longer than an SDK keeps an idle socket, so that the client is the one that closes it. */
const keepAliveMs = 120_000;

export interface RouteRequest {
  url: URL;
  headers: http.IncomingHttpHeaders;
  /** Aborted when the caller has gone. */
  signal: AbortSignal;
}

/** Answers a control route with JSON; what it throws becomes an error answer. */
export type RouteHandler = (body: unknown, request: RouteRequest) => unknown;

export interface WireOptions {
  port?: number;
  dynamodb: Emulator;
  sqs: Emulator;
  scheduler: Scheduler;
  /** Default: SNS is not there. */
  sns?: Sns;
  /** Default: Lambda's API is not there. */
  lambda?: Pick<LambdaApi, 'call'>;
  clock: Pick<SteerableClock, 'nowMs'>;
}

export interface Wire {
  /** Value of AWS_ENDPOINT_URL, without a slash at its end. */
  endpoint: string;
  calls: CallLog;
  /** Stops and refuses calls for a test. */
  interference: Interference;
  /** Messages that were handed out by ReceiveMessage to this access key id, ever. */
  handedTo(caller: string): number;
  route(method: string, path: string, handler: RouteHandler): void;
  /** Answers every request below a path, whole. */
  serveBelow(path: string, handler: ServeHandler): void;
  /** Ends long polls at once. The emulators behind the wire are closed by whoever started them. */
  close(): Promise<void>;
}

/** A request as it came, without its body, and what is answered. */
export type ServeHandler = (request: { readonly method: string; readonly url: URL; readonly headers: http.IncomingHttpHeaders }) => Promise<Answer>;

interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** One request to a service: how to run it, what to note, and how to say what happened. */
interface Exchange {
  service: string;
  operation: string;
  accesses: Access[];
  run(signal: AbortSignal): Promise<{ body: unknown; headers?: Readonly<Record<string, string>>; capacityUnits?: Record<string, number> }>;
  /** Default: the answer's body is JSON. */
  written?(body: unknown): Pick<Answer, 'headers' | 'body'>;
  refuse(error: AwsError): Answer;
}

const amzJson = { 'content-type': 'application/x-amz-json-1.0' };
const json = { 'content-type': 'application/json' };
const xml = { 'content-type': 'text/xml' };
const formType = 'application/x-www-form-urlencoded';

const refuseJsonRpc = (namespace: string) => (error: AwsError): Answer => ({
  status: error.status,
  headers: { ...amzJson, ...(error.details.queryCode ? { 'x-amzn-query-error': `${error.details.queryCode};Sender` } : {}) },
  body: JSON.stringify({ __type: `${namespace}#${error.code}`, message: error.message, ...error.details.body }),
});

const refuseRest = (error: AwsError): Answer => ({
  status: error.status,
  headers: { ...json, 'x-amzn-errortype': error.code },
  body: JSON.stringify({ Message: error.message }),
});

/** Puts the wire's own address into the queue URLs of an answer: with only an endpoint set, SDKs send to the host inside QueueUrl. */
function withQueueUrls(answer: JsonObject, endpoint: string): JsonObject {
  const absolute = (path: string) => `${endpoint}/${account}${path}`;
  const result = { ...answer };
  if (typeof answer['QueueUrl'] === 'string') result['QueueUrl'] = absolute(answer['QueueUrl']);
  for (const name of ['QueueUrls', 'queueUrls']) {
    if (Array.isArray(answer[name])) result[name] = (answer[name] as string[]).map(absolute);
  }
  return result;
}

function parseJson(body: Buffer): JsonObject {
  if (body.length === 0) return {};
  try {
    return JSON.parse(body.toString()) as JsonObject;
  } catch {
    throw new AwsError('SerializationException', 'The request is not valid JSON');
  }
}

async function readBody(request: http.IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxRequestBytes) throw new AwsError('RequestEntityTooLarge', 'The request is too large', { status: 413 });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

interface Caller {
  /** Access key id of a signed request: each function has its own, so the log can tell them apart. */
  name: string;
  /** Session token: each worker process has its own. */
  environmentId: string | undefined;
}

function callerOf({ headers }: http.IncomingMessage): Caller {
  const name = /Credential=([^/,\s]+)\//.exec(headers.authorization ?? '')?.[1] ?? 'anonymous';
  return { name, environmentId: headers['x-amz-security-token']?.toString() };
}

class WireServer {
  readonly calls = new CallLog();
  readonly interference = new Interference();
  endpoint = '';
  private readonly handedOut = new Map<string, number>();
  private readonly routes = new Map<string, RouteHandler>();
  private readonly served = new Map<string, ServeHandler>();
  private readonly closing = new AbortController();
  private readonly options: WireOptions;
  readonly server: http.Server;

  constructor(options: WireOptions) {
    this.options = options;
    this.server = http.createServer((request, response) => void this.serve(request, response));
    this.server.keepAliveTimeout = keepAliveMs;
  }

  serveBelow(path: string, handler: ServeHandler): void {
    this.served.set(path, handler);
  }

  route(method: string, path: string, handler: RouteHandler): void {
    this.routes.set(`${method} ${path}`, handler);
  }

  handedTo(caller: string): number {
    return this.handedOut.get(caller) ?? 0;
  }

  private async serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const abort = () => gone.abort();
    this.closing.signal.addEventListener('abort', abort, { once: true });
    try {
      const answer = await this.answer(request, gone.signal);
      if (answer === undefined) response.destroy();
      if (answer === undefined || response.destroyed) return;
      const date = new Date(this.options.clock.nowMs()).toUTCString();
      response.writeHead(answer.status, { date, 'x-amzn-requestid': randomUUID(), ...answer.headers, 'content-length': Buffer.byteLength(answer.body) });
      response.end(answer.body);
    } catch {
      // The request broke off half way: there is nobody to answer.
      response.destroy();
    } finally {
      this.closing.signal.removeEventListener('abort', abort);
    }
  }

  /** Undefined: the caller has been stopped, and gets none. */
  private async answer(request: http.IncomingMessage, signal: AbortSignal): Promise<Answer | undefined> {
    const url = new URL(request.url ?? '/', this.endpoint);
    const body = await readBody(request);
    const route = this.routes.get(`${request.method} ${url.pathname}`);
    if (route) return answerRoute(route, body, { url, headers: request.headers, signal });
    const served = [...this.served].find(([path]) => url.pathname.startsWith(path));
    if (served) return served[1]({ method: request.method ?? '', url, headers: request.headers });
    let exchange: Exchange | undefined;
    try {
      exchange = request.headers['content-type']?.startsWith(formType) === true ? this.snsExchangeOf(body) : this.exchangeOf(request, url, parseJson(body));
    } catch (error) {
      return refuseJsonRpc('com.amazon.coral.service')(error as AwsError);
    }
    if (!exchange) return refuseRest(new AwsError('UnknownOperationException', `${request.method} ${url.pathname}`, { status: 404 }));
    return this.perform(exchange, callerOf(request), body.length, signal);
  }

  private exchangeOf(request: http.IncomingMessage, url: URL, input: JsonObject): Exchange | undefined {
    const [prefix, operation] = String(request.headers['x-amz-target'] ?? '').split('.');
    const { dynamodb, sqs, scheduler } = this.options;
    if (prefix === 'DynamoDB_20120810' && operation) {
      return {
        service: 'dynamodb', operation, accesses: dynamoDbAccess(operation, input),
        run: () => meter(dynamodb, operation, input),
        refuse: refuseJsonRpc('com.amazonaws.dynamodb.v20120810'),
      };
    }
    if (prefix === 'AmazonSQS' && operation) {
      return {
        service: 'sqs', operation, accesses: sqsAccess(operation, input),
        run: async (signal) => ({ body: withQueueUrls(await sqs.call(operation, input, { signal }), this.endpoint) }),
        refuse: refuseJsonRpc('com.amazonaws.sqs'),
      };
    }
    const method = request.method ?? '';
    const schedule = schedulerAccess(method, url, input);
    if (schedule) {
      return {
        service: 'scheduler', ...schedule, refuse: refuseRest,
        run: () => Promise.resolve().then(() => ({ body: scheduler.handle({ method, url, body: input }) })),
      };
    }
    return this.lambdaExchangeOf(request, url, input);
  }

  /** The only service that still speaks AWS's query protocol. */
  private snsExchangeOf(body: Buffer): Exchange | undefined {
    const { sns } = this.options;
    const input = new URLSearchParams(body.toString());
    const operation = input.get('Action') ?? '';
    if (sns === undefined) return undefined;
    return {
      service: 'sns', operation, accesses: [{ action: `sns:${operation}`, resource: input.get('TopicArn') ?? '*' }],
      run: () => Promise.resolve().then(() => ({ body: sns.call(input) })),
      written: (result) => ({ headers: xml, body: `<${operation}Response><${operation}Result>${String(result)}</${operation}Result></${operation}Response>` }),
      refuse: (error) => ({ status: error.status, headers: xml, body: `<ErrorResponse><Error><Type>Sender</Type><Code>${error.code}</Code><Message>${error.message}</Message></Error></ErrorResponse>` }),
    };
  }

  private lambdaExchangeOf({ method = '', headers }: http.IncomingMessage, url: URL, input: JsonObject): Exchange | undefined {
    const { lambda } = this.options;
    const access = lambdaAccess(method, url);
    if (lambda === undefined || access === undefined) return undefined;
    const { operation, id, action, resource } = access;
    const type = headers['x-amz-invocation-type']?.toString() ?? 'RequestResponse';
    return {
      service: 'lambda', operation, accesses: [{ action, resource }], refuse: refuseRest,
      run: () => lambda.call(operation, id, input, { type }),
    };
  }

  private async perform(exchange: Exchange, caller: Caller, requestBytes: number, signal: AbortSignal): Promise<Answer | undefined> {
    const { service, operation, accesses } = exchange;
    const call = { caller: caller.name, environmentId: caller.environmentId, service, operation, resource: accesses[0]?.resource ?? '*' };
    const stop = this.interference.stopFor(call);
    if (stop?.when === 'before') return stopped(stop, exchange);
    const fault = this.interference.faultFor(call);
    const startMs = performance.now();
    const { answer, outcome, messages, capacityUnits } = await performed(fault ? { ...exchange, run: () => Promise.reject(fault) } : exchange, signal);
    this.handedOut.set(caller.name, this.handedTo(caller.name) + messages);
    const common = { caller: caller.name, service, operation, outcome };
    const times = { atMs: this.options.clock.nowMs(), durationMs: performance.now() - startMs };
    this.calls.record(...entriesOf(accesses, { ...common, ...times }, requestBytes, answer, capacityUnits));
    return stop ? stopped(stop, exchange) : answer;
  }

  async close(): Promise<void> {
    this.closing.abort();
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    // A turn for the answers of the polls that just ended; then idle sockets go, which would otherwise hold the server open.
    await new Promise((resolve) => setImmediate(resolve));
    this.server.closeAllConnections();
    await closed;
  }
}

interface Performed {
  answer: Answer;
  outcome: string;
  /** Messages that the answer holds. */
  messages: number;
  capacityUnits: Record<string, number> | undefined;
}

/** Runs a call, whatever it comes to. */
async function performed(exchange: Exchange, signal: AbortSignal): Promise<Performed> {
  try {
    const { body, headers, capacityUnits } = await exchange.run(signal);
    const type = exchange.service === 'scheduler' || exchange.service === 'lambda' ? json : amzJson;
    const messages = (body as JsonObject | null)?.['Messages'];
    // A function may answer with nothing at all.
    const plain = exchange.written?.(body) ?? { headers: { ...type, ...headers }, body: JSON.stringify(body ?? null) };
    const answer = { status: 200, ...plain };
    return { answer, outcome: 'ok', messages: Array.isArray(messages) ? messages.length : 0, capacityUnits };
  } catch (thrown) {
    const error = thrown instanceof AwsError ? thrown : new AwsError('InternalServerError', String(thrown), { status: 500 });
    return { answer: exchange.refuse(error), outcome: error.code, messages: 0, capacityUnits: error.details.capacityUnits };
  }
}

async function stopped(stop: Stop, exchange: Exchange): Promise<Answer | undefined> {
  const error = await stop.end();
  return error && exchange.refuse(error);
}

type CommonEntry = Pick<NewCallEntry, 'caller' | 'service' | 'operation' | 'outcome' | 'atMs' | 'durationMs'>;

/** One entry for each resource; sizes on the first, units on the first of each table, so that sums stay true. */
function entriesOf(
  accesses: Access[],
  common: CommonEntry,
  requestBytes: number,
  answer: Answer,
  capacityUnits: Record<string, number> | undefined,
): NewCallEntry[] {
  const unitsLeft = new Map(Object.entries(capacityUnits ?? {}));
  return accesses.map(({ action, resource, table }, i) => {
    const units = table === undefined ? undefined : unitsLeft.get(table);
    if (table !== undefined) unitsLeft.delete(table);
    const sizes = i === 0 ? { requestBytes, responseBytes: Buffer.byteLength(answer.body) } : { requestBytes: 0 };
    return { ...common, action, resource, ...sizes, ...(units === undefined ? {} : { capacityUnits: units }) };
  });
}

async function answerRoute(handler: RouteHandler, body: Buffer, request: RouteRequest): Promise<Answer> {
  try {
    const result = await handler(parseJson(body), request);
    return { status: 200, headers: json, body: JSON.stringify(result ?? {}) };
  } catch (error) {
    if (error instanceof AwsError) return refuseRest(error);
    return { status: 500, headers: json, body: JSON.stringify({ Message: String(error) }) };
  }
}

/** Starts the endpoint on loopback, on any free port unless one is given. */
export async function startWire(options: WireOptions): Promise<Wire> {
  const wire = new WireServer(options);
  await new Promise<void>((resolve, reject) => {
    wire.server.once('error', reject);
    wire.server.listen(options.port ?? 0, '127.0.0.1', resolve);
  });
  wire.endpoint = `http://127.0.0.1:${(wire.server.address() as AddressInfo).port}`;
  return wire;
}
