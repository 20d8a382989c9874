import { beforeEach, describe, expect, it } from 'vitest';
import { bodyOf, deadOf, deliveredOf, endpointOf, receivedOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered } from '../support/fakes.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create();
});

describe('a rejected delivery', () => {
  beforeEach(() => {
    h.http.script = () => answered(422);
  });

  it('is sent to the dead-letter queue with its untouched body, then marked, then acknowledged', async () => {
    const body = bodyOf({ payload: '{"n":1.0}' });
    expect(await h.runOne(body)).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toMatchObject([{ body, record: { phase: 'burying', reason: 'rejected', detail: 'status 422' } }]);
    expect(h.record({ payload: '{"n":1.0}' })).toMatchObject({ state: 'dead', phase: 'buried' });
    expect((await h.lane()).claims.size).toBe(0);
  });

  it('stays burying while the dead-letter queue is away; the next receive finishes it, and sends nothing', async () => {
    h.queues.failingBurials = 1;
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain', delayS: 3 });
    expect(h.record()).toMatchObject({ state: 'dead', phase: 'burying' });
    expect((await h.lane()).claims.size).toBe(0);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.record(), h.queues.buried.length, h.http.sent.length]).toMatchObject([{ phase: 'buried' }, 1, 1]);
  });

  it('has its untouched body beside its record before the dead-letter queue has its copy', async () => {
    const body = bodyOf({ payload: '{"n":1.0}' });
    const bodies: string[][] = [];
    const queues = { delay: () => Promise.resolve(), hidden: () => Promise.resolve(0), bury: () => (bodies.push([...h.store.bodies.values()]), Promise.resolve()) };
    await h.runOne(body, {}, { queues });
    expect(bodies).toEqual([[body]]);
  });

  it('stays burying while its body cannot be kept; nothing reaches the dead-letter queue', async () => {
    const payloads = { ...h.store.payloads, put: () => Promise.resolve('failed' as const) };
    expect(await h.runOne(bodyOf(), {}, { payloads })).toMatchObject({ exit: 'retain', delayS: 3 });
    expect([h.record(), h.queues.buried]).toMatchObject([{ phase: 'burying' }, []]);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.record(), h.queues.buried.length, h.http.sent.length]).toMatchObject([{ phase: 'buried' }, 1, 1]);
  });

  it('keeps no body once it is redriven: that is in the queue again', async () => {
    await h.runOne(bodyOf());
    expect(h.store.bodies.size).toBe(1);
    h.http.script = () => answered(200);
    expect(await h.runOne(bodyOf(), { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect([h.record(), h.store.bodies.size]).toMatchObject([{ state: 'delivered', generation: 1 }, 0]);
  });

  it('has one body however often it is redriven in vain, also where it has no delivery of its own', async () => {
    for (const body of [bodyOf(), 'no json']) {
      const before = h.store.bodies.size;
      await h.runOne(body);
      for (const deadLetterGeneration of [0, 1, 2]) expect(await h.runOne(body, { deadLetterGeneration })).toMatchObject({ exit: 'ack' });
      expect([h.store.bodies.size - before, h.queues.buried.at(-1)?.record.generation], body).toEqual([1, 3]);
    }
  });

  it.each(['lost', 'unsure', 'failed'] as const)('stays where its mark is %s', async (answer) => {
    expect(await h.runOne(bodyOf(), {}, h.recordsBut({ markBuried: () => Promise.resolve(answer) }))).toMatchObject({ exit: 'retain' });
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toHaveLength(1);
  });
});

describe('an unknown endpoint', () => {
  const body = bodyOf({ endpointId: 'nobody' });
  const names = { endpointId: 'nobody' };

  it('buries, naming it', async () => {
    expect(await h.runOne(body)).toMatchObject({ exit: 'ack' });
    expect(h.record(names)).toMatchObject({ state: 'dead', phase: 'buried', reason: 'unknown-endpoint', detail: 'no endpoint nobody' });
    expect([h.queues.buried.length, h.http.sent]).toEqual([1, []]);
  });

  it('buries each event once, and a batch of copies too', async () => {
    const batch = [receivedOf(body), receivedOf(body), receivedOf(bodyOf({ endpointId: 'nobody', eventId: 'evt_2' }))];
    const left = await h.run(batch);
    expect(left).toEqual([batch[1]?.messageId]);
    expect(await h.run(batch.filter((m) => left.includes(m.messageId)))).toEqual([]);
    expect(h.queues.buried.map((b) => b.record.eventId)).toEqual(['evt_1', 'evt_2']);
  });

  it('that appears meanwhile is delivered to by the next receive', async () => {
    const endpoints = { get: () => Promise.resolve(undefined), refresh: (id: string) => h.deps.endpoints.refresh(id) };
    await h.store.put(endpointOf({ endpointId: 'nobody' }));
    expect(await h.runOne(body, {}, { endpoints })).toMatchObject({ exit: 'retain' });
    expect([h.record(names), h.queues.buried]).toEqual([undefined, []]);
    expect(await h.runOne(body)).toMatchObject({ exit: 'ack' });
    expect(h.record(names)).toMatchObject({ state: 'delivered' });
  });

  it('once it is registered, a redrive of the dead letter is delivered', async () => {
    await h.runOne(body);
    await h.store.put(endpointOf({ endpointId: 'nobody' }));
    expect(await h.runOne(body, { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect(h.record(names)).toMatchObject({ state: 'delivered', generation: 1 });
  });

  it('that is still unknown buries a redrive in the next generation', async () => {
    await h.runOne(body);
    expect(await h.runOne(body, { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect(h.record(names)).toMatchObject({ phase: 'buried', generation: 1 });
    expect(h.queues.buried).toHaveLength(2);
  });

  it('keeps the message where its record cannot be read', async () => {
    const unread = h.recordsBut({ read: (keys) => Promise.resolve({ found: new Map(), unread: new Set(keys) }) });
    expect(await h.runOne(body, {}, unread)).toMatchObject({ exit: 'retain' });
    expect(h.queues.buried).toEqual([]);
  });

  it('still tells conflicts apart', async () => {
    await h.runOne(body);
    expect(await h.runOne(bodyOf({ endpointId: 'nobody', payload: '[]' }))).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried.map((b) => b.record.reason)).toEqual(['unknown-endpoint', 'conflict']);
  });
});

describe('a disabled endpoint', () => {
  beforeEach(() => h.store.put(endpointOf({ status: 'disabled' }, 'V2')));

  it('buries, and sends nothing', async () => {
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.record(), h.http.sent]).toMatchObject([{ reason: 'disabled', phase: 'buried' }, []]);
  });

  it('buries what was waiting, whenever that was due', async () => {
    h.store.seed(waitingOf({ attempt: 3, dueEpochMs: t0EpochMs + 1e9 }));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ reason: 'disabled', attempt: 3 });
  });

  it('leaves what is delivered delivered', async () => {
    h.store.seed(deliveredOf());
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.record(), h.queues.buried]).toEqual([deliveredOf(), []]);
  });

  it('finishes a burial that was begun', async () => {
    h.store.seed(deadOf('burying'));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toEqual(deadOf('buried'));
  });

  it('buries nothing that another worker may be sending', async () => {
    h = await Harness.create();
    await h.claimElsewhere();
    await h.store.put(endpointOf({ status: 'disabled' }, 'V2'));
    const { exit, delayS } = await h.runOne(bodyOf());
    expect(exit).toBe('retain');
    // As every other wait for a claim of another: 5 s past its expiry.
    expect(delayS).toBe(25);
    expect([h.record(), h.queues.buried]).toEqual([undefined, []]);
  });

  it('first records what a dead worker may have sent, then buries', async () => {
    h = await Harness.create();
    await h.claimElsewhere({}, t0EpochMs);
    await h.store.put(endpointOf({ status: 'disabled' }, 'V2'));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain' });
    expect(h.record()).toMatchObject({ state: 'waiting', attempt: 1, ambiguous: 1 });
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ reason: 'disabled', attempt: 1, ambiguous: 1 });
  });
});

describe('an endpoint whose stored configuration cannot be used', () => {
  const problem = 'maxInFlight: Too big: expected number to be <=32 (got 99)';
  beforeEach(() => h.store.spoil('acme', problem));

  it('buries with the problem, without an attempt, and reports no fault', async () => {
    const batch = ['a', 'b'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch)).toEqual([]);
    expect(h.queues.buried.map((b) => b.record)).toMatchObject(['a', 'b'].map((eventId) => ({ eventId, reason: 'invalid-configuration', detail: problem, attempt: 0 })));
    expect([h.record({ eventId: 'a' }), h.http.sent, h.telemetry.faults]).toMatchObject([{ phase: 'buried' }, [], []]);
    expect(await h.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map(), failures: 0 });
  });

  it('buries what was waiting with the attempts that it had', async () => {
    h.store.seed(waitingOf({ attempt: 3, dueEpochMs: t0EpochMs + 1e9 }));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ reason: 'invalid-configuration', attempt: 3 });
  });

  it('leaves what is delivered delivered, and what another worker may be sending', async () => {
    h.store.seed(deliveredOf());
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    await h.claimElsewhere({ eventId: 'b' });
    expect(await h.runOne(bodyOf({ eventId: 'b' }))).toMatchObject({ exit: 'retain', delayS: 25 });
    expect([h.record(), h.record({ eventId: 'b' }), h.queues.buried]).toEqual([deliveredOf(), undefined, []]);
  });

  it('is delivered to once it is repaired, by the next receive and by a redrive', async () => {
    expect(await h.runOne(bodyOf({ eventId: 'a' }))).toMatchObject({ exit: 'ack' });
    await h.store.put(endpointOf({}, 'V2'));
    expect(await h.runOne(bodyOf({ eventId: 'a' }), { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect(await h.runOne(bodyOf({ eventId: 'b' }))).toMatchObject({ exit: 'ack' });
    expect([h.record({ eventId: 'a' }), h.record({ eventId: 'b' })]).toMatchObject([{ state: 'delivered', generation: 1 }, { state: 'delivered', generation: 0 }]);
  });

  it('that was repaired between the read and the burial is not buried', async () => {
    const spoilt = await h.deps.endpoints.refresh('acme');
    await h.store.put(endpointOf({}, 'V2'));
    const endpoints = { get: () => Promise.resolve(spoilt), refresh: (id: string) => h.deps.endpoints.refresh(id) };
    expect(await h.runOne(bodyOf(), {}, { endpoints })).toMatchObject({ exit: 'retain' });
    expect([h.record(), h.queues.buried]).toEqual([undefined, []]);
  });
});

describe('a change of configuration in mid-flight', () => {
  it('is found by the admission, and takes effect without a restart', async () => {
    await h.runOne(bodyOf({ eventId: 'a' }));
    await h.store.put(endpointOf({ url: 'https://new.example.com/' }, 'V2'));
    expect(await h.runOne(bodyOf({ eventId: 'b' }))).toMatchObject({ exit: 'ack' });
    expect(h.http.requests.map((r) => [r.url.href, `${r.endpointId}@${r.version}`])).toEqual([['https://hooks.example.com/in', 'acme@V1'], ['https://new.example.com/', 'acme@V2']]);
  });

  it('to a smaller lane sends no more than that', async () => {
    await h.runOne(bodyOf({ eventId: 'x' }));
    await h.store.put(endpointOf({ maxInFlight: 1 }, 'V2'));
    h.http.script = () => {
      h.clock.advance(1_500);
      return answered(200);
    };
    const batch = ['a', 'b'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch)).toEqual([batch[1]?.messageId]);
    expect(h.http.sent).toEqual(['x', 'a']);
    expect(h.queues.delays.map((delay) => delay.messageId)).toEqual([batch[1]?.messageId]);
  });

  it.each(['removed', 'disabled'] as const)('to an endpoint that is %s buries', async (change) => {
    await h.runOne(bodyOf({ eventId: 'a' }));
    if (change === 'removed') await h.store.remove('acme');
    else await h.store.put(endpointOf({ status: 'disabled' }, 'V2'));
    expect(await h.runOne(bodyOf({ eventId: 'b' }))).toMatchObject({ exit: 'ack' });
    expect(h.record({ eventId: 'b' })).toMatchObject({ reason: change === 'removed' ? 'unknown-endpoint' : 'disabled' });
    expect(h.http.sent).toEqual(['a']);
  });

  it('to one that cannot be used buries', async () => {
    await h.runOne(bodyOf({ eventId: 'a' }));
    await h.store.put(endpointOf({}, 'V2'));
    await h.store.spoil('acme', 'url: must be https, not http');
    expect(await h.runOne(bodyOf({ eventId: 'b' }))).toMatchObject({ exit: 'ack' });
    expect(h.record({ eventId: 'b' })).toMatchObject({ reason: 'invalid-configuration', detail: 'url: must be https, not http' });
    expect(h.http.sent).toEqual(['a']);
  });

  it('that happens twice puts the message back', async () => {
    await h.deps.endpoints.get('acme');
    const refresh = async (id: string) => {
      const endpoint = await h.deps.endpoints.refresh(id);
      await h.store.put(endpointOf({}, 'V3'));
      return endpoint;
    };
    await h.store.put(endpointOf({}, 'V2'));
    expect(await h.runOne(bodyOf(), {}, { endpoints: { get: (id) => h.deps.endpoints.get(id), refresh } })).toMatchObject({ exit: 'retain', delayS: 2 });
    expect(h.http.sent).toEqual([]);
  });

  it('of a re-created endpoint is a change like any other, and its old claims hold', async () => {
    await h.runOne(bodyOf({ eventId: 'a' }));
    await h.claimElsewhere();
    await h.store.remove('acme');
    await h.store.put(endpointOf({}, 'V2'));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain', delayS: 25 });
    expect(await h.runOne(bodyOf({ eventId: 'b' }))).toMatchObject({ exit: 'ack' });
  });
});
