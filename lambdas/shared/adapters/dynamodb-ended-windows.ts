import { PutItemCommand, QueryCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { statistics as limits } from '../limits/numbers.ts';
import { mergedBins, type Bins, type EndedWindow } from '../core/statistics.ts';
import type { Windows } from '../ports/index.ts';
import { tallyAttributes, toWindow, windowLastFailure, windowSince } from './dynamodb-lane-item.ts';

/** Windows that have ended, in the statistics table, by the attributes that they have in a lane. */
export function createEndedWindows(db: DynamoDBClient, table: string): Windows {
  return {
    async put(endpointId, window) {
      const { sinceEpochMs, endedEpochMs, lastFailure } = window;
      const item = {
        pk: endpointId, sinceEpochMs, endedEpochMs, [windowSince]: sinceEpochMs, ...Object.fromEntries(tallyAttributes(window)),
        ...(lastFailure === undefined ? {} : { [windowLastFailure]: lastFailure }), ttlEpochS: Math.floor(endedEpochMs / 1_000) + limits.ttlS,
      };
      await db.send(new PutItemCommand({ TableName: table, Item: marshall(item) }));
    },
    async newest(endpointId, limit) {
      const answer = await db.send(
        new QueryCommand({ TableName: table, KeyConditionExpression: 'pk = :pk', ExpressionAttributeValues: marshall({ ':pk': endpointId }), ScanIndexForward: false, Limit: limit }),
      );
      return (answer.Items ?? []).map((item) => unmarshall(item)).flatMap((item): EndedWindow[] => {
        const window = toWindow(item);
        return window === undefined ? [] : [{ ...window, endedEpochMs: item['endedEpochMs'] as number }];
      });
    },
  };
}

/** Durations of all that was delivered to an endpoint in windows that began since then. */
export async function answersSince(db: DynamoDBClient, table: string, endpointId: string, sinceEpochMs: number): Promise<Bins> {
  let answers: Bins = new Map();
  let from: Record<string, unknown> | undefined;
  do {
    const page = await db.send(
      new QueryCommand({
        TableName: table, KeyConditionExpression: 'pk = :pk AND sinceEpochMs >= :since', ExpressionAttributeValues: marshall({ ':pk': endpointId, ':since': sinceEpochMs }),
        ...(from === undefined ? {} : { ExclusiveStartKey: marshall(from) }),
      }),
    );
    answers = mergedBins(answers, ...(page.Items ?? []).map((item) => toWindow(unmarshall(item))?.answers ?? new Map<number, number>()));
    from = page.LastEvaluatedKey === undefined ? undefined : unmarshall(page.LastEvaluatedKey);
  } while (from !== undefined);
  return answers;
}
