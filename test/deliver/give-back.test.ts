import { beforeEach, describe, expect, it } from 'vitest';
import type { GiveBackAnswer } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, deliveredOf, receivedOf, t0EpochMs } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered } from '../support/fakes.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create();
});

describe('a give-back', () => {
  it.each<GiveBackAnswer>(['lost', 'unsure'])('%s: nothing is acknowledged, for a claim that is left needs its message', async (answer) => {
    const { exit, delayS } = await h.runOne(bodyOf(), {}, h.lanesBut({ giveBack: () => Promise.resolve(answer) }));
    expect([exit, delayS]).toEqual(['retain', 40]);
    expect(h.record()).toMatchObject({ state: 'delivered' });
    expect(h.telemetry.count('give-back-failed')).toBe(1);
  });

  it('that was not applied is made up for by the message: it reaps, sends nothing, and is acknowledged', async () => {
    await h.runOne(bodyOf(), {}, h.lanesBut({ giveBack: () => Promise.resolve('unsure') }));
    expect((await h.lane()).claims.size).toBe(1);
    h.clock.advance(40_000);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toHaveLength(1);
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 1, ambiguous: 0 });
    expect((await h.lane()).claims.size).toBe(0);
  });

  it('that was applied though nobody heard of it costs one more receive', async () => {
    const lanes = h.lanesBut({
      giveBack: async (give) => {
        await h.store.lanes.giveBack(give);
        return 'unsure';
      },
    });
    expect(await h.runOne(bodyOf(), {}, lanes)).toMatchObject({ exit: 'retain' });
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toHaveLength(1);
  });

  it('that fails moves no message that waits anyway', async () => {
    h.http.script = (request) => answered(request.headers['webhook-id'] === 'a' ? 503 : 200);
    const batch = ['a', 'b'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch, h.lanesBut({ giveBack: () => Promise.resolve('unsure') }))).toEqual(batch.map((m) => m.messageId));
    expect(batch.map((m) => h.queues.delayOf(m))).toEqual([3, 40]);
  });

  it('that fails keeps repeats in the batch too', async () => {
    const batch = [1, 2].map(() => receivedOf(bodyOf()));
    expect(await h.run(batch, h.lanesBut({ giveBack: () => Promise.resolve('lost') }))).toHaveLength(2);
  });

  it('happens also where nothing was attempted', async () => {
    h.store.seed(deliveredOf());
    await h.runOne(bodyOf());
    expect(await h.lane()).toMatchObject({ avail: 8, claims: new Map(), leases: new Map(), failures: 0 });
  });

  it('counts verdicts only: failures in a row, ended by a success', async () => {
    h.http.script = () => answered(503);
    await h.run(['a', 'b', 'c'].map((eventId) => receivedOf(bodyOf({ eventId }))));
    expect((await h.lane()).failures).toBe(3);
    h.http.script = () => ({ kind: 'notStarted', why: 'no-socket' });
    await h.runOne(bodyOf({ eventId: 'd' }));
    expect((await h.lane()).failures).toBe(3);
    h.http.script = () => answered(200);
    await h.runOne(bodyOf({ eventId: 'e' }));
    expect((await h.lane()).failures).toBe(0);
  });
});

describe('an admission', () => {
  it('whose fate is not known is taken back, and nothing is sent', async () => {
    const lanes = h.lanesBut({
      admit: async (ask) => {
        await h.store.lanes.admit(ask);
        return { kind: 'unsure' };
      },
    });
    expect(await h.runOne(bodyOf(), {}, lanes)).toMatchObject({ exit: 'retain', delayS: 3 });
    expect(h.http.sent).toEqual([]);
    expect(await h.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map() });
  });

  it('that is throttled puts everything back, and asks no second time', async () => {
    let asked = 0;
    const lanes = h.lanesBut({
      admit: () => {
        asked++;
        return Promise.resolve({ kind: 'throttled' });
      },
    });
    expect(await h.runOne(bodyOf(), { receiveCount: 6 }, lanes)).toMatchObject({ exit: 'retain', delayS: 180 });
    expect([asked, h.http.sent]).toEqual([1, []]);
  });

  it('that the SDK repeated is recognised as its own, and sent', async () => {
    const lanes = h.lanesBut({
      admit: async (ask) => {
        await h.store.lanes.admit(ask);
        return h.store.lanes.admit(ask);
      },
    });
    expect(await h.runOne(bodyOf(), {}, lanes)).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toEqual(['evt_1']);
    expect(await h.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map() });
  });

  it('takes the room of dead workers where it needs it', async () => {
    h = await Harness.create({ maxInFlight: 2 });
    await h.claimElsewhere({ eventId: 'x' }, t0EpochMs + 1);
    h.clock.advance(1);
    const batch = ['a', 'b'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch)).toEqual([]);
    const lane = await h.lane();
    expect(lane).toMatchObject({ avail: 2, leases: new Map() });
    // The dead worker's claim is its own message's to clear.
    expect(lane.claims.size).toBe(1);
  });

  it('uses one lease id for both tries, and ends leases past the invocation', async () => {
    const leases: [string, number][] = [];
    h = await Harness.create({ maxInFlight: 2 });
    await h.claimElsewhere({ eventId: 'x' });
    h.http.script = () => {
      h.clock.advance(1_500);
      return answered(200);
    };
    const lanes = h.lanesBut({
      admit: (ask) => {
        leases.push([ask.leaseId, ask.expiresEpochMs]);
        return h.store.lanes.admit(ask);
      },
    });
    await h.run(['a', 'b'].map((eventId) => receivedOf(bodyOf({ eventId }))), lanes);
    expect(leases).toEqual([['lease-1', t0EpochMs + 35_000], ['lease-1', t0EpochMs + 35_000]]);
  });
});
