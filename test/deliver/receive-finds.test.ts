/** The table "What a receive finds, and what it does" of the design, row by row. */
import { beforeEach, describe, expect, it } from 'vitest';
import { syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { Records } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, deadOf, deliveredOf, droppedOf, endpointOf, namesOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered } from '../support/fakes.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create();
});
const idle = { avail: 8, leases: new Map(), claims: new Map() };

describe('a receive finds', () => {
  it('no record: it delivers, and leaves nothing behind but the record', async () => {
    const { exit, delayS } = await h.runOne(bodyOf());
    expect([exit, delayS, h.http.sent]).toEqual(['ack', undefined, ['evt_1']]);
    expect(h.record()).toMatchObject({ state: 'delivered', generation: 0, attempt: 1, lastLease: { leaseId: 'lease-1', kind: 'settled' } });
    expect(await h.lane()).toMatchObject({ ...idle, failures: 0 });
  });

  it('waiting, due: it delivers the next attempt', async () => {
    h.store.seed(waitingOf({ attempt: 2, dueEpochMs: t0EpochMs }));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.http.requests[0]?.headers).toMatchObject({ 'sluice-attempt': '3' });
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 3 });
  });

  it('waiting, early: it puts the message back until it is due', async () => {
    h.store.seed(waitingOf({ attempt: 1, dueEpochMs: t0EpochMs + 59_500 }));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain', delayS: 60 });
    expect([h.http.sent, h.record()]).toEqual([[], waitingOf({ attempt: 1, dueEpochMs: t0EpochMs + 59_500 })]);
    expect(await h.lane()).toMatchObject(idle);
  });

  it('waiting for more than a minute: it holds the delivery until it is due', async () => {
    const dueEpochMs = t0EpochMs + 60_001;
    h.store.seed(waitingOf({ attempt: 1, dueEpochMs }));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toEqual([[], waitingOf({ attempt: 1, dueEpochMs, home: 'held' })]);
    expect(await h.lane()).toMatchObject({ ...idle, holding: { wakeAtEpochMs: dueEpochMs, count: 1, isReady: false } });
    expect([h.wakeUps.orders, h.store.bodies.size]).toEqual([[{ endpointId: 'acme', atEpochMs: dueEpochMs }], 1]);
  });

  it('waiting, and a larger resend: it asks for nothing more, in whichever order the two copies come (DESIGN: on waiting, nothing)', async () => {
    h.store.seed(waitingOf({ attempt: 1, dueEpochMs: t0EpochMs + 60_000 }));
    expect(await h.runOne(bodyOf({ resend: 1 }))).toMatchObject({ exit: 'retain', delayS: 60 });
    expect(h.record()).toMatchObject({ state: 'waiting', attempt: 1, generation: 0, resend: 1 });
    h.clock.advance(60_000);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(await h.runOne(bodyOf({ resend: 1 }))).toMatchObject({ exit: 'ack' });
    expect([h.http.sent.length, h.record()]).toMatchObject([1, { state: 'delivered', generation: 0 }]);
  });

  it('no record of a redrive, but one made from its body: what an older parser refused is a new delivery', async () => {
    const body = bodyOf();
    const malformed = { ...deadOf('buried', { generation: 2 }), recordKey: syntheticKeyOf('acme', 'malformed', body), reason: 'malformed' as const };
    h.store.seed(malformed);
    expect(await h.runOne(body, { deadLetterGeneration: 1 })).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toEqual([]);
    expect(await h.runOne(body, { deadLetterGeneration: 2 })).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toMatchObject([['evt_1'], { state: 'delivered', generation: 3 }]);
  });

  it('that redrive again, after a rejection whose acknowledgement was lost: it is no redrive of itself', async () => {
    const body = bodyOf();
    h.store.seed({ ...deadOf('buried'), recordKey: syntheticKeyOf('acme', 'malformed', body), reason: 'malformed' });
    h.http.script = () => answered(400);
    for (let i = 0; i < 3; i++) expect(await h.runOne(body, { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect([h.http.sent.length, h.queues.buried.length, h.record()]).toMatchObject([1, 1, { state: 'dead', generation: 1 }]);
  });

  it('that redrive, when its worker dies between taking it up and sending: the next worker finds it again, and it is sent', async () => {
    const body = bodyOf();
    h.store.seed({ ...deadOf('buried'), recordKey: syntheticKeyOf('acme', 'malformed', body), reason: 'malformed' });
    let retired = 0;
    const dies = h.recordsBut({
      retire: () => {
        retired++;
        return Promise.reject(new Error('the worker dies here'));
      },
    });
    expect(await h.runOne(body, { deadLetterGeneration: 0 }, dies)).toMatchObject({ exit: 'retain' });
    expect([retired, h.http.sent, h.record()]).toEqual([1, [], undefined]);
    h.clock.advance(60_000);
    expect(await h.runOne(body, { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toMatchObject([['evt_1'], { state: 'delivered', generation: 1 }]);
  });

  it.each(['disabled', 'removed'] as const)('that redrive for an endpoint that is %s: it is buried, never acknowledged away', async (how) => {
    const body = bodyOf();
    h.store.seed({ ...deadOf('buried'), recordKey: syntheticKeyOf('acme', 'malformed', body), reason: 'malformed' });
    if (how === 'disabled') await h.store.put(endpointOf({ status: 'disabled' }, 'V2'));
    else await h.store.remove('acme');
    expect(await h.runOne(body, { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toMatchObject([{ record: { eventId: 'evt_1', generation: 1, reason: how === 'disabled' ? 'disabled' : 'unknown-endpoint' } }]);
  });

  it('that redrive while its record cannot be read: it stays', async () => {
    const reads: (readonly string[])[] = [];
    const deps = h.recordsBut({
      read: (keys) => {
        reads.push(keys);
        return Promise.resolve({ found: new Map(), unread: new Set(reads.length === 1 ? [] : keys) });
      },
    });
    expect(await h.runOne(bodyOf(), { deadLetterGeneration: 0 }, deps)).toMatchObject({ exit: 'retain' });
    expect(h.http.sent).toEqual([]);
  });

  it('a live claim of another: it puts the message back until 5 s past the claim, and never acknowledges', async () => {
    await h.claimElsewhere();
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain', delayS: 25 });
    expect(h.http.sent).toEqual([]);
    expect((await h.lane()).claims.size).toBe(1);
  });

  it('a live claim on a delivered record: still no acknowledgement', async () => {
    h.store.seed(deliveredOf());
    await h.claimElsewhere();
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain' });
  });

  it('an expired claim: it records the ambiguous attempt, and sends again, marked', async () => {
    await h.claimElsewhere({}, t0EpochMs);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 2, ambiguous: 1 });
    expect(h.record()?.history.map((entry) => entry.outcome)).toEqual(['ambiguous', 'answered']);
    expect(h.http.requests[0]?.headers).toMatchObject({ 'sluice-possible-duplicate': 'true', 'sluice-attempt': '2' });
  });

  it('delivered: it acknowledges', async () => {
    h.store.seed(deliveredOf());
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toEqual([[], deliveredOf()]);
    expect(await h.lane()).toMatchObject(idle);
  });

  it('dead, burying: it sends to the dead-letter queue, marks buried, acknowledges', async () => {
    h.store.seed(deadOf('burying'));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toEqual([{ body: bodyOf(), record: deadOf('burying') }]);
    expect(h.record()).toEqual(deadOf('buried'));
    expect(h.http.sent).toEqual([]);
  });

  it('dead, and the copy is a redrive of its generation: it replays with fresh attempts', async () => {
    h.store.seed(deadOf('buried', { generation: 2, attempt: 12 }));
    h.clock.advance(9_000_000_000);
    expect(await h.runOne(bodyOf(), { deadLetterGeneration: 2 })).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', generation: 3, attempt: 1, firstEpochMs: t0EpochMs + 9_000_000_000 });
    expect(h.http.requests[0]?.headers['sluice-attempt']).toBe('1');
  });

  it.each([undefined, 1, 3])('dead, and any other copy (generation %s): it acknowledges', async (deadLetterGeneration) => {
    h.store.seed(deadOf('buried', { generation: 2 }));
    expect(await h.runOne(bodyOf(), { deadLetterGeneration })).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.queues.buried, h.record()]).toEqual([[], [], deadOf('buried', { generation: 2 })]);
  });

  it.each([{}, { deadLetterGeneration: 2 }, { deadLetterGeneration: 1 }, { resend: 9 }])('dropped, whatever the copy says (%j): it acknowledges', async ({ resend, ...copy }: { resend?: number; deadLetterGeneration?: number }) => {
    const record = droppedOf({ generation: 2, resend: 1 });
    h.store.seed(record);
    expect(await h.runOne(bodyOf(resend === undefined ? {} : { resend }), copy)).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.queues.buried, h.record()]).toEqual([[], [], record]);
    expect(h.telemetry.events).toContainEqual(expect.objectContaining({ name: 'copy-done', fields: expect.objectContaining({ why: 'dropped' }) as object }));
    expect(await h.lane()).toMatchObject(idle);
  });

  it('dropped, where the endpoint is disabled: it acknowledges', async () => {
    await h.store.put(endpointOf({ status: 'disabled' }, 'V2'));
    h.store.seed(droppedOf());
    expect(await h.runOne(bodyOf({ resend: 3 }), { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect([h.queues.buried, h.record(), h.store.bodies.size]).toEqual([[], droppedOf(), 0]);
  });

  it('a redrive that is about to be held while an operator drops it: it stays dropped', async () => {
    await h.store.put(endpointOf({ status: 'paused' }, 'V2'));
    h.store.seed(deadOf('buried'));
    const writeUnclaimed: Records['writeUnclaimed'] = (...args) => {
      h.store.seed(droppedOf());
      return h.store.records.writeUnclaimed(...args);
    };
    expect(await h.runOne(bodyOf(), { deadLetterGeneration: 0 }, h.recordsBut({ writeUnclaimed }))).toMatchObject({ exit: 'retain' });
    expect(h.record()).toEqual(droppedOf());
    await h.store.put(endpointOf({}, 'V3'));
    expect(await h.runOne(bodyOf(), { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toEqual([[], droppedOf()]);
  });

  it('dropped under the key that was made from the body: a malformed or conflicting message is acknowledged, not buried again', async () => {
    const body = 'no json';
    const malformed = { ...droppedOf({}, 'malformed'), recordKey: syntheticKeyOf(undefined, 'malformed', body) };
    const twin = bodyOf({ payload: '[]' });
    const conflict = { ...droppedOf({}, 'conflict'), recordKey: syntheticKeyOf('acme', 'conflict', twin) };
    h.store.seed(malformed, conflict, deliveredOf());
    for (const copy of [body, twin]) {
      for (const deadLetterGeneration of [undefined, 0]) expect(await h.runOne(copy, { deadLetterGeneration })).toMatchObject({ exit: 'ack' });
    }
    expect([h.queues.buried, h.store.record(malformed.recordKey), h.store.record(conflict.recordKey)]).toEqual([[], malformed, conflict]);
  });

  it('a redrive of what was dropped as malformed, by a parser that takes it now: it acknowledges', async () => {
    h.store.seed({ ...droppedOf({}, 'malformed'), recordKey: syntheticKeyOf('acme', 'malformed', bodyOf()) });
    expect(await h.runOne(bodyOf(), { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toEqual([[], undefined]);
  });

  it('a redrive without a record: it acknowledges, and counts', async () => {
    expect(await h.runOne(bodyOf(), { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toEqual([[], undefined]);
    expect(h.telemetry.events).toContainEqual(expect.objectContaining({ name: 'copy-done', fields: expect.objectContaining({ why: 'redrive-without-record' }) as object }));
    expect(await h.lane()).toMatchObject(idle);
  });

  it.each([deliveredOf({ resend: 1 }), deadOf('buried', { resend: 1 })])('a larger resend on a terminal record ($state): a new generation', async (record) => {
    h.store.seed(record);
    expect(await h.runOne(bodyOf({ resend: 2 }))).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toMatchObject([['evt_1'], { state: 'delivered', generation: 1, attempt: 1, resend: 2 }]);
    expect(await h.runOne(bodyOf({ resend: 2 }))).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toHaveLength(1);
  });

  it('a larger resend on a waiting record: nothing more than the attempt that is due anyway', async () => {
    h.store.seed(waitingOf({ attempt: 1, dueEpochMs: t0EpochMs }));
    await h.runOne(bodyOf({ resend: 4 }));
    expect(h.record()).toMatchObject({ state: 'delivered', generation: 0, attempt: 2, resend: 4 });
    await h.runOne(bodyOf({ resend: 4 }));
    expect(h.http.sent).toHaveLength(1);
  });

  it('another payload: dead letter with reason conflict, and the record is untouched', async () => {
    h.store.seed(deliveredOf());
    const body = bodyOf({ payload: '{"amount":2}' });
    expect(await h.runOne(body)).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.record()]).toEqual([[], deliveredOf()]);
    expect(h.queues.buried).toMatchObject([{ body, record: { state: 'dead', reason: 'conflict', endpointId: 'acme', eventId: 'evt_1' } }]);
    expect(await h.lane()).toMatchObject(idle);
  });

  it('another payload while the first is waiting: never sent, and the first goes on', async () => {
    h.store.seed(waitingOf({ attempt: 1, dueEpochMs: t0EpochMs }));
    expect(await h.runOne(bodyOf({ payload: '[]' }))).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toEqual([]);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 2 });
  });

  it('another event id under the same key: a conflict too', async () => {
    const { recordKey } = namesOf();
    h.store.seed({ ...deliveredOf({}, { eventId: 'evt_other' }), recordKey });
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toMatchObject([{ record: { reason: 'conflict', detail: 'another event id has the same key' } }]);
  });

  it('a full lane: it puts the message back for a while, and counts nothing', async () => {
    h = await Harness.create({ maxInFlight: 1 });
    await h.claimElsewhere({ eventId: 'other' });
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain', delayS: 2 });
    expect([h.http.sent, h.record()]).toEqual([[], undefined]);
    expect(await h.lane()).toMatchObject({ failures: 0 });
  });
});
