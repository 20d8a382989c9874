/** The parts of dynalite 4.0.0 that we call; the package ships no types and keeps these files internal. */

export type AttributeValue = Record<string, unknown>;
export type Item = Record<string, AttributeValue>;

export type Callback<T> = (error: Error | null, value?: T) => void;

export interface DynaliteError extends Error {
  statusCode?: number;
  body?: { __type: string; message?: string; Message?: string; [key: string]: unknown };
  capacityUnits?: Record<string, number>;
}

export interface KeySchemaElement {
  AttributeName: string;
  KeyType: 'HASH' | 'RANGE';
}

export interface IndexDescription {
  IndexName: string;
  KeySchema: KeySchemaElement[];
}

export interface Table {
  TableName: string;
  KeySchema: KeySchemaElement[];
  GlobalSecondaryIndexes?: IndexDescription[];
  LocalSecondaryIndexes?: IndexDescription[];
}

/** `release(callback)` returns the callback to call instead: it gives the lock back first. */
export type Locked = (release: (callback: () => void) => () => void) => void;

export interface SubDb {
  get(key: string, callback: Callback<Item>): void;
  put(key: string, value: unknown, callback: Callback<void>): void;
  del(key: string, callback: Callback<void>): void;
  lock(key: string, run: Locked): void;
}

export interface BatchOperation {
  type: 'put' | 'del';
  key: string;
  value?: unknown;
}

export interface LevelDb {
  put(key: string, value: unknown, callback: Callback<void>): void;
  del(key: string, callback: Callback<void>): void;
  batch(operations: BatchOperation[], callback: Callback<void>): void;
  iterator(range: { gte: string; lt: string }): AsyncIterable<[string, unknown]>;
  open(): Promise<void>;
  close(callback: Callback<void>): void;
}

export interface Store {
  db: LevelDb;
  tableDb: { awsAccountId: string; awsRegion: string };
  getItemDb(table: string): SubDb;
  getIndexDb(kind: string, table: string, index: string): SubDb;
  getTable(name: string, checkStatus: boolean, callback: Callback<Table>): void;
}

/** A parsed condition: an operator over paths (arrays), literals and functions. */
export interface Expression {
  type: string;
  name?: string;
  args: Operand[];
}
export type Operand = (string | number)[] | Expression | AttributeValue;

/** A request after validation: the caller's members, and what was parsed out of its expressions. */
export interface Prepared {
  TableName: string;
  Key?: Item;
  Item?: Item;
  ReturnConsumedCapacity?: string;
  ReturnValuesOnConditionCheckFailure?: string;
  _condition?: { expression: Expression };
}

export interface ConsumedCapacity {
  CapacityUnits: number;
  TableName: string;
  Table?: { CapacityUnits: number };
  GlobalSecondaryIndexes?: Record<string, { CapacityUnits: number }>;
  LocalSecondaryIndexes?: Record<string, { CapacityUnits: number }>;
}

export interface IndexActions {
  puts: { index: string; key: string; item: Item }[];
  deletes: { index: string; key: string }[];
}

export interface Db {
  create: (options: Record<string, unknown>) => Store;
  createKey: (item: Item, table: Table) => string;
  validateItem: (item: Item, table: Table) => DynaliteError | undefined;
  validateKey: (key: Item, table: Table) => DynaliteError | undefined;
  itemSize: (item: Item) => number;
  mapPath: (path: (string | number)[], item: Item) => AttributeValue | null | undefined;
  matchesExprFilter: (item: Item, expression: Expression) => boolean;
  getIndexActions: (indexes: IndexDescription[], existing: Item | undefined, item: Item | null, table: Table) => IndexActions;
  checkConditional: (data: Prepared, existing: Item | undefined) => DynaliteError | null | undefined;
  addConsumedCapacity: (data: Prepared, isRead: boolean, one?: Item, other?: Item) => ConsumedCapacity | undefined;
  updateIndexes: (store: Store, table: Table, existing: Item | undefined, item: Item | null, callback: Callback<void>) => void;
}

export interface Validations {
  checkTypes(data: unknown, types: unknown): Prepared;
  checkValidations(data: Prepared, types: unknown, custom: unknown, store: Store): void;
}

export interface OperationValidation {
  types: Record<string, unknown>;
  custom?: unknown;
}

export type Action = (store: Store, data: Prepared, callback: Callback<Record<string, unknown>>) => void;
