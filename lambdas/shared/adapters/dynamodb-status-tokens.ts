import { ConditionalCheckFailedException, DeleteItemCommand, GetItemCommand, TransactionCanceledException, TransactWriteItemsCommand, type DynamoDBClient, type GetItemCommandInput } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { removedCfg } from '../core/lane.ts';
import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import type { Standing, Standings } from '../ports/index.ts';
import { toPlain } from './dynamodb-endpoints.ts';
import { sk, toLane } from './dynamodb-lane-item.ts';

const statuses = new Set<string>(['enabled', 'paused', 'disabled'] satisfies EndpointConfig['status'][]);

/** Of an endpoint's configuration its status and its attempts a day alone: its secrets have no business in a function that anybody can call. */
export function createStandings(db: DynamoDBClient, table: string): Standings {
  const read = async (endpointId: string, sortKey: string, projected: Pick<GetItemCommandInput, 'ProjectionExpression' | 'ExpressionAttributeNames'> = {}) => {
    const answer = await db.send(new GetItemCommand({ TableName: table, Key: marshall({ pk: endpointId, sk: sortKey }), ...projected }));
    return answer.Item === undefined ? undefined : toPlain(answer.Item);
  };
  return {
    async tokenHash(endpointId) {
      return (await read(endpointId, sk.status))?.['hash'] as string | undefined;
    },
    async read(endpointId) {
      const projected = { ProjectionExpression: '#config.#status, #config.#maxPerDay', ExpressionAttributeNames: { '#config': 'config', '#status': 'status', '#maxPerDay': 'maxPerDay' } };
      const [config, lane] = await Promise.all([read(endpointId, sk.config, projected), read(endpointId, sk.lane)]);
      if (config === undefined || lane === undefined || lane['cfg'] === removedCfg) return undefined;
      const { status: found = 'enabled', maxPerDay } = (config['config'] ?? {}) as { status?: string; maxPerDay?: unknown };
      return { lane: toLane(lane), status: statuses.has(found) ? (found as Standing['status']) : 'disabled', maxPerDay: typeof maxPerDay === 'number' ? maxPerDay : null };
    },
  };
}

export interface StatusTokens {
  /** Replaces the token of an endpoint. `absent`: there is no such endpoint. */
  put(endpointId: string, hash: string, atEpochMs: number): Promise<'written' | 'absent'>;
  revoke(endpointId: string): Promise<'revoked' | 'absent'>;
}

export function createStatusTokens(db: DynamoDBClient, table: string): StatusTokens {
  const key = (endpointId: string, sortKey: string) => ({ TableName: table, Key: marshall({ pk: endpointId, sk: sortKey }) });
  return {
    async put(endpointId, hash, atEpochMs) {
      const exists = { ...key(endpointId, sk.config), ConditionExpression: 'attribute_exists(pk)' };
      const item = marshall({ pk: endpointId, sk: sk.status, hash, atEpochMs });
      try {
        await db.send(new TransactWriteItemsCommand({ TransactItems: [{ ConditionCheck: exists }, { Put: { TableName: table, Item: item } }] }));
        return 'written';
      } catch (error) {
        if (error instanceof TransactionCanceledException && error.CancellationReasons?.[0]?.Code === 'ConditionalCheckFailed') return 'absent';
        throw error;
      }
    },
    async revoke(endpointId) {
      try {
        await db.send(new DeleteItemCommand({ ...key(endpointId, sk.status), ConditionExpression: 'attribute_exists(pk)' }));
        return 'revoked';
      } catch (error) {
        if (error instanceof ConditionalCheckFailedException) return 'absent';
        throw error;
      }
    },
  };
}
