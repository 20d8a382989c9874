/** A small world for the explorer: an endpoint, messages, what may go wrong, and what operators do meanwhile. */
import { ConditionalCheckFailedException, TransactionCanceledException, type CancellationReason, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import { createDynamoDbRegistry, type Registry } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { held } from '../../lambdas/shared/core/decide.ts';
import { hashOf, recordKeyOf, syntheticKeysOf } from '../../lambdas/shared/core/keys.ts';
import type { CopyHome } from '../../lambdas/shared/core/receive.ts';
import { stateName, type DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import type { Endpoint, ReceivedMessage } from '../../lambdas/shared/ports/index.ts';
import type { JsonObject } from '../../local/emulator.ts';
import { bodyOf, namesOf, payloadText, t0EpochMs, timed, waitingOf } from '../support/builders.ts';
import type { Answered, MemoryDynamoDb } from './memory-dynamodb.ts';
import { nowAt, Programs, tables, type Call, type Command, type HttpOutcome } from './program.ts';
import { copyName } from './rules.ts';

export type NamedOutcome = HttpOutcome & { readonly name: string };

/** What the consumer may do with a request. */
export const outcomes = {
  ok: { name: 'ok', kind: 'answered', status: 200, bodyExcerpt: '', ...timed(0) },
  /** Neither this nor the silence below says anything about the endpoint: the worlds of claims have no breaker. */
  busy: { name: '408', kind: 'answered', status: 408, bodyExcerpt: '', ...timed(0) },
  rejected: { name: '422', kind: 'answered', status: 422, bodyExcerpt: '', ...timed(0) },
  ambiguous: { name: 'no answer on an old socket', kind: 'ambiguous', phase: 'headers', cause: 'ECONNRESET', ...timed(0), reused: true },
  /** An answer that takes longer than one of a quick endpoint. */
  late: { name: '200 after 4 s', kind: 'answered', status: 200, bodyExcerpt: '', durationMs: 4_000, phasesMs: { headers: 4_000 }, reused: false },
  unsent: { name: 'no connection', kind: 'unsent', phase: 'connect', cause: 'ECONNREFUSED', ...timed(0) },
} as const satisfies Record<string, NamedOutcome>;

/** What a look may find. Each look happens at an hour's turn at the soonest: by then an absence proves what it may. */
export const looks = {
  matches: { name: 'found', kind: 'answered', status: 200, bodyExcerpt: '', body: Buffer.from('{"same":1}'), ...timed(0) },
  absent: { name: 'absent', kind: 'answered', status: 404, bodyExcerpt: '', body: Buffer.from(''), ...timed(0) },
  failed: { name: 'failed', kind: 'answered', status: 500, bodyExcerpt: '', body: Buffer.from(''), ...timed(0) },
} as const satisfies Record<string, NamedOutcome>;

export interface MessageSpec {
  readonly name: string;
  readonly eventId: string;
  readonly payload?: string;
  readonly resend?: number;
  /** As a redrive of the dead letter of this generation. */
  readonly generation?: number;
  /** A text that is no message. */
  readonly body?: string;
}

export interface WorldSpec {
  readonly name: string;
  readonly about: string;
  readonly endpoint: Endpoint;
  /** False where no worker has the endpoint in its cache. */
  readonly cached?: boolean;
  readonly messages: readonly MessageSpec[];
  /** Those that are in the queue from the start, by name; all but redrives and probes unless it is given. */
  readonly queued?: readonly string[];
  /** Those that are held from the start, since long before; the lane says so, and that the drain is to come in an hour. */
  readonly held?: readonly string[];
  /** Sets of messages that one worker may receive together; each by itself unless it is given. */
  readonly batches?: readonly (readonly string[])[];
  readonly outcomes: readonly NamedOutcome[];
  /** What may be found where a request was made, and where none was; the first of each when nothing goes wrong any more. */
  readonly looks?: { readonly sent: readonly NamedOutcome[]; readonly unsent: readonly NamedOutcome[] };
  readonly limits: { readonly receives: number; readonly crashes: number; readonly failures: number; readonly epochs: number };
  /** Calls that may fail, and calls in which a worker may die, by name; any unless it is given. */
  readonly fails?: readonly string[];
  readonly diesIn?: readonly string[];
  readonly commands?: Readonly<Record<string, Command>>;
  /** Which function its workers run; `held`: as the drain they have copies, and one that is put back stays where it is. Default `queue`. */
  readonly serves?: CopyHome;
  /** Runs of the drain, beside the workers' receives. Default 0. */
  readonly drains?: number;
  /** What comes from elsewhere and writes no configuration, such as a program of another version, or a command on deliveries. */
  readonly strangers?: Readonly<Record<string, (db: DynamoDBClient) => Promise<unknown>>>;
  /** True where the index shows what the table had when the hour began, and nothing newer. */
  readonly indexLags?: boolean;
  readonly prepare?: (world: World, db: DynamoDBClient, registry: Registry) => Promise<void>;
  /** Copies that are in the dead-letter queue from the start. */
  readonly copies?: (world: World) => readonly string[];
  /** Message by message: the dead letter whose copy becomes it when an operator redrives. */
  readonly redrives?: Readonly<Record<string, { readonly eventId: string; readonly generation: number }>>;
  /** What an endpoint's rate allows while no time passes. */
  readonly mostPosts?: number;
  /** Sent when all is over: a lane that is whole delivers them. */
  readonly probes?: readonly string[];
}

export class World {
  readonly spec: WorldSpec;
  readonly programs: Programs;
  /** Answers that its programs were given, by content. */
  readonly answers = new Map<string, Answered>();
  readonly names: readonly string[];
  readonly queued: readonly number[];
  readonly batches: readonly (readonly number[])[];
  readonly probes: readonly number[];
  readonly held: readonly number[];
  readonly redrives: readonly { readonly name: string; readonly copy: string; readonly message: number }[];
  readonly #messages: readonly ReceivedMessage[];

  constructor(spec: WorldSpec) {
    this.spec = spec;
    this.names = spec.messages.map((m) => m.name);
    const all = (names: readonly string[]) => names.map((name) => this.names.indexOf(name));
    const later = [...(spec.probes ?? []), ...Object.keys(spec.redrives ?? {}), ...(spec.held ?? [])];
    this.queued = all(spec.queued ?? this.names.filter((name) => !later.includes(name)));
    this.batches = (spec.batches ?? this.names.filter((name) => ![...(spec.probes ?? []), ...(spec.held ?? [])].includes(name)).map((name) => [name])).map(all);
    this.held = all(spec.held ?? []);
    this.probes = all(spec.probes ?? []);
    this.redrives = Object.entries(spec.redrives ?? {}).map(([message, { eventId, generation }]) => ({
      name: `an operator redrives ${message}`, message: this.names.indexOf(message),
      copy: copyName({ recordKey: this.#recordKey(eventId), generation }),
    }));
    this.#messages = spec.messages.map((m, i): ReceivedMessage => ({
      messageId: `m${i}`, receiptHandle: `r${i}`, receiveCount: 1, sentEpochMs: t0EpochMs, deadLetterGeneration: m.generation,
      body: m.body ?? bodyOf({ eventId: m.eventId, ...(m.payload === undefined ? {} : { payload: m.payload }), ...(m.resend === undefined ? {} : { resend: m.resend }) }),
    }));
    const bodies = new Map(spec.messages.map((m, i) => [this.#recordKey(m.eventId), this.message(i).body]));
    this.programs = new Programs({ cached: spec.cached === false ? undefined : spec.endpoint, commands: { ...spec.commands, ...strangersOf(spec) }, serves: spec.serves ?? 'queue', bodies });
  }

  get limits() {
    return this.spec.limits;
  }

  get serves(): CopyHome {
    return this.spec.serves ?? 'queue';
  }

  get outcomes() {
    return this.spec.outcomes;
  }

  looksOf(isSent: boolean): readonly NamedOutcome[] {
    return (isSent ? this.spec.looks?.sent : this.spec.looks?.unsent) ?? [];
  }

  canFail(call: Call): boolean {
    return this.spec.fails?.includes(call.label) ?? true;
  }

  canDieIn(calls: readonly Call[]): boolean {
    return this.spec.diesIn === undefined || calls.some((call) => this.spec.diesIn?.includes(call.label));
  }

  /** Commands of operators, and what comes from elsewhere, by name. */
  get commands(): readonly string[] {
    return [...Object.keys(this.spec.commands ?? {}), ...Object.keys(this.spec.strangers ?? {})];
  }

  isStranger(command: string): boolean {
    return this.spec.strangers?.[command] !== undefined;
  }

  get copies(): readonly string[] {
    return this.spec.copies?.(this) ?? [];
  }

  get endpointId(): string {
    return this.spec.endpoint.config.endpointId;
  }

  message(index: number): ReceivedMessage {
    const found = this.#messages[index];
    if (found === undefined) throw new Error(`no message ${index}`);
    return found;
  }

  keysOf(eventId: string) {
    return namesOf({ endpointId: this.endpointId, eventId });
  }

  async prepare(memory: MemoryDynamoDb): Promise<void> {
    const db = clientOn(memory);
    const registry = createDynamoDbRegistry(db, tables.endpoints);
    if (this.spec.cached !== false) await registry.put(this.spec.endpoint);
    await this.#hold(db);
    await this.spec.prepare?.(this, db, registry);
  }

  async #hold(db: DynamoDBClient): Promise<void> {
    if (this.spec.held === undefined) return;
    const records = createDynamoDbRecords(db, tables);
    for (const m of this.held) await records.write(undefined, held(waitingOf({}, { endpointId: this.endpointId, eventId: this.spec.messages[m]?.eventId ?? '' }), 0));
    await createDynamoDbLanes(db, tables).hold(this.endpointId, { count: this.held.length, nowEpochMs: nowAt(-1), wakeAtEpochMs: nowAt(1), isReady: true });
  }

  /** Messages that nobody has any more, and whose record has not come to its end, nor is held with a lane that says so. */
  lost(queue: readonly number[], dlq: readonly string[], recordOf: (recordKey: string) => DeliveryRecord | undefined, saysHeld: boolean): string[] {
    const isThere = (message: MessageSpec) => queue.some((m) => this.spec.messages[m]?.eventId === message.eventId && this.spec.messages[m]?.payload === message.payload);
    const everQueued = (i: number) => this.queued.includes(i) || this.held.includes(i) || queue.includes(i);
    return this.spec.messages.flatMap((message, i) => {
      if (!everQueued(i) || isThere(message)) return [];
      const keys = [this.#recordKey(message.eventId), ...syntheticKeysOf(this.endpointId, this.message(i).body)];
      const hash = hashOf(Buffer.from(message.payload ?? payloadText));
      const homes = keys.map(recordOf).filter((record) => record !== undefined && (message.body !== undefined || record.payloadHash === hash || record.recordKey.includes('!')));
      return homes.some((record) => isHome(record, dlq, queue, this.spec.messages) || (saysHeld && isHeld(record))) ? [] : [`lost: ${message.name} is nowhere (${homes.map((r) => (stateName(r))).join() || 'no record'})`];
    });
  }

  #recordKey(eventId: string): string {
    return recordKeyOf(this.endpointId, this.keysOf(eventId).claimKey);
  }
}

function isHome(record: DeliveryRecord | undefined, dlq: readonly string[], queue: readonly number[], messages: readonly MessageSpec[]): boolean {
  if (record?.state === 'delivered' || record?.state === 'dropped') return true;
  if (record?.state === 'unknown') return record.stuck !== undefined;
  if (record?.state !== 'dead' || record.phase !== 'buried') return false;
  return dlq.includes(copyName(record)) || queue.some((m) => messages[m]?.generation === record.generation && messages[m]?.eventId === record.eventId);
}

function strangersOf({ strangers = {} }: WorldSpec): Readonly<Record<string, Command>> {
  return Object.fromEntries(Object.entries(strangers).map(([name, write]) => [name, (_registry, db) => write(db)]));
}

const isHeld = (record: DeliveryRecord | undefined) => (record?.state === 'waiting' && record.home === 'held') || record?.state === 'unknown';

/** A client that answers at once, to prepare a world by the product's own adapters. */
function clientOn(memory: MemoryDynamoDb): DynamoDBClient {
  const send = async (command: { constructor: { name: string }; input: JsonObject }) => {
    const answer = await memory.call(command.constructor.name.replace(/Command$/, ''), command.input);
    if (answer.kind === 'ok') return answer.body;
    const common = { message: answer.code, $metadata: { attempts: 1 } };
    if (answer.code === 'TransactionCanceledException') {
      throw new TransactionCanceledException({ ...common, CancellationReasons: answer.body['CancellationReasons'] as CancellationReason[] });
    }
    throw new ConditionalCheckFailedException(common);
  };
  return { send } as unknown as DynamoDBClient;
}
