/** Records of keys that an index has shown: batches of what one read takes, and what a busy table leaves for another. */
import type { BatchGetItemCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { expect, it } from 'vitest';
import { readRecords } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { toItem } from '../../lambdas/shared/adapters/dynamodb-record-item.ts';
import { waitingOf } from '../support/builders.ts';

const keys = Array.from({ length: 205 }, (_, i) => `acme#${i}`);

/** A table that has all but every tenth record, and gives at most `atOnce` in one answer. */
function tableOf(atOnce: number) {
  const asked: { keys: string[]; isConsistent: boolean | undefined }[] = [];
  const send = ({ input }: BatchGetItemCommand) => {
    const { Keys = [], ConsistentRead } = input.RequestItems?.['t'] ?? {};
    const wanted = Keys.map((key) => unmarshall(key)['pk'] as string);
    asked.push({ keys: wanted, isConsistent: ConsistentRead });
    const there = wanted.slice(0, atOnce).filter((key) => !key.endsWith('0'));
    return Promise.resolve({
      Responses: { t: there.map((pk) => marshall({ pk, ...toItem({ ...waitingOf(), recordKey: pk }) }, { removeUndefinedValues: true })) },
      UnprocessedKeys: wanted.length > atOnce ? { t: { Keys: Keys.slice(atOnce) } } : {},
    });
  };
  return { db: { send } as unknown as DynamoDBClient, asked };
}

it.each([100, 30, 1])('reads all of them, each once, %i in one answer', async (atOnce) => {
  const { db, asked } = tableOf(atOnce);
  const found = await readRecords(db, 't', [...keys, ...keys.slice(0, 7)]);
  expect(found.map(({ recordKey }) => recordKey)).toEqual(keys.filter((key) => !key.endsWith('0')));
  expect(asked.every(({ keys: wanted, isConsistent }) => wanted.length <= 100 && new Set(wanted).size === wanted.length && isConsistent === true)).toBe(true);
});

it('asks for nothing where nothing is wanted', async () => {
  const { db, asked } = tableOf(100);
  expect([await readRecords(db, 't', []), asked]).toEqual([[], []]);
});
