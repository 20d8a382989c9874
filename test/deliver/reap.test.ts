import { beforeEach, describe, expect, it } from 'vitest';
import { bodyOf, deadOf, deliveredOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered } from '../support/fakes.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create();
});
const expired = t0EpochMs;

describe('an expired claim', () => {
  it('with a waiting record: one ambiguous attempt on it', async () => {
    h.store.seed(waitingOf({ attempt: 3, dueEpochMs: t0EpochMs }));
    await h.claimElsewhere({}, expired);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 5, ambiguous: 1 });
  });

  it('whose owner had settled records nothing: the verdict is there', async () => {
    h.store.seed(waitingOf({ attempt: 3, dueEpochMs: t0EpochMs, lastLease: { leaseId: 'elsewhere', kind: 'settled' } }));
    await h.claimElsewhere({}, expired);
    await h.runOne(bodyOf());
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 4, ambiguous: 0 });
  });

  it.each([deliveredOf(), deadOf('buried')])('on a terminal record ($state) is removed, and the message acknowledged', async (record) => {
    h.store.seed(record);
    await h.claimElsewhere({}, expired);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.record(), h.http.sent]).toEqual([record, []]);
    expect((await h.lane()).claims.size).toBe(0);
  });

  it('without a record is no matter for a message with another payload: it waits', async () => {
    await h.claimElsewhere({}, expired);
    expect(await h.runOne(bodyOf({ payload: '[]' }))).toMatchObject({ exit: 'retain' });
    expect([h.record(), h.http.sent]).toEqual([undefined, []]);
    expect((await h.lane()).claims.size).toBe(1);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ attempt: 2, ambiguous: 1 });
    expect(await h.runOne(bodyOf({ payload: '[]' }))).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toMatchObject([{ record: { reason: 'conflict' } }]);
  });

  it('of a worker with another payload than the record\'s records nothing, for that worker sent nothing', async () => {
    h.store.seed(waitingOf({ attempt: 1, dueEpochMs: t0EpochMs }));
    await h.claimElsewhere({ payload: '[]' }, expired);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 2, ambiguous: 0 });
  });

  it('that another was quicker to reap puts the message back', async () => {
    await h.claimElsewhere({}, expired);
    expect(await h.runOne(bodyOf(), {}, h.lanesBut({ reapClaim: () => Promise.resolve('lost') }))).toMatchObject({ exit: 'retain', delayS: 2 });
    expect(h.http.sent).toEqual([]);
  });

  it('stays where the record cannot be read', async () => {
    await h.claimElsewhere({}, expired);
    const unread = h.recordsBut({ read: (keys) => Promise.resolve({ found: new Map(), unread: new Set(keys) }) });
    expect(await h.runOne(bodyOf(), {}, unread)).toMatchObject({ exit: 'retain' });
    expect((await h.lane()).claims.size).toBe(1);
  });

  it('may use up the last attempt: then it is buried, and not sent', async () => {
    h = await Harness.create({ retry: { attempts: 2 } });
    h.store.seed(waitingOf({ attempt: 1 }));
    await h.claimElsewhere({}, expired);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.queues.buried]).toMatchObject([[], [{ record: { reason: 'exhausted', attempt: 2, ambiguous: 1 } }]]);
  });

  it('leaves the others of a batch to go on', async () => {
    await h.claimElsewhere({ eventId: 'a' }, expired);
    h.http.script = () => answered(200);
    expect(await h.runOne(bodyOf({ eventId: 'b' }))).toMatchObject({ exit: 'ack' });
  });
});
