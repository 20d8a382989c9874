/** Conditions and transactions of DynamoDB. */
import * as D from '@aws-sdk/client-dynamodb';
import { beforeAll, describe, expect, it } from 'vitest';
import { N, S, type TestTable, key } from './fidelity-dynamodb-table.ts';
import { isAws, refusal, until } from './fidelity-subject.ts';

export function describeConditions(tableOf: () => TestTable): void {
  let table: TestTable;
  let TableName: string;
  let client: D.DynamoDBClient;
  const update: TestTable['update'] = (...args) => table.update(...args);
  const put: TestTable['put'] = (...args) => table.put(...args);
  const get: TestTable['get'] = (...args) => table.get(...args);
  const transact: TestTable['transact'] = (...args) => table.transact(...args);

  beforeAll(() => {
    table = tableOf();
    ({ TableName, client } = table);
  });

  describe('conditions', () => {
    const holds = async (pk: string, ConditionExpression: string, values: Record<string, D.AttributeValue>, names?: Record<string, string>) => {
      const request = {
        UpdateExpression: 'SET touched = :touched', ConditionExpression, ExpressionAttributeValues: { ':touched': N(1), ...values },
        ...(names ? { ExpressionAttributeNames: names } : {}),
      };
      return update(pk, request).then(() => true, (error: unknown) => {
        if (error instanceof D.ConditionalCheckFailedException) return false;
        throw error;
      });
    };

    it('measures maps with size()', async () => {
      await put({ ...key('c1'), m: { M: { a: N(1), b: N(2) } } });
      expect(await holds('c1', 'size(m) < :n', { ':n': N(3) })).toBe(true);
      expect(await holds('c1', 'size(m) < :n', { ':n': N(2) })).toBe(false);
    });

    it('compares attributes with each other, with BETWEEN and OR', async () => {
      await put({ ...key('c2'), x: N(6), y: N(4) });
      expect(await holds('c2', 'x < y OR y BETWEEN :l AND :h', { ':l': N(1), ':h': N(99) })).toBe(true);
      expect(await holds('c2', 'x < y', {})).toBe(false);
    });

    it('compares an element of a list inside a map', async () => {
      await put({ ...key('c3'), leases: { M: { 'l-1': { L: [N(3), N(1_700_000_000_000)] } } } });
      const names = { '#l': 'l-1' };
      expect(await holds('c3', 'leases.#l[0] = :n', { ':n': N(3) }, names)).toBe(true);
      expect(await holds('c3', 'leases.#l[0] = :n', { ':n': N(4) }, names)).toBe(false);
      expect(await holds('c3', 'leases.#l[1] < :t', { ':t': N(1_800_000_000_000) }, names)).toBe(true);
      expect(await holds('c3', 'attribute_not_exists(leases.#m)', {}, { '#m': 'l-2' })).toBe(true);
    });

    it('compares whole lists and maps', async () => {
      await put({ ...key('c4'), claims: { M: { k: { L: [S('l-1'), S('hash')] } } }, deep: { M: { a: { L: [{ M: { b: N(1) } }] } } } });
      const names = { '#k': 'k' };
      expect(await holds('c4', 'claims.#k = :list', { ':list': { L: [S('l-1'), S('hash')] } }, names)).toBe(true);
      expect(await holds('c4', 'claims.#k = :list', { ':list': { L: [S('l-2'), S('hash')] } }, names)).toBe(false);
      expect(await holds('c4', 'claims.#k = :list', { ':list': { L: [S('l-1')] } }, names)).toBe(false);
      expect(await holds('c4', 'claims.#k <> :list', { ':list': { L: [S('l-1'), S('hash')] } }, names)).toBe(false);
      expect(await holds('c4', 'deep = :m', { ':m': { M: { a: { L: [{ M: { b: N(1) } }] } } } })).toBe(true);
      expect(await holds('c4', 'deep = :m', { ':m': { M: { a: { L: [{ M: { b: N(2) } }] } } } })).toBe(false);
    });

    it('compares sets without their order', async () => {
      await put({ ...key('c5'), s: { SS: ['a', 'b'] } });
      expect(await holds('c5', 's = :s', { ':s': { SS: ['b', 'a'] } })).toBe(true);
    });

    it('finds a missing attribute equal to nothing', async () => {
      await put(key('c6'));
      expect(await holds('c6', 'nothing = :v', { ':v': N(1) })).toBe(false);
      expect(await holds('c6', 'nothing = neither', {})).toBe(false);
      expect(await holds('c6', 'nothing <> :v', { ':v': N(1) })).toBe(true);
    });

    it('refuses arithmetic in a condition', async () => {
      const request = { UpdateExpression: 'SET z = :z', ConditionExpression: 'x + y > :z', ExpressionAttributeValues: { ':z': N(1) } };
      expect((await refusal(update('c2', request))).name).toBe('ValidationException');
    });

    it('returns the item that refused an update, a put and a delete', async () => {
      await put({ ...key('c7'), tok: N(7) });
      const all = { ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const };
      const refusedUpdate = await refusal(update('c7', {
        UpdateExpression: 'SET z = :h', ConditionExpression: 'tok > :h', ExpressionAttributeValues: { ':h': N(1000) }, ...all,
      }));
      const refusedPut = await refusal(put(key('c7'), { ConditionExpression: 'attribute_not_exists(pk)', ...all }));
      const remove = new D.DeleteItemCommand({ TableName, Key: key('c7'), ConditionExpression: 'attribute_exists(nope)', ...all });
      for (const error of [refusedUpdate, refusedPut, await refusal(client.send(remove))]) {
        expect(error.name).toBe('ConditionalCheckFailedException');
        expect(error['Item']).toMatchObject({ tok: N(7) });
      }
    });

    it('returns no item unless asked, or where there is none', async () => {
      expect((await refusal(put(key('c7'), { ConditionExpression: 'attribute_not_exists(pk)' })))['Item']).toBeUndefined();
      const absent = put(key('nobody'), { ConditionExpression: 'attribute_exists(pk)', ReturnValuesOnConditionCheckFailure: 'ALL_OLD' });
      expect((await refusal(absent))['Item']).toBeUndefined();
    });

    it('never oversells under 200 concurrent decrements', async () => {
      await put({ ...key('c8'), n: N(50) });
      const take = { UpdateExpression: 'SET n = n - :o', ConditionExpression: 'n >= :o', ExpressionAttributeValues: { ':o': N(1) } };
      const results = await Promise.allSettled(Array.from({ length: 200 }, () => update('c8', take)));
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(50);
      expect((await get('c8'))?.['n']).toEqual(N(0));
    });
  });

  describe('transactions', () => {
    it('commits an update, a put, a check and a delete', async () => {
      await put(key('t-delete'));
      await transact([
        { Update: { TableName, Key: key('t-update'), UpdateExpression: 'ADD cnt :o', ExpressionAttributeValues: { ':o': N(1) } } },
        { Put: { TableName, Item: { ...key('t-put'), g: S('t-group') } } },
        { ConditionCheck: { TableName, Key: key('t-none'), ConditionExpression: 'attribute_not_exists(pk)' } },
        { Delete: { TableName, Key: key('t-delete') } },
      ]);
      expect([(await get('t-update'))?.['cnt'], Boolean(await get('t-put')), await get('t-delete')]).toEqual([N(1), true, undefined]);
      const query = { TableName, IndexName: 'all', KeyConditionExpression: 'g = :g', ExpressionAttributeValues: { ':g': S('t-group') } };
      await until(async () => (await client.send(new D.QueryCommand(query))).Count === 1);
    });

    it('changes nothing when one condition fails, and says which, with its item', async () => {
      await put({ ...key('t-guard'), tok: N(7) });
      const error = await refusal(transact([
        { Put: { TableName, Item: key('t-rolled-back') } },
        {
          Update: {
            TableName, Key: key('t-guard'), UpdateExpression: 'SET z = :h', ConditionExpression: 'tok > :h',
            ExpressionAttributeValues: { ':h': N(1000) }, ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
          },
        },
      ]));
      expect(error.name).toBe('TransactionCanceledException');
      const reasons = error['CancellationReasons'] as D.CancellationReason[];
      expect(reasons.map(({ Code }) => Code)).toEqual(['None', 'ConditionalCheckFailed']);
      expect(reasons[1]?.Item).toMatchObject({ tok: N(7) });
      expect(await get('t-rolled-back')).toBeUndefined();
    });

    it('changes nothing when one member cannot be applied', async () => {
      await put(key('t-plain'));
      const error = await refusal(transact([
        { Put: { TableName, Item: key('t-half') } },
        { Update: { TableName, Key: key('t-plain'), UpdateExpression: 'SET nomap.k = :v', ExpressionAttributeValues: { ':v': N(1) } } },
      ]));
      expect(error.name).toMatch(/TransactionCanceledException|ValidationException/);
      expect(await get('t-half')).toBeUndefined();
    });

    it('runs once for one request token, and refuses the token for another request', async () => {
      const add = (n: number): D.TransactWriteItem[] => [
        { Update: { TableName, Key: key('t-once'), UpdateExpression: 'ADD n :o', ExpressionAttributeValues: { ':o': N(n) } } },
      ];
      const ClientRequestToken = `token-${Date.now()}`;
      await transact(add(1), { ClientRequestToken });
      await transact(add(1), { ClientRequestToken });
      expect((await get('t-once'))?.['n']).toEqual(N(1));
      expect((await refusal(transact(add(2), { ClientRequestToken }))).name).toBe('IdempotentParameterMismatchException');
    });

    it('refuses two operations on one item', async () => {
      const items = [{ Put: { TableName, Item: key('t-twice') } }, { Delete: { TableName, Key: key('t-twice') } }];
      expect((await refusal(transact(items))).name).toBe('ValidationException');
    });

    it('lets concurrent transactions over the same items all end, without losing one', async () => {
      const names = ['t-a', 't-b'];
      const both = (order: string[]) => transact(order.map((pk) => ({
        Update: { TableName, Key: key(pk), UpdateExpression: 'ADD n :o', ExpressionAttributeValues: { ':o': N(1) } },
      })));
      const results = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => both(i % 2 ? names : names.toReversed())));
      // AWS may cancel some of them with TransactionConflict; what was committed is in both items.
      const committed = results.filter(({ status }) => status === 'fulfilled').length;
      expect([(await get('t-a'))?.['n'], (await get('t-b'))?.['n']]).toEqual([N(committed), N(committed)]);
      if (!isAws) expect(committed).toBe(20);
    });

    it('reads several items at once', async () => {
      await put({ ...key('t-read'), v: N(1) });
      const Get = (pk: string) => ({ Get: { TableName, Key: key(pk) } });
      const { Responses } = await client.send(new D.TransactGetItemsCommand({ TransactItems: [Get('t-read'), Get('t-absent')] }));
      expect([Responses?.[0]?.Item?.['v'], Responses?.[1]?.Item]).toEqual([N(1), undefined]);
    });
  });
}
