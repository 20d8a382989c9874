import { QueryCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { endpointIdOfKey } from '../core/keys.ts';
import type { UnknownRecord } from '../core/record.ts';
import { attentionIndex, unknownIndex } from '../limits/names.ts';
import { attention, records as limits } from '../limits/numbers.ts';
import { readRecords } from './dynamodb-dead-letters.ts';
import { attentionKey, unknownKey } from './dynamodb-record-item.ts';

/** Deliveries that are unknown, by the sparse indexes of the Deliveries table: the cost grows with them, and with nothing else. Each rejects where it cannot be read. */
export function createUnknownIndex(db: DynamoDBClient, table: string) {
  const query = async (IndexName: string, name: 'gpk' | 'upk', value: string, more: { Limit?: number; ExclusiveStartKey?: Record<string, AttributeValue> }) =>
    db.send(new QueryCommand({ TableName: table, IndexName, KeyConditionExpression: `${name} = :key`, ExpressionAttributeValues: marshall({ ':key': value }), ...more }));
  const shards = Array.from({ length: limits.unknownShards }, (_, shard) => unknownKey(shard));

  /** By endpoint, since when its oldest is unknown, of the oldest of the installation: the first is that of all. */
  const oldestByEndpoint = async (): Promise<ReadonlyMap<string, number>> => {
    const answers = await Promise.all(shards.map((shard) => query(unknownIndex, 'upk', shard, { Limit: attention.unknownPage })));
    const found = answers.flatMap(({ Items = [] }) => Items.map((item) => unmarshall(item)));
    const oldest = new Map<string, number>();
    for (const { pk, sinceEpochMs } of found.sort((a, b) => (a['sinceEpochMs'] as number) - (b['sinceEpochMs'] as number))) {
      const endpointId = endpointIdOfKey(pk as string);
      if (!oldest.has(endpointId)) oldest.set(endpointId, sinceEpochMs as number);
    }
    return oldest;
  };

  /** Record keys of one endpoint's, or of all; the index may be seconds behind. */
  const keys = async (endpointId: string | undefined): Promise<string[]> => {
    const found = [];
    for (const partition of endpointId === undefined ? shards : [attentionKey('unknown', endpointId)]) {
      let from: Record<string, AttributeValue> | undefined;
      do {
        const start = from === undefined ? {} : { ExclusiveStartKey: from };
        const page = await (endpointId === undefined ? query(unknownIndex, 'upk', partition, start) : query(attentionIndex, 'gpk', partition, start));
        found.push(...(page.Items ?? []).map((item) => unmarshall(item)['pk'] as string));
        from = page.LastEvaluatedKey;
      } while (from !== undefined);
    }
    return found;
  };

  return { oldestByEndpoint, keys };
}

/** Records of one endpoint, or of all, that are unknown now, since the longest first. Rejects where they cannot be read. */
export async function readUnknown(db: DynamoDBClient, table: string, endpointId: string | undefined): Promise<UnknownRecord[]> {
  const found = await readRecords(db, table, await createUnknownIndex(db, table).keys(endpointId));
  return found.filter((record) => record.state === 'unknown').sort((a, b) => a.sinceEpochMs - b.sinceEpochMs);
}
