/**
 * DynamoDB's items in a map, for an explorer that visits millions of states: conditions and updates are decided by the
 * embedded DynamoDB's engine, from the very expressions that the adapters send, but a state is a value that can be kept.
 */
import { act, db, prepare } from '../../local/dynalite.ts';
import { AwsError, type JsonObject } from '../../local/emulator.ts';
import { createTransactWrite } from '../../local/dynamodb-transactions.ts';
import type { Item, Store, SubDb, Table } from '../../local/types/dynalite.d.ts';

/** Items by `item-TABLE~KEY`. Never changed in place. */
export type Items = ReadonlyMap<string, Item>;

export type Answered =
  | { readonly kind: 'ok'; readonly body: JsonObject }
  | { readonly kind: 'error'; readonly code: string; readonly body: JsonObject };

const attributes = (names: readonly string[]) => names.map((AttributeName) => ({ AttributeName, AttributeType: 'S' }));

export class MemoryDynamoDb {
  /** The state that the next call works on; assign it to go to another. */
  items: Items = new Map();
  /** What the index shows, where that is not what the table has. */
  indexed: Items | undefined;
  readonly #tables: ReadonlyMap<string, Table>;
  readonly #store: Store;
  readonly #transact: (input: JsonObject) => Promise<JsonObject>;

  /** @param keys names of hash and range key by table. */
  constructor(keys: Readonly<Record<string, readonly [string, string?]>>) {
    this.#tables = new Map(
      Object.entries(keys).map(([TableName, [hash, range]]) => {
        const KeySchema: Table['KeySchema'] = [{ AttributeName: hash, KeyType: 'HASH' }, ...(range === undefined ? [] : [{ AttributeName: range, KeyType: 'RANGE' as const }])];
        return [TableName, { TableName, KeySchema, AttributeDefinitions: attributes(range === undefined ? [hash] : [hash, range]) } as Table];
      }),
    );
    this.#store = this.#storeOf();
    this.#transact = createTransactWrite(this.#store);
  }

  async call(operation: string, input: JsonObject): Promise<Answered> {
    try {
      return { kind: 'ok', body: await this.#perform(operation, input) };
    } catch (error) {
      if (!(error instanceof AwsError)) throw error;
      if (error.code === 'ValidationException') throw new Error(`${operation}: ${error.message}\n${JSON.stringify(input)}`, { cause: error });
      return { kind: 'error', code: error.code, body: error.details.body ?? {} };
    }
  }

  #perform(operation: string, input: JsonObject): Promise<JsonObject> | JsonObject {
    if (operation === 'TransactWriteItems') return this.#transact(input);
    if (operation === 'GetItem') {
      const found = this.#read(input['TableName'] as string, input['Key'] as Item);
      return found === undefined ? {} : { Item: found };
    }
    if (operation === 'BatchGetItem') {
      const requests = Object.entries(input['RequestItems'] as Record<string, { Keys: Item[] }>);
      return { Responses: Object.fromEntries(requests.map(([table, { Keys }]) => [table, Keys.flatMap((key) => this.#read(table, key) ?? [])])) };
    }
    if (operation === 'Query') return this.#query(input);
    return act(operation, this.#store, prepare(operation, input, this.#store));
  }

  /** The sparse index over what needs somebody: `indexed` is what it shows, for it may be behind the table. */
  #query(input: JsonObject): JsonObject {
    const { ':gpk': partition, ':before': before } = input['ExpressionAttributeValues'] as Record<string, { S: string; N: string }>;
    const isBefore = (item: Item) => before === undefined || Number(item['gsk']?.['N']) < Number(before.N);
    const [after, limit] = [input['ExclusiveStartKey'] as Item | undefined, input['Limit'] as number];
    const found = [...(this.indexed ?? this.items)].filter(([key, item]) => key.startsWith(`item-${String(input['TableName'])}~`) && item['gpk']?.['S'] === partition?.S && isBefore(item)).map(([, item]) => item);
    const sorted = found.toSorted((a, b) => Number(a['gsk']?.['N']) - Number(b['gsk']?.['N']) || (String(a['pk']?.['S']) < String(b['pk']?.['S']) ? -1 : 1));
    const from = after === undefined ? 0 : sorted.findIndex((item) => item['pk']?.['S'] === after['pk']?.['S']) + 1;
    const page = sorted.slice(from, from + limit);
    const keysOf = ({ pk, gpk, gsk }: Item) => ({ pk, gpk, gsk });
    return { Items: page.map(keysOf), ...(from + limit < sorted.length ? { LastEvaluatedKey: keysOf(page.at(-1) as Item) } : {}) };
  }

  #read(table: string, key: Item): Item | undefined {
    return this.items.get(this.keyOf(table, key));
  }

  /** Where an item is in `items`. */
  keyOf(table: string, key: object): string {
    const schema = this.#tables.get(table);
    if (schema === undefined) throw new Error(`no table ${table}`);
    return `item-${table}~${db.createKey(key as Item, schema)}`;
  }

  #set(key: string, item: Item | undefined): void {
    const next = new Map(this.items);
    if (item === undefined) next.delete(key);
    else next.set(key, item);
    this.items = next;
  }

  /** What dynalite's actions use of a store. It has no indexes: the item says by itself whether it is in one. */
  #storeOf(): Store {
    const itemDb = (table: string): SubDb => ({
      get: (key, callback) => {
        const found = this.items.get(`item-${table}~${key}`);
        callback(found === undefined ? Object.assign(new Error('not found'), { name: 'NotFoundError' }) : null, found);
      },
      put: (key, value, callback) => {
        this.#set(`item-${table}~${key}`, value as Item);
        callback(null);
      },
      del: (key, callback) => {
        this.#set(`item-${table}~${key}`, undefined);
        callback(null);
      },
      lock: (_key, run) => run((callback) => callback),
    });
    const store = {
      options: { maxItemSize: 409_600 },
      tableDb: { awsAccountId: '', awsRegion: '' },
      getItemDb: itemDb,
      getIndexDb: itemDb,
      // Also called without the flag in the middle.
      getTable: (name: string, ...rest: unknown[]) => (rest.at(-1) as (error: Error | null, table?: Table) => void)(null, this.#tables.get(name)),
      db: {
        batch: (writes: { type: 'put' | 'del'; key: string; value?: unknown }[], callback: (error: Error | null) => void) => {
          for (const write of writes) this.#set(write.key, write.type === 'put' ? (write.value as Item) : undefined);
          callback(null);
        },
      },
    };
    return store as unknown as Store;
  }
}
