/** The DynamoDB adapters on the embedded DynamoDB, in this process, over HTTP as the SDK speaks it. */
import { CreateTableCommand, DynamoDBClient, GetItemCommand, UpdateItemCommand, type AttributeValue } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { startDynamoDb, type DynamoDb } from '../../local/dynamodb.ts';
import { startScheduler } from '../../local/scheduler.ts';
import { startSqs } from '../../local/sqs.ts';
import { startWire } from '../../local/wire.ts';
import { notingAttempts } from '../../lambdas/shared/adapters/attempts.ts';
import { toLane } from '../../lambdas/shared/adapters/dynamodb-lane-item.ts';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import { createDeadIndex } from '../../lambdas/shared/adapters/dynamodb-dead-index.ts';
import { createDynamoDbReplays } from '../../lambdas/shared/adapters/dynamodb-replays.ts';
import { createDynamoDbRegistry, type Registry } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { attentionIndex, holdingIndex, laneAttributes, unknownIndex } from '../../lambdas/shared/limits/names.ts';
import type { ReplayWorld } from './replays-contract.ts';
import type { World } from './world.ts';

type Client = DynamoDBClient;
export const tables = { endpoints: 'endpoints', deliveries: 'deliveries', payloads: 'payloads' };

export interface DynamoSubject {
  readonly world: World & ReplayWorld & { registry: Registry };
  readonly client: Client;
  /** Where DynamoDB and SQS answer. */
  readonly endpoint: string;
  /** Another client on the same tables, as the functions' clients are but for `more`. */
  connect(more?: Pick<ConstructorParameters<typeof DynamoDBClient>[0] & object, 'requestHandler' | 'maxAttempts' | 'retryStrategy'>): Client;
  worldOn(client: Client): World & ReplayWorld & { registry: Registry };
  /** Asks DynamoDB itself, beside the wire: for tests that look at the items after every step. */
  readonly call: DynamoDb['call'];
  /** The raw item of a record. */
  item(recordKey: string): Promise<Record<string, unknown> | undefined>;
  setAttribute(recordKey: string, name: string, value: AttributeValue): Promise<void>;
  close(): Promise<void>;
}

export async function startDynamoSubject(): Promise<DynamoSubject> {
  const [dynamodb, sqs, scheduler] = [await startDynamoDb(), startSqs(), startScheduler({ invoke: () => Promise.resolve() })];
  const wire = await startWire({ dynamodb, sqs, scheduler, clock: { nowMs: () => Date.now() } });
  const clients: Client[] = [];
  const connect: DynamoSubject['connect'] = (more = {}) => {
    const client = notingAttempts(new DynamoDBClient({
      endpoint: wire.endpoint, region: 'eu-west-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' }, maxAttempts: 3, ...more,
    }));
    clients.push(client);
    return client;
  };
  const client = connect();
  await createTables(client);

  const worldOn = (on: Client) => {
    const registry = createDynamoDbRegistry(on, tables.endpoints);
    return {
      lanes: createDynamoDbLanes(on, tables),
      records: createDynamoDbRecords(on, tables),
      replays: createDynamoDbReplays(on, tables),
      dead: createDeadIndex(on, tables.deliveries),
      registry,
      put: async (endpoint: Parameters<Registry['put']>[0]) => {
        if ((await registry.put(endpoint)) !== 'written') throw new Error('put was not written');
      },
      remove: async (endpointId: string) => {
        if ((await registry.remove(endpointId)) !== 'removed') throw new Error('remove was not written');
      },
      lane: async (endpointId: string) => {
        const key = marshall({ pk: endpointId, sk: 'lane' });
        const answer = await client.send(new GetItemCommand({ TableName: tables.endpoints, Key: key, ConsistentRead: true }));
        return answer.Item === undefined ? undefined : toLane(unmarshall(answer.Item));
      },
    };
  };

  const deliveryKey = (recordKey: string) => ({ TableName: tables.deliveries, Key: marshall({ pk: recordKey }) });
  return {
    world: worldOn(client),
    client,
    endpoint: wire.endpoint,
    connect,
    worldOn,
    call: (...args) => dynamodb.call(...args),
    item: async (recordKey) => {
      const answer = await client.send(new GetItemCommand({ ...deliveryKey(recordKey), ConsistentRead: true }));
      return answer.Item === undefined ? undefined : unmarshall(answer.Item);
    },
    setAttribute: async (recordKey, name, value) => {
      const update = { UpdateExpression: 'SET #n = :v', ExpressionAttributeNames: { '#n': name }, ExpressionAttributeValues: { ':v': value } };
      await client.send(new UpdateItemCommand({ ...deliveryKey(recordKey), ...update }));
    },
    close: async () => {
      for (const each of clients) each.destroy();
      await wire.close();
      await Promise.all([dynamodb.close(), sqs.close(), scheduler.close()]);
    },
  };
}

/** The key schemas of lib/tables.ts. */
async function createTables(client: Client): Promise<void> {
  const attribute = (AttributeName: string, AttributeType: 'S' | 'N' = 'S') => ({ AttributeName, AttributeType });
  const hash = (AttributeName: string) => ({ AttributeName, KeyType: 'HASH' as const });
  const range = (AttributeName: string) => ({ AttributeName, KeyType: 'RANGE' as const });
  await client.send(
    new CreateTableCommand({
      TableName: tables.endpoints,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [attribute('pk'), attribute('sk'), attribute(laneAttributes.holding), attribute(laneAttributes.wakeAt, 'N')],
      KeySchema: [hash('pk'), range('sk')],
      GlobalSecondaryIndexes: [
        { IndexName: holdingIndex, KeySchema: [hash(laneAttributes.holding), range(laneAttributes.wakeAt)], Projection: { ProjectionType: 'KEYS_ONLY' } },
      ],
    }),
  );
  await client.send(
    new CreateTableCommand({ TableName: tables.payloads, BillingMode: 'PAY_PER_REQUEST', AttributeDefinitions: [attribute('pk')], KeySchema: [hash('pk')] }),
  );
  await client.send(
    new CreateTableCommand({
      TableName: tables.deliveries,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [attribute('pk'), attribute('gpk'), attribute('gsk', 'N'), attribute('upk'), attribute('sinceEpochMs', 'N')],
      KeySchema: [hash('pk')],
      GlobalSecondaryIndexes: [
        { IndexName: attentionIndex, KeySchema: [hash('gpk'), range('gsk')], Projection: { ProjectionType: 'KEYS_ONLY' } },
        { IndexName: unknownIndex, KeySchema: [hash('upk'), range('sinceEpochMs')], Projection: { ProjectionType: 'KEYS_ONLY' } },
      ],
    }),
  );
}
