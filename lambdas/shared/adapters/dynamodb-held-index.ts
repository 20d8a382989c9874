import { QueryCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { attentionIndex } from '../limits/names.ts';
import { records } from '../limits/numbers.ts';
import type { HeldIndex } from '../ports/index.ts';
import { attentionKey } from './dynamodb-record-item.ts';

/** What is held, by the sparse index of the Deliveries table. Rejects where it cannot be read. */
export function createHeldIndex(db: DynamoDBClient, table: string): HeldIndex {
  const query = (gpk: string, limit: number, from?: unknown, before?: number) =>
    db.send(
      new QueryCommand({
        TableName: table,
        IndexName: attentionIndex,
        KeyConditionExpression: before === undefined ? 'gpk = :gpk' : 'gpk = :gpk AND gsk < :before',
        ExpressionAttributeValues: marshall({ ':gpk': gpk, ...(before === undefined ? {} : { ':before': before }) }),
        Limit: limit,
        ...(from === undefined ? {} : { ExclusiveStartKey: from as Record<string, AttributeValue> }),
      }),
    );
  const page = async (gpk: string, limit: number, from?: unknown, before?: number) => {
    const answer = await query(gpk, limit, from, before);
    const keys = (answer.Items ?? []).map((item) => unmarshall(item)).map(({ pk, gsk }) => ({ recordKey: pk as string, dueEpochMs: gsk as number }));
    return { keys, next: answer.LastEvaluatedKey };
  };
  return {
    page: (endpointId, limit, from) => page(attentionKey('held', endpointId), limit, from),
    // What a person must decide stands at the end of time.
    unknown: (endpointId, limit, from) => page(attentionKey('unknown', endpointId), limit, from, records.neverEpochMs),
    async burying(endpointId, limit) {
      const answer = await query(attentionKey('burying', endpointId), limit);
      return (answer.Items ?? []).map((item) => unmarshall(item)['pk'] as string);
    },
  };
}
