/** What every implementation of the port Lanes must do about deliveries that are held, and about the pace. */
import { beforeEach, describe, expect, it } from 'vitest';
import { removedCfg } from '../../lambdas/shared/core/lane.ts';
import type { Pace } from '../../lambdas/shared/core/pace.ts';
import { latestPauseEpochMs } from '../../lambdas/shared/core/rate.ts';
import type { DrainEnd } from '../../lambdas/shared/ports/index.ts';
import { t0EpochMs } from './builders.ts';
import { expiresEpochMs, LaneSubject, type World } from './world.ts';

const note = { count: 1, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs + 1_000, isReady: true };
const run = { leaseId: 'd1', expiresEpochMs };
const later = t0EpochMs + 60_000;

export function describeHolding(world: () => World): void {
  let lane: LaneSubject;
  beforeEach(async () => {
    lane = new LaneSubject(world());
    await lane.put();
  });
  const hold = (more: Partial<typeof note> = {}) => world().lanes.hold(lane.endpointId, { ...note, ...more });
  const begin = (more: Partial<typeof run> = {}, nowEpochMs = t0EpochMs) => world().lanes.beginDrain(lane.endpointId, { ...run, ...more }, nowEpochMs);
  const end = (more: Partial<DrainEnd> = {}) => world().lanes.endDrain(lane.endpointId, { leaseId: 'd1', seq: 1, seenEpochMs: expiresEpochMs, taken: 1, wakeAtEpochMs: later, isReady: true, ...more });

  describe('admit of live traffic', () => describeLive(world, () => lane));
  describe('movePace', () => describePace(world, () => lane));

  describe('pauseUntil', () => {
    const pause = (untilEpochMs: number, endpointId = lane.endpointId) => world().lanes.pauseUntil(endpointId, untilEpochMs, t0EpochMs);

    it('says until when, the latest of those that said so, and leaves all else alone', async () => {
      const before = await lane.lane();
      for (const untilEpochMs of [t0EpochMs + 5_000, later, t0EpochMs + 6_000]) await pause(untilEpochMs);
      expect(await lane.lane()).toEqual({ ...before, pausedUntilEpochMs: later });
      expect(await world().lanes.admit(lane.ask(['a']))).toMatchObject({ kind: 'granted', pausedUntilEpochMs: later });
    });

    it('takes the place of one that nobody believes', async () => {
      await pause(latestPauseEpochMs(t0EpochMs));
      await pause(later);
      expect(await lane.lane()).toMatchObject({ pausedUntilEpochMs: latestPauseEpochMs(t0EpochMs) });
      await pause(latestPauseEpochMs(t0EpochMs) + 1);
      await pause(later);
      expect(await lane.lane()).toMatchObject({ pausedUntilEpochMs: later });
    });

    it('ends where the endpoint is put anew', async () => {
      await pause(later);
      await lane.put();
      expect(await lane.lane()).toMatchObject({ pausedUntilEpochMs: undefined });
    });

    it('makes no lane where there is none, and touches none that was removed', async () => {
      await pause(later, 'nobody');
      expect(await world().lane('nobody')).toBeUndefined();
      await world().remove(lane.endpointId);
      await pause(later);
      expect((await lane.lane()).pausedUntilEpochMs).toBeUndefined();
    });
  });

  describe('flag', () => {
    const flag = { why: 'not-found', sinceEpochMs: t0EpochMs } as const;

    it('says what the endpoint refuses, and nothing more once it is taken away or the endpoint is put anew', async () => {
      const before = await lane.lane();
      await world().lanes.flag(lane.endpointId, flag);
      expect(await lane.lane()).toEqual({ ...before, flag });
      expect(await world().lanes.admit(lane.ask(['a']))).toMatchObject({ kind: 'granted', flag });
      await world().lanes.flag(lane.endpointId, undefined);
      expect(await lane.lane()).toMatchObject({ flag: undefined });
      await world().lanes.flag(lane.endpointId, flag);
      await lane.put();
      expect(await lane.lane()).toMatchObject({ flag: undefined });
    });

    it('makes no lane where there is none', async () => {
      await world().lanes.flag('nobody', flag);
      expect(await world().lane('nobody')).toBeUndefined();
    });
  });

  describe('hold', () => {
    it('says that something is held, since when, how much, and when somebody comes for it', async () => {
      const before = await lane.lane();
      expect(await hold({ count: 3 })).toEqual({ kind: 'noted', before });
      expect(await lane.lane()).toEqual({ ...before, holdSeq: 1, holding: { heldAtEpochMs: t0EpochMs, wakeAtEpochMs: note.wakeAtEpochMs, count: 3, isReady: true } });
    });

    it.each([['earlier', t0EpochMs], ['later', later]])('of more leaves the wake-up as it is, also an %s one; counts on, and is a hold of its own', async (_when, wakeAtEpochMs) => {
      await hold({ count: 3 });
      const before = await lane.lane();
      expect(await hold({ count: 2, nowEpochMs: t0EpochMs + 5, wakeAtEpochMs })).toEqual({ kind: 'noted', before });
      expect(await lane.lane()).toEqual({ ...before, holdSeq: 2, holding: { heldAtEpochMs: t0EpochMs + 5, wakeAtEpochMs: note.wakeAtEpochMs, count: 5, isReady: true } });
    });

    it('of none is a hold too: the run that is under way looks again', async () => {
      await hold({ count: 0 });
      expect(await lane.lane()).toMatchObject({ holdSeq: 1, holding: { count: 0 } });
    });

    it('of what is due later says nothing of the others that are held', async () => {
      await hold({ isReady: false });
      expect(await lane.lane()).toMatchObject({ holding: { isReady: false } });
      await hold();
      await hold({ isReady: false });
      expect(await lane.lane()).toMatchObject({ holding: { isReady: true, count: 3 } });
    });

    it('leaves room, claims and leases alone', async () => {
      await world().lanes.admit(lane.ask(['a', 'b']));
      const before = await lane.lane();
      await hold();
      expect(await lane.lane()).toEqual({ ...before, holdSeq: 1, holding: { heldAtEpochMs: t0EpochMs, wakeAtEpochMs: note.wakeAtEpochMs, count: 1, isReady: true } });
    });

    it('has no lane where the endpoint was never registered, nor where it was removed, and makes none', async () => {
      expect(await world().lanes.hold('nobody', note)).toEqual({ kind: 'noLane' });
      expect(await world().lane('nobody')).toBeUndefined();
      await world().remove(lane.endpointId);
      expect(await hold()).toEqual({ kind: 'noLane' });
      expect(await lane.lane()).toMatchObject({ cfg: removedCfg, holdSeq: 0, holding: undefined });
    });
  });

  describe('moveWakeUp', () => {
    const move = (from: number, to = later) => world().lanes.moveWakeUp(lane.endpointId, from, to);

    it('writes over the one that was seen, once', async () => {
      await hold();
      const before = await lane.lane();
      expect(await move(note.wakeAtEpochMs)).toEqual({ kind: 'moved' });
      const after = { ...before, holding: { heldAtEpochMs: t0EpochMs, wakeAtEpochMs: later, count: 1, isReady: true } };
      expect(await lane.lane()).toEqual(after);
      expect(await move(note.wakeAtEpochMs)).toEqual({ kind: 'lost', lane: after });
    });

    it('is lost where nothing is held, and where there is no lane', async () => {
      expect(await move(note.wakeAtEpochMs)).toEqual({ kind: 'lost', lane: await lane.lane() });
      expect(await world().lanes.moveWakeUp('nobody', 1, 2)).toEqual({ kind: 'lost', lane: undefined });
    });
  });

  describe('beginDrain', () => {
    it('begins one run, whose expiry is the wake-up until it ends', async () => {
      await hold();
      const before = await lane.lane();
      const after = { ...before, drain: run, holding: { heldAtEpochMs: t0EpochMs, wakeAtEpochMs: expiresEpochMs, count: 1, isReady: true } };
      expect(await begin()).toEqual({ kind: 'begun', lane: after, wakeAtEpochMs: note.wakeAtEpochMs, wasReady: true });
      expect(await lane.lane()).toEqual(after);
    });

    it('makes what is held count as due, and says what was known before', async () => {
      await hold({ isReady: false });
      expect(await begin()).toMatchObject({ kind: 'begun', wasReady: false, lane: { holding: { isReady: true } } });
      expect(await lane.lane()).toMatchObject({ holding: { isReady: true } });
    });

    it('is refused where nothing is held, and where there is no lane', async () => {
      expect(await begin()).toEqual({ kind: 'refused', lane: await lane.lane() });
      expect(await world().lanes.beginDrain('nobody', run, t0EpochMs)).toEqual({ kind: 'refused', lane: undefined });
      expect(await world().lane('nobody')).toBeUndefined();
    });

    it('is refused beside a run that is alive, until that has expired: then it takes its place', async () => {
      await hold();
      await begin();
      const busy = await lane.lane();
      expect(await begin({ leaseId: 'd2' }, expiresEpochMs - 1)).toEqual({ kind: 'refused', lane: busy });
      expect(await lane.lane()).toEqual(busy);
      expect(await begin({ leaseId: 'd2', expiresEpochMs: later }, expiresEpochMs)).toMatchObject({ kind: 'begun', lane: { drain: { leaseId: 'd2', expiresEpochMs: later } } });
      expect(await lane.lane()).toMatchObject({ drain: { leaseId: 'd2' }, holding: { wakeAtEpochMs: later } });
    });

    it('takes its own repeat for begun', async () => {
      await hold();
      await begin();
      // What the wake-up was before is not known any more: due.
      expect(await begin()).toEqual({ kind: 'begun', lane: await lane.lane(), wakeAtEpochMs: t0EpochMs, wasReady: true });
    });

    it('begins for an endpoint that was removed: what is held for it must come to its end', async () => {
      await hold();
      await world().remove(lane.endpointId);
      expect(await begin()).toMatchObject({ kind: 'begun', lane: { cfg: removedCfg } });
    });
  });

  describe('endDrain', () => {
    beforeEach(async () => {
      await hold({ count: 3 });
      await begin();
    });

    it('says that nothing is held any more; only the number of holds stays, for it must never come twice', async () => {
      const before = await lane.lane();
      expect(await end({ taken: 3, wakeAtEpochMs: undefined })).toEqual({ kind: 'moved' });
      expect(await lane.lane()).toEqual({ ...before, holding: undefined, drain: undefined });
      await hold();
      expect(await lane.lane()).toMatchObject({ holdSeq: 2, holding: { count: 1, wakeAtEpochMs: note.wakeAtEpochMs } });
    });

    it('says when the drain comes again, and what it took', async () => {
      const before = await lane.lane();
      expect(await end({ taken: 2 })).toEqual({ kind: 'moved' });
      expect(await lane.lane()).toEqual({ ...before, drain: undefined, holding: { heldAtEpochMs: t0EpochMs, wakeAtEpochMs: later, count: 1, isReady: true } });
      expect(await begin({ leaseId: 'd2' })).toMatchObject({ kind: 'begun' });
    });

    it('says whether anything may be due before it comes again', async () => {
      await end({ isReady: false });
      expect(await lane.lane()).toMatchObject({ holding: { isReady: false, wakeAtEpochMs: later } });
    });

    it('shows no count below nothing, and counts on from what it was: a hold that was never counted is taken too', async () => {
      await end({ taken: 5 });
      expect(await lane.lane()).toMatchObject({ holding: { count: 0 } });
      await hold({ count: 4 });
      expect(await lane.lane()).toMatchObject({ holding: { count: 2 } });
    });

    it.each<[string, Partial<DrainEnd>]>([['with a wake-up', {}], ['empty', { wakeAtEpochMs: undefined }]])('of another\'s run is lost, and changes nothing: %s', async (_how, more) => {
      const before = await lane.lane();
      expect(await end({ leaseId: 'd2', ...more })).toEqual({ kind: 'lost', lane: before });
      expect(await lane.lane()).toEqual(before);
    });

    it.each<[string, Partial<DrainEnd>]>([['with a wake-up', {}], ['empty', { wakeAtEpochMs: undefined }]])('is lost where something was held meanwhile, and its run goes on: %s', async (_how, more) => {
      await hold();
      const before = await lane.lane();
      expect(await end(more)).toEqual({ kind: 'lost', lane: before });
      expect(before).toMatchObject({ drain: run, holdSeq: 2 });
      expect(await end({ seq: 2, ...more })).toEqual({ kind: 'moved' });
    });

    it.each<[string, Partial<DrainEnd>]>([['with a wake-up', {}], ['empty', { wakeAtEpochMs: undefined }]])('takes its own repeat for moved, and takes nothing twice: %s', async (_how, more) => {
      await end(more);
      const once = await lane.lane();
      expect(await end(more)).toEqual({ kind: 'moved' });
      expect(await lane.lane()).toEqual(once);
    });

    it('says when it has moved something that an index may not show yet, as a hold does', async () => {
      await end({ movedEpochMs: expiresEpochMs + 7 });
      const { holding, holdSeq } = await lane.lane();
      expect([holding?.heldAtEpochMs, holdSeq]).toEqual([expiresEpochMs + 7, 1]);
    });

    it('is lost where there is no lane', async () => {
      expect(await world().lanes.endDrain('nobody', { leaseId: 'd1', seq: 1, seenEpochMs: expiresEpochMs, taken: 0, wakeAtEpochMs: undefined, isReady: false })).toEqual({ kind: 'lost', lane: undefined });
    });
  });
}

/** A lane of 4, of which live traffic leaves 2 to the drain while anything is held. */
function describeLive(world: () => World, subject: () => LaneSubject): void {
  const live = { kept: 2 };
  const admit = (...ask: Parameters<LaneSubject['ask']>) => world().lanes.admit(subject().ask(...ask));
  const exchange = (...ask: Parameters<LaneSubject['ask']>) => world().lanes.exchange(subject().give({ slots: 1, release: [subject().key('x')] }), subject().ask(...ask));
  const pace: Pace = { isSlow: true, recent: '222' };
  beforeEach(() => subject().put(4));

  it('takes the whole lane while nothing is held', async () => {
    expect(await admit(['a', 'b', 'c', 'd'], { live })).toMatchObject({ kind: 'granted', avail: 0 });
  });

  it('leaves slots free while anything is held, and the drain takes them', async () => {
    await world().lanes.hold(subject().endpointId, note);
    const before = await subject().lane();
    expect(await admit(['a', 'b', 'c'], { live })).toEqual({ kind: 'refused', lane: before });
    expect(await subject().lane()).toEqual(before);
    expect(await admit(['a', 'b'], { live })).toMatchObject({ kind: 'granted', avail: 2, holding: before.holding });
    expect(await admit(['c'], { live, leaseId: 'l2' })).toMatchObject({ kind: 'refused' });
    expect(await admit(['c', 'd'], { leaseId: 'l3' })).toMatchObject({ kind: 'granted', avail: 0 });
  });

  it('takes the whole lane while all that is held is due later, until the drain comes for it', async () => {
    await world().lanes.hold(subject().endpointId, { ...note, isReady: false });
    expect(await admit(['a', 'b', 'c'], { live })).toMatchObject({ kind: 'granted', avail: 1, holding: { isReady: false } });
    await world().lanes.beginDrain(subject().endpointId, run, t0EpochMs);
    expect(await admit(['d'], { live, leaseId: 'l2' })).toMatchObject({ kind: 'refused' });
  });

  it('takes the whole lane again once nothing is held', async () => {
    await world().lanes.hold(subject().endpointId, note);
    await world().lanes.beginDrain(subject().endpointId, run, t0EpochMs);
    await world().lanes.endDrain(subject().endpointId, { leaseId: 'd1', seq: 1, seenEpochMs: expiresEpochMs, taken: 1, wakeAtEpochMs: undefined, isReady: false });
    expect(await admit(['a', 'b', 'c', 'd'], { live })).toMatchObject({ kind: 'granted', avail: 0, holding: undefined });
  });

  it('counts what an exchange gives back, and not more', async () => {
    await admit(['x']);
    await world().lanes.hold(subject().endpointId, note);
    const before = await subject().lane();
    expect(await exchange(['a', 'b', 'c'], { live, leaseId: 'l2' })).toEqual({ kind: 'refused', lane: before });
    expect(await subject().lane()).toEqual(before);
    expect(await exchange(['a', 'b'], { live, leaseId: 'l2' })).toMatchObject({ kind: 'granted', avail: 2 });
  });

  it('leaves a slow endpoint to the drain, also by an exchange', async () => {
    await admit(['x']);
    await world().lanes.movePace(subject().endpointId, undefined, pace);
    const before = await subject().lane();
    expect(before.pace).toEqual(pace);
    expect(await admit(['a'], { live, leaseId: 'l2' })).toEqual({ kind: 'refused', lane: before });
    expect(await exchange(['a'], { live, leaseId: 'l2' })).toEqual({ kind: 'refused', lane: before });
    expect(await subject().lane()).toEqual(before);
    expect(await exchange(['a'], { leaseId: 'l2' })).toMatchObject({ kind: 'granted', pace });
  });

  it('serves one that is not quick and not slow', async () => {
    await world().lanes.movePace(subject().endpointId, undefined, { isSlow: false, recent: '2' });
    expect(await admit(['a'], { live })).toMatchObject({ kind: 'granted', pace: { isSlow: false, recent: '2' } });
  });
}

function describePace(world: () => World, subject: () => LaneSubject): void {
  const move = (from: Pace | undefined, to: Pace | undefined) => world().lanes.movePace(subject().endpointId, from, to);
  const between: Pace = { isSlow: false, recent: '12' };
  const slow: Pace = { isSlow: true, recent: '222' };

  it.each<[string, Pace | undefined, Pace | undefined]>([
    ['from nothing to a pace', undefined, between],
    ['from nothing to slow', undefined, slow],
    ['from a pace to another', between, { ...between, recent: '121' }],
    ['from a pace to slow', between, slow],
    ['from slow to slow', slow, { ...slow, recent: '2220' }],
    ['from slow to a pace', slow, { isSlow: false, recent: '2220' }],
    ['from a pace to nothing', between, undefined],
    ['from slow to nothing', slow, undefined],
  ])('writes %s, once', async (_what, from, to) => {
    if (from !== undefined) await move(undefined, from);
    const before = await subject().lane();
    expect(await move(from, to)).toEqual({ kind: 'moved' });
    expect(await subject().lane()).toEqual({ ...before, pace: to });
    expect(await move(from, to)).toEqual({ kind: 'lost', lane: { ...before, pace: to } });
  });

  it.each<[string, Pace | undefined, Pace | undefined]>([
    ['there is one and none was seen', between, undefined],
    ['it is slow and none was seen', slow, undefined],
    ['there was none yet', undefined, between],
    ['it is another', between, { ...between, recent: '1' }],
    ['it is slow by now', { ...between, isSlow: true }, between],
    ['it is slow no longer', between, { ...between, isSlow: true }],
  ])('changes nothing where %s', async (_what, there, seen) => {
    if (there !== undefined) await move(undefined, there);
    const before = await subject().lane();
    expect(await move(seen, { isSlow: true, recent: '0' })).toEqual({ kind: 'lost', lane: before });
    expect(await move(seen, undefined)).toEqual({ kind: 'lost', lane: before });
    expect(await subject().lane()).toEqual(before);
  });

  it('is lost where there is no lane, and makes none', async () => {
    expect(await world().lanes.movePace('nobody', undefined, slow)).toEqual({ kind: 'lost', lane: undefined });
    expect(await world().lanes.movePace('nobody', slow, undefined)).toEqual({ kind: 'lost', lane: undefined });
    expect(await world().lane('nobody')).toBeUndefined();
  });
}
