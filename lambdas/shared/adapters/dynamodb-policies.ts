import { GetItemCommand, QueryCommand, TransactionCanceledException, TransactWriteItemsCommand, UpdateItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import type { Policies, PolicyVersion } from '../ports/index.ts';
import { toPlain } from './dynamodb-endpoints.ts';
import { cancellation } from './dynamodb-errors.ts';

/** Outside the alphabet of endpoint ids, and with sort keys that no endpoint has: whoever goes through endpoints and lanes passes them by. */
const pk = '#policies';
const headPrefix = 'head#';
const headKey = (name: string) => `${headPrefix}${name}`;
const versionPrefix = (name: string) => `version#${name}#`;
/** Padded, so that they sort by number. */
const versionKey = (name: string, version: number) => versionPrefix(name) + String(version).padStart(6, '0');

/** Policies in the Endpoints table: each version an item whose settings are written once, and a copy of the newest as the head. */
export function createDynamoDbPolicies(db: DynamoDBClient, table: string): Policies {
  const get = async (sk: string) => {
    const answer = await db.send(new GetItemCommand({ TableName: table, Key: marshall({ pk, sk }), ConsistentRead: true }));
    return answer.Item === undefined ? undefined : toVersion(toPlain(answer.Item));
  };
  const query = async (prefix: string) => {
    const found: PolicyVersion[] = [];
    let from: Record<string, unknown> | undefined;
    do {
      const page = await db.send(
        new QueryCommand({
          TableName: table, ConsistentRead: true, KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)', ExpressionAttributeValues: marshall({ ':pk': pk, ':prefix': prefix }),
          ...(from === undefined ? {} : { ExclusiveStartKey: marshall(from) }),
        }),
      );
      found.push(...(page.Items ?? []).map((item) => toVersion(toPlain(item))));
      from = page.LastEvaluatedKey === undefined ? undefined : unmarshall(page.LastEvaluatedKey);
    } while (from !== undefined);
    return found;
  };

  return {
    list: () => query(headPrefix),
    current: (name) => get(headKey(name)),
    version: (name, version) => get(versionKey(name, version)),
    versions: (name) => query(versionPrefix(name)),
    async noteGiven(name, version) {
      const x = { ExpressionAttributeNames: { '#given': 'isGiven' }, ExpressionAttributeValues: marshall({ ':yes': true }) };
      await db.send(new UpdateItemCommand({ TableName: table, Key: marshall({ pk, sk: versionKey(name, version) }), UpdateExpression: 'SET #given = :yes', ConditionExpression: 'attribute_exists(pk)', ...x }));
    },
    async add({ isGiven: _isGiven, ...next }) {
      const { name, version } = next;
      const item = (sk: string) => ({ TableName: table, Item: marshall({ pk, sk, ...next }, { removeUndefinedValues: true }) });
      const isNext = version === 1 ? { ConditionExpression: 'attribute_not_exists(pk)' } : { ConditionExpression: '#version = :before', ExpressionAttributeNames: { '#version': 'version' }, ExpressionAttributeValues: marshall({ ':before': version - 1 }) };
      const members = [
        { Put: { ...item(versionKey(name, version)), ConditionExpression: 'attribute_not_exists(pk)' } },
        { Put: { ...item(headKey(name)), ...isNext } },
      ];
      try {
        await db.send(new TransactWriteItemsCommand({ TransactItems: members }));
        return 'written';
      } catch (error) {
        if (error instanceof TransactionCanceledException && cancellation(error).overall.kind === 'refused') return 'changed';
        throw error;
      }
    },
  };
}

function toVersion({ pk: _pk, sk: _sk, ...stored }: Record<string, unknown>): PolicyVersion {
  return stored as unknown as PolicyVersion;
}
