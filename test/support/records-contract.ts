/** What every implementation of the port Records must do. */
import { beforeEach, describe, expect, it } from 'vitest';
import { dead, dropped } from '../../lambdas/shared/core/decide.ts';
import type { DeadRecord, DeliveryRecord, UnknownRecord, WaitingRecord } from '../../lambdas/shared/core/record.ts';
import type { LaneGuard } from '../../lambdas/shared/ports/index.ts';
import { deliveredOf, unknownOf, waitingOf } from './builders.ts';
import { expiresEpochMs, LaneSubject, type World } from './world.ts';

const settled = (leaseId: string) => ({ lastLease: { leaseId, kind: 'settled' as const } });

export function describeRecords(world: () => World): void {
  let lane: LaneSubject;
  beforeEach(() => {
    lane = new LaneSubject(world());
  });
  const waiting = (overrides: Partial<WaitingRecord> = {}, eventId = 'a') => waitingOf(overrides, { endpointId: lane.endpointId, eventId });
  const delivered = (overrides: Partial<WaitingRecord> = {}): DeliveryRecord => {
    const { state: _state, home: _home, dueEpochMs: _due, ...common } = waiting(overrides);
    return { ...common, state: 'delivered', via: 'response' };
  };
  const buryingOf = (overrides: Partial<WaitingRecord> = {}): DeadRecord => dead(waiting(overrides), 'rejected', 'status 422');
  const write = (from: DeliveryRecord | undefined, to: DeliveryRecord) => world().records.write(from, to);
  const written = async (record: DeliveryRecord) => expect(await write(undefined, record)).toBe('written');

  describe('read', () => {
    it('finds what was written, whole, and nothing else', async () => {
      const history = [
        { atEpochMs: 5, durationMs: 7, generation: 1, outcome: 'answered' as const, detail: '503', bodyExcerpt: 'busy é' },
        { atEpochMs: 6, durationMs: 0, generation: 1, outcome: 'ambiguous' as const, detail: 'headers timeout' },
      ];
      const full = waiting({ generation: 1, attempt: 2, ambiguous: 1, resend: 3, history, eventType: 'a.b', dueEpochMs: 99, ...settled('l9') });
      const bare = { ...dead(waiting({}, 'b'), 'malformed' as const, ''), eventId: undefined };
      await written(full);
      await written(bare);
      const { found, unread } = await world().records.read([full.recordKey, bare.recordKey, full.recordKey, 'no#where']);
      expect([...found.values()].sort((a, b) => a.attempt - b.attempt)).toEqual([bare, full]);
      expect([...unread]).toEqual([]);
    });
  });

  describe('write', () => {
    it('writes a first record only where there is none', async () => {
      await written(waiting({ attempt: 1, ...settled('l1') }));
      expect(await write(undefined, waiting({ attempt: 1, ...settled('l2') }))).toBe('lost');
      expect((await lane.record('a'))?.lastLease?.leaseId).toBe('l1');
    });

    it.each<[string, Partial<WaitingRecord>]>([['generation', { generation: 1 }], ['attempt', { attempt: 3 }]])('loses against another %s', async (_why, changed) => {
      await written(waiting({ ...changed, ...settled('l9') }));
      expect(await write(waiting(), waiting({ attempt: 1, ...settled('l1') }))).toBe('lost');
      expect(await lane.record('a')).toMatchObject({ ...changed, ...settled('l9') });
    });

    it('loses against another state', async () => {
      await written(delivered());
      expect(await write(waiting(), waiting({ attempt: 1 }))).toBe('lost');
    });

    it('loses over a verdict of another generation, and within one needs nothing else: nothing moves there', async () => {
      await written(delivered({ generation: 1, attempt: 2 }));
      expect(await write(delivered({ generation: 0 }), waiting({ generation: 1, ...settled('l1') }))).toBe('lost');
      expect(await write(delivered({ generation: 1 }), waiting({ generation: 2, ...settled('l1') }))).toBe('written');
    });

    it('loses against a record that is gone', async () => {
      expect(await write(waiting(), delivered({ attempt: 1 }))).toBe('lost');
      expect(await lane.record('a')).toBeUndefined();
    });

    it('takes its own repeat for written, and only its own', async () => {
      const [from, to] = [waiting(), delivered({ attempt: 1, ...settled('l1') })];
      await written(from);
      expect(await write(from, to)).toBe('written');
      expect(await write(from, to)).toBe('written');
      expect(await write(from, delivered({ attempt: 1, ...settled('l2') }))).toBe('lost');
      expect(await write(from, delivered({ attempt: 1, lastLease: { leaseId: 'l1', kind: 'reaped' } }))).toBe('lost');
      expect(await write(from, waiting({ attempt: 1, ...settled('l1') }))).toBe('lost');
    });

    it('takes no other reason for its own', async () => {
      await written(waiting());
      await write(waiting(), buryingOf({ attempt: 1, ...settled('l1') }));
      expect(await write(waiting(), dead(waiting({ attempt: 1, ...settled('l1') }), 'gone', 'x'))).toBe('lost');
    });

    it('leaves nothing of the state that a record leaves', async () => {
      await written(buryingOf({ attempt: 1, ...settled('l1') }));
      const next = waiting({ generation: 1 });
      expect(await write(buryingOf({ attempt: 1 }), next)).toBe('written');
      expect(await lane.record('a')).toEqual(next);
    });
  });

  describe('markBuried', () => {
    it('marks, and repeats are harmless', async () => {
      const record = buryingOf(settled('l1'));
      await written(record);
      expect(await world().records.markBuried(record)).toBe('written');
      expect(await world().records.markBuried(record)).toBe('written');
      expect(await lane.record('a')).toEqual({ ...record, phase: 'buried' });
    });

    it('is lost where the record has gone on', async () => {
      await written(waiting({ generation: 1 }));
      expect(await world().records.markBuried(buryingOf())).toBe('lost');
      expect(await world().records.markBuried(buryingOf({ generation: 7 }))).toBe('lost');
      expect(await lane.record('a')).toMatchObject({ state: 'waiting', generation: 1 });
    });
  });

  describe('a drop', () => {
    const drop = (record: DeadRecord, leaseId = 'd1') => dropped(record, { why: 'closed é', by: 'ada', nowEpochMs: 99, leaseId });
    const buried = async (): Promise<DeadRecord> => {
      const record = buryingOf(settled('l1'));
      await written(record);
      expect(await world().records.markBuried(record)).toBe('written');
      return { ...record, phase: 'buried' };
    };

    it('is read as it was written, and takes its own repeat for written, and only its own', async () => {
      const record = await buried();
      expect(await write(record, drop(record))).toBe('written');
      expect(await lane.record('a')).toEqual(drop(record));
      expect(await write(record, drop(record))).toBe('written');
      expect(await write(record, drop(record, 'd2'))).toBe('lost');
      expect(await lane.record('a')).toEqual(drop(record));
    });

    it('is the end of it: a mark, a retirement or a next generation that was decided from the dead one is lost', async () => {
      const record = await buried();
      expect(await write(record, drop(record))).toBe('written');
      expect(await world().records.markBuried({ ...record, phase: 'burying' })).toBe('lost');
      await world().records.retire(record);
      expect(await write(record, waiting({ generation: 1, ...settled('l2') }))).toBe('lost');
      const guard = { endpointId: lane.endpointId, claimKey: lane.key('a'), lane: { kind: 'absent' as const } };
      expect(await world().records.writeUnclaimed(record, waiting({ generation: 1, home: 'held', ...settled('l2') }), guard)).toEqual({ answer: 'lost' });
      expect(await lane.record('a')).toEqual(drop(record));
    });

    it('is lost where the record has gone on', async () => {
      const record = await buried();
      expect(await write(record, waiting({ generation: 1, ...settled('l2') }))).toBe('written');
      expect(await write(record, drop(record))).toBe('lost');
      expect(await lane.record('a')).toMatchObject({ state: 'waiting', generation: 1 });
    });

    it('is not written over a claim, and shows it', async () => {
      await lane.put();
      const record = await buried();
      const at = { endpointId: lane.endpointId, claimKey: lane.key('a'), lane: { kind: 'atVersion' as const, cfg: 'V1' } };
      expect(await world().lanes.admit(lane.ask(['a']))).toMatchObject({ kind: 'granted' });
      expect(await world().records.writeUnclaimed(record, drop(record), at)).toMatchObject({ answer: 'lost', claim: { leaseId: 'l1' } });
      expect(await lane.record('a')).toEqual(record);
      expect(await world().lanes.giveBack(lane.give({ release: [lane.key('a')] }))).toBe('done');
      expect(await world().records.writeUnclaimed(record, drop(record), at)).toEqual({ answer: 'written' });
      expect(await lane.record('a')).toEqual(drop(record));
    });
  });

  describe('what is unknown', () => {
    const unknown = (overrides: Partial<UnknownRecord> = {}) => unknownOf({ lastLease: { leaseId: 'l1', kind: 'settled' }, ...overrides }, { endpointId: lane.endpointId, eventId: 'a' });
    const looked = (record: UnknownRecord, leaseId: string, more: Partial<UnknownRecord> = {}): UnknownRecord => ({ ...record, looks: record.looks + 1, lastLease: { leaseId, kind: 'settled' }, ...more });

    it('is read as it was written, in all that it may say', async () => {
      const record = unknown({
        cleared: 1, ambiguous: 2, stuck: 'different', nextLookEpochMs: undefined, reference: 'eff_1', looks: 3,
        resolved: { as: 'resend', why: 'ticket é', by: 'ada', atEpochMs: 7 }, history: [{ atEpochMs: 5, durationMs: 7, generation: 0, outcome: 'look', detail: 'absent: 404' }],
      });
      await written(record);
      expect(await lane.record('a')).toEqual(record);
    });

    it('is written over by one look: another one, of an earlier attempt or generation, or after a decision, is lost', async () => {
      const record = unknown();
      await written(record);
      expect(await write(record, looked(record, 'l2'))).toBe('written');
      expect(await write(record, looked(record, 'l2'))).toBe('written');
      expect(await write(record, looked(record, 'l3'))).toBe('lost');
      const next = looked(record, 'l2');
      for (const stale of [unknown({ looks: 1, attempt: 0 }), unknown({ looks: 1, generation: 1 }), unknown({ looks: 2 })]) expect(await write(stale, looked(stale, 'l4'))).toBe('lost');
      const found: DeliveryRecord = { ...deliveredOf({ attempt: 1, ambiguous: 1, ...settled('l5') }, { endpointId: lane.endpointId, eventId: 'a' }), via: 'lookup', reference: 'eff_1' };
      expect(await write(next, found)).toBe('written');
      expect(await lane.record('a')).toEqual(found);
      expect(await write(next, looked(next, 'l6'))).toBe('lost');
    });

    it('that is held again is no hold that came between: a second look is lost', async () => {
      const record = unknown();
      await written(record);
      const again = (leaseId: string) => waiting({ home: 'held', attempt: 1, ambiguous: 1, cleared: 1, ...settled(leaseId) });
      expect(await write(record, again('l2'))).toBe('written');
      expect(await write(record, again('l3'))).toBe('lost');
      expect(await lane.record('a')).toEqual(again('l2'));
    });

    it('keeps a resend that was noted meanwhile', async () => {
      const record = unknown();
      await written(record);
      expect(await write(record, { ...record, resend: 4 })).toBe('written');
      expect(await write(record, looked(record, 'l2'))).toBe('written');
      expect(await lane.record('a')).toMatchObject({ looks: 1, resend: 4 });
    });

    it('takes the place of what a hold has made held meanwhile', async () => {
      const record = waiting();
      await written(record);
      expect(await world().records.hold(record, { ...record, home: 'held', resend: 3 })).toBe('written');
      expect(await write(record, unknown())).toBe('written');
      expect(await lane.record('a')).toEqual(unknown({ resend: 3 }));
    });

    it('begins with the reap of a claim, in one transaction with it', async () => {
      await lane.put();
      await world().lanes.admit(lane.ask(['a']));
      const reap = { endpointId: lane.endpointId, claimKey: lane.key('a'), claim: { leaseId: 'l1', shortHash: lane.names('a').shortHash }, ambiguous: { from: undefined, to: unknown({ lastLease: { leaseId: 'l1', kind: 'reaped' } }) } };
      expect(await world().lanes.reapClaim(reap)).toBe('reaped');
      expect(await lane.record('a')).toEqual(reap.ambiguous.to);
      expect((await lane.lane()).claims.size).toBe(0);
    });
  });

  describe('writeUnclaimed', () => describeUnclaimed(world, () => lane, buryingOf));
}

function describeUnclaimed(world: () => World, subject: () => LaneSubject, buryingOf: (overrides?: Partial<WaitingRecord>) => DeadRecord): void {
  const guard = (lane: LaneGuard['lane']): LaneGuard => ({ endpointId: subject().endpointId, claimKey: subject().key('a'), lane });
  const absent = { kind: 'absent' } as const;
  const atV1 = { kind: 'atVersion', cfg: 'V1' } as const;
  const bury = (lane: LaneGuard['lane'], from?: DeliveryRecord, to = buryingOf(settled('l1'))) => world().records.writeUnclaimed(from, to, guard(lane));
  const claim = async () => {
    expect(await world().lanes.admit(subject().ask(['a']))).toMatchObject({ kind: 'granted' });
    return { leaseId: 'l1', shortHash: subject().names('a').shortHash };
  };

  it('writes where no endpoint was ever', async () => {
    expect(await bury(absent)).toEqual({ answer: 'written' });
    expect(await subject().record('a')).toMatchObject({ state: 'dead', phase: 'burying' });
    expect(await bury(atV1)).toEqual({ answer: 'lost' });
  });

  it('writes where the endpoint was removed', async () => {
    await subject().put();
    expect(await bury(absent)).toEqual({ answer: 'lost' });
    await world().remove(subject().endpointId);
    expect(await bury(absent)).toEqual({ answer: 'written' });
  });

  it('writes where the endpoint is as it was read, and not where it has changed', async () => {
    await subject().put(8, 'V2');
    expect(await bury(atV1)).toEqual({ answer: 'lost' });
    expect(await subject().record('a')).toBeUndefined();
    expect(await bury({ kind: 'atVersion', cfg: 'V2' })).toEqual({ answer: 'written' });
  });

  it.each(['live', 'removed', 'changed'])('never writes over a claim, and shows it: the endpoint is %s', async (endpoint) => {
    await subject().put();
    const held = await claim();
    if (endpoint === 'removed') await world().remove(subject().endpointId);
    if (endpoint === 'changed') await subject().put(8, 'V2');
    expect(await bury(endpoint === 'removed' ? absent : atV1)).toEqual({ answer: 'lost', claim: { ...held, endsEpochMs: expiresEpochMs } });
    expect(await subject().record('a')).toBeUndefined();
  });

  it('shows a claim whose lease is gone as long ended', async () => {
    await subject().put();
    const held = await claim();
    await world().lanes.reapLease(subject().endpointId, 'l1', { slots: 1, expiresEpochMs });
    expect(await bury(atV1)).toEqual({ answer: 'lost', claim: { ...held, endsEpochMs: 0 } });
  });

  it('loses against a changed record, and takes its own repeat for written', async () => {
    expect(await bury(absent)).toEqual({ answer: 'written' });
    expect(await bury(absent)).toEqual({ answer: 'written' });
    expect(await bury(absent, undefined, buryingOf(settled('l2')))).toEqual({ answer: 'lost' });
    expect(await bury(absent, waitingOf({ attempt: 4 }, { endpointId: subject().endpointId, eventId: 'a' }), buryingOf({ attempt: 4 }))).toEqual({ answer: 'lost' });
  });
}
