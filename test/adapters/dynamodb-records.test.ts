import { QueryCommand } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readDead, readRecord } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { dead, dropped, renewed } from '../../lambdas/shared/core/decide.ts';
import { syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { attentionIndex } from '../../lambdas/shared/limits/names.ts';
import { records as limits } from '../../lambdas/shared/limits/numbers.ts';
import { t0EpochMs, unknownOf, waitingOf } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';
import { LaneSubject } from '../support/world.ts';

let subject: DynamoSubject;
let lane: LaneSubject;
beforeAll(async () => void (subject = await startDynamoSubject()));
afterAll(() => subject.close());
beforeEach(() => {
  lane = new LaneSubject(subject.world);
});

const waiting = (overrides = {}, eventId = 'a') => waitingOf(overrides, { endpointId: lane.endpointId, eventId });
const write = async (from: DeliveryRecord | undefined, to: DeliveryRecord) => expect(await subject.world.records.write(from, to)).toBe('written');

async function attention(partition: string): Promise<{ pk: string; gsk: number }[]> {
  const answer = await subject.client.send(
    new QueryCommand({
      TableName: tables.deliveries, IndexName: attentionIndex, KeyConditionExpression: 'gpk = :p',
      ExpressionAttributeValues: marshall({ ':p': partition }),
    }),
  );
  return (answer.Items ?? []).map((item) => unmarshall(item) as { pk: string; gsk: number });
}

describe('a record\'s item', () => {
  const ttlEpochS = Math.ceil((t0EpochMs + 1) / 1_000) + limits.ttlS;

  it('has a time to live of 30 days while it is terminal, and none while it is not', async () => {
    const first = waiting();
    const burying = dead(waiting({ lastEpochMs: t0EpochMs + 1 }), 'gone', 'x');
    await write(undefined, first);
    expect(await subject.item(first.recordKey)).not.toHaveProperty('ttlEpochS');
    await write(first, burying);
    expect(await subject.item(first.recordKey)).toMatchObject({ ttlEpochS });
    await subject.world.records.markBuried(burying);
    expect(await subject.item(first.recordKey)).toMatchObject({ ttlEpochS });
    await write({ ...burying, phase: 'buried' }, renewed(burying, t0EpochMs + 9, 0));
    expect(await subject.item(first.recordKey)).not.toHaveProperty('ttlEpochS');
  });

  it('leaves the attention index when it is retired, and stays a record; only exactly what was read is retired', async () => {
    const burying = dead(waiting({}, 'retired'), 'malformed', 'x');
    const buried = { ...burying, phase: 'buried' as const };
    await write(undefined, burying);
    await subject.world.records.markBuried(burying);
    await subject.world.records.retire({ ...buried, generation: 1 });
    expect(await attention(`dead#${lane.endpointId}`)).toMatchObject([{ pk: buried.recordKey }]);
    await subject.world.records.retire(buried);
    await subject.world.records.retire(buried);
    expect(await attention(`dead#${lane.endpointId}`)).toEqual([]);
    expect(await readRecord(subject.client, tables.deliveries, buried.recordKey)).toEqual(buried);
  });

  it('stands in the attention index while it is dead: first as burying, then as dead', async () => {
    const burying = dead(waiting({ lastEpochMs: t0EpochMs + 7 }), 'gone', 'x');
    const entry = { pk: burying.recordKey, gsk: t0EpochMs + 7 };
    await write(undefined, burying);
    expect(await attention(`burying#${lane.endpointId}`)).toMatchObject([entry]);
    expect(await attention(`dead#${lane.endpointId}`)).toEqual([]);
    await subject.world.records.markBuried(burying);
    expect(await attention(`burying#${lane.endpointId}`)).toEqual([]);
    expect(await attention(`dead#${lane.endpointId}`)).toMatchObject([entry]);
    await write({ ...burying, phase: 'buried' }, renewed(burying, t0EpochMs, 0));
    expect(await attention(`dead#${lane.endpointId}`)).toEqual([]);
  });

  it('leaves the attention index when it is dropped, and has its time to live from then', async () => {
    const burying = dead(waiting({ lastEpochMs: t0EpochMs + 7 }), 'gone', 'x');
    await write(undefined, burying);
    await subject.world.records.markBuried(burying);
    const to = dropped({ ...burying, phase: 'buried' }, { why: 'w', by: 'b', nowEpochMs: t0EpochMs + 86_400_000, leaseId: 'd' });
    await write({ ...burying, phase: 'buried' }, to);
    expect(await attention(`dead#${lane.endpointId}`)).toEqual([]);
    const item = await subject.item(burying.recordKey);
    expect(item).toMatchObject({ v: limits.droppedVersion, ttlEpochS: t0EpochMs / 1_000 + 86_400 + limits.ttlS });
    expect(item).not.toHaveProperty('phase');
    expect(await readDead(subject.client, tables.deliveries, lane.endpointId)).toEqual([]);
    expect(await readRecord(subject.client, tables.deliveries, burying.recordKey)).toEqual(to);
  });

  it('that was dropped, or is unknown, is of a version that programs without the state take for unread', async () => {
    expect(limits.droppedVersion).toBeGreaterThan(Math.max(limits.version, limits.heldVersion));
    expect(limits.unknownVersion).toBeGreaterThan(limits.droppedVersion);
    expect(limits.newestVersion).toBe(limits.unknownVersion);
    const record = unknownOf({}, { endpointId: lane.endpointId });
    await write(undefined, record);
    expect(await subject.item(record.recordKey)).toMatchObject({ v: limits.unknownVersion });
  });

  it('stands under ? where no endpoint is legible', async () => {
    const recordKey = syntheticKeyOf(undefined, 'malformed', lane.endpointId);
    const record = dead({ ...waiting(), endpointId: '', eventId: undefined, recordKey }, 'malformed', 'body is not JSON');
    await write(undefined, record);
    expect(await attention('burying#?')).toMatchObject([{ pk: recordKey }]);
    expect(await readRecord(subject.client, tables.deliveries, recordKey)).toEqual(record);
  });

  it('holds no attribute of a state that it left, and no undefined one', async () => {
    const burying = dead(waiting(), 'gone', 'x');
    await write(undefined, burying);
    await subject.world.records.markBuried(burying);
    await write({ ...burying, phase: 'buried' }, waiting({ generation: 1 }));
    expect(Object.keys((await subject.item(burying.recordKey)) ?? {}).sort()).toEqual([
      'ambiguous', 'attempt', 'dueEpochMs', 'endpointId', 'eventId', 'firstEpochMs', 'generation', 'history', 'home', 'lastEpochMs',
      'payloadHash', 'pk', 'resend', 'state', 'v',
    ]);
  });

  it('of a newer version is not decided from: its key is unread', async () => {
    const record = waiting({ attempt: 1 });
    await write(undefined, record);
    await subject.setAttribute(record.recordKey, 'v', { N: String(limits.newestVersion + 1) });
    const { found, unread } = await subject.world.records.read([record.recordKey]);
    expect([found.size, [...unread]]).toEqual([0, [record.recordKey]]);
    await expect(readRecord(subject.client, tables.deliveries, record.recordKey)).rejects.toThrow('newer than this program');
  });

  it('of a newer version leaves its neighbours in the batch readable', async () => {
    const [newer, known] = [waiting({ attempt: 1 }), waiting({ attempt: 1 }, 'b')];
    await write(undefined, newer);
    await write(undefined, known);
    await subject.setAttribute(newer.recordKey, 'v', { N: String(limits.newestVersion + 1) });
    const { found, unread } = await subject.world.records.read([newer.recordKey, known.recordKey]);
    expect([[...found.keys()], [...unread]]).toEqual([[known.recordKey], [newer.recordKey]]);
  });
});

describe('readDead', () => {
  it('finds the dead of one endpoint, oldest first, and of all', async () => {
    const bury = async (eventId: string, lastEpochMs: number) => {
      const record = dead(waiting({ lastEpochMs }, eventId), 'gone', 'x');
      await write(undefined, record);
      await subject.world.records.markBuried(record);
    };
    await bury('late', t0EpochMs + 5);
    await bury('early', t0EpochMs + 1);
    await write(undefined, waiting({}, 'alive'));
    const mine = await readDead(subject.client, tables.deliveries, lane.endpointId);
    expect(mine.map((record) => [record.eventId, record.phase])).toEqual([['early', 'buried'], ['late', 'buried']]);
    const all = await readDead(subject.client, tables.deliveries, undefined);
    expect(all.filter((record) => record.endpointId === lane.endpointId)).toEqual(mine);
  });
});
