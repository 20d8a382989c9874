/** What every implementation of the port Lanes must do. */
import { beforeEach, describe, expect, it } from 'vitest';
import type { DaySpent } from '../../lambdas/shared/core/day.ts';
import type { Breaker } from '../../lambdas/shared/core/breaker.ts';
import { afterReap } from '../../lambdas/shared/core/decide.ts';
import type { NoticeSubject, Told } from '../../lambdas/shared/core/escalation.ts';
import { removedCfg } from '../../lambdas/shared/core/lane.ts';
import type { DeliveryRecord, WaitingRecord } from '../../lambdas/shared/core/record.ts';
import { emptyTally, merged, type Window } from '../../lambdas/shared/core/statistics.ts';
import type { Admission, ReapClaim } from '../../lambdas/shared/ports/index.ts';
import { closedBreaker, deadOf, deliveredOf, openBreaker, t0EpochMs, waitingOf } from './builders.ts';
import { expiresEpochMs, LaneSubject, type World } from './world.ts';

const l1 = (slots: number, ends = expiresEpochMs) => ['l1', { slots, expiresEpochMs: ends }] as const;

const tally = closedBreaker({ failed: { sinceEpochMs: t0EpochMs, attempts: 3, hits: 1 }, slow: { sinceEpochMs: t0EpochMs - 5, attempts: 7, hits: 2 }, connectFailures: 1 });
const open = openBreaker({ untilEpochMs: t0EpochMs });
const canary = { leaseId: 'l1', expiresEpochMs };

export function describeLanes(world: () => World): void {
  let lane: LaneSubject;
  beforeEach(async () => {
    lane = new LaneSubject(world());
    await lane.put();
  });
  const admit = async (...ask: Parameters<LaneSubject['ask']>) => world().lanes.admit(lane.ask(...ask));
  const granted = async (...ask: Parameters<LaneSubject['ask']>) => expect((await admit(...ask)).kind).toBe('granted');

  describe('admit', () => {
    it('takes a slot and a claim for each delivery', async () => {
      const answer = await admit(['a', 'b', 'c']);
      const now = await lane.lane();
      expect(answer).toMatchObject({ kind: 'granted', avail: 5, failures: 0 });
      expect(now).toMatchObject({ slots: 8, avail: 5, cfg: 'V1', failures: 0 });
      expect([...now.leases]).toEqual([l1(3)]);
      expect([...now.claims.keys()].sort()).toEqual(['a', 'b', 'c'].map((e) => lane.key(e)).sort());
      expect(now.claims.get(lane.key('a'))).toEqual({ leaseId: 'l1', shortHash: lane.names('a').shortHash });
    });

    it('takes all or none: one slot short, and nothing changes', async () => {
      await lane.put(2);
      const before = await lane.lane();
      expect(await admit(['a', 'b', 'c'])).toEqual({ kind: 'refused', lane: before });
      expect(await lane.lane()).toEqual(before);
      await granted(['a', 'b']);
    });

    it('takes all or none: one claim in the way, and nothing changes', async () => {
      await granted(['b']);
      const before = await lane.lane();
      expect(await admit(['a', 'b'], { leaseId: 'l2' })).toEqual({ kind: 'refused', lane: before });
      expect(await lane.lane()).toEqual(before);
      await granted(['a'], { leaseId: 'l2' });
    });

    it('refuses another configuration', async () => {
      const before = await lane.lane();
      expect(await admit(['a'], { cfg: 'V0' })).toEqual({ kind: 'refused', lane: before });
    });

    it('refuses where there is no lane, and where the endpoint was removed', async () => {
      expect(await admit(['a'], { endpointId: 'nobody' })).toEqual({ kind: 'refused', lane: undefined });
      await world().remove(lane.endpointId);
      expect(await admit(['a'])).toMatchObject({ kind: 'refused', lane: { cfg: removedCfg } });
    });

    it('shows its own lease to whoever asks twice', async () => {
      await granted(['a']);
      const answer = await admit(['a']);
      expect(answer).toMatchObject({ kind: 'refused' });
      expect(answer.kind === 'refused' && answer.lane?.leases.has('l1')).toBe(true);
    });
  });

  describe('giveBack', () => {
    beforeEach(() => granted(['a', 'b', 'c']));
    const give = (...args: Parameters<LaneSubject['give']>) => world().lanes.giveBack(lane.give(...args));
    const all = ['a', 'b', 'c'];

    it('returns everything', async () => {
      expect(await give({ slots: 3, release: all.map((e) => lane.key(e)) })).toBe('done');
      expect(await lane.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map() });
    });

    it('keeps the claims of what has no verdict, and the lease without slots', async () => {
      expect(await give({ slots: 3, release: [lane.key('a')], keep: [lane.key('b'), lane.key('c')] })).toBe('done');
      const now = await lane.lane();
      expect(now.avail).toBe(8);
      expect([...now.leases]).toEqual([l1(0)]);
      expect([...now.claims.keys()].sort()).toEqual([lane.key('b'), lane.key('c')].sort());
    });

    it('keeps all claims, where nothing has a verdict', async () => {
      expect(await give({ slots: 3, keep: all.map((e) => lane.key(e)) })).toBe('done');
      expect(await lane.lane()).toMatchObject({ avail: 8 });
    });

    it.each([
      ['all are released', () => ({ release: all.map((e) => lane.key(e)) })],
      ['some are kept', () => ({ release: [lane.key('a')], keep: [lane.key('b'), lane.key('c')] })],
      ['all are kept', () => ({ keep: all.map((e) => lane.key(e)) })],
    ])('adds nothing a second time, and says done again, where %s', async (_why, claims) => {
      await give({ slots: 3, ...claims() });
      const once = await lane.lane();
      expect(await give({ slots: 3, ...claims() })).toBe('done');
      expect(await lane.lane()).toEqual(once);
    });

    it('is lost after the lease was reaped, for claims of it are left', async () => {
      await world().lanes.reapLease(lane.endpointId, 'l1', l1(3)[1]);
      expect(await give({ slots: 3, release: all.map((e) => lane.key(e)) })).toBe('lost');
      expect(await lane.lane()).toMatchObject({ avail: 8, leases: new Map() });
      expect((await lane.lane()).claims.size).toBe(3);
    });

    it('is done after the lease was reaped and its claims are gone or another\'s', async () => {
      await world().lanes.reapLease(lane.endpointId, 'l1', l1(3)[1]);
      for (const event of all) await reapFrom(world(), lane, event, undefined);
      await granted(['a'], { leaseId: 'l2' });
      expect(await give({ slots: 3, release: [lane.key('a'), lane.key('b')] })).toBe('done');
      expect((await lane.lane()).claims.get(lane.key('a'))).toMatchObject({ leaseId: 'l2' });
    });

    it('frees nothing of a newer lease', async () => {
      await give({ slots: 3, release: all.map((e) => lane.key(e)) });
      await granted(['a', 'b', 'c'], { leaseId: 'l2' });
      expect(await give({ slots: 3, release: all.map((e) => lane.key(e)) })).toBe('done');
      expect(await lane.lane()).toMatchObject({ avail: 5 });
      expect((await lane.lane()).claims.size).toBe(3);
    });

    it('counts what the attempts say once, however often it is written, and begins a window with the first', async () => {
      const tally = { ...emptyTally, attempts: 3, delivered: 2, unconnected: 1, offered: 3, busyMs: 1_234, answers: new Map([[53, 2]]), failures: new Map([[80, 1]]) };
      const counted = (leaseId: string, atEpochMs: number) => give({ leaseId, slots: 3, release: all.map((e) => lane.key(e)), counted: { tally, atEpochMs } });
      await counted('l1', 1_000);
      expect(await counted('l1', 2_000)).toBe('done');
      expect((await lane.lane()).window).toEqual({ sinceEpochMs: 1_000, ...tally });
      // What was counted before is shown to who is admitted next.
      const next = await admit(all, { leaseId: 'l2' });
      expect(next).toMatchObject({ kind: 'granted', window: { sinceEpochMs: 1_000, attempts: 3 } });
      await counted('l2', 3_000);
      expect((await lane.lane()).window).toEqual({ sinceEpochMs: 1_000, ...merged(tally, tally) });
    });

    describe('with failures', () => {
      let leases = 0;
      beforeEach(() => void (leases = 0));
      /** One lease of three after the other. */
      const failed = async (failures: number, answered: number, atEpochMs: number, more: { successes?: number; isFirst?: boolean } = {}) => {
        const { successes = 0, isFirst = false } = more;
        if (leases++ > 0) await granted(all, { leaseId: `l${leases}` });
        await give({ leaseId: `l${leases}`, slots: 3, release: all.map((e) => lane.key(e)), failures, successes, failed: { answered, atEpochMs, isFirst } });
        return (await lane.lane()).row;
      };

      it('knows since when, how many were answered, and when last; a success ends it, and so does a put', async () => {
        expect(await failed(3, 0, 1_000)).toEqual({ sinceEpochMs: 1_000, answered: 0, answeredEpochMs: undefined, lastEpochMs: 1_000, unansweredEpochMs: 1_000 });
        expect(await failed(3, 2, 2_000)).toEqual({ sinceEpochMs: 1_000, answered: 2, answeredEpochMs: 2_000, lastEpochMs: 2_000, unansweredEpochMs: undefined });
        expect(await failed(0, 3, 3_000)).toMatchObject({ sinceEpochMs: 1_000, answered: 2, lastEpochMs: 2_000 });
        expect(await failed(1, 1, 4_000)).toMatchObject({ sinceEpochMs: 1_000, answered: 3, answeredEpochMs: 4_000, lastEpochMs: 4_000 });
        expect(await failed(2, 2, 5_000, { successes: 1 })).toBeUndefined();
        expect(await failed(3, 3, 6_000)).toMatchObject({ sinceEpochMs: 6_000, answered: 3, answeredEpochMs: 6_000 });
        await world().lanes.moveTold(lane.endpointId, 'row', undefined, { what: 'warn@6000', atEpochMs: 1, isTold: true });
        await lane.put(8, 'V2');
        expect(await lane.lane()).toMatchObject({ failures: 0, row: undefined, told: new Map() });
      });

      it('knows since when nothing was answered, and when the last was tried', async () => {
        await failed(3, 0, 1_000);
        expect(await failed(3, 0, 2_000)).toMatchObject({ lastEpochMs: 2_000, unansweredEpochMs: 1_000 });
        expect(await failed(3, 1, 3_000)).toMatchObject({ lastEpochMs: 3_000, unansweredEpochMs: undefined });
        expect(await failed(3, 0, 4_000)).toMatchObject({ lastEpochMs: 4_000, unansweredEpochMs: 4_000 });
        expect(await failed(3, 0, 5_000)).toMatchObject({ sinceEpochMs: 1_000, lastEpochMs: 5_000, unansweredEpochMs: 4_000 });
      });

      it('begins anew for a lease that found no row, whatever is left of one', async () => {
        await failed(3, 2, 1_000);
        expect(await failed(3, 0, 2_000, { isFirst: true })).toEqual({ sinceEpochMs: 2_000, answered: 0, answeredEpochMs: undefined, lastEpochMs: 2_000, unansweredEpochMs: 2_000 });
        expect(await failed(3, 1, 3_000, { isFirst: true })).toEqual({ sinceEpochMs: 3_000, answered: 1, answeredEpochMs: 3_000, lastEpochMs: 3_000, unansweredEpochMs: undefined });
        expect((await lane.lane()).failures).toBe(9);
      });

      it('is told to who is admitted next', async () => {
        await failed(3, 2, 1_000);
        expect(await admit(['a'], { leaseId: 'l9' })).toMatchObject({ kind: 'granted', failures: 3 });
      });
    });

    it('counts failures in a row, until a success', async () => {
      await give({ slots: 3, release: all.map((e) => lane.key(e)), failures: 3 });
      expect((await lane.lane()).failures).toBe(3);
      await granted(['a', 'b']);
      await give({ slots: 2, release: [lane.key('a'), lane.key('b')], failures: 1 });
      expect((await lane.lane()).failures).toBe(4);
      await granted(['a', 'b']);
      await give({ slots: 2, release: [lane.key('a'), lane.key('b')], successes: 1, failures: 1 });
      expect((await lane.lane()).failures).toBe(0);
    });

    it('is lost where there is no lane at all', async () => {
      expect(await give({ endpointId: 'nobody', slots: 3, release: [lane.key('a')] })).toBe('lost');
    });

    it('still works on a removed endpoint', async () => {
      await world().remove(lane.endpointId);
      expect(await give({ slots: 3, release: all.map((e) => lane.key(e)) })).toBe('done');
      expect(await lane.lane()).toMatchObject({ avail: 8, cfg: removedCfg });
    });
  });


  describe('that somebody is told', () => {
    const move = (...args: [NoticeSubject, Told | undefined, Told | undefined]) => world().lanes.moveTold(lane.endpointId, ...args);
    const claimed: Told = { what: 'warn@5', atEpochMs: 7, isTold: false };

    it('is claimed by one of many, told by it, and may be taken away; each subject by itself', async () => {
      const answers = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((i) => move('row', undefined, { ...claimed, atEpochMs: i })));
      expect(answers.map(({ kind }) => kind).sort()).toEqual([...Array<string>(9).fill('lost'), 'moved']);
      const won = (await lane.lane()).told.get('row') as Told;
      expect(await move('row', { ...won, what: 'alert@5' }, { ...won, isTold: true })).toMatchObject({ kind: 'lost' });
      expect(await move('row', won, { ...won, isTold: true })).toEqual({ kind: 'moved' });
      expect(await move('flag', undefined, claimed)).toEqual({ kind: 'moved' });
      expect((await lane.lane()).told).toEqual(new Map<NoticeSubject, Told>([['row', { ...won, isTold: true }], ['flag', claimed]]));
      expect(await move('row', { ...won, isTold: true }, undefined)).toEqual({ kind: 'moved' });
      expect((await lane.lane()).told).toEqual(new Map([['flag', claimed]]));
    });

    it('makes no lane where there is none', async () => {
      expect(await world().lanes.moveTold('nobody', 'row', undefined, claimed)).toMatchObject({ kind: 'lost' });
      expect(await world().lane('nobody')).toBeUndefined();
    });
  });

  describe('a window', () => {
    const windows = () => world().lanes;
    const offered = { tally: { ...emptyTally, offered: 4, shed: 3 }, atEpochMs: 1_000 };

    it('counts what came and got no lease, also in a lane that has counted nothing', async () => {
      await windows().countOffers(lane.endpointId, offered);
      await windows().countOffers(lane.endpointId, { ...offered, atEpochMs: 2_000 });
      expect((await lane.lane()).window).toEqual({ ...emptyTally, sinceEpochMs: 1_000, offered: 8, shed: 6 });
    });

    it('is counted for no endpoint that is not there, and makes none', async () => {
      await windows().countOffers('nobody', offered);
      expect(await world().lane('nobody')).toBeUndefined();
      await world().remove(lane.endpointId);
      await windows().countOffers(lane.endpointId, offered);
      expect((await lane.lane()).window).toBeUndefined();
    });

    it('is taken out whole, once, and the next begins at nothing', async () => {
      await windows().countOffers(lane.endpointId, offered);
      const seen = (await lane.lane()).window as Window;
      // Meanwhile more was counted: it goes with it.
      await windows().countOffers(lane.endpointId, { ...offered, atEpochMs: 5_000 });
      expect(await windows().takeWindow(lane.endpointId, seen, undefined)).toEqual({ ...emptyTally, sinceEpochMs: 1_000, offered: 8, shed: 6 });
      expect(await windows().takeWindow(lane.endpointId, seen, undefined)).toBeUndefined();
      expect((await lane.lane()).window).toBeUndefined();
      await windows().countOffers(lane.endpointId, { ...offered, atEpochMs: 9_000 });
      expect((await lane.lane()).window).toMatchObject({ sinceEpochMs: 9_000, offered: 4 });
      expect(await windows().takeWindow(lane.endpointId, seen, undefined)).toBeUndefined();
    });

    it('teaches the lane in the same write, or nothing', async () => {
      const take = async (learnedMs: number | undefined) => {
        await windows().countOffers(lane.endpointId, offered);
        await windows().takeWindow(lane.endpointId, (await lane.lane()).window as Window, learnedMs);
        return (await lane.lane()).learnedMs;
      };
      expect([await take(undefined), await take(1_200), await take(undefined), await take(300)]).toEqual([undefined, 1_200, 1_200, 300]);
      await windows().takeWindow(lane.endpointId, { ...emptyTally, sinceEpochMs: 1 }, 9_000);
      expect((await lane.lane()).learnedMs).toBe(300);
      expect(await admit(['a'])).toMatchObject({ kind: 'granted', slots: 8, learnedMs: 300 });
    });

    it('leaves everything else of the lane as it is', async () => {
      await granted(['a']);
      const before = await lane.lane();
      await windows().countOffers(lane.endpointId, offered);
      await windows().takeWindow(lane.endpointId, (await lane.lane()).window as Window, undefined);
      expect(await lane.lane()).toEqual(before);
    });
  });

  describe('exchange', () => {
    const keys = (...events: string[]) => events.map((e) => lane.key(e));
    const exchange = (give: Parameters<LaneSubject['give']>[0], ...ask: Parameters<LaneSubject['ask']>) => world().lanes.exchange(lane.give(give), lane.ask(...ask));
    beforeEach(async () => {
      await lane.put(2);
      await granted(['a', 'b']);
    });

    it('gives one lease back and takes the next, in a lane that has room for one of them only', async () => {
      expect(await exchange({ slots: 2, release: keys('a', 'b'), failures: 2 }, ['c', 'd'], { leaseId: 'l2' })).toMatchObject({ kind: 'granted', avail: 0, failures: 2 });
      const now = await lane.lane();
      expect(now).toMatchObject({ avail: 0, failures: 2 });
      expect([...now.leases]).toEqual([['l2', l1(2)[1]]]);
      expect([...now.claims.keys()].sort()).toEqual(keys('c', 'd').sort());
    });

    it('may take fewer than it returns, or more', async () => {
      expect(await exchange({ slots: 2, release: keys('a', 'b') }, ['c'], { leaseId: 'l2' })).toMatchObject({ kind: 'granted', avail: 1, failures: 0 });
      expect(await exchange({ leaseId: 'l2', slots: 1, release: keys('c') }, ['d', 'e'], { leaseId: 'l3' })).toMatchObject({ kind: 'granted', avail: 0, failures: 0 });
    });

    it('keeps claims without a verdict, under their own lease without slots', async () => {
      await exchange({ slots: 2, release: keys('a'), keep: keys('b') }, ['c', 'd'], { leaseId: 'l2' });
      const now = await lane.lane();
      expect([...now.leases].sort()).toEqual([l1(0), ['l2', l1(2)[1]]]);
      expect([...now.claims.keys()].sort()).toEqual(keys('b', 'c', 'd').sort());
    });

    it.each<[string, () => Promise<unknown>, Parameters<LaneSubject['ask']>]>([
      ['there is no room for so many', () => Promise.resolve(), [['c', 'd', 'e'], { leaseId: 'l2' }]],
      ['the lane shrank meanwhile', () => lane.put(1), [['c', 'd'], { leaseId: 'l2' }]],
      ['the configuration is another', () => lane.put(2, 'V2'), [['c'], { leaseId: 'l2' }]],
      ['a claim is in the way', () => lane.put(3).then(() => granted(['c'], { leaseId: 'l9' })), [['c'], { leaseId: 'l2' }]],
      ['its own lease was reaped', () => world().lanes.reapLease(lane.endpointId, 'l1', l1(2)[1]), [['c'], { leaseId: 'l2' }]],
      ['one of its claims was reaped', () => reapFrom(world(), lane, 'a', undefined), [['c'], { leaseId: 'l2' }]],
    ])('is refused, and changes nothing, where %s', async (_why, meanwhile, ask) => {
      await meanwhile();
      const before = await lane.lane();
      expect(await exchange({ slots: 2, release: keys('a', 'b') }, ...ask)).toEqual({ kind: 'refused', lane: before });
      expect(await lane.lane()).toEqual(before);
    });

    it('shows its own new lease to whoever repeats it', async () => {
      await exchange({ slots: 2, release: keys('a', 'b') }, ['c'], { leaseId: 'l2' });
      const before = await lane.lane();
      expect(await exchange({ slots: 2, release: keys('a', 'b') }, ['c'], { leaseId: 'l2' })).toEqual({ kind: 'refused', lane: before });
      expect(before.leases.has('l2')).toBe(true);
    });

    it('is refused where there is no lane', async () => {
      expect(await exchange({ endpointId: 'nobody', slots: 1 }, ['a'], { endpointId: 'nobody', leaseId: 'l2' })).toEqual({ kind: 'refused', lane: undefined });
    });
  });

  describe('reapLease', () => {
    it('returns the slots once', async () => {
      await granted(['a', 'b']);
      for (let i = 0; i < 3; i++) await world().lanes.reapLease(lane.endpointId, 'l1', l1(2)[1]);
      expect(await lane.lane()).toMatchObject({ avail: 8, leases: new Map() });
    });

    it('leaves a lease alone that is not exactly as it was seen', async () => {
      await granted(['a', 'b']);
      await world().lanes.reapLease(lane.endpointId, 'l1', l1(2, expiresEpochMs + 1)[1]);
      await world().lanes.reapLease(lane.endpointId, 'l1', l1(1)[1]);
      await world().lanes.reapLease(lane.endpointId, 'l9', l1(2)[1]);
      expect([...(await lane.lane()).leases]).toEqual([l1(2)]);
    });
  });

  describe('moveBreaker', () => {
    const move = (from: Breaker | undefined, to: Breaker) => world().lanes.moveBreaker(lane.endpointId, from, to);

    it.each<[string, Breaker | undefined, Breaker]>([
      ['from nothing to a tally', undefined, tally],
      ['from nothing to open', undefined, open],
      ['from a tally to another', tally, { ...tally, slow: { ...tally.slow, hits: 3 } }],
      ['from a tally to open', tally, open],
      ['from open to open', open, { ...open, round: 2, trips: 2 }],
      ['from open with a canary to a tally', { ...open, canary }, { ...tally, round: 2 }],
      ['from open with a canary to open without', { ...open, canary }, open],
    ])('writes %s, once', async (_what, from, to) => {
      if (from !== undefined) await move(undefined, from);
      const before = await lane.lane();
      expect(await move(from, to)).toEqual({ kind: 'moved' });
      expect(await lane.lane()).toEqual({ ...before, breaker: to });
      expect(await move(from, to)).toEqual({ kind: 'lost', lane: { ...before, breaker: to } });
    });

    it.each<[string, Breaker | undefined, Breaker | undefined]>([
      ['there is a tally and none was seen', tally, undefined],
      ['it is open and nothing was seen', open, undefined],
      ['the tally is another', tally, { ...tally, failed: { ...tally.failed, attempts: 2 } }],
      ['the tally is of another lease', tally, { ...tally, by: 'l9' }],
      ['it has opened', open, tally],
      ['it has closed', tally, open],
      ['it has a canary by now', { ...open, canary }, open],
      ['its canary is another', { ...open, canary }, { ...open, canary: { ...canary, leaseId: 'l9' } }],
      ['there was none yet', undefined, tally],
    ])('changes nothing where %s', async (_what, there, seen) => {
      if (there !== undefined) await move(undefined, there);
      const before = await lane.lane();
      expect(await move(seen, { ...tally, round: 7 })).toEqual({ kind: 'lost', lane: before });
      expect(await lane.lane()).toEqual(before);
    });
  });

  it('moveDay writes over what was seen, and nothing else', async () => {
    const day = (attempts: number, isSpent = false): DaySpent => ({ day: 20_000, attempts, isSpent });
    const move = (from: DaySpent | undefined, to: DaySpent) => world().lanes.moveDay(lane.endpointId, from, to);
    const before = await lane.lane();
    expect(await move(day(1), day(2))).toEqual({ kind: 'lost', lane: before });
    expect(await move(undefined, day(1))).toEqual({ kind: 'moved' });
    expect(await move(undefined, day(7))).toEqual({ kind: 'lost', lane: { ...before, day: day(1) } });
    expect(await move({ ...day(1), day: 19_999 }, day(2))).toEqual({ kind: 'lost', lane: { ...before, day: day(1) } });
    expect(await move(day(1), day(2, true))).toEqual({ kind: 'moved' });
    expect(await admit(['a'])).toMatchObject({ kind: 'granted', avail: 7, day: day(2, true), nextAtEpochMs: undefined });
    expect(await world().lanes.exchange(lane.give({ slots: 1, release: [lane.key('a')] }), lane.ask(['b'], { leaseId: 'l2' }))).toMatchObject({ day: day(2, true) });
  });

  it('moveRate writes over what was seen, and nothing else', async () => {
    const move = (from: number | undefined, to: number) => world().lanes.moveRate(lane.endpointId, from, to);
    const before = await lane.lane();
    expect(await move(5, 9)).toEqual({ kind: 'lost', lane: before });
    expect(await move(undefined, 5)).toEqual({ kind: 'moved' });
    expect(await move(undefined, 7)).toEqual({ kind: 'lost', lane: { ...before, nextAtEpochMs: 5 } });
    expect(await move(5, 9)).toEqual({ kind: 'moved' });
    expect(await admit(['a'])).toMatchObject({ kind: 'granted', avail: 7, failures: 0, breaker: undefined, nextAtEpochMs: 9 });
    expect(await world().lanes.exchange(lane.give({ slots: 1, release: [lane.key('a')] }), lane.ask(['b'], { leaseId: 'l2' }))).toMatchObject({ nextAtEpochMs: 9 });
  });

  describe('an open breaker', () => {
    beforeEach(async () => void (await world().lanes.moveBreaker(lane.endpointId, undefined, open)));
    const asCanary = (event: string, leaseId: string, more: Partial<Admission> = {}) => admit([event], { leaseId, canaryOf: open, ...more });

    it('refuses, also an exchange, and changes nothing', async () => {
      const before = await lane.lane();
      expect(await admit(['a'])).toEqual({ kind: 'refused', lane: before });
      expect(before.breaker).toEqual(open);
      expect(await asCanary('a', 'l1')).toMatchObject({ kind: 'granted' });
      const busy = await lane.lane();
      expect(await world().lanes.exchange(lane.give({ slots: 1, release: [lane.key('a')] }), lane.ask(['b'], { leaseId: 'l2' }))).toEqual({ kind: 'refused', lane: busy });
      expect(await lane.lane()).toEqual(busy);
    });

    it('admits one canary, by a lease that it names', async () => {
      expect(await asCanary('a', 'l1')).toMatchObject({ kind: 'granted', avail: 7, failures: 0, breaker: { ...open, canary } });
      const now = await lane.lane();
      expect([now.breaker, [...now.leases], now.claims.size]).toEqual([{ ...open, canary }, [l1(1)], 1]);
      expect(await asCanary('b', 'l2')).toEqual({ kind: 'refused', lane: now });
      // In the place of one that has died.
      expect(await asCanary('b', 'l2', { canaryOf: { ...open, canary } })).toMatchObject({ kind: 'granted', breaker: { canary: { leaseId: 'l2' } } });
    });

    it('admits one of fifty that come at the same moment', async () => {
      const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => asCanary(`e${i}`, `l${i}`)));
      expect(answers.filter((answer) => answer.kind === 'granted')).toHaveLength(1);
      expect(answers.filter((answer) => answer.kind === 'refused')).toHaveLength(49);
      expect(await lane.lane()).toMatchObject({ avail: 7 });
    });

    it.each<[string, () => Promise<unknown>, Partial<Admission>]>([
      ['the configuration is another', () => Promise.resolve(), { cfg: 'V0' }],
      ['the lane is full', () => lane.put(1).then(() => asCanary('x', 'l1')), { leaseId: 'l2', canaryOf: { ...open, canary } }],
      ['it has closed', () => world().lanes.moveBreaker(lane.endpointId, open, { ...tally, round: 2 }), {}],
      ['it has opened again', () => world().lanes.moveBreaker(lane.endpointId, open, { ...open, round: 2 }), {}],
    ])('admits no canary where %s', async (_why, meanwhile, more) => {
      await meanwhile();
      const before = await lane.lane();
      expect(await asCanary('a', 'l1', more)).toEqual({ kind: 'refused', lane: before });
      expect(await lane.lane()).toEqual(before);
    });

    it('admits as before once it is closed', async () => {
      await world().lanes.moveBreaker(lane.endpointId, open, { ...tally, round: 2 });
      expect(await admit(['a'])).toMatchObject({ kind: 'granted', avail: 7, failures: 0, breaker: { ...tally, round: 2 } });
    });
  });

  it('a give-back that comes late takes nothing from whoever has the claim now', async () => {
    await granted(['a', 'b']);
    expect(await reapFrom(world(), lane, 'a', undefined)).toBe('reaped');
    const next = lane.ask(['a'], { leaseId: 'l2', expiresEpochMs: expiresEpochMs + 60_000 });
    expect((await world().lanes.admit(next)).kind).toBe('granted');
    const late = lane.give({ leaseId: 'l1', slots: 2, release: [lane.key('a'), lane.key('b')], keep: [], expiresEpochMs });
    expect(await world().lanes.giveBack(late)).toBe('lost');
    const found = await lane.lane();
    expect(found.claims.get(lane.key('a'))?.leaseId).toBe('l2');
  });

  describe('reapClaim', () => describeReapClaim(world, () => lane, granted));
}

/** Reaps the claim that l1 holds on an event, after its expiry, from the record as given. */
function reapFrom(world: World, lane: LaneSubject, event: string, from: DeliveryRecord | undefined, more: Partial<ReapClaim> = {}) {
  const { claimKey, shortHash } = lane.names(event);
  const base = from ?? waitingOf({}, { endpointId: lane.endpointId, eventId: event });
  const ambiguous: ReapClaim['ambiguous'] = base.state !== 'waiting' ? undefined
    : { from: from?.state === 'waiting' ? from : undefined, to: afterReap(base, 'l1', expiresEpochMs, undefined) };
  return world.lanes.reapClaim({ endpointId: lane.endpointId, claimKey, claim: { leaseId: 'l1', shortHash }, ambiguous, ...more });
}

function describeReapClaim(world: () => World, subject: () => LaneSubject, granted: (events: readonly string[]) => Promise<void>): void {
  const recordOf = (overrides: Partial<WaitingRecord> = {}) => waitingOf(overrides, { endpointId: subject().endpointId, eventId: 'a' });
  const reap = (from: DeliveryRecord | undefined, more: Partial<ReapClaim> = {}) => reapFrom(world(), subject(), 'a', from, more);
  const isClaimed = async () => (await subject().lane()).claims.has(subject().key('a'));
  const write = async (record: DeliveryRecord) => expect(await world().records.write(undefined, record)).toBe('written');
  beforeEach(() => granted(['a']));

  it('records one ambiguous attempt where there was no record, and removes the claim', async () => {
    expect(await reap(undefined)).toBe('reaped');
    expect(await isClaimed()).toBe(false);
    expect(await subject().record('a')).toMatchObject({ state: 'waiting', attempt: 1, ambiguous: 1, lastLease: { leaseId: 'l1', kind: 'reaped' } });
  });

  it('records it on the record that was read', async () => {
    await write(recordOf({ attempt: 4, dueEpochMs: t0EpochMs - 5 }));
    expect(await reap(recordOf({ attempt: 4 }))).toBe('reaped');
    expect(await subject().record('a')).toMatchObject({ attempt: 5, ambiguous: 1 });
  });

  it('leaves a record with a verdict as it is', async () => {
    const record = deliveredOf({}, { endpointId: subject().endpointId, eventId: 'a' });
    await write(record);
    expect(await reap(record)).toBe('reaped');
    expect([await isClaimed(), await subject().record('a')]).toEqual([false, record]);
  });

  it('happens once', async () => {
    expect(await reap(undefined)).toBe('reaped');
    expect(await reap(undefined)).toBe('lost');
    expect(await reap(recordOf({ attempt: 1 }))).toBe('lost');
    expect((await subject().record('a'))?.attempt).toBe(1);
  });

  it('needs the claim to be exactly as it was seen', async () => {
    const { shortHash } = subject().names('a');
    expect(await reap(undefined, { claim: { leaseId: 'l2', shortHash } })).toBe('lost');
    expect(await reap(undefined, { claim: { leaseId: 'l1', shortHash: 'another' } })).toBe('lost');
    expect(await reap(undefined, { claimKey: subject().key('b') })).toBe('lost');
    expect([await isClaimed(), await subject().record('a')]).toEqual([true, undefined]);
  });

  it.each<[string, () => DeliveryRecord | undefined, () => DeliveryRecord | undefined]>([
    ['appeared', () => recordOf({ attempt: 1 }), () => undefined],
    ['vanished', () => undefined, () => recordOf({ attempt: 1 })],
    ['has another attempt', () => recordOf({ attempt: 2 }), () => recordOf({ attempt: 1 })],
    ['has another generation', () => recordOf({ generation: 2 }), () => recordOf({ generation: 1 })],
    ['has another state', () => deliveredOf({ attempt: 1 }, { endpointId: subject().endpointId, eventId: 'a' }), () => recordOf({ attempt: 1 })],
  ])('needs the record to be unchanged: it %s', async (_why, found, read) => {
    const record = found();
    if (record !== undefined) await write(record);
    expect(await reap(read())).toBe('lost');
    expect([await isClaimed(), await subject().record('a')]).toEqual([true, record]);
  });

  it.each(['delivered', 'burying', 'buried'] as const)('records no attempt over a verdict (%s) that came late', async (state) => {
    const record = state === 'delivered' ? deliveredOf({ attempt: 1 }, { endpointId: subject().endpointId, eventId: 'a' }) : { ...deadOf(state, { attempt: 1 }), ...keysOf(subject()) };
    await write(record);
    expect(await reap(recordOf({ attempt: 1 }))).toBe('lost');
    expect([await isClaimed(), await subject().record('a')]).toEqual([true, record]);
  });
}

function keysOf(lane: LaneSubject) {
  const { endpointId, eventId, recordKey, payloadHash } = lane.names('a');
  return { endpointId, eventId, recordKey, payloadHash };
}
