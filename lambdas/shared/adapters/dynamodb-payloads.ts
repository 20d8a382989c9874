import { promisify } from 'node:util';
import { deflateRaw, inflateRaw } from 'node:zlib';
import { BatchGetItemCommand, DeleteItemCommand, PutItemCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { hold as limits, message } from '../limits/numbers.ts';
import type { PayloadName, Payloads } from '../ports/index.ts';
import { writeFailure } from './dynamodb-errors.ts';
import { pauseBriefly, whileNotApplied, type Pause } from './repeat.ts';

const [deflate, inflate] = [promisify(deflateRaw), promisify(inflateRaw)];

/** Bodies of held messages, deflated, in a table of their own: holding large ones never throttles the verdicts of the healthy. */
export function createDynamoDbPayloads(db: DynamoDBClient, table: string, pause: Pause = pauseBriefly): Payloads {
  const put: Payloads['put'] = async (name, body, nowEpochMs) => {
    const Item = marshall({ pk: keyOf(name), body: await deflate(body), ttlEpochS: Math.ceil(nowEpochMs / 1_000) + limits.payloadTtlS });
    return whileNotApplied(async () => {
      try {
        await db.send(new PutItemCommand({ TableName: table, Item }));
        return 'written';
      } catch (error) {
        writeFailure(error);
        return 'failed';
      }
    }, 'failed', pause);
  };

  const read: Payloads['read'] = async (names) => {
    const recordKeys = new Map(names.map((name) => [keyOf(name), name.recordKey]));
    const found = new Map<string, string>();
    let keys = [...recordKeys.keys()].map((pk) => marshall({ pk }));
    // An answer ends at 16 MB: what is left is asked for again, as long as something comes.
    while (keys.length > 0) {
      const answer = await read1(db, table, keys);
      if (answer === undefined) break;
      for (const item of answer.items) {
        const { pk, body } = unmarshall(item) as { pk: string; body: Uint8Array };
        const text = await inflated(body);
        // One that cannot be inflated is as good as none: it must not keep the others from being read.
        if (text !== undefined) found.set(recordKeys.get(pk) ?? '', text);
      }
      keys = answer.left;
      if (answer.items.length === 0) break;
    }
    return { found, unread: new Set(keys.map((key) => recordKeys.get((unmarshall(key) as { pk: string }).pk) ?? '')) };
  };

  const remove: Payloads['remove'] = async (name) => {
    try {
      await db.send(new DeleteItemCommand({ TableName: table, Key: marshall({ pk: keyOf(name) }) }));
    } catch (error) {
      writeFailure(error);
    }
  };

  return { put, read, remove };
}

async function inflated(body: Uint8Array): Promise<string | undefined> {
  try {
    return (await inflate(body, { maxOutputLength: message.maxBytes })).toString();
  } catch {
    return undefined;
  }
}

type Key = Record<string, AttributeValue>;

async function read1(db: DynamoDBClient, table: string, keys: readonly Key[]): Promise<{ items: Key[]; left: Key[] } | undefined> {
  try {
    const answer = await db.send(new BatchGetItemCommand({ RequestItems: { [table]: { Keys: keys.map((key) => key), ConsistentRead: true } } }));
    return { items: answer.Responses?.[table] ?? [], left: answer.UnprocessedKeys?.[table]?.Keys ?? [] };
  } catch (error) {
    writeFailure(error);
    return undefined;
  }
}

/** With the payload's hash: a message that contradicts an event's record must not replace what is held for it. */
function keyOf({ recordKey, payloadHash, generation }: PayloadName): string {
  return `${recordKey}#${generation}#${payloadHash}`;
}
