import { BatchGetItemCommand, GetItemCommand, QueryCommand, ScanCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import type { DeadRecord, DeliveryRecord } from '../core/record.ts';
import { attentionIndex } from '../limits/names.ts';
import { replay as limits } from '../limits/numbers.ts';
import { attentionKey, toRecord } from './dynamodb-record-item.ts';
import { Expressions } from './expressions.ts';

/** One record, strongly consistent. */
export async function readRecord(db: DynamoDBClient, table: string, recordKey: string): Promise<DeliveryRecord | undefined> {
  const answer = await db.send(new GetItemCommand({ TableName: table, Key: marshall({ pk: recordKey }), ConsistentRead: true }));
  return answer.Item === undefined ? undefined : toRecord(unmarshall(answer.Item));
}

/**
 * Records of keys that an index has shown, strongly consistent, for the index lags behind; in no order. It may show one key twice.
 * Rejects where they cannot be read, or are of a newer version.
 */
export async function readRecords(db: DynamoDBClient, table: string, recordKeys: readonly string[]): Promise<DeliveryRecord[]> {
  const keys = [...new Set(recordKeys)];
  const found: DeliveryRecord[] = [];
  for (let i = 0; i < keys.length; i += limits.page) {
    let wanted: Record<string, AttributeValue>[] = keys.slice(i, i + limits.page).map((pk) => marshall({ pk }));
    while (wanted.length > 0) {
      const answer = await db.send(new BatchGetItemCommand({ RequestItems: { [table]: { Keys: wanted, ConsistentRead: true } } }));
      found.push(...(answer.Responses?.[table] ?? []).map((item) => toRecord(unmarshall(item))));
      wanted = answer.UnprocessedKeys?.[table]?.Keys ?? [];
    }
  }
  return found;
}

/**
 * Dead records of one endpoint, or of all, oldest first, by the sparse index: the cost grows with what is dead, not with
 * what was delivered. The index lags behind, so each record is read again and kept only if it is still dead.
 */
export async function readDead(db: DynamoDBClient, table: string, endpointId: string | undefined): Promise<DeadRecord[]> {
  const found = await readRecords(db, table, await deadKeys(db, table, endpointId));
  return found.filter((record) => record.state === 'dead').sort((a, b) => a.lastEpochMs - b.lastEpochMs);
}

async function deadKeys(db: DynamoDBClient, table: string, endpointId: string | undefined): Promise<string[]> {
  const keys: string[] = [];
  let from: Record<string, AttributeValue> | undefined;
  do {
    const x = new Expressions();
    const gpk = x.name('gpk');
    const start = from === undefined ? {} : { ExclusiveStartKey: from };
    const page = endpointId === undefined
      ? await db.send(new ScanCommand({ TableName: table, IndexName: attentionIndex, FilterExpression: `begins_with(${gpk}, ${x.value('dead#')})`, ...x.attributes(), ...start }))
      : await db.send(new QueryCommand({ TableName: table, IndexName: attentionIndex, KeyConditionExpression: `${gpk} = ${x.value(attentionKey('dead', endpointId))}`, ...x.attributes(), ...start }));
    keys.push(...(page.Items ?? []).map((item) => unmarshall(item)['pk'] as string));
    from = page.LastEvaluatedKey;
  } while (from !== undefined);
  return keys;
}
