import { GetItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { endpointSchema } from '../limits/endpoint-schema.ts';
import type { Endpoint, Endpoints } from '../ports/index.ts';
import { sk } from './dynamodb-lane-item.ts';

/** Endpoint configuration, read for sending: one strongly consistent read. */
export function createDynamoDbEndpoints(db: DynamoDBClient, table: string): Endpoints {
  return {
    async read(endpointId) {
      const answer = await db.send(
        new GetItemCommand({ TableName: table, Key: marshall({ pk: endpointId, sk: sk.config }), ConsistentRead: true }),
      );
      return answer.Item === undefined ? undefined : toEndpoint(unmarshall(answer.Item));
    },
  };
}

/** Reads a config item; keys that an older version did not write take their defaults. */
export function toEndpoint(item: Record<string, unknown>): Endpoint {
  return {
    config: endpointSchema.parse(item['config']),
    version: item['version'] as string,
    secrets: item['secrets'] as string[],
  };
}
