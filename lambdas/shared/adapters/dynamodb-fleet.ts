import { ConditionalCheckFailedException, GetItemCommand, PutItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { z } from 'zod';
import { pausesAfter } from '../core/age.ts';
import { isStopped, type Fleet } from '../core/fleet.ts';
import { pausesSchema } from '../limits/endpoint-schema.ts';
import { toPlain } from './dynamodb-endpoints.ts';
import { sk } from './dynamodb-lane-item.ts';

/** Outside the alphabet of endpoint ids. */
const fleetKey = { pk: '#fleet', sk: sk.fleet };
const itemSchema = z.object({ pauses: pausesSchema, version: z.number().default(0) });

/** Reads the switch of the installation; one that was never used is on. Rejects where it cannot be read. */
export function createFleetReader(db: DynamoDBClient, table: string): () => Promise<Fleet> {
  return () => read(db, table, false);
}

/** Turns the switch. `changed`: somebody else did meanwhile, and nothing was written. */
export function createFleetSwitch(db: DynamoDBClient, table: string) {
  return {
    async set(stopped: boolean, nowEpochMs: number): Promise<'written' | 'unchanged' | 'changed'> {
      const before = await read(db, table, true);
      if (isStopped(before) === stopped) return 'unchanged';
      const item = { ...fleetKey, version: before.version + 1, pauses: pausesAfter(before.pauses, stopped ? 'paused' : 'enabled', nowEpochMs) };
      try {
        await db.send(
          new PutItemCommand({
            TableName: table,
            Item: marshall(item),
            ConditionExpression: before.version === 0 ? 'attribute_not_exists(pk)' : 'version = :version',
            ...(before.version === 0 ? {} : { ExpressionAttributeValues: marshall({ ':version': before.version }) }),
          }),
        );
        return 'written';
      } catch (error) {
        if (error instanceof ConditionalCheckFailedException) return 'changed';
        throw error;
      }
    },
    read: () => read(db, table, true),
  };
}

async function read(db: DynamoDBClient, table: string, ConsistentRead: boolean): Promise<Fleet & { version: number }> {
  const answer = await db.send(new GetItemCommand({ TableName: table, Key: marshall(fleetKey), ConsistentRead }));
  return itemSchema.parse(answer.Item === undefined ? { pauses: [] } : toPlain(answer.Item));
}
