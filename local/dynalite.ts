/** dynalite's engine without its HTTP server, patched where it is kinder than DynamoDB, or wrong. */
import { createRequire } from 'node:module';
import { AwsError, type JsonObject, account, region } from './emulator.ts';
import { billIndexWrites, conditionUnits } from './dynamodb-billing.ts';
import { matches } from './dynamodb-conditions.ts';
import type { Action, Db, DynaliteError, Item, OperationValidation, Prepared, Store, Table, Validations } from './types/dynalite.d.ts';

const require = createRequire(import.meta.url);

export const db = require('dynalite/db') as Db;
const validations = require('dynalite/validations') as Validations;

const operations = [
  'BatchGetItem', 'BatchWriteItem', 'CreateTable', 'DeleteItem', 'DeleteTable', 'DescribeTable', 'GetItem', 'ListTables', 'PutItem',
  'Query', 'Scan', 'TagResource', 'UntagResource', 'ListTagsOfResource', 'UpdateItem', 'UpdateTable',
];

const fileOf = (operation: string) => operation.charAt(0).toLowerCase() + operation.slice(1);
const actions = new Map(operations.map((name) => [name, require(`dynalite/actions/${fileOf(name)}`) as Action]));
const rules = new Map(operations.map((name) => [name, require(`dynalite/validations/${fileOf(name)}`) as OperationValidation]));

export const knows = (operation: string) => actions.has(operation);

/** dynalite calls these through its module object, so replacing them changes every action. */
function patch(): void {
  for (const name of ['PutItem', 'UpdateItem', 'DeleteItem']) {
    const types = rules.get(name)?.types;
    if (types) types['ReturnValuesOnConditionCheckFailure'] = { type: 'String', enum: ['ALL_OLD', 'NONE'] };
  }
  const original = db.checkConditional;
  db.checkConditional = (data, existing) => {
    const expression = data._condition?.expression;
    if (!expression) return original(data, existing);
    if (matches(db, existing ?? {}, expression)) return null;
    const error: DynaliteError = new Error('The conditional request failed');
    error.statusCode = 400;
    error.body = { __type: 'com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException', message: error.message };
    if (existing && data.ReturnValuesOnConditionCheckFailure === 'ALL_OLD') error.body['Item'] = existing;
    error.capacityUnits = { [data.TableName]: conditionUnits(db, existing) };
    return error;
  };
  billIndexWrites(db);
}
patch();

export async function openStore(path?: string): Promise<Store> {
  const store = db.create({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0, ...(path ? { path } : {}) });
  store.tableDb.awsAccountId = account;
  store.tableDb.awsRegion = region;
  await store.db.open();
  return store;
}

function toAwsError(error: unknown): Error {
  const { statusCode, body, capacityUnits } = error as DynaliteError;
  if (!statusCode || !body) return error as Error;
  const { __type, message, Message, ...rest } = body;
  return new AwsError(__type.slice(__type.indexOf('#') + 1), message ?? Message ?? '', {
    status: statusCode,
    body: rest,
    ...(capacityUnits ? { capacityUnits } : {}),
  });
}

/** Turns a callback into a promise, and dynalite's errors into ours. */
export function call<T>(start: (callback: (error: Error | null, value?: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    start((error, value) => {
      if (error) reject(toAwsError(error));
      else resolve(value as T);
    });
  });
}

/** Validates a request and parses its expressions. @throws AwsError ValidationException or SerializationException. */
export function prepare(operation: string, input: JsonObject, store: Store): Prepared {
  const rule = rules.get(operation);
  if (!rule) throw new AwsError('UnknownOperationException', '');
  try {
    const data = validations.checkTypes(structuredClone(input), rule.types);
    validations.checkValidations(data, rule.types, rule.custom, store);
    return data;
  } catch (error) {
    throw toAwsError(error);
  }
}

export function act(operation: string, store: Store, data: Prepared): Promise<JsonObject> {
  const action = actions.get(operation);
  if (!action) throw new AwsError('UnknownOperationException', '');
  return call((callback) => action(store, data, callback));
}

export async function run(operation: string, store: Store, input: JsonObject): Promise<JsonObject> {
  return act(operation, store, prepare(operation, input, store));
}

export const tableOf = (store: Store, name: string): Promise<Table> => // Without the flag dynalite takes a table that is still being created for none.
  call((callback) => store.getTable(name, false, callback));

export const keyOf = (table: Table, item: Item): Item =>
  Object.fromEntries(table.KeySchema.map(({ AttributeName }) => [AttributeName, item[AttributeName] ?? {}]));
