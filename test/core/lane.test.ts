import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { claimEndsEpochMs, inFlight, isExpired, readRefusal, removedCfg, type Claim, type Lease } from '../../lambdas/shared/core/lane.ts';
import { laneOf } from '../support/builders.ts';

const now = 1_000_000;
const live: Lease = { slots: 1, expiresEpochMs: now + 1 };
const gone: Lease = { slots: 2, expiresEpochMs: now };
const want = (claimKey: string) => ({ claimKey, shortHash: 'hash' });
const claim = (leaseId: string): Claim => ({ leaseId, shortHash: 'hash' });
const asked = { leaseId: 'mine', cfg: 'V1', wanted: [want('a'), want('b'), want('c')] };

describe('readRefusal', () => {
  it('finds no lane', () => {
    expect(readRefusal(undefined, asked, now)).toEqual({ kind: 'noLane' });
    expect(readRefusal(laneOf({ cfg: removedCfg }), asked, now)).toEqual({ kind: 'noLane' });
  });

  it('finds its own lease: what the item says was granted', () => {
    const lane = laneOf({ leases: new Map([['mine', live]]), claims: new Map([['a', claim('mine')], ['c', claim('other')]]) });
    expect(readRefusal(lane, asked, now)).toEqual({ kind: 'granted', granted: [want('a')], others: [want('b'), want('c')] });
  });

  it('reads its own lease before a changed configuration, a full lane and other claims', () => {
    const lane = laneOf({ cfg: 'V2', avail: -3, leases: new Map([['mine', live], ['other', live]]), claims: new Map([['a', claim('mine')], ['b', claim('other')]]) });
    expect(readRefusal(lane, asked, now)).toMatchObject({ kind: 'granted', granted: [want('a')], others: [want('b'), want('c')] });
  });

  it('finds another configuration before claims and room', () => {
    const lane = laneOf({ cfg: 'V2', avail: 0, leases: new Map([['other', live]]), claims: new Map([['a', claim('other')]]) });
    expect(readRefusal(lane, asked, now)).toEqual({ kind: 'staleConfig' });
  });

  it('sorts keys into free, live and expired', () => {
    const lane = laneOf({ avail: 1, leases: new Map([['other', live]]), claims: new Map([['a', claim('other')], ['b', claim('vanished')]]) });
    expect(readRefusal(lane, asked, now)).toEqual({
      kind: 'partly',
      open: undefined,
      isSlow: false,
      free: [want('c')],
      room: 1,
      live: [{ wanted: want('a'), endsEpochMs: now + 1 }],
      expired: [{ wanted: want('b'), claim: claim('vanished') }],
      expiredLeases: [],
    });
  });

  it('counts the slots of expired leases as room, and a shrunk lane as none', () => {
    const leases = new Map([['old', gone], ['other', live]]);
    expect(readRefusal(laneOf({ avail: 1, leases }), asked, now)).toMatchObject({ room: 3, expiredLeases: [['old', gone]] });
    expect(readRefusal(laneOf({ avail: -1, leases }), asked, now)).toMatchObject({ room: 1 });
    expect(readRefusal(laneOf({ avail: -5, leases }), asked, now)).toMatchObject({ room: 0 });
  });

  it('takes a claim for expired at the very millisecond of its lease\'s end', () => {
    const lane = laneOf({ leases: new Map([['old', gone]]), claims: new Map([['a', claim('old')]]) });
    expect(readRefusal(lane, asked, now)).toMatchObject({ expired: [{ wanted: want('a'), claim: claim('old') }], live: [] });
    expect(readRefusal(lane, asked, now - 1)).toMatchObject({ expired: [], live: [{ wanted: want('a'), endsEpochMs: now }] });
  });

  it('speaks of every wanted key exactly once', () => {
    const leaseIds = fc.constantFrom('l1', 'l2', 'l3', 'mine');
    const leases = fc.dictionary(leaseIds, fc.record({ slots: fc.nat(4), expiresEpochMs: fc.integer({ min: now - 2, max: now + 2 }) }));
    const claims = fc.dictionary(fc.constantFrom('a', 'b', 'c'), leaseIds.map(claim));
    fc.assert(
      fc.property(leases, claims, fc.integer({ min: -4, max: 8 }), (ls, cs, avail) => {
        const lane = laneOf({ avail, leases: new Map(Object.entries(ls)), claims: new Map(Object.entries(cs)) });
        const why = readRefusal(lane, asked, now);
        const spoken = why.kind === 'granted' ? [...why.granted, ...why.others] : why.kind === 'partly' ? [...why.free, ...why.live.map((l) => l.wanted), ...why.expired.map((e) => e.wanted)] : [];
        expect(spoken.map((w) => w.claimKey).sort()).toEqual(['a', 'b', 'c']);
      }),
    );
  });
});

describe('a lane', () => {
  const lane = laneOf({ leases: new Map([['l1', live], ['l2', gone]]) });

  it('knows when a claim ends', () => {
    expect([claim('l1'), claim('l2'), claim('none')].map((c) => isExpired(lane, c, now))).toEqual([false, true, true]);
    expect([claim('l1'), claim('l2'), claim('none')].map((c) => claimEndsEpochMs(lane, c))).toEqual([now + 1, now, 0]);
  });

  it('counts only leases that have not expired as in flight', () => {
    expect([inFlight(lane, now - 1), inFlight(lane, now), inFlight(lane, now + 1)]).toEqual([3, 1, 0]);
  });
});
