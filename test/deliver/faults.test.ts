import { beforeEach, describe, expect, it } from 'vitest';
import type { DeliverDeps } from '../../lambdas/deliver/types.ts';
import { deliver, lease, putBack, queues } from '../../lambdas/shared/limits/numbers.ts';
import { bodyOf, endpointOf, receivedOf, t0EpochMs } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create();
});

const boom = () => Promise.reject(new Error('boom'));
/** What an invocation's claims are waited for. */
const pastClaimS = deliver.timeoutS + (lease.skewMs + putBack.afterClaimMs) / 1_000;
const dayMs = 86_400_000;

describe('an outage of a day', () => {
  const outages: [string, () => Partial<DeliverDeps>][] = [
    ['the configuration cannot be read', () => ({ endpoints: { get: boom, refresh: boom } })],
    ['the lane cannot be written', () => h.lanesBut({ admit: boom })],
    ['the lane\'s writes are unsure', () => h.lanesBut({ admit: () => Promise.resolve({ kind: 'unsure' }), giveBack: () => Promise.resolve('unsure') })],
    ['records cannot be read', () => h.recordsBut({ read: boom })],
    ['nothing is read', () => h.recordsBut({ read: (keys) => Promise.resolve({ found: new Map(), unread: new Set(keys) }) })],
  ];

  it.each(outages)('in which %s costs far fewer receives than the queue allows', async (_why, outage) => {
    let receiveCount = 0;
    while (h.clock.nowEpochMs() < t0EpochMs + dayMs) {
      const { exit, delayS = 0 } = await h.runOne(bodyOf(), { receiveCount: ++receiveCount, sentEpochMs: t0EpochMs }, outage());
      expect(exit).toBe('retain');
      expect(delayS).toBeGreaterThan(0);
      h.clock.advance(delayS * 1_000);
    }
    expect(receiveCount).toBeLessThan(queues.maxReceiveCount / 2);
    expect(h.http.sent).toEqual([]);
    expect(await h.runOne(bodyOf(), { receiveCount, sentEpochMs: t0EpochMs })).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 1 });
  });

  it('of the dead-letter queue is no faster for a malformed body', async () => {
    let receiveCount = 0;
    h.queues.failingBurials = 1_000;
    for (; h.clock.nowEpochMs() < t0EpochMs + dayMs; receiveCount++) {
      const { delayS = 0 } = await h.runOne('{', { receiveCount: receiveCount + 1 });
      expect(delayS).toBeGreaterThan(0);
      h.clock.advance(delayS * 1_000);
    }
    expect(receiveCount).toBeLessThan(queues.maxReceiveCount / 2);
  });
});

describe('a fault', () => {
  it.each([[1, 3], [5, 90], [20, 2_700]])('at the %i. receive puts the message back for %i s', async (receiveCount, delayS) => {
    expect(await h.runOne(bodyOf(), { receiveCount }, { endpoints: { get: boom, refresh: boom } })).toMatchObject({ exit: 'retain', delayS });
    expect(await h.runOne('{', { receiveCount }, h.recordsBut({ read: boom }))).toMatchObject({ exit: 'retain', delayS });
    expect(h.telemetry.faults).toHaveLength(2);
  });

  it.each([[1, pastClaimS], [20, 2_700]])('of a delivery under its claim, at the %i. receive: for %i s, beyond the claim', async (receiveCount, delayS) => {
    expect(await h.runOne(bodyOf(), { receiveCount }, { http: { post: boom, get: boom } })).toMatchObject({ exit: 'retain', delayS });
    expect((await h.lane()).claims.size).toBe(1);
    h.clock.advance(delayS * 1_000);
    expect(await h.runOne(bodyOf(), { sentEpochMs: t0EpochMs })).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 2, ambiguous: 1 });
  });

  it('of the parser puts the message back, and its batch goes on', async () => {
    const good = receivedOf(bodyOf());
    const bad = Object.defineProperty(receivedOf('', { receiveCount: 5 }), 'body', { get: () => { throw new Error('boom'); } });
    expect(await h.run([bad, good])).toEqual([bad.messageId]);
    expect(h.queues.delayOf(bad)).toBe(90);
    expect(h.http.sent).toEqual(['evt_1']);
  });

  it('while the queue takes no put-back either keeps the message all the same, and no other', async () => {
    await h.store.put(endpointOf({ endpointId: 'other' }));
    h.queues.delay = boom;
    const endpoints = { ...h.deps.endpoints, get: (id: string) => (id === 'other' ? boom() : h.deps.endpoints.get(id)) };
    const [other, good] = [receivedOf(bodyOf({ endpointId: 'other' })), receivedOf(bodyOf())];
    expect(await h.run([other, good], { endpoints })).toEqual([other.messageId]);
    expect(await h.runOne(bodyOf({ eventId: 'evt_2' }), {}, { http: { post: boom, get: boom } })).toMatchObject({ exit: 'retain' });
    expect(h.telemetry.faults.map((fault) => fault.name)).toEqual(['group-failed', 'put-back-failed', 'delivery-failed', 'put-back-failed']);
  });
});
