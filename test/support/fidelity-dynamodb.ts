/** What an emulator of DynamoDB must do to be believed. */
import * as D from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, isAws, itEmulated, refusal, until } from './fidelity-subject.ts';

const S = (value: string) => ({ S: value });
const N = (value: number | string) => ({ N: String(value) });

export function describeDynamoDb(subject: () => Subject): void {
  const TableName = `sluice-fidelity-${Date.now()}`;
  const key = (pk: string, sk = '1') => ({ pk: S(pk), sk: S(sk) });
  let client: D.DynamoDBClient;

  const update = (pk: string, request: Partial<D.UpdateItemCommandInput>) =>
    client.send(new D.UpdateItemCommand({ TableName, Key: key(pk), ...request }));
  const put = (item: Record<string, D.AttributeValue>, request: Partial<D.PutItemCommandInput> = {}) =>
    client.send(new D.PutItemCommand({ TableName, Item: item, ...request }));
  const get = async (pk: string) => (await client.send(new D.GetItemCommand({ TableName, Key: key(pk), ConsistentRead: true }))).Item;
  const transact = (TransactItems: D.TransactWriteItem[], request: Partial<D.TransactWriteItemsCommandInput> = {}) =>
    client.send(new D.TransactWriteItemsCommand({ TransactItems, ...request }));

  beforeAll(async () => {
    client = new D.DynamoDBClient(subject().config());
    const attribute = (AttributeName: string) => ({ AttributeName, AttributeType: 'S' as const });
    const index = (name: string, ProjectionType: D.ProjectionType) => ({
      IndexName: name,
      KeySchema: [{ AttributeName: 'g', KeyType: 'HASH' as const }, { AttributeName: 'sk', KeyType: 'RANGE' as const }],
      Projection: { ProjectionType },
    });
    await client.send(
      new D.CreateTableCommand({
        TableName,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [attribute('pk'), attribute('sk'), attribute('g')],
        KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }, { AttributeName: 'sk', KeyType: 'RANGE' }],
        GlobalSecondaryIndexes: [index('all', 'ALL')],
      }),
    );
    await until(async () => (await client.send(new D.DescribeTableCommand({ TableName }))).Table?.TableStatus === 'ACTIVE');
  });

  afterAll(async () => {
    await client.send(new D.DeleteTableCommand({ TableName }));
    client.destroy();
  });

  describe('updates', () => {
    it('adds to a default with if_not_exists', async () => {
      const request = { UpdateExpression: 'SET tok = if_not_exists(tok, :z) + :n', ExpressionAttributeValues: { ':z': N(10), ':n': N(-3) } };
      expect((await update('u1', { ...request, ReturnValues: 'ALL_NEW' })).Attributes?.['tok']).toEqual(N(7));
    });

    it('subtracts one attribute from another', async () => {
      await put({ ...key('u2'), x: N(10), y: N(4) });
      expect((await update('u2', { UpdateExpression: 'SET x = x - y', ReturnValues: 'UPDATED_NEW' })).Attributes).toEqual({ x: N(6) });
    });

    it('keeps 38 digits', async () => {
      const value = '12345678901234567890123456789.123456789';
      await put({ ...key('u3'), p: N(value) });
      expect((await get('u3'))?.['p']).toEqual(N(value));
      const sum = await update('u3', {
        UpdateExpression: 'SET p = p + :p', ExpressionAttributeValues: { ':p': N('0.000000001') }, ReturnValues: 'UPDATED_NEW',
      });
      expect(sum.Attributes?.['p']).toEqual(N('12345678901234567890123456789.12345679'));
    });

    it('writes and reads paths inside a map', async () => {
      await put({ ...key('u4'), m: { M: { 'lease-1': { M: { exp: N(5) } } } } });
      const result = await update('u4', {
        UpdateExpression: 'SET m.#k.#e = m.#k.#e + :v', ExpressionAttributeNames: { '#k': 'lease-1', '#e': 'exp' },
        ExpressionAttributeValues: { ':v': N(2) }, ReturnValues: 'ALL_NEW',
      });
      expect(result.Attributes?.['m']).toEqual({ M: { 'lease-1': { M: { exp: N(7) } } } });
    });

    it('refuses a path into a map that is not there', async () => {
      const refused = refusal(update('u4', { UpdateExpression: 'SET nomap.k = :v', ExpressionAttributeValues: { ':v': N(1) } }));
      expect((await refused).name).toBe('ValidationException');
    });

    it('removes a path and adds to a counter in one update', async () => {
      await put({ ...key('u5'), m: { M: { a: N(1), b: N(2) } } });
      const result = await update('u5', {
        UpdateExpression: 'REMOVE m.a ADD cnt :one', ExpressionAttributeValues: { ':one': N(1) }, ReturnValues: 'ALL_NEW',
      });
      expect([result.Attributes?.['m'], result.Attributes?.['cnt']]).toEqual([{ M: { b: N(2) } }, N(1)]);
    });

    it('takes the removal of a missing path for done', async () => {
      await update('u5', { UpdateExpression: 'REMOVE m.nope' });
    });

    it('appends to a list', async () => {
      const result = await update('u6', {
        UpdateExpression: 'SET l = list_append(if_not_exists(l, :e), :v)',
        ExpressionAttributeValues: { ':e': { L: [] }, ':v': { L: [N(1)] } }, ReturnValues: 'UPDATED_NEW',
      });
      expect(result.Attributes?.['l']).toEqual({ L: [N(1)] });
    });

    it('returns old values', async () => {
      await put({ ...key('u7'), z: N(1) });
      const request = { UpdateExpression: 'SET z = :z', ExpressionAttributeValues: { ':z': N(42) }, ReturnValues: 'UPDATED_OLD' as const };
      expect((await update('u7', request)).Attributes).toEqual({ z: N(1) });
    });

    it('refuses reserved words', async () => {
      const request = { UpdateExpression: 'SET status = :v', ExpressionAttributeValues: { ':v': N(1) } };
      expect((await refusal(update('u7', request))).name).toBe('ValidationException');
    });

    it('refuses items above 400 KB', async () => {
      expect((await refusal(put({ ...key('huge'), b: S('x'.repeat(410 * 1024)) }))).name).toBe('ValidationException');
    });
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

  describe('reads, capacity and tables', () => {
    it('queries an index backwards, by prefix, in pages', async () => {
      for (let i = 0; i < 5; i++) await put({ ...key(`q${i}`, `s${i}`), g: S('G') });
      const query = {
        TableName, IndexName: 'all', KeyConditionExpression: 'g = :g AND begins_with(sk, :s)', ScanIndexForward: false, Limit: 2,
        ExpressionAttributeValues: { ':g': S('G'), ':s': S('s') },
      };
      const found = await until(async () => {
        const first = await client.send(new D.QueryCommand(query));
        if (!first.LastEvaluatedKey) return undefined;
        const second = await client.send(new D.QueryCommand({ ...query, ExclusiveStartKey: first.LastEvaluatedKey }));
        return [...(first.Items ?? []), ...(second.Items ?? [])].map(({ sk }) => sk?.S);
      });
      expect(found).toEqual(['s4', 's3', 's2', 's1']);
    });

    it('writes and reads in batches', async () => {
      await client.send(new D.BatchWriteItemCommand({ RequestItems: { [TableName]: [{ PutRequest: { Item: { ...key('b1'), v: N(1) } } }] } }));
      const request = { RequestItems: { [TableName]: { Keys: [key('b1'), key('b2')], ConsistentRead: true } } };
      expect((await client.send(new D.BatchGetItemCommand(request))).Responses?.[TableName]).toHaveLength(1);
    });

    it('bills a write by its whole item, and twice in a transaction', async () => {
      const ReturnConsumedCapacity = 'TOTAL' as const;
      const small = await put(key('w1'), { ReturnConsumedCapacity });
      expect(small.ConsumedCapacity?.CapacityUnits).toBe(1);
      const big = await put({ ...key('w2'), b: S('x'.repeat(2_900)) }, { ReturnConsumedCapacity });
      expect(big.ConsumedCapacity?.CapacityUnits).toBe(3);
      const twice = await transact([{ Put: { TableName, Item: key('w3') } }], { ReturnConsumedCapacity });
      expect(twice.ConsumedCapacity?.[0]?.CapacityUnits).toBe(2);
      const read = new D.QueryCommand({
        TableName, KeyConditionExpression: 'pk = :p', ExpressionAttributeValues: { ':p': S('w2') }, ConsistentRead: true, ReturnConsumedCapacity,
      });
      expect((await client.send(read)).ConsumedCapacity?.CapacityUnits).toBe(1);
    });

    it('bills the indexes that a write touches', async () => {
      const ReturnConsumedCapacity = 'TOTAL' as const;
      const units = async (item: Record<string, D.AttributeValue>) =>
        (await put(item, { ReturnConsumedCapacity })).ConsumedCapacity?.CapacityUnits;
      expect(await units({ ...key('i1'), g: S('in') })).toBe(2);
      expect(await units({ ...key('i1'), g: S('in') })).toBe(1);
      expect(await units({ ...key('i1'), g: S('elsewhere') })).toBe(3);
      expect(await units(key('i1'))).toBe(2);
    });

    it('describes backups', async () => {
      const { ContinuousBackupsDescription } = await client.send(new D.DescribeContinuousBackupsCommand({ TableName }));
      expect(ContinuousBackupsDescription?.ContinuousBackupsStatus).toBe('ENABLED');
    });

    it('names a missing table', async () => {
      const missing = new D.GetItemCommand({ TableName: 'sluice-no-such-table', Key: key('a') });
      expect((await refusal(client.send(missing))).name).toBe('ResourceNotFoundException');
    });
  });

  describe('time to live', () => {
    it('can be switched on and described, but not switched on twice', async () => {
      const enable = new D.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: { Enabled: true, AttributeName: 'exp' } });
      await client.send(enable);
      const { TimeToLiveDescription } = await client.send(new D.DescribeTimeToLiveCommand({ TableName }));
      expect(TimeToLiveDescription).toMatchObject({ AttributeName: 'exp', TimeToLiveStatus: expect.stringMatching(/^ENABL/) as string });
      expect((await refusal(client.send(enable))).name).toBe('ValidationException');
    });

    itEmulated('deletes what has expired by the steered clock, and nothing else', async () => {
      const nowS = Math.floor(Date.now() / 1000);
      await put({ ...key('l1'), exp: N(nowS + 3_600) });
      await put({ ...key('l2'), exp: N(nowS + 30 * 86_400) });
      await put({ ...key('l3'), exp: N(nowS - 6 * 365 * 86_400) });
      await put({ ...key('l4'), exp: S('soon') });
      await subject().pass(2 * 3_600_000);
      await until(async () => (await get('l1')) === undefined);
      expect([await get('l2'), await get('l3'), await get('l4')].every(Boolean)).toBe(true);
    });
  });
}
