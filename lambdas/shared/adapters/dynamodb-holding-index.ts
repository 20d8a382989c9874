import { GetItemCommand, QueryCommand, ScanCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { removedCfg } from '../core/lane.ts';
import { attentionIndex, holdingIndex, laneAttributes } from '../limits/names.ts';
import { records } from '../limits/numbers.ts';
import { holdingValue, sk, toLane } from './dynamodb-lane-item.ts';

/** What the sweep and a resume ask of the sparse indexes. Each rejects where it cannot be read: the next run asks again. */
export function createHoldingIndex(db: DynamoDBClient, tables: { endpoints: string; deliveries: string }) {
  const overdue = async (beforeEpochMs: number, limit: number) => {
    const answer = await db.send(
      new QueryCommand({
        TableName: tables.endpoints,
        IndexName: holdingIndex,
        KeyConditionExpression: '#holding = :yes AND #wakeAt < :before',
        ExpressionAttributeNames: { '#holding': laneAttributes.holding, '#wakeAt': laneAttributes.wakeAt },
        ExpressionAttributeValues: marshall({ ':yes': holdingValue, ':before': beforeEpochMs }),
        Limit: limit,
      }),
    );
    return (answer.Items ?? []).map(overdueOf);
  };

  const all = async () => {
    const found: { endpointId: string; wakeAtEpochMs: number }[] = [];
    let from: Record<string, AttributeValue> | undefined;
    do {
      const answer = await db.send(
        new QueryCommand({
          TableName: tables.endpoints,
          IndexName: holdingIndex,
          KeyConditionExpression: '#holding = :yes',
          ExpressionAttributeNames: { '#holding': laneAttributes.holding },
          ExpressionAttributeValues: marshall({ ':yes': holdingValue }),
          ...(from === undefined ? {} : { ExclusiveStartKey: from }),
        }),
      );
      found.push(...(answer.Items ?? []).map(overdueOf));
      from = answer.LastEvaluatedKey;
    } while (from !== undefined);
    return found;
  };

  const withHeld = async (part: number, parts: number, buriedBeforeEpochMs: number) => {
    const found = new Set<string>();
    let from: Record<string, AttributeValue> | undefined;
    do {
      const answer = await db.send(
        new ScanCommand({
          TableName: tables.deliveries,
          IndexName: attentionIndex,
          Segment: part,
          TotalSegments: parts,
          FilterExpression: 'begins_with(gpk, :held) OR (begins_with(gpk, :unknown) AND gsk < :never) OR (begins_with(gpk, :burying) AND gsk < :before)',
          ExpressionAttributeValues: marshall({ ':held': 'held#', ':unknown': 'unknown#', ':never': records.neverEpochMs, ':burying': 'burying#', ':before': buriedBeforeEpochMs }),
          ...(from === undefined ? {} : { ExclusiveStartKey: from }),
        }),
      );
      for (const item of answer.Items ?? []) found.add((unmarshall(item)['gpk'] as string).replace(/^\w+#/, ''));
      from = answer.LastEvaluatedKey;
    } while (from !== undefined);
    return found;
  };

  const isKnown = async (endpointId: string) => {
    const answer = await db.send(new GetItemCommand({ TableName: tables.endpoints, Key: marshall({ pk: endpointId, sk: sk.lane }), ConsistentRead: true }));
    if (answer.Item === undefined) return true;
    const lane = toLane(unmarshall(answer.Item));
    return lane.holding !== undefined || lane.cfg === removedCfg;
  };

  return { overdue, all, withHeld, isKnown };
}

function overdueOf(item: Record<string, AttributeValue>) {
  const { pk, [laneAttributes.wakeAt]: wakeAt } = unmarshall(item);
  return { endpointId: pk as string, wakeAtEpochMs: wakeAt as number };
}
