import { GetItemCommand, PutItemCommand, ScanCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import type { Remembered } from '../core/attention.ts';
import type { Attention, SeenLane } from '../ports/index.ts';
import { readRecords } from './dynamodb-dead-letters.ts';
import { createHeldIndex } from './dynamodb-held-index.ts';
import { sk, toLane } from './dynamodb-lane-item.ts';
import { createUnknownIndex } from './dynamodb-unknown.ts';

/** Outside the alphabet of endpoint ids. */
const rememberedKey = { pk: '#attention', sinceEpochMs: 0 };

/** What the sweep looks at, in the tables; what it remembers is one item of the statistics table. */
export function createAttention(db: DynamoDBClient, tables: { endpoints: string; deliveries: string; statistics: string }): Attention {
  const held = createHeldIndex(db, tables.deliveries);
  return {
    lanes: () => lanePages(db, tables.endpoints),
    async heldSince(endpointId) {
      const { keys } = await held.page(endpointId, 1);
      const [record] = await readRecords(db, tables.deliveries, keys.map(({ recordKey }) => recordKey));
      return record?.state === 'waiting' ? record.firstEpochMs : undefined;
    },
    unknownSince: () => createUnknownIndex(db, tables.deliveries).oldestByEndpoint(),
    async remembered() {
      const answer = await db.send(new GetItemCommand({ TableName: tables.statistics, Key: marshall(rememberedKey), ConsistentRead: true }));
      const item = answer.Item === undefined ? {} : unmarshall(answer.Item);
      return new Map(Object.entries(JSON.parse((item['endpoints'] as string | undefined) ?? '{}') as Record<string, Remembered>));
    },
    async remember(all) {
      await db.send(new PutItemCommand({ TableName: tables.statistics, Item: marshall({ ...rememberedKey, endpoints: JSON.stringify(Object.fromEntries(all)) }) }));
    },
  };
}

/** A scan: a customer's lane is a few hundred bytes, so that all of them are a few megabytes a minute. */
async function* lanePages(db: DynamoDBClient, table: string): AsyncGenerator<readonly SeenLane[]> {
  let from: Record<string, AttributeValue> | undefined;
  do {
    const answer = await db.send(
      new ScanCommand({
        TableName: table,
        FilterExpression: 'sk = :lane',
        ExpressionAttributeValues: marshall({ ':lane': sk.lane }),
        ...(from === undefined ? {} : { ExclusiveStartKey: from }),
      }),
    );
    yield (answer.Items ?? []).map((item) => unmarshall(item)).map((item) => ({ endpointId: item['pk'] as string, lane: toLane(item) }));
    from = answer.LastEvaluatedKey;
  } while (from !== undefined);
}
