/**
 * The product's own flow as an automaton: it is run up to its next calls to the outside, and goes on with whatever answer it
 * is given. Because it is deterministic, a worker's whole state is its start and the answers it has had; each such history
 * is run once, however many interleavings lead through it.
 */
import { ConditionalCheckFailedException, TransactionCanceledException, type CancellationReason, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { buryUnclaimed } from '../../lambdas/deliver/bury.ts';
import { deliverBatch } from '../../lambdas/deliver/deliver-batch.ts';
import type { Settled } from '../../lambdas/deliver/deliver-one.ts';
import { createEndpointCache } from '../../lambdas/deliver/endpoint-cache.ts';
import type { Copy, DeliverDeps, Invocation } from '../../lambdas/deliver/types.ts';
import { sendWaves } from '../../lambdas/deliver/waves.ts';
import { drainEndpoint } from '../../lambdas/drain/drain-endpoint.ts';
import type { DrainDeps } from '../../lambdas/drain/types.ts';
import { createHeldIndex } from '../../lambdas/shared/adapters/dynamodb-held-index.ts';
import { createDisableEndpoint } from '../../lambdas/shared/adapters/dynamodb-status.ts';
import { createDynamoDbEndpoints } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import { createDynamoDbRegistry, type Registry } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { ageMs } from '../../lambdas/shared/core/age.ts';
import { recordKeyOf, shortHash } from '../../lambdas/shared/core/keys.ts';
import type { AttemptOutcome } from '../../lambdas/shared/core/outcome.ts';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import type { CopyHome } from '../../lambdas/shared/core/receive.ts';
import { deliver, drain, lease } from '../../lambdas/shared/limits/numbers.ts';
import type { Endpoint, GiveBack, Lanes, ReceivedMessage } from '../../lambdas/shared/ports/index.ts';
import type { JsonObject } from '../../local/emulator.ts';
import { t0EpochMs } from '../support/builders.ts';

export const tables = { endpoints: 'endpoints', deliveries: 'deliveries' };
/** Between two of these all leases expire, and everything that waits becomes due. */
const epochMs = 3_600_000;

export const nowAt = (epoch: number) => t0EpochMs + epoch * epochMs;

export type HttpOutcome = AttemptOutcome;

/** Something that the flow asks of the outside, and waits for. */
export interface Call {
  readonly id: number;
  readonly kind: 'write' | 'read' | 'post' | 'bury';
  /** For a trace. */
  readonly label: string;
  readonly operation: string;
  readonly input: JsonObject;
}

export type Answer =
  | { readonly kind: 'ok'; readonly body: JsonObject }
  | { readonly kind: 'error'; readonly code: string; readonly body: JsonObject }
  /** Certainly not applied. */
  | { readonly kind: 'throttled' }
  /** May have been applied. */
  | { readonly kind: 'unsure' }
  | { readonly kind: 'posted'; readonly outcome: HttpOutcome };

/** Where a program starts: a receive by a worker, a run of the drain, or a command of an operator. `ordinal` names its leases. */
export interface Start {
  readonly ordinal: number;
  readonly epoch: number;
  readonly received: readonly ReceivedMessage[];
  readonly command?: string;
  /** Endpoint of a run of the drain: it takes what the index shows. */
  readonly drains?: string;
}

/** What may be asked for beside receives: of the registry as operators do, or of the tables by another version of the program. */
export type Command = (registry: Registry, db: DynamoDBClient) => Promise<unknown>;

/** A program between two calls. */
export interface Node {
  readonly id: number;
  readonly pending: readonly Call[];
  /** Set when it has ended: the messages that stay, or what the command said. */
  readonly ended: { readonly retained: readonly string[] } | undefined;
  /** Bugs that it has reported. */
  readonly faults: readonly string[];
}

export interface ProgramOptions {
  /** What the environment's cache holds when a worker starts, if anything; a refresh reads. */
  readonly cached: Endpoint | undefined;
  readonly commands: Readonly<Record<string, Command>>;
  /** What a worker's copies are: receives of the delivery queue, or copies that the drain has. */
  readonly serves: CopyHome;
  /** Bodies of what is held, by record key: they are there from the start, or the payload store would multiply the states. */
  readonly bodies: ReadonlyMap<string, string>;
}

interface Step {
  readonly index: number;
  readonly call: Call;
  readonly answer: Answer;
}

interface Known extends Node {
  readonly start: Start;
  readonly path: readonly Step[];
  /** By call, then by answer. */
  readonly children: Map<Answer, Known>[];
  /** The run that is suspended here, until a child takes it on. */
  run: Run | undefined;
}

/** All histories of one world's programs that were ever asked for. */
export class Programs {
  readonly #options: ProgramOptions;
  readonly #roots = new Map<string, Known>();
  readonly #nodes: Known[] = [];
  readonly #calls = new Map<string, Call>();
  readonly #byId: Call[] = [];

  constructor(options: ProgramOptions) {
    this.#options = options;
  }

  get histories(): number {
    return this.#nodes.length;
  }

  node(id: number): Node {
    return this.#known(id);
  }

  start(id: number): Start {
    return this.#known(id).start;
  }

  call(id: number): Call {
    const found = this.#byId[id];
    if (found === undefined) throw new Error(`no call ${id}`);
    return found;
  }

  async begin(start: Start): Promise<Node> {
    const key = JSON.stringify(start);
    const found = this.#roots.get(key);
    if (found !== undefined) return found;
    const made = await this.#add(start, [], new Run(this.#options, start, (call) => this.#intern(call)));
    this.#roots.set(key, made);
    return made;
  }

  /** What a program has read of one item kind, newest last: `sk` of the Endpoints table. */
  itemsRead(id: number, sortKey: string): (JsonObject | undefined)[] {
    const found: (JsonObject | undefined)[] = [];
    for (const { answer, call } of this.#known(id).path) {
      const key = call.input['Key'] as { sk?: { S?: string } } | undefined;
      if (answer.kind === 'ok' && call.operation === 'GetItem' && key?.sk?.S === sortKey) found.push(answer.body['Item'] as JsonObject | undefined);
    }
    return found;
  }

  /** The program after its call `index` was answered. Answers are told apart by identity: equal ones should be the same object. */
  async next(id: number, index: number, answer: Answer): Promise<Node> {
    const from = this.#known(id);
    const children = (from.children[index] ??= new Map());
    const found = children.get(answer);
    if (found !== undefined) return found;
    const run = from.run ?? (await this.#again(from));
    from.run = undefined;
    run.answer(index, answer);
    const made = await this.#add(from.start, [...from.path, { index, call: from.pending[index] as Call, answer }], run);
    children.set(answer, made);
    return made;
  }

  /** Brings a run to where another one has been. */
  async #again({ start, path }: Known): Promise<Run> {
    const run = new Run(this.#options, start, (call) => this.#intern(call));
    for (const { index, answer } of path) {
      await settled();
      run.answer(index, answer);
    }
    await settled();
    return run;
  }

  async #add(start: Start, path: readonly Step[], run: Run): Promise<Known> {
    await settled();
    const pending = run.pending;
    const made: Known = { id: this.#nodes.length, pending, ended: run.ended, faults: [...run.faults], start, path, children: [], run };
    if (made.ended === undefined && pending.length === 0) throw new Error(`a program waits for nothing: ${JSON.stringify(path)}`);
    this.#nodes.push(made);
    return made;
  }

  #known(id: number): Known {
    const found = this.#nodes[id];
    if (found === undefined) throw new Error(`no program ${id}`);
    return found;
  }

  #intern(call: Omit<Call, 'id'>): Call {
    const key = `${call.operation}${JSON.stringify(call.input)}`;
    const found = this.#calls.get(key);
    if (found !== undefined) return found;
    const made = { ...call, id: this.#byId.length };
    this.#calls.set(key, made);
    this.#byId.push(made);
    return made;
  }
}

/** All microtasks have run: without timers and I/O a program then waits for an answer, or has ended. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** One execution of the flow. */
class Run {
  ended: Node['ended'];
  readonly faults: string[] = [];
  readonly #open: { call: Call; resolve: (value: unknown) => void; reject: (error: Error) => void }[] = [];
  readonly #intern: (call: Omit<Call, 'id'>) => Call;
  #label = '';

  constructor(options: ProgramOptions, start: Start, intern: (call: Omit<Call, 'id'>) => Call) {
    this.#intern = intern;
    const db = { send: (command: { constructor: { name: string }; input: JsonObject }) => this.#send(command) } as unknown as DynamoDBClient;
    const work = start.command !== undefined ? this.#command(db, options, start.command) : start.drains === undefined ? this.#deliver(db, options, start) : this.#drain(db, options, start, start.drains);
    void work.catch((error: unknown) => {
      // An operator is told, and nothing has begun.
      if (start.command === undefined) this.faults.push(`threw ${String(error)}`);
      this.ended = { retained: start.received.map((m) => m.messageId) };
    });
  }

  get pending(): Call[] {
    return this.#open.map(({ call }) => call);
  }

  answer(index: number, answer: Answer): void {
    const [open] = this.#open.splice(index, 1);
    if (open === undefined) throw new Error('nothing waits for this answer');
    if (answer.kind === 'ok') open.resolve(answer.body);
    else if (answer.kind === 'posted') open.resolve(answer.outcome);
    else open.reject(errorOf(answer));
  }

  async #command(db: DynamoDBClient, { commands }: ProgramOptions, name: string): Promise<void> {
    this.#label = name;
    await commands[name]?.(createDynamoDbRegistry(db, tables.endpoints, () => Promise.resolve()), db);
    this.ended = { retained: [] };
  }

  async #deliver(db: DynamoDBClient, options: ProgramOptions, start: Start): Promise<void> {
    const deps = this.#deps(db, options, start);
    const invocation = invocationAt(nowAt(start.epoch), deliver.timeoutS);
    this.ended = options.serves === 'queue' ? await deliverBatch(deps, start.received, invocation) : { retained: await takeCopies(deps, start.received, invocation) };
  }

  /** A run of the drain. A full lane is looked at once more, and not ten times: nothing that the others do takes time here. */
  async #drain(db: DynamoDBClient, options: ProgramOptions, start: Start, endpointId: string): Promise<void> {
    let waitedMs = 0;
    const deps: DrainDeps = {
      ...this.#deps(db, options, start),
      serves: 'held',
      clock: { nowEpochMs: () => nowAt(start.epoch), monotonicMs: () => waitedMs },
      payloads: {
        put: () => Promise.resolve('written'),
        read: (names) => Promise.resolve({ found: new Map(names.map(({ recordKey }) => [recordKey, options.bodies.get(recordKey) ?? ''])), unread: new Set() }),
        remove: () => Promise.resolve(),
      },
      held: this.#named(createHeldIndex(db, tables.deliveries)),
      pause: () => Promise.resolve(void (waitedMs += drain.idleMs)),
      limits: drain,
    };
    await drainEndpoint(deps, endpointId, invocationAt(nowAt(start.epoch), drain.timeoutS));
    this.ended = { retained: [] };
  }

  #deps(db: DynamoDBClient, { cached, serves }: ProgramOptions, start: Start): DeliverDeps {
    const nowEpochMs = nowAt(start.epoch);
    const pause = () => Promise.resolve();
    const stored = createDynamoDbEndpoints(db, tables.endpoints);
    let reads = 0;
    let leases = 0;
    const clock = { nowEpochMs: () => nowEpochMs, monotonicMs: () => 0 };
    return {
      serves,
      payloads: { put: () => Promise.resolve('written'), remove: () => Promise.resolve() },
      disableEndpoint: createDisableEndpoint(db, tables.endpoints, pause),
      wakeUps: { order: () => Promise.resolve() },
      inFlight: { isCrowded: () => Promise.resolve(false) },
      clock,
      random: { number: () => 0.5, leaseId: () => `L${start.ordinal}-${++leases}` },
      endpoints: createEndpointCache({ read: (id) => (cached !== undefined && reads++ === 0 ? Promise.resolve(cached) : stored.read(id)) }, 10),
      lanes: this.#named(uncounted(createDynamoDbLanes(db, tables, pause))),
      records: this.#named(createDynamoDbRecords(db, tables, pause)),
      queues: {
        delay: () => Promise.resolve(),
        hidden: () => Promise.resolve(0),
        bury: (_body, { recordKey, generation }) => this.#ask({ kind: 'bury', label: 'DLQ', operation: 'bury', input: { recordKey, generation } }) as Promise<void>,
      },
      http: {
        get: ({ headers }) => this.#ask({ kind: 'post', label: 'GET', operation: 'get', input: { eventId: headers['webhook-id'] } }) as Promise<HttpOutcome>,
        post: async ({ headers, version, mayBegin }) => {
          if (mayBegin !== undefined && !(await mayBegin())) return { kind: 'notStarted', why: 'not-allowed' };
          const { 'webhook-id': eventId, 'sluice-attempt': attempt, 'sluice-possible-duplicate': duplicate } = headers;
          return this.#ask({ kind: 'post', label: 'POST', operation: 'post', input: { eventId, attempt, duplicate, version } }) as Promise<HttpOutcome>;
        },
      },
      telemetry: {
        attempt: () => undefined,
        event: () => undefined,
        gauge: () => undefined,
        endpointGauge: () => undefined,
        fault: (name, error) => {
          // A dead-letter queue that is away is said, and is no bug.
          if (name !== 'bury-failed') this.faults.push(`${name}: ${String(error)}`);
        },
      },
      limits: deliver,
    };
  }

  /** A port whose methods leave their names for the trace. */
  #named<Port extends object>(port: Port): Port {
    return Object.fromEntries(
      Object.entries(port).map(([name, method]) => [
        name,
        (...args: unknown[]) => {
          this.#label = name;
          return (method as (...all: unknown[]) => unknown)(...args);
        },
      ]),
    ) as Port;
  }

  #send(command: { constructor: { name: string }; input: JsonObject }): Promise<unknown> {
    const operation = command.constructor.name.replace(/Command$/, '');
    const kind = operation.includes('Get') || operation === 'Query' ? 'read' : 'write';
    return this.#ask({ kind, label: this.#label === '' ? operation : this.#label, operation, input: command.input });
  }

  #ask(call: Omit<Call, 'id'>): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#open.push({ call: this.#intern(call), resolve, reject });
    return promise;
  }
}

function invocationAt(nowEpochMs: number, timeoutS: number): Invocation {
  return { startedEpochMs: nowEpochMs, leaseExpiresEpochMs: nowEpochMs + timeoutS * 1_000 + lease.skewMs, remainingMs: () => timeoutS * 1_000 };
}

/** As the drain sends what it has taken, in waves while they are quick. @returns what it has not dealt with */
async function takeCopies(deps: DeliverDeps, received: readonly ReceivedMessage[], invocation: Invocation): Promise<string[]> {
  const copies = received.flatMap((one): Copy[] => {
    const parsed = parseMessage(one.body);
    if (!parsed.ok) return [];
    const { endpointId, claimKey, payloadHash } = parsed.message;
    return [{ received: one, message: parsed.message, claimKey, recordKey: recordKeyOf(endpointId, claimKey), shortHash: shortHash(payloadHash) }];
  });
  const settled = new Map<Copy, Settled>();
  const pacing = {
    spending: undefined, goesOn: () => true, more: () => Promise.resolve([]), wait: () => Promise.resolve(false),
    settled: (wave: ReadonlyMap<Copy, Settled>) => wave.forEach((one, copy) => settled.set(copy, one)),
  };
  const { exits, left, endpoint } = await sendWaves(deps, copies[0]?.message.endpointId ?? '', copies, pacing, invocation);
  // What is past its age is given up, whatever stands in its way.
  const config = endpoint?.config;
  const aged = config === undefined ? [] : left.filter((copy) => ageMs(copy.received.sentEpochMs, config, deps.clock.nowEpochMs()) > config.retry.maxAgeS * 1_000);
  const buried = aged.length === 0 ? [] : await buryUnclaimed(deps, aged, endpoint, invocation);
  const all = new Map([...exits, ...buried, ...[...settled].map(([copy, { exit }]) => [copy.received.messageId, exit] as const)]);
  return received.map((one) => one.messageId).filter((id) => all.get(id)?.kind !== 'ack');
}

function errorOf(answer: Exclude<Answer, { kind: 'ok' | 'posted' }>): Error {
  const $metadata = { attempts: 1 };
  if (answer.kind === 'throttled') return Object.assign(new Error('throttled'), { name: 'ThrottlingException', $metadata });
  if (answer.kind === 'unsure') return Object.assign(new Error('no answer'), { name: 'TimeoutError', $metadata });
  if (answer.code === 'TransactionCanceledException') {
    const reasons = answer.body['CancellationReasons'] as CancellationReason[];
    return new TransactionCanceledException({ message: answer.code, $metadata, CancellationReasons: reasons });
  }
  const Item = answer.body['Item'] as ConditionalCheckFailedException['Item'];
  return new ConditionalCheckFailedException({ message: answer.code, $metadata, ...(Item === undefined ? {} : { Item }) });
}

/** Statistics, and since when it fails, decide nothing about a delivery, and would make states differ that are the same. */
function uncounted(lanes: Lanes): Lanes {
  const without = (give: GiveBack): GiveBack => Object.fromEntries(Object.entries(give).filter(([name]) => name !== 'counted' && name !== 'failed')) as unknown as GiveBack;
  return { ...lanes, giveBack: (give) => lanes.giveBack(without(give)), exchange: (give, ask) => lanes.exchange(without(give), ask), countOffers: () => Promise.resolve() };
}
