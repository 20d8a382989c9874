/** TransactWriteItems and TransactGetItems on dynalite's store. */
import { AwsError, type JsonObject } from './emulator.ts';
import { act, call, db, keyOf, prepare, run, tableOf } from './dynalite.ts';
import type { BatchOperation, Item, Prepared, Store, SubDb } from './types/dynalite.d.ts';

const maxMembers = 100;
const tokenLifeMs = 600_000;
const operationOf: Record<string, string> = { Put: 'PutItem', Update: 'UpdateItem', Delete: 'DeleteItem', ConditionCheck: 'DeleteItem' };

interface Member {
  kind: string;
  operation: string;
  data: Prepared;
  table: string;
  key: string;
}

interface Reason {
  Code: string;
  Message?: string;
  Item?: Item;
}

const validation = (message: string) => new AwsError('ValidationException', message);

async function parseMember(store: Store, entry: JsonObject): Promise<Member> {
  const [kind, request] = Object.entries(entry)[0] ?? [];
  const operation = operationOf[kind ?? ''];
  if (!kind || !operation || Object.keys(entry).length !== 1) {
    throw validation('TransactItems can only contain one of Check, Put, Update or Delete');
  }
  const data = prepare(operation, request as JsonObject, store);
  if (kind === 'ConditionCheck' && !data._condition) throw validation('ConditionExpression must not be null');
  const table = await tableOf(store, data.TableName);
  const invalid = data.Item ? db.validateItem(data.Item, table) : db.validateKey(data.Key ?? {}, table);
  if (invalid) throw validation(invalid.message);
  const key = db.createKey(data.Key ?? keyOf(table, data.Item ?? {}), table);
  return { kind, operation, data, table: data.TableName, key };
}

async function parseMembers(store: Store, input: JsonObject): Promise<Member[]> {
  const entries = input['TransactItems'];
  if (!Array.isArray(entries) || entries.length === 0 || entries.length > maxMembers) {
    throw validation(`Member must have length less than or equal to ${maxMembers} and greater than or equal to 1`);
  }
  const members = await Promise.all(entries.map((entry) => parseMember(store, entry as JsonObject)));
  if (new Set(members.map(addressOf)).size !== members.length) {
    throw validation('Transaction request cannot include multiple operations on one item');
  }
  return members;
}

const addressOf = (member: Member) => `${member.table}\0${member.key}`;

function lock(store: Store, member: Member): Promise<() => void> {
  return new Promise((resolve) => {
    store.getItemDb(member.table).lock(member.key, (release) => resolve(release(() => undefined)));
  });
}

/** Runs `work` with all items locked, in one order for everybody, so that two transactions cannot wait for each other. */
async function withLocks<T>(store: Store, members: Member[], work: () => Promise<T>): Promise<T> {
  const releases: (() => void)[] = [];
  try {
    for (const member of members.toSorted((a, b) => (addressOf(a) < addressOf(b) ? -1 : 1))) releases.push(await lock(store, member));
    return await work();
  } finally {
    for (const release of releases) release();
  }
}

async function read(store: Store, member: Member): Promise<Item | undefined> {
  try {
    return await call<Item>((callback) => store.getItemDb(member.table).get(member.key, callback));
  } catch (error) {
    if (error instanceof Error && error.name === 'NotFoundError') return undefined;
    throw error;
  }
}

/** A store whose writes only collect, so that a member that fails leaves nothing behind and all of them are written at once. */
function stagingOf(store: Store): { staging: Store; writes: BatchOperation[] } {
  const writes: BatchOperation[] = [];
  const collect = (prefix: string, source: SubDb): SubDb => ({
    get: (key, callback) => source.get(key, callback),
    put: (key, value, callback) => {
      writes.push({ type: 'put', key: `${prefix}~${key}`, value });
      callback(null);
    },
    del: (key, callback) => {
      writes.push({ type: 'del', key: `${prefix}~${key}` });
      callback(null);
    },
    lock: (_key, runLocked) => runLocked((callback) => callback),
  });
  const staging = Object.create(store) as Store;
  staging.getItemDb = (table) => collect(`item-${table}`, store.getItemDb(table));
  staging.getIndexDb = (kind, table, index) =>
    collect(`index-${kind.toLowerCase()}~${table}~${index}`, store.getIndexDb(kind, table, index));
  return { staging, writes };
}

function cancelled(reasons: Reason[], capacityUnits: Record<string, number>): AwsError {
  const codes = reasons.map(({ Code }) => Code).join(', ');
  const message = `Transaction cancelled, please refer cancellation reasons for specific reasons [${codes}]`;
  return new AwsError('TransactionCanceledException', message, { body: { CancellationReasons: reasons }, capacityUnits });
}

function checkConditions(members: Member[], existing: (Item | undefined)[]): void {
  const units: Record<string, number> = {};
  const reasons = members.map((member, i): Reason => {
    const size = existing[i] ? db.itemSize(existing[i]) : 0;
    units[member.table] = (units[member.table] ?? 0) + 2 * Math.max(1, Math.ceil(size / 1024));
    const error = db.checkConditional(member.data, existing[i]);
    if (!error) return { Code: 'None' };
    const item = error.body?.['Item'] as Item | undefined;
    return { Code: 'ConditionalCheckFailed', Message: error.message, ...(item ? { Item: item } : {}) };
  });
  if (reasons.some(({ Code }) => Code !== 'None')) throw cancelled(reasons, units);
}

/** Applies the members to the staging store. @returns units by table: a transaction costs twice a plain write. */
async function stage(staging: Store, members: Member[]): Promise<Record<string, number>> {
  const units: Record<string, number> = {};
  for (const [i, member] of members.entries()) {
    let memberUnits = 1;
    if (member.kind !== 'ConditionCheck') {
      try {
        const answer = await act(member.operation, staging, { ...member.data, ReturnConsumedCapacity: 'TOTAL' });
        memberUnits = (answer['ConsumedCapacity'] as { CapacityUnits: number }).CapacityUnits;
      } catch (error) {
        if (!(error instanceof AwsError)) throw error;
        const reasons = members.map((_, k): Reason => (k === i ? { Code: 'ValidationError', Message: error.message } : { Code: 'None' }));
        throw cancelled(reasons, {});
      }
    }
    units[member.table] = (units[member.table] ?? 0) + 2 * memberUnits;
  }
  return units;
}

function consumedOf(units: Record<string, number>, kind: 'Read' | 'Write'): JsonObject {
  return {
    ConsumedCapacity: Object.entries(units).map(([TableName, CapacityUnits]) => ({
      TableName,
      CapacityUnits,
      [`${kind}CapacityUnits`]: CapacityUnits,
    })),
  };
}

async function write(store: Store, input: JsonObject): Promise<JsonObject> {
  const members = await parseMembers(store, input);
  return withLocks(store, members, async () => {
    const existing = await Promise.all(members.map((member) => read(store, member)));
    checkConditions(members, existing);
    const { staging, writes } = stagingOf(store);
    const units = await stage(staging, members);
    // One batch of the log-structured store: all or nothing, also when the process is killed half way.
    if (writes.length > 0) await call<void>((callback) => store.db.batch(writes, callback));
    return input['ReturnConsumedCapacity'] === 'TOTAL' ? consumedOf(units, 'Write') : {};
  });
}

/** TransactWriteItems that remembers request tokens for ten minutes, as DynamoDB does; a restart forgets them. */
export function createTransactWrite(store: Store): (input: JsonObject) => Promise<JsonObject> {
  const seen = new Map<string, { body: string; untilMs: number; answer: Promise<JsonObject> }>();
  return async (input) => {
    const token = input['ClientRequestToken'];
    if (typeof token !== 'string') return write(store, input);
    for (const [old, { untilMs }] of seen) if (untilMs <= Date.now()) seen.delete(old);
    const body = JSON.stringify(input['TransactItems']);
    const before = seen.get(token);
    if (before && before.body !== body) {
      throw new AwsError('IdempotentParameterMismatchException', 'Request with the same token has different parameters');
    }
    if (before) return before.answer;
    const answer = write(store, input);
    seen.set(token, { body, untilMs: Date.now() + tokenLifeMs, answer });
    // A cancelled transaction did nothing, so the same token may try again.
    answer.catch(() => seen.delete(token));
    return answer;
  };
}

export async function transactGet(store: Store, input: JsonObject): Promise<JsonObject> {
  const entries = input['TransactItems'] as { Get: JsonObject }[];
  const units: Record<string, number> = {};
  const Responses = await Promise.all(
    entries.map(async ({ Get }) => {
      const answer = await run('GetItem', store, { ...Get, ConsistentRead: true, ReturnConsumedCapacity: 'TOTAL' });
      const consumed = answer['ConsumedCapacity'] as { TableName: string; CapacityUnits: number };
      units[consumed.TableName] = (units[consumed.TableName] ?? 0) + 2 * consumed.CapacityUnits;
      return answer['Item'] ? { Item: answer['Item'] } : {};
    }),
  );
  return { Responses, ...(input['ReturnConsumedCapacity'] === 'TOTAL' ? consumedOf(units, 'Read') : {}) };
}
