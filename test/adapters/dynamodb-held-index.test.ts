/** The sparse indexes by which the drain finds what is held, and the sweep lanes whose wake-up was lost. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createHeldIndex } from '../../lambdas/shared/adapters/dynamodb-held-index.ts';
import { createHoldingIndex } from '../../lambdas/shared/adapters/dynamodb-holding-index.ts';
import { dead, held } from '../../lambdas/shared/core/decide.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { deliveredOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';
import { expiresEpochMs, LaneSubject } from '../support/world.ts';

let subject: DynamoSubject;
let lane: LaneSubject;
beforeAll(async () => void (subject = await startDynamoSubject()));
afterAll(() => subject.close());
beforeEach(async () => {
  lane = new LaneSubject(subject.world);
  await lane.put();
});

const namesOf = (eventId: string) => ({ endpointId: lane.endpointId, eventId });
const onHold = (eventId: string, dueEpochMs = t0EpochMs) => held(waitingOf({ dueEpochMs }, namesOf(eventId)), 0);
const hold = async (eventId: string, dueEpochMs = t0EpochMs) => {
  const to = onHold(eventId, dueEpochMs);
  expect(await subject.world.records.hold(undefined, to)).toBe('written');
  return { recordKey: to.recordKey, dueEpochMs };
};
const write = async (from: DeliveryRecord, to: DeliveryRecord) => expect(await subject.world.records.write(from, to)).toBe('written');

describe('what is held', () => {
  const page = (limit = 10, from?: unknown) => createHeldIndex(subject.client, tables.deliveries).page(lane.endpointId, limit, from);

  it('comes with the longest due first, those that are due later included', async () => {
    const [c, a, b] = [await hold('c', t0EpochMs + 9), await hold('a', t0EpochMs - 9), await hold('b')];
    expect(await page()).toEqual({ keys: [a, b, c], next: undefined });
  });

  it('comes page by page, each once', async () => {
    const all = [];
    for (let i = 0; i < 5; i++) all.push(await hold(`e${i}`, t0EpochMs + i));
    const found = [];
    let from: unknown;
    let pages = 0;
    do {
      const { keys, next } = await page(2, from);
      expect(keys.length).toBeLessThanOrEqual(2);
      found.push(...keys);
      from = next;
      pages++;
    } while (from !== undefined);
    expect(found).toEqual(all);
    expect(pages).toBeGreaterThanOrEqual(3);
  });

  it('is of that endpoint alone, and only what is held', async () => {
    const mine = await hold('a');
    await subject.world.records.write(undefined, waitingOf({ attempt: 1 }, namesOf('in the queue')));
    await subject.world.records.write(undefined, dead(waitingOf({}, namesOf('dead')), 'gone', 'x'));
    const other = new LaneSubject(subject.world);
    await subject.world.records.hold(undefined, held(waitingOf({}, { endpointId: other.endpointId, eventId: 'b' }), 0));
    expect((await page()).keys).toEqual([mine]);
  });

  it('moves with its due time, and is gone with a verdict', async () => {
    await hold('a');
    const waits = { ...onHold('a', t0EpochMs + 60_000), attempt: 1 };
    await write(onHold('a'), waits);
    expect((await page()).keys).toEqual([{ recordKey: waits.recordKey, dueEpochMs: t0EpochMs + 60_000 }]);
    await write(waits, deliveredOf({ attempt: 2 }, namesOf('a')));
    expect((await page()).keys).toEqual([]);
  });

  it('is shown at the time that a write across the hold left', async () => {
    await hold('a');
    await write(waitingOf({}, namesOf('a')), waitingOf({ attempt: 1, dueEpochMs: t0EpochMs + 7 }, namesOf('a')));
    expect((await page()).keys).toMatchObject([{ dueEpochMs: t0EpochMs + 7 }]);
  });
});

describe('lanes that hold', () => {
  const index = () => createHoldingIndex(subject.client, tables);
  const note = (wakeAtEpochMs: number) => subject.world.lanes.hold(lane.endpointId, { count: 1, nowEpochMs: t0EpochMs, wakeAtEpochMs, isReady: true });
  const overdue = async (before: number, limit = 1_000) => (await index().overdue(before, limit)).filter(({ endpointId }) => endpointId === lane.endpointId);

  it('are overdue once their wake-up is past, and no longer when it was moved, or nothing is held', async () => {
    await note(t0EpochMs);
    expect(await overdue(t0EpochMs)).toEqual([]);
    expect(await overdue(t0EpochMs + 1)).toEqual([{ endpointId: lane.endpointId, wakeAtEpochMs: t0EpochMs }]);
    await subject.world.lanes.moveWakeUp(lane.endpointId, t0EpochMs, t0EpochMs + 5);
    expect(await overdue(t0EpochMs + 1)).toEqual([]);
    await subject.world.lanes.beginDrain(lane.endpointId, { leaseId: 'd1', expiresEpochMs }, t0EpochMs);
    expect(await overdue(expiresEpochMs + 1)).toEqual([{ endpointId: lane.endpointId, wakeAtEpochMs: expiresEpochMs }]);
    await subject.world.lanes.endDrain(lane.endpointId, { leaseId: 'd1', seq: 1, seenEpochMs: expiresEpochMs, taken: 1, wakeAtEpochMs: undefined, isReady: false });
    expect(await overdue(expiresEpochMs * 2)).toEqual([]);
  });

  it('come with the longest overdue first, as many as are asked for', async () => {
    await note(7);
    const first = lane.endpointId;
    lane = new LaneSubject(subject.world);
    await lane.put();
    await note(5);
    expect((await index().overdue(10, 1_000)).map(({ endpointId }) => endpointId)).toEqual([lane.endpointId, first]);
    expect(await index().overdue(10, 1)).toEqual([{ endpointId: lane.endpointId, wakeAtEpochMs: 5 }]);
  });

  it('are found by their records too, each in one of the parts', async () => {
    await hold('a');
    await hold('b');
    await subject.world.records.write(undefined, waitingOf({ attempt: 1 }, { endpointId: 'ep-none', eventId: 'q' }));
    await subject.world.records.write(undefined, dead(waitingOf({}, { endpointId: 'ep-dead', eventId: 'q' }), 'gone', 'x'));
    const parts = await Promise.all([0, 1, 2].map((part) => index().withHeld(part, 3, t0EpochMs)));
    expect(parts.filter((found) => found.has(lane.endpointId)).length).toBeGreaterThanOrEqual(1);
    expect(parts.some((found) => found.has('ep-none') || found.has('ep-dead'))).toBe(false);
  });

  it('are known where the lane says so, or was removed, or never was; not where it says nothing', async () => {
    expect(await index().isKnown(lane.endpointId)).toBe(false);
    await note(t0EpochMs);
    expect(await index().isKnown(lane.endpointId)).toBe(true);
    expect(await index().isKnown('nobody')).toBe(true);
    const gone = new LaneSubject(subject.world);
    await gone.put();
    await subject.world.remove(gone.endpointId);
    expect(await index().isKnown(gone.endpointId)).toBe(true);
  });
});
