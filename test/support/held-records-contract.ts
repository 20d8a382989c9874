/** What every implementation of the ports must do about records that are held: a hold needs no claim, and takes nothing from whoever has it. */
import { beforeEach, describe, expect, it } from 'vitest';
import { afterReap, dead, held } from '../../lambdas/shared/core/decide.ts';
import type { DeliveryRecord, WaitingRecord } from '../../lambdas/shared/core/record.ts';
import { deadOf, deliveredOf, t0EpochMs, waitingOf } from './builders.ts';
import { expiresEpochMs, LaneSubject, type World } from './world.ts';

const settled = (leaseId: string) => ({ lastLease: { leaseId, kind: 'settled' as const } });

export function describeHeldRecords(world: () => World): void {
  let lane: LaneSubject;
  beforeEach(() => {
    lane = new LaneSubject(world());
  });
  const names = () => ({ endpointId: lane.endpointId, eventId: 'a' });
  const waiting = (overrides: Partial<WaitingRecord> = {}) => waitingOf(overrides, names());
  const onHold = (overrides: Partial<WaitingRecord> = {}) => held(waiting(overrides), 0);
  const verdictOf = (state: string, overrides: Partial<WaitingRecord>): DeliveryRecord => (
    state === 'delivered' ? deliveredOf(overrides, names()) : state === 'burying' ? dead(waiting(overrides), 'rejected', 'status 422') : waiting(overrides)
  );
  const write = (from: DeliveryRecord | undefined, to: DeliveryRecord) => world().records.write(from, to);
  const written = async (record: DeliveryRecord) => expect(await write(undefined, record)).toBe('written');
  const hold = (from: WaitingRecord | undefined, to = held(from ?? waiting(), from?.resend ?? 0)) => world().records.hold(from, to);

  describe('hold', () => {
    it('makes the first record of a delivery that has none', async () => {
      expect(await hold(undefined)).toBe('written');
      expect(await lane.record('a')).toEqual(onHold());
    });

    it('holds what waits, and changes nothing else of it', async () => {
      const record = waiting({ attempt: 2, ambiguous: 1, dueEpochMs: t0EpochMs + 9, ...settled('l1') });
      await written(record);
      expect(await hold(record)).toBe('written');
      expect(await lane.record('a')).toEqual({ ...record, home: 'held' });
    });

    it('notes the largest resend that was asked for: no copy is left to ask', async () => {
      await written(waiting({ resend: 1 }));
      expect(await hold(waiting({ resend: 1 }), held(waiting({ resend: 1 }), 3))).toBe('written');
      expect(await lane.record('a')).toEqual(onHold({ resend: 3 }));
    });

    it('notes none that is smaller than what another copy noted since: what waits in the queue comes back for it', async () => {
      await written(waiting({ resend: 2 }));
      expect(await hold(waiting())).toBe('lost');
      expect(await hold(waiting(), held(waiting(), 1))).toBe('lost');
      expect(await lane.record('a')).toEqual(waiting({ resend: 2 }));
      expect(await hold(waiting({ resend: 2 }))).toBe('written');
      expect(await hold(onHold(), held(waiting(), 1))).toBe('written');
      expect(await lane.record('a')).toEqual(onHold({ resend: 2 }));
    });

    it.each([['none', undefined], ['one that waits', {}]])('of what is held already is written too: another copy saw %s', async (_what, seen) => {
      if (seen !== undefined) await written(waiting());
      expect(await hold(seen === undefined ? undefined : waiting())).toBe('written');
      expect(await hold(seen === undefined ? undefined : waiting())).toBe('written');
      expect(await hold(onHold(), onHold())).toBe('written');
      expect(await lane.record('a')).toEqual(onHold());
    });

    it.each<[string, (at: Partial<WaitingRecord>) => DeliveryRecord]>([
      ['was delivered', (at) => deliveredOf(at, names())],
      ['is dead', (at) => ({ ...deadOf('buried', at), ...keysOf(lane) })],
      ['has another attempt', (at) => waiting({ ...at, attempt: 3 })],
      ['has another generation', (at) => waiting({ ...at, generation: 2 })],
    ])('is lost where the delivery %s, and changes nothing', async (_what, found) => {
      const record = found({ attempt: 1, ...settled('l1') });
      await written(record);
      expect(await hold(waiting({ attempt: 1 }))).toBe('lost');
      expect(await hold(undefined)).toBe('lost');
      expect(await lane.record('a')).toEqual(record);
    });

    it('is lost where the record is gone, and makes none', async () => {
      expect(await hold(waiting({ attempt: 1 }))).toBe('lost');
      expect(await lane.record('a')).toBeUndefined();
    });

    it('keeps what the claim\'s owner wrote in between', async () => {
      const before = waiting({ attempt: 1, dueEpochMs: t0EpochMs + 9 });
      const since = { ...before, ambiguous: 1, lastEpochMs: t0EpochMs + 3, ...settled('l7') };
      await written(before);
      expect(await write(before, since)).toBe('written');
      expect(await hold(before)).toBe('written');
      expect(await lane.record('a')).toEqual({ ...since, home: 'held' });
    });
  });

  describe('a write across a hold', () => {
    const before = (from: 'no record' | 'a record') => (from === 'no record' ? undefined : waiting());
    const cases = (['no record', 'a record'] as const).flatMap((from) => (['waiting', 'delivered', 'burying'] as const).map((to) => [from, to] as const));

    it.each(cases)('is written: the owner of the claim read %s, and leaves it %s; what waits on stays held', async (from, state) => {
      const read = before(from);
      if (read !== undefined) await written(read);
      expect(await hold(read)).toBe('written');
      const to = verdictOf(state, { attempt: 1, dueEpochMs: t0EpochMs + 9, ...settled('l1') });
      expect(await write(read, to)).toBe('written');
      expect(await lane.record('a')).toEqual(state === 'waiting' ? { ...to, home: 'held' } : to);
      expect(await write(read, to)).toBe(state === 'waiting' ? 'lost' : 'written');
    });

    it.each(cases)('keeps the resend that the hold has noted, or it would be asked for again: from %s to %s', async (from, state) => {
      const read = before(from);
      if (read !== undefined) await written(read);
      expect(await hold(read, held(waiting(), 3))).toBe('written');
      expect(await write(read, verdictOf(state, { attempt: 1, resend: 1, ...settled('l1') }))).toBe('written');
      expect(await lane.record('a')).toMatchObject({ state: state === 'burying' ? 'dead' : state, attempt: 1, resend: 3 });
    });

    it('leaves the resend that a hold has noted since it was read, unless it raises it', async () => {
      await hold(undefined);
      expect(await hold(onHold(), held(waiting(), 2))).toBe('written');
      expect(await write(onHold(), onHold({ attempt: 1, ...settled('l1') }))).toBe('written');
      expect(await lane.record('a')).toEqual(onHold({ attempt: 1, resend: 2, ...settled('l1') }));
      expect(await write(onHold({ attempt: 1 }), onHold({ attempt: 2, resend: 3, ...settled('l2') }))).toBe('written');
      expect(await lane.record('a')).toMatchObject({ attempt: 2, resend: 3 });
    });

    it('of what was read as held is written over it, and is its own repeat', async () => {
      await hold(undefined);
      const to = onHold({ attempt: 1, ...settled('l1') });
      expect(await write(onHold(), to)).toBe('written');
      expect(await write(onHold(), to)).toBe('written');
      expect(await lane.record('a')).toEqual(to);
    });

    it('loses where the drain has sent it meanwhile', async () => {
      await hold(undefined);
      const sent = onHold({ attempt: 1, ...settled('drain') });
      expect(await write(onHold(), sent)).toBe('written');
      expect(await write(undefined, verdictOf('delivered', { attempt: 1, ...settled('l1') }))).toBe('lost');
      expect(await write(waiting(), verdictOf('delivered', { attempt: 1, ...settled('l1') }))).toBe('lost');
      expect(await lane.record('a')).toEqual(sent);
    });

    it('loses against another generation that is held', async () => {
      const other = onHold({ generation: 1 });
      await written(other);
      expect(await write(waiting(), verdictOf('delivered', { attempt: 1, ...settled('l1') }))).toBe('lost');
      expect(await write(undefined, verdictOf('delivered', { attempt: 1, ...settled('l1') }))).toBe('lost');
      expect(await lane.record('a')).toEqual(other);
    });

    it('loses where it was read as held and waits in the queue', async () => {
      await written(waiting());
      expect(await write(onHold(), onHold({ attempt: 1, ...settled('l1') }))).toBe('lost');
      expect(await lane.record('a')).toEqual(waiting());
    });
  });

  it('a held delivery is buried as any other, and its mark and its next generation find nothing of the hold', async () => {
    await hold(undefined);
    const burying = dead({ ...onHold(), ...settled('B1') }, 'unknown-endpoint', 'x');
    const guard = { endpointId: lane.endpointId, claimKey: lane.key('a'), lane: { kind: 'absent' } } as const;
    expect(await world().records.writeUnclaimed(waiting(), burying, guard)).toEqual({ answer: 'lost' });
    expect(await world().records.writeUnclaimed(undefined, burying, guard)).toEqual({ answer: 'lost' });
    expect(await world().records.writeUnclaimed(onHold(), burying, guard)).toEqual({ answer: 'written' });
    expect(await hold(waiting())).toBe('lost');
    expect(await world().records.markBuried(burying)).toBe('written');
    await world().records.retire({ ...burying, phase: 'buried' });
    expect(await lane.record('a')).toEqual({ ...burying, phase: 'buried' });
    const next = waiting({ generation: 1 });
    expect(await write({ ...burying, phase: 'buried' }, next)).toBe('written');
    expect(await lane.record('a')).toEqual(next);
  });

  it('a mark and a retirement of what waits in a later generation change nothing, held or not', async () => {
    await written(onHold({ generation: 1 }));
    const before = dead(waiting(), 'gone', 'x');
    expect(await world().records.markBuried(before)).toBe('lost');
    await world().records.retire(before);
    expect(await lane.record('a')).toEqual(onHold({ generation: 1 }));
  });

  it.each(['no record', 'a record'])('the reap of a claim is lost where its delivery was held since %s was read, and then records its attempt on what is held', async (read) => {
    await lane.put();
    const from = read === 'no record' ? undefined : waiting();
    if (from !== undefined) await written(from);
    await world().lanes.admit(lane.ask(['a']));
    expect(await hold(from)).toBe('written');
    const { claimKey, shortHash } = lane.names('a');
    const reap = (seen: WaitingRecord | undefined) => world().lanes.reapClaim({
      endpointId: lane.endpointId, claimKey, claim: { leaseId: 'l1', shortHash },
      ambiguous: { from: seen, to: afterReap(seen ?? waiting(), 'l1', expiresEpochMs, undefined) },
    });
    expect(await reap(from)).toBe('lost');
    expect([(await lane.lane()).claims.has(claimKey), await lane.record('a')]).toEqual([true, onHold()]);
    expect(await reap(onHold())).toBe('reaped');
    expect([(await lane.lane()).claims.has(claimKey), await lane.record('a')]).toEqual([false, afterReap(onHold(), 'l1', expiresEpochMs, undefined)]);
  });
}

function keysOf(lane: LaneSubject) {
  const { endpointId, eventId, recordKey, payloadHash } = lane.names('a');
  return { endpointId, eventId, recordKey, payloadHash };
}
