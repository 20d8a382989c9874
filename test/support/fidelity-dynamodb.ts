/** What an emulator of DynamoDB must do to be believed. */
import * as D from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeConditions } from './fidelity-dynamodb-conditions.ts';
import { N, S, TestTable, key } from './fidelity-dynamodb-table.ts';
import { type Subject, itEmulated, refusal, until } from './fidelity-subject.ts';

export function describeDynamoDb(subject: () => Subject): void {
  let table: TestTable;
  let TableName: string;
  let client: D.DynamoDBClient;
  const update: TestTable['update'] = (...args) => table.update(...args);
  const put: TestTable['put'] = (...args) => table.put(...args);
  const get: TestTable['get'] = (...args) => table.get(...args);
  const transact: TestTable['transact'] = (...args) => table.transact(...args);

  beforeAll(async () => {
    table = new TestTable(subject());
    ({ TableName, client } = table);
    await table.create();
  });
  afterAll(() => table.close());

  describeConditions(() => table);

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
