import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AwsError, type Emulator, type JsonObject } from './emulator.ts';
import { call, keyOf, knows, openStore, run, tableOf } from './dynalite.ts';
import { createTransactWrite, transactGet } from './dynamodb-transactions.ts';
import type { Item, Store } from './types/dynalite.d.ts';

export interface DynamoDb extends Emulator {
  /** Deletes what has expired by the steered Date. @returns the number of items deleted. */
  sweepTtl(): Promise<number>;
}

/** The sweep runs when this much of the steered time has passed; AWS itself takes up to a few days. */
const sweepEveryMs = 600_000;
const sweepPollMs = 1_000;
const sweepPageItems = 500;
/** DynamoDB leaves items alone that expired more than five years ago, taking the number for a mistake. */
const oldestExpiryS = 5 * 365 * 86_400;

interface Settings {
  ttlAttribute?: string;
  pointInTimeRecovery?: boolean;
}

/** What dynalite has no place for, kept beside its tables in the same store and so for as long as they are. */
class TableSettings {
  private readonly byTable = new Map<string, Settings>();
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async load(): Promise<void> {
    for await (const [key, value] of this.store.db.iterator({ gte: 'settings~', lt: 'settings~\u00ff' })) {
      this.byTable.set(key.slice('settings~'.length), value as Settings);
    }
  }

  get(table: string): Settings {
    return this.byTable.get(table) ?? {};
  }

  entries(): [string, Settings][] {
    return [...this.byTable];
  }

  async set(table: string, change: Settings): Promise<void> {
    const settings = { ...this.get(table), ...change };
    this.byTable.set(table, settings);
    await call<void>((callback) => this.store.db.put(`settings~${table}`, settings, callback));
  }

  async delete(table: string): Promise<void> {
    this.byTable.delete(table);
    await call<void>((callback) => this.store.db.del(`settings~${table}`, callback));
  }
}

const tableName = (input: JsonObject) => {
  const name = input['TableName'];
  if (typeof name !== 'string') throw new AwsError('ValidationException', 'TableName must not be null');
  return name.slice(name.lastIndexOf('/') + 1);
};

async function updateTimeToLive(store: Store, settings: TableSettings, input: JsonObject): Promise<JsonObject> {
  const table = tableName(input);
  await tableOf(store, table);
  const specification = input['TimeToLiveSpecification'] as { Enabled: boolean; AttributeName: string };
  const isEnabled = Boolean(settings.get(table).ttlAttribute);
  if (isEnabled === specification.Enabled) {
    throw new AwsError('ValidationException', `TimeToLive is already ${isEnabled ? 'enabled' : 'disabled'}`);
  }
  await settings.set(table, { ttlAttribute: specification.Enabled ? specification.AttributeName : '' });
  return { TimeToLiveSpecification: specification };
}

async function describeTimeToLive(store: Store, settings: TableSettings, input: JsonObject): Promise<JsonObject> {
  await tableOf(store, tableName(input));
  const AttributeName = settings.get(tableName(input)).ttlAttribute;
  return { TimeToLiveDescription: AttributeName ? { TimeToLiveStatus: 'ENABLED', AttributeName } : { TimeToLiveStatus: 'DISABLED' } };
}

/** Point-in-time recovery is only remembered: nothing here can restore a table. */
async function continuousBackups(store: Store, settings: TableSettings, input: JsonObject): Promise<JsonObject> {
  const table = tableName(input);
  await tableOf(store, table);
  const wanted = input['PointInTimeRecoverySpecification'] as { PointInTimeRecoveryEnabled: boolean } | undefined;
  if (wanted) await settings.set(table, { pointInTimeRecovery: wanted.PointInTimeRecoveryEnabled });
  const PointInTimeRecoveryStatus = settings.get(table).pointInTimeRecovery ? 'ENABLED' : 'DISABLED';
  return {
    ContinuousBackupsDescription: { ContinuousBackupsStatus: 'ENABLED', PointInTimeRecoveryDescription: { PointInTimeRecoveryStatus } },
  };
}

/** dynalite knows no update but of throughput; deletion protection and the like are accepted and change nothing. */
async function updateTable(store: Store, input: JsonObject): Promise<JsonObject> {
  if (['BillingMode', 'ProvisionedThroughput', 'GlobalSecondaryIndexUpdates'].some((key) => key in input)) {
    return run('UpdateTable', store, input);
  }
  const { Table } = await run('DescribeTable', store, { TableName: tableName(input) });
  return { TableDescription: Table };
}

async function sweepTable(store: Store, name: string, attribute: string): Promise<number> {
  const table = await tableOf(store, name);
  const nowS = Math.floor(Date.now() / 1000);
  let deleted = 0;
  let start: unknown;
  do {
    const page = await run('Scan', store, { TableName: name, Limit: sweepPageItems, ...(start ? { ExclusiveStartKey: start } : {}) });
    start = page['LastEvaluatedKey'];
    for (const item of page['Items'] as Item[]) {
      const expiresS = Number(item[attribute]?.['N'] ?? NaN);
      if (!(expiresS <= nowS && expiresS > nowS - oldestExpiryS)) continue;
      // On the value seen: a write since then may have given the item a longer life.
      const request = {
        TableName: name,
        Key: keyOf(table, item),
        ConditionExpression: '#ttl = :seen',
        ExpressionAttributeNames: { '#ttl': attribute },
        ExpressionAttributeValues: { ':seen': item[attribute] },
      };
      const isDeleted = await run('DeleteItem', store, request).then(() => true, ignoreLostCondition);
      if (isDeleted) deleted++;
    }
  } while (start);
  return deleted;
}

function ignoreLostCondition(error: unknown): false {
  if (error instanceof AwsError && error.code === 'ConditionalCheckFailedException') return false;
  throw error;
}

/** Starts DynamoDB in this process; with `dataDir` its tables outlive it, and otherwise they are in memory. */
export async function startDynamoDb(options: { dataDir?: string } = {}): Promise<DynamoDb> {
  if (options.dataDir) mkdirSync(options.dataDir, { recursive: true });
  const store = await openStore(options.dataDir ? join(options.dataDir, 'dynamodb') : undefined);
  const settings = new TableSettings(store);
  await settings.load();

  const own: Record<string, (input: JsonObject) => Promise<JsonObject>> = {
    TransactWriteItems: createTransactWrite(store),
    TransactGetItems: (input) => transactGet(store, input),
    UpdateTimeToLive: (input) => updateTimeToLive(store, settings, input),
    DescribeTimeToLive: (input) => describeTimeToLive(store, settings, input),
    UpdateContinuousBackups: (input) => continuousBackups(store, settings, input),
    DescribeContinuousBackups: (input) => continuousBackups(store, settings, input),
    UpdateTable: (input) => updateTable(store, input),
    DeleteTable: async (input) => {
      const answer = await run('DeleteTable', store, input);
      await settings.delete(tableName(input));
      return answer;
    },
  };

  const sweepTables = async () => {
    let deleted = 0;
    for (const [table, { ttlAttribute }] of settings.entries()) {
      if (ttlAttribute) deleted += await sweepTable(store, table, ttlAttribute);
    }
    return deleted;
  };

  let sweptMs = Date.now();
  let sweeping: Promise<unknown> = Promise.resolve();
  /** One at a time, and awaited by close(): a sweep on a store that is closed would end the process. */
  const sweepTtl = () => {
    const swept = sweeping.then(sweepTables);
    // A table deleted under the sweep is no reason to stop sweeping the others next time.
    sweeping = swept.catch(() => undefined);
    return swept;
  };
  const timer = setInterval(() => {
    if (Math.abs(Date.now() - sweptMs) < sweepEveryMs) return;
    sweptMs = Date.now();
    sweepTtl().catch(() => undefined);
  }, sweepPollMs).unref();

  return {
    call: (operation, input) => {
      const mine = own[operation];
      if (mine) return mine(input);
      if (knows(operation)) return run(operation, store, input);
      return Promise.reject(new AwsError('UnknownOperationException', `${operation} is not emulated`));
    },
    sweepTtl,
    close: async () => {
      clearInterval(timer);
      await sweeping;
      await call<void>((callback) => store.db.close(callback));
    },
  };
}
