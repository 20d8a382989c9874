import { PutItemCommand, QueryCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { statistics as limits } from '../limits/numbers.ts';
import type { EndedWindow } from '../core/statistics.ts';
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
