import { QueryCommand, ScanCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { attentionIndex } from '../limits/names.ts';
import type { DeadIndex, DeadKey } from '../ports/index.ts';
import { attentionKey } from './dynamodb-record-item.ts';
import { Expressions } from './expressions.ts';

const deadPrefix = 'dead#';

/** What is dead, by the sparse index of the Deliveries table: of one endpoint a query, whose cost grows with that endpoint's dead only; of all a scan. */
export function createDeadIndex(db: DynamoDBClient, table: string): DeadIndex {
  return {
    async page({ endpointId, fromEpochMs, toEpochMs }, limit, after) {
      const x = new Expressions();
      const [gpk, gsk] = [x.name('gpk'), x.name('gsk')];
      // Both ends of BETWEEN are inside.
      const isWithin = `${gsk} BETWEEN ${x.value(fromEpochMs)} AND ${x.value(toEpochMs - 1)}`;
      const start = after === undefined ? {} : { ExclusiveStartKey: marshall({ pk: after.recordKey, gpk: after.partition, gsk: after.lastEpochMs }) };
      const common = { TableName: table, IndexName: attentionIndex, Limit: limit, ...start };
      // An empty range is no range: DynamoDB refuses it.
      if (toEpochMs <= fromEpochMs) return { keys: [], next: undefined };
      const answer = endpointId === undefined
        ? await db.send(new ScanCommand({ ...common, FilterExpression: `begins_with(${gpk}, ${x.value(deadPrefix)}) AND ${isWithin}`, ...x.attributes() }))
        : await db.send(new QueryCommand({ ...common, KeyConditionExpression: `${gpk} = ${x.value(attentionKey('dead', endpointId))} AND ${isWithin}`, ...x.attributes() }));
      const last = answer.LastEvaluatedKey;
      return { keys: (answer.Items ?? []).map(toKey), next: last === undefined ? undefined : toKey(last) };
    },
  };
}

/** A scan may stop at a key of another partition. */
function toKey(item: Record<string, AttributeValue>): DeadKey {
  const { pk, gpk, gsk } = unmarshall(item) as { pk: string; gpk: string; gsk: number };
  return { recordKey: pk, partition: gpk, lastEpochMs: gsk };
}
