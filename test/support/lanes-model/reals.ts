/** The adapters on the embedded DynamoDB, with clients that lose answers, hold writes back, and lose a clause. */
import { TransactWriteItemsCommand, UpdateItemCommand, type AttributeValue, type DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { writeFailure } from '../../../lambdas/shared/adapters/dynamodb-errors.ts';
import { sk, toLane } from '../../../lambdas/shared/adapters/dynamodb-lane-item.ts';
import { toItem, toRecord } from '../../../lambdas/shared/adapters/dynamodb-record-item.ts';
import type { Registry } from '../../../lambdas/shared/adapters/dynamodb-registry.ts';
import type { DeliveryRecord } from '../../../lambdas/shared/core/record.ts';
import type { JsonObject } from '../../../local/emulator.ts';
import { clausesOf, withoutClause, type Clause } from '../../explore/clauses.ts';
import { startDynamoSubject, tables } from '../dynamo-subject.ts';
import { FaultyHandler } from '../sdk-faults.ts';
import type { World } from '../world.ts';
import type { State } from './state.ts';

export type RealWorld = World & { readonly registry: Registry };

/** A write as a client was about to send it. */
export interface TakenWrite {
  readonly operation: 'UpdateItem' | 'TransactWriteItems';
  readonly input: JsonObject;
}

export interface Reals {
  readonly plain: RealWorld;
  /** Its client may lose an answer, after which the SDK sends the same request again. */
  readonly repeating: RealWorld;
  /** Makes the repeating client lose the answer to the request after `reads` others. */
  loseAnswerAfter(reads: number): void;
  /** Its writes are taken; they leave unless `holds`, and otherwise their caller hears nothing. */
  readonly tapped: RealWorld;
  /** Runs `work` on the tapped world. */
  tap<T>(holds: boolean, work: () => Promise<T>): Promise<{ answer: T; taken: TakenWrite | undefined }>;
  /** Sends a taken write; nobody hears the answer. */
  send(write: TakenWrite): Promise<void>;
  observe(endpointId: string, recordKeys: readonly string[]): Promise<State>;
  prepare(record: DeliveryRecord): Promise<void>;
  close(): Promise<void>;
}

export interface RealsOptions {
  /** Removed from every condition that has it. */
  readonly dropped?: Clause | undefined;
  readonly onClause?: ((clause: Clause) => void) | undefined;
}

export async function startReals(options: RealsOptions = {}): Promise<Reals> {
  const subject = await startDynamoSubject();
  const handler = new FaultyHandler();
  const tap = new Tap();
  const connect = (more: Parameters<typeof subject.connect>[0] = {}) => withHooks(subject.connect(more), options);
  const plainClient = connect();
  const plain = subject.worldOn(plainClient);
  const repeating = subject.worldOn(connect({ requestHandler: handler, retryStrategy: atOnce }));
  const tapped = subject.worldOn(tap.on(connect()));
  // A client learns its endpoint and credentials with its first call.
  for (const world of [plain, repeating, tapped]) await world.records.read(['x']);
  return {
    plain, repeating, tapped,
    loseAnswerAfter: (reads) => handler.next(...Array.from({ length: reads }, () => 'through' as const), 'lost'),
    tap: (holds, work) => tap.during(holds, work),
    send: (write) => send(plainClient, write),
    observe: async (endpointId, recordKeys) => stateOf(await subject.call('BatchGetItem', keysOf(endpointId, recordKeys))),
    prepare: async (record) => {
      const Item = marshall({ pk: record.recordKey, ...toItem(record) }, { removeUndefinedValues: true });
      await subject.call('PutItem', { TableName: tables.deliveries, Item });
    },
    close: () => subject.close(),
  };
}

/** Every clause of every request is shown, and the dropped one is left out. */
function withHooks(client: DynamoDBClient, { dropped, onClause }: RealsOptions): DynamoDBClient {
  if (dropped === undefined && onClause === undefined) return client;
  client.middlewareStack.add(
    (next, context) => (args) => {
      const operation = operationOf(context);
      const input = args.input as JsonObject;
      if (onClause !== undefined && isWrite(operation)) for (const clause of clausesOf(operation, input)) onClause(clause);
      if (dropped === undefined || !isWrite(operation)) return next(args);
      return next({ ...args, input: withoutClause(operation, input, dropped) });
    },
    { step: 'initialize', name: 'hooks' },
  );
  return client;
}

/** Takes writes on their way out of a client. */
class Tap {
  #holds = false;
  #taken: TakenWrite | undefined;

  on(client: DynamoDBClient): DynamoDBClient {
    client.middlewareStack.add(
      (next, context) => (args) => {
        const operation = operationOf(context);
        if (!isWrite(operation)) return next(args);
        this.#taken = { operation, input: args.input as JsonObject };
        if (this.#holds) throw Object.assign(new Error('no answer'), { name: 'TimeoutError' });
        return next(args);
      },
      { step: 'initialize', name: 'tap' },
    );
    return client;
  }

  async during<T>(holds: boolean, work: () => Promise<T>): Promise<{ answer: T; taken: TakenWrite | undefined }> {
    [this.#holds, this.#taken] = [holds, undefined];
    const answer = await work();
    return { answer, taken: this.#taken };
  }
}

const operationOf = (context: object) => String((context as { commandName?: string }).commandName).replace(/Command$/, '');

function isWrite(operation: string): operation is TakenWrite['operation'] {
  return operation === 'UpdateItem' || operation === 'TransactWriteItems';
}

async function send(client: DynamoDBClient, { operation, input }: TakenWrite): Promise<void> {
  try {
    if (operation === 'UpdateItem') await client.send(new UpdateItemCommand(input as unknown as UpdateItemCommand['input']));
    else await client.send(new TransactWriteItemsCommand(input as unknown as TransactWriteItemsCommand['input']));
  } catch (error) {
    const failure = writeFailure(error);
    if (failure.kind !== 'refused') throw error;
  }
}

/** Repeats once what had no answer, without waiting: backoff would be most of a run's time. */
const atOnce: NonNullable<DynamoDBClientConfig['retryStrategy']> = {
  acquireInitialRetryToken: () => Promise.resolve(tokenOf(0)),
  refreshRetryTokenForRetry: (token, { errorType }) => {
    const isOver = token.getRetryCount() > 0 || errorType !== 'TRANSIENT';
    return isOver ? Promise.reject(new Error('no more attempts')) : Promise.resolve(tokenOf(token.getRetryCount() + 1));
  },
  recordSuccess: () => undefined,
};

const tokenOf = (retries: number) => ({ getRetryCount: () => retries, getRetryDelay: () => 0 });

function keysOf(endpointId: string, recordKeys: readonly string[]): JsonObject {
  const Keys = [sk.lane, sk.config].map((sortKey) => marshall({ pk: endpointId, sk: sortKey }));
  return {
    RequestItems: {
      [tables.endpoints]: { Keys, ConsistentRead: true },
      [tables.deliveries]: { Keys: recordKeys.map((pk) => marshall({ pk })), ConsistentRead: true },
    },
  };
}

function stateOf(answer: JsonObject): State {
  const responses = answer['Responses'] as Record<string, Record<string, AttributeValue>[]>;
  const items = (table: string) => (responses[table] ?? []).map((item) => unmarshall(item) as Record<string, unknown>);
  const endpoint = items(tables.endpoints);
  const lane = endpoint.find((item) => item['sk'] === sk.lane);
  const records = items(tables.deliveries).map((item) => toRecord(item));
  return {
    lane: lane === undefined ? undefined : toLane(lane),
    version: endpoint.find((item) => item['sk'] === sk.config)?.['version'] as string | undefined,
    records: new Map(records.map((record) => [record.recordKey, record])),
  };
}
