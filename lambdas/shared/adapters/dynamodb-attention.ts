import { ConditionalCheckFailedException, GetItemCommand, PutItemCommand, ScanCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import type { Remembered } from '../core/attention.ts';
import type { Attention, SeenLane } from '../ports/index.ts';
import { readRecords } from './dynamodb-dead-letters.ts';
import { createHeldIndex } from './dynamodb-held-index.ts';
import { sk, toLane } from './dynamodb-lane-item.ts';
import { createUnknownIndex } from './dynamodb-unknown.ts';
import { Expressions } from './expressions.ts';

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
      const endpoints = new Map(Object.entries(JSON.parse((item['endpoints'] as string | undefined) ?? '{}') as Record<string, Remembered>));
      return { endpoints, version: (item['version'] as number | undefined) ?? 0 };
    },
    async remember(all, { version }) {
      const x = new Expressions();
      const name = x.name('version');
      const ConditionExpression = version === 0 ? `attribute_not_exists(${name})` : `${name} = ${x.value(version)}`;
      const item = { ...rememberedKey, version: version + 1, endpoints: JSON.stringify(Object.fromEntries(all)) };
      try {
        await db.send(new PutItemCommand({ TableName: tables.statistics, Item: marshall(item), ConditionExpression, ...x.attributes() }));
        return true;
      } catch (error) {
        if (error instanceof ConditionalCheckFailedException) return false;
        throw error;
      }
    },
  };
}

type Page = ReturnType<Attention['lanes']> extends AsyncIterable<infer P> ? P : never;

/** A scan: a customer's lane is a few hundred bytes, so that all of them are a few megabytes a minute. */
async function* lanePages(db: DynamoDBClient, table: string): AsyncGenerator<Page> {
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
    yield pageOf(answer.Items ?? []);
    from = answer.LastEvaluatedKey;
  } while (from !== undefined);
}

/** One lane that cannot be read must not hide the others. */
function pageOf(items: readonly Record<string, AttributeValue>[]): Page {
  const lanes: SeenLane[] = [];
  const unreadable = new Map<string, unknown>();
  for (const raw of items) {
    const item = unmarshall(raw);
    const endpointId = String(item['pk']);
    try {
      lanes.push({ endpointId, lane: toLane(item) });
    } catch (error) {
      unreadable.set(endpointId, error);
    }
  }
  return { lanes, unreadable };
}
