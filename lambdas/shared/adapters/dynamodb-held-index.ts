import { QueryCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { attentionIndex } from '../limits/names.ts';
import type { HeldIndex } from '../ports/index.ts';
import { attentionKey } from './dynamodb-record-item.ts';

/** What is held, by the sparse index of the Deliveries table. Rejects where it cannot be read. */
export function createHeldIndex(db: DynamoDBClient, table: string): HeldIndex {
  const query = (gpk: string, limit: number, from?: unknown) =>
    db.send(
      new QueryCommand({
        TableName: table,
        IndexName: attentionIndex,
        KeyConditionExpression: 'gpk = :gpk',
        ExpressionAttributeValues: marshall({ ':gpk': gpk }),
        Limit: limit,
        ...(from === undefined ? {} : { ExclusiveStartKey: from as Record<string, AttributeValue> }),
      }),
    );
  return {
    async page(endpointId, limit, from) {
      const answer = await query(attentionKey('held', endpointId), limit, from);
      const keys = (answer.Items ?? []).map((item) => unmarshall(item)).map(({ pk, gsk }) => ({ recordKey: pk as string, dueEpochMs: gsk as number }));
      return { keys, next: answer.LastEvaluatedKey };
    },
    async burying(endpointId, limit) {
      const answer = await query(attentionKey('burying', endpointId), limit);
      return (answer.Items ?? []).map((item) => unmarshall(item)['pk'] as string);
    },
  };
}
