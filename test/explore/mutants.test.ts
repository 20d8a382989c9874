/** Each condition without one of its clauses: the explorer must find what then goes wrong. */
import { describe, expect, it } from 'vitest';
import { catchers } from './catchers.ts';
import { clausesOf, withoutClause } from './clauses.ts';
import { explore } from './explore.ts';
import { worldNames, worldOf } from './worlds.ts';

const worlds = new Map(worldNames.map((name) => [name, worldOf(name)]));

describe('without one clause', () => {
  it.each(catchers.map((catcher) => [catcher.guards, catcher] as const))('%s', { timeout: 120_000 }, async (_guards, catcher) => {
    const world = worlds.get(catcher.world);
    if (world === undefined) throw new Error(`no world ${catcher.world}`);
    const { broken } = await explore(world, { dropped: catcher });
    expect(broken?.problems ?? []).not.toEqual([]);
    expect(broken?.trace.length).toBeGreaterThan(0);
  });
});

describe('a condition', () => {
  const request = {
    TableName: 't',
    UpdateExpression: 'SET #n0 = :v0 REMOVE #n1.#n2',
    ConditionExpression: 'attribute_not_exists(#n3) OR (#n0 = :v1 AND #n1.#n2[0] = :v2 AND #n1.#n4[0] = :v2)',
    ExpressionAttributeNames: { '#n0': 'cfg', '#n1': 'claims', '#n2': 'k1', '#n3': 'pk', '#n4': 'k2' },
    ExpressionAttributeValues: { ':v0': 0, ':v1': 1, ':v2': 2 },
  };
  const condition = 't: attribute_not_exists(pk) OR (cfg = ?)';

  it('is taken apart into clauses that are the same for every id and value', () => {
    expect(clausesOf('UpdateItem', request)).toEqual(['attribute_not_exists(pk)', 'cfg = ?', 'claims.?[0] = ?'].map((clause) => ({ condition, clause })));
  });

  it('loses every form of one clause, and the names and values that nothing uses then', () => {
    const left = withoutClause('UpdateItem', request, { condition, clause: 'claims.?[0] = ?' });
    expect(left).toMatchObject({ ConditionExpression: 'attribute_not_exists(#n3) OR #n0 = :v1', ExpressionAttributeValues: { ':v0': 0, ':v1': 1 } });
    expect(Object.keys(left['ExpressionAttributeNames'] as object)).toEqual(['#n0', '#n1', '#n2', '#n3']);
    expect(withoutClause('UpdateItem', { ...request, ConditionExpression: '#n0 = :v1' }, { condition: 't: cfg = ?', clause: 'cfg = ?' })).not.toHaveProperty('ConditionExpression');
  });

  it('is left alone where it is another one, and found in a transaction', () => {
    expect(withoutClause('UpdateItem', request, { condition: 't: other', clause: 'cfg = ?' })).toBe(request);
    const transaction = { TransactItems: [{ Update: request }, { Delete: { TableName: 't' } }] };
    expect(clausesOf('TransactWriteItems', transaction)).toHaveLength(3);
    const [first, second] = withoutClause('TransactWriteItems', transaction, { condition, clause: 'cfg = ?' })['TransactItems'] as { Update?: { ConditionExpression: string } }[];
    expect(first?.Update?.ConditionExpression).not.toContain('#n0 = :v1');
    expect(second).toEqual({ Delete: { TableName: 't' } });
  });
});
