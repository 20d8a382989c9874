/** The indexes over what is unknown: what the drain looks for, what a person sees, and how old the oldest is. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createHeldIndex } from '../../lambdas/shared/adapters/dynamodb-held-index.ts';
import { createUnknownIndex } from '../../lambdas/shared/adapters/dynamodb-unknown.ts';
import { createHoldingIndex } from '../../lambdas/shared/adapters/dynamodb-holding-index.ts';
import type { UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { records } from '../../lambdas/shared/limits/numbers.ts';
import { deliveredOf, t0EpochMs, unknownOf } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';

let subject: DynamoSubject;
beforeAll(async () => void (subject = await startDynamoSubject()));
afterAll(() => subject.close());

async function unknown(endpointId: string, eventId: string, overrides: Partial<UnknownRecord> = {}): Promise<UnknownRecord> {
  const record = unknownOf(overrides, { endpointId, eventId });
  expect(await subject.world.records.write(undefined, record)).toBe('written');
  return record;
}

describe('what is unknown', () => {
  it('is found by who looks for it while it is looked for, the longest due first; by a person always; and is out of both with a decision', async () => {
    const index = createUnknownIndex(subject.client, tables.deliveries);
    const held = createHeldIndex(subject.client, tables.deliveries);
    expect(await index.oldestByEndpoint()).toEqual(new Map());
    expect(await index.keys(undefined)).toEqual([]);
    const late = await unknown('one', 'late', { nextLookEpochMs: t0EpochMs + 9, sinceEpochMs: t0EpochMs + 1 });
    const soon = await unknown('one', 'soon', { nextLookEpochMs: t0EpochMs - 9, sinceEpochMs: t0EpochMs + 2 });
    const stuck = await unknown('one', 'stuck', { nextLookEpochMs: undefined, stuck: 'absent', sinceEpochMs: t0EpochMs - 7 });
    const other = await unknown('two', 'other', { sinceEpochMs: t0EpochMs + 3 });

    expect(await held.unknown('one', 10)).toEqual({ keys: [{ recordKey: soon.recordKey, dueEpochMs: t0EpochMs - 9 }, { recordKey: late.recordKey, dueEpochMs: t0EpochMs + 9 }], next: undefined });
    expect((await held.page('one', 10)).keys).toEqual([]);
    const first = await held.unknown('one', 1);
    expect([first.keys.length, (await held.unknown('one', 1, first.next)).keys[0]?.recordKey]).toEqual([1, late.recordKey]);
    expect((await index.keys('one')).toSorted()).toEqual([late, soon, stuck].map((r) => r.recordKey).toSorted());
    expect((await index.keys(undefined)).toSorted()).toEqual([late, soon, stuck, other].map((r) => r.recordKey).toSorted());
    expect([...(await index.oldestByEndpoint())]).toEqual([['one', t0EpochMs - 7], ['two', t0EpochMs + 3]]);

    const { lastLease: _none, ...settled } = deliveredOf({ attempt: 1, ambiguous: 1 }, { endpointId: 'one', eventId: 'stuck' });
    expect(await subject.world.records.write(stuck, { ...settled, lastLease: { leaseId: 'l9', kind: 'settled' }, via: 'operator' })).toBe('written');
    expect([...(await index.oldestByEndpoint())]).toEqual([['one', t0EpochMs + 1], ['two', t0EpochMs + 3]]);
    expect((await index.keys('one')).toSorted()).toEqual([late, soon].map((r) => r.recordKey).toSorted());
  });

  it('has no lifetime, and a verdict gives it one', async () => {
    const record = await unknown('ttl', 'a');
    expect(await subject.item(record.recordKey)).not.toHaveProperty('ttlEpochS');
    await subject.world.records.write(record, { ...deliveredOf({ attempt: 1, ambiguous: 1 }, { endpointId: 'ttl', eventId: 'a' }), via: 'lookup' });
    const item = await subject.item(record.recordKey);
    expect(item).toHaveProperty('ttlEpochS');
    for (const name of ['upk', 'gpk', 'gsk', 'looks', 'sinceEpochMs', 'nextLookEpochMs', 'stuck', 'detail']) expect(item).not.toHaveProperty(name);
  });

  it('is looked through by the sweep as long as somebody is to look for it', async () => {
    await unknown('swept', 'a');
    await unknown('not swept', 'b', { nextLookEpochMs: undefined, stuck: 'no-lookup' });
    const found = await createHoldingIndex(subject.client, tables).withHeld(0, 1, 0);
    expect([found.has('swept'), found.has('not swept')]).toEqual([true, false]);
  });

  it('of many endpoints lies in several partitions', async () => {
    for (let i = 0; i < 40; i++) await unknown(`many-${i}`, `e${i}`);
    const items = await Promise.all(Array.from({ length: 40 }, (_, i) => subject.item(unknownOf({}, { endpointId: `many-${i}`, eventId: `e${i}` }).recordKey)));
    expect(new Set(items.map((item) => item?.['upk'])).size).toBe(records.unknownShards);
  });
});
