/** What every implementation of the ports Replays and DeadIndex must do. */
import { beforeEach, describe, expect, it } from 'vitest';
import { dead, dropped, held, renewed, resent } from '../../lambdas/shared/core/decide.ts';
import type { DeadRecord, DeliveryRecord, UnknownRecord, WaitingRecord } from '../../lambdas/shared/core/record.ts';
import type { DeadIndex, DeadKey, DeadRange, Move, Replays } from '../../lambdas/shared/ports/index.ts';
import { hold as holds } from '../../lambdas/shared/limits/numbers.ts';
import { deliveredOf, t0EpochMs, unknownOf, waitingOf } from './builders.ts';
import { expiresEpochMs, LaneSubject, type World } from './world.ts';

export interface ReplayWorld {
  readonly replays: Replays;
  readonly dead: DeadIndex;
}

const nowEpochMs = t0EpochMs + 60_000;

export function describeReplays(world: () => World & ReplayWorld): void {
  let lane: LaneSubject;
  beforeEach(async () => {
    lane = new LaneSubject(world());
    await lane.put();
  });

  const deadOf = (eventId: string, overrides: Partial<WaitingRecord> = {}): DeadRecord => ({
    ...dead(waitingOf({ attempt: 3, ...overrides }, { endpointId: lane.endpointId, eventId }), 'exhausted', '3 attempts'),
    phase: 'buried',
  });
  const moveOf = (from: DeadRecord, leaseId = 'm1'): Move => ({
    from, to: held({ ...renewed(from, nowEpochMs, 0), lastLease: { leaseId, kind: 'settled' } }, 0), claimKey: lane.key(from.eventId ?? ''),
  });
  const seeded = async (...eventIds: string[]): Promise<Move[]> => {
    const records = eventIds.map((eventId) => deadOf(eventId));
    for (const record of records) expect(await world().records.write(undefined, record)).toBe('written');
    return records.map((record) => moveOf(record));
  };
  const move = (moves: readonly Move[]) => world().replays.move(lane.endpointId, moves, nowEpochMs);
  const expectStill = async (moves: readonly Move[]) => {
    for (const { from } of moves) expect(await lane.record(from.eventId ?? '')).toEqual(from);
  };
  const expectRefused = async (moves: readonly Move[]) => {
    const answer = await move(moves);
    if (answer.kind !== 'refused') throw new Error(answer.kind);
    return answer;
  };

  describe('move', () => {
    it('makes all of them held, and tells the lane', async () => {
      const moves = await seeded('a', 'b', 'c');
      expect(await move(moves)).toEqual({ kind: 'moved' });
      for (const { to } of moves) expect(await lane.record(to.eventId ?? '')).toEqual(to);
      expect(await lane.lane()).toMatchObject({ holdSeq: 1, holding: { count: 3, heldAtEpochMs: nowEpochMs, wakeAtEpochMs: nowEpochMs, isReady: true } });
    });

    it('takes 25 in one', async () => {
      const moves = await seeded(...Array.from({ length: 25 }, (_, i) => `evt_${i}`));
      expect(await move(moves)).toEqual({ kind: 'moved' });
      expect(await lane.lane()).toMatchObject({ holding: { count: 25 } });
    });

    it('adds to what is held, and asks for the drain now whatever was ordered, and whoever is at it', async () => {
      await world().lanes.hold(lane.endpointId, { count: 2, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs, isReady: false });
      const run = { leaseId: 'd1', expiresEpochMs: nowEpochMs + 100_000 };
      await world().lanes.beginDrain(lane.endpointId, run, t0EpochMs);
      expect(await move(await seeded('a'))).toEqual({ kind: 'moved' });
      expect(await lane.lane()).toMatchObject({ holdSeq: 2, drain: run, holding: { count: 3, wakeAtEpochMs: nowEpochMs } });
      // So that run does not end as if nothing had come.
      const end = { leaseId: 'd1', seq: 1, seenEpochMs: run.expiresEpochMs, taken: 0, wakeAtEpochMs: undefined, isReady: false };
      expect(await world().lanes.endDrain(lane.endpointId, end)).toMatchObject({ kind: 'lost' });
    });

    it.each([['alive', expiresEpochMs], ['expired', t0EpochMs - 1]])('moves nothing where a claim is on one of them, %s, and shows it', async (_how, endsEpochMs) => {
      const moves = await seeded('a', 'b');
      await world().lanes.admit(lane.ask(['b', 'other'], { leaseId: 'l7', expiresEpochMs: endsEpochMs }));
      const before = await lane.lane();
      const answer = await expectRefused(moves);
      expect([...answer.changed]).toEqual([]);
      expect(answer.lane?.found?.claims.get(lane.key('b'))).toEqual({ leaseId: 'l7', shortHash: lane.names('b').shortHash });
      await expectStill(moves);
      expect(await lane.lane()).toEqual(before);
    });

    it('does not mind claims on others', async () => {
      await world().lanes.admit(lane.ask(['other']));
      expect(await move(await seeded('a'))).toEqual({ kind: 'moved' });
    });

    it('moves nothing where one has been moved by somebody else, and says which', async () => {
      const moves = await seeded('a', 'b', 'c');
      expect(await move([moveOf(deadOf('b'), 'm2')])).toEqual({ kind: 'moved' });
      const answer = await expectRefused(moves);
      expect([...answer.changed]).toEqual([[moves[1]?.to.recordKey, 'other']]);
      expect(answer.lane).toBeUndefined();
      await expectStill([moves[0], moves[2]] as Move[]);
      expect(await lane.record('b')).toMatchObject({ generation: 1, lastLease: { leaseId: 'm2' } });
      expect(await lane.lane()).toMatchObject({ holdSeq: 1, holding: { count: 1 } });
    });

    it('says both at once: a claim on one, another one moved, a third gone', async () => {
      const moves = await seeded('a', 'b', 'c');
      await move([moveOf(deadOf('a'), 'm2')]);
      await world().lanes.admit(lane.ask(['b']));
      const answer = await expectRefused([...moves, moveOf(deadOf('never'))]);
      expect([...answer.changed]).toEqual([[lane.names('a').recordKey, 'other'], [lane.names('never').recordKey, 'other']]);
      expect(answer.lane?.found?.claims.has(lane.key('b'))).toBe(true);
      await expectStill([moves[2]] as Move[]);
    });

    it('knows its own, and moves nothing twice', async () => {
      const moves = await seeded('a', 'b');
      await move(moves);
      const answer = await expectRefused(moves);
      expect([...answer.changed.values()]).toEqual(['own', 'own']);
      expect(await lane.lane()).toMatchObject({ holdSeq: 1, holding: { count: 2 } });
    });

    it('moves nothing where as much is held as may be', async () => {
      const moves = await seeded('a');
      const holdAll = (count: number) => world().lanes.hold(lane.endpointId, { count, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs, isReady: true });
      await holdAll(holds.maxCount - 1);
      const [first] = await seeded('b');
      expect(first === undefined ? undefined : await move([first])).toEqual({ kind: 'moved' });
      expect(await world().replays.move(lane.endpointId, moves, nowEpochMs)).toMatchObject({ kind: 'refused', lane: { found: { holding: { count: holds.maxCount } } } });
      await expectStill(moves);
    });

    it.each([['there is no lane', 'never-there'], ['the endpoint was removed', undefined]])('moves nothing where %s', async (_why, endpointId) => {
      const moves = await seeded('a');
      if (endpointId === undefined) await world().remove(lane.endpointId);
      const answer = await world().replays.move(endpointId ?? lane.endpointId, moves, nowEpochMs);
      expect(answer).toMatchObject({ kind: 'refused', lane: { found: endpointId === undefined ? { cfg: 'removed' } : undefined } });
      await expectStill(moves);
    });

    it('moves nothing over one that is dead again, in another generation', async () => {
      const again = deadOf('a', { generation: 1 });
      await world().records.write(undefined, again);
      expect([...(await expectRefused([moveOf(deadOf('a'))])).changed.values()]).toEqual(['other']);
      expect(await lane.record('a')).toEqual(again);
    });

    it('keeps a dead letter that is being buried', async () => {
      const record = { ...deadOf('a'), phase: 'burying' as const };
      await world().records.write(undefined, record);
      expect([...(await expectRefused([moveOf(deadOf('a'))])).changed.values()]).toEqual(['other']);
      expect(await lane.record('a')).toEqual(record);
    });
  });

  describe('move of what is unknown', () => {
    const unknown = (overrides: Partial<UnknownRecord> = {}, eventId = 'a') => unknownOf(overrides, { endpointId: lane.endpointId, eventId });
    const resendOf = (from: UnknownRecord, leaseId = 'r1'): Move => ({
      from, to: resent(from, { as: 'resend', why: 'asked', by: 'ada', atEpochMs: nowEpochMs }, leaseId), claimKey: lane.key(from.eventId ?? ''),
    });
    const written = async (record: DeliveryRecord, from?: DeliveryRecord) => expect(await world().records.write(from, record)).toBe('written');

    it('makes it held in its next generation, with what an operator has said, and tells the lane', async () => {
      const from = unknown({ attempt: 3, ambiguous: 2, looks: 4, anewFrom: 2, stuck: 'absent', nextLookEpochMs: undefined, reference: 'ord_1' });
      await written(from);
      expect(await lane.record('a')).toEqual(from);
      const one = resendOf(from);
      expect(await move([one])).toEqual({ kind: 'moved' });
      expect(await lane.record('a')).toEqual(one.to);
      expect(one.to).toMatchObject({ state: 'waiting', home: 'held', generation: 1, resolved: { as: 'resend', by: 'ada' }, reference: 'ord_1' });
      expect(await lane.lane()).toMatchObject({ holdSeq: 1, holding: { count: 1, wakeAtEpochMs: nowEpochMs, isReady: true } });
      expect((await world().dead.page({ endpointId: lane.endpointId, fromEpochMs: 0, toEpochMs: Number.MAX_SAFE_INTEGER }, 10, undefined)).keys).toEqual([]);
    });

    it.each<[string, (from: UnknownRecord) => readonly DeliveryRecord[]]>([
      ['a look came between', (from) => [{ ...from, looks: 1 }]],
      ['it was absent, sent again, and is unknown anew', (from) => [waitingOf({ home: 'held', attempt: 1, ambiguous: 1, cleared: 1 }, lane.names('a')), { ...from, attempt: 2, ambiguous: 2, cleared: 1 }]],
      ['it has been found', (from) => [{ ...deliveredOf({}, lane.names('a')), payloadHash: from.payloadHash }]],
      ['it was dropped', (from) => [dropped(from, { why: 'no', by: 'bob', nowEpochMs, leaseId: 'drop-1' })]],
    ])('moves nothing where %s', async (_why, next) => {
      const from = unknown();
      let last: DeliveryRecord = from;
      await written(from);
      for (const each of next(from)) {
        await written(each, last);
        last = each;
      }
      const answer = await expectRefused([resendOf(from)]);
      expect([[...answer.changed], answer.lane]).toEqual([[[from.recordKey, 'other']], undefined]);
      expect(await lane.record('a')).toEqual(last);
      expect((await lane.lane()).holdSeq).toBe(0);
    });

    it('moves nothing under a claim, and shows it', async () => {
      const from = unknown();
      await written(from);
      await world().lanes.admit(lane.ask(['a'], { leaseId: 'l7' }));
      const answer = await expectRefused([resendOf(from)]);
      expect([answer.changed.size, answer.lane?.found?.claims.get(lane.key('a'))?.leaseId]).toEqual([0, 'l7']);
      expect(await lane.record('a')).toEqual(from);
    });

    it('knows its own, and of two operators one moves it', async () => {
      const from = unknown();
      await written(from);
      expect(await move([resendOf(from)])).toEqual({ kind: 'moved' });
      expect([...(await expectRefused([resendOf(from)])).changed.values()]).toEqual(['own']);
      expect([...(await expectRefused([resendOf(from, 'r2')])).changed.values()]).toEqual(['other']);
      expect(await lane.record('a')).toMatchObject({ generation: 1, lastLease: { leaseId: 'r1' } });
      expect(await lane.lane()).toMatchObject({ holdSeq: 1, holding: { count: 1 } });
    });

    it('keeps a resend that was noted meanwhile', async () => {
      const from = unknown();
      await written(from);
      await written({ ...from, resend: 7 }, from);
      expect(await move([resendOf(from)])).toEqual({ kind: 'moved' });
      expect(await lane.record('a')).toMatchObject({ generation: 1, resend: 7 });
    });
  });

  describe('the index of the dead', () => {
    const range = (more: Partial<DeadRange> = {}): DeadRange => ({ endpointId: lane.endpointId, fromEpochMs: 0, toEpochMs: Number.MAX_SAFE_INTEGER, ...more });
    const died = async (eventId: string, lastEpochMs: number) => void (await world().records.write(undefined, deadOf(eventId, { lastEpochMs })));
    const all = async (asked: DeadRange, limit: number): Promise<DeadKey[]> => {
      const keys: DeadKey[] = [];
      for (let after: DeadKey | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
        const page = await world().dead.page(asked, limit, after);
        keys.push(...page.keys);
        after = page.next;
      }
      return keys;
    };
    const keysOf = (...eventIds: string[]) => eventIds.map((eventId) => lane.names(eventId).recordKey);

    beforeEach(async () => {
      // Not in the order of their keys.
      for (const [i, eventId] of ['e', 'b', 'd', 'a', 'c'].entries()) await died(eventId, 1_000 + i);
      await world().records.write(undefined, { ...deadOf('burying', { lastEpochMs: 1_002 }), phase: 'burying' });
      await world().records.write(undefined, waitingOf({ home: 'held', dueEpochMs: 1_002 }, { endpointId: lane.endpointId, eventId: 'held' }));
    });

    it.each([1, 2, 5, 100])('has the oldest first, in pages of %i', async (limit) => {
      expect((await all(range(), limit)).map(({ recordKey }) => recordKey)).toEqual(keysOf('e', 'b', 'd', 'a', 'c'));
    });

    it('takes a range of times, its end outside', async () => {
      expect((await all(range({ fromEpochMs: 1_001, toEpochMs: 1_003 }), 10)).map(({ recordKey }) => recordKey)).toEqual(keysOf('b', 'd'));
      expect(await all(range({ fromEpochMs: 1_001, toEpochMs: 1_001 }), 10)).toEqual([]);
      expect(await all(range({ fromEpochMs: 1_001, toEpochMs: 0 }), 10)).toEqual([]);
    });

    it('goes on after any key, also one that is dead no more', async () => {
      const [, second] = await all(range(), 10);
      expect(await world().replays.move(lane.endpointId, [moveOf(deadOf('b'))], nowEpochMs)).toEqual({ kind: 'moved' });
      const { keys } = await world().dead.page(range(), 10, second);
      expect(keys.map(({ recordKey }) => recordKey)).toEqual(keysOf('d', 'a', 'c'));
    });

    it.each([1, 3, 100])('of all endpoints has each one\'s oldest first, in pages of %i', async (limit) => {
      const keys = (await all(range({ endpointId: undefined, fromEpochMs: 1_000, toEpochMs: 1_010 }), limit)).map(({ recordKey }) => recordKey);
      expect(keys.filter((key) => key.startsWith(`${lane.endpointId}#`))).toEqual(keysOf('e', 'b', 'd', 'a', 'c'));
      expect(new Set(keys).size).toBe(keys.length);
    });
  });
}
