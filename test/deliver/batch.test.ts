import { beforeEach, describe, expect, it } from 'vitest';
import { syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import { bodyOf, endpointOf, receivedOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered, noSocket } from '../support/fakes.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create();
});
/** Longer than a wave may take. */
const slow = () => {
  h.clock.advance(1_500);
  return answered(200);
};
const idle = { avail: 8, leases: new Map(), claims: new Map() };
const deep = `{"endpointId":"acme","eventId":"evt_9","v":${'['.repeat(50_000)}${']'.repeat(50_000)},"payload":{}}`;

describe('a batch', () => {
  it('is delivered with one admission an endpoint', async () => {
    await h.store.put(endpointOf({ endpointId: 'other' }));
    const asked: number[] = [];
    const lanes = h.lanesBut({
      admit: (ask) => {
        asked.push(ask.wanted.length);
        return h.store.lanes.admit(ask);
      },
    });
    const batch = [bodyOf({ eventId: 'a' }), bodyOf({ eventId: 'b' }), bodyOf({ endpointId: 'other', eventId: 'a' })].map((body) => receivedOf(body));
    expect(await h.run(batch, lanes)).toEqual([]);
    expect(asked.sort()).toEqual([1, 2]);
    expect(h.http.requests).toHaveLength(3);
    expect([await h.lane(), await h.lane('other')]).toMatchObject([idle, idle]);
  });

  it('that is empty needs nothing', async () => {
    expect(await h.run([])).toEqual([]);
  });

  it('sends each its own id, payload and signature', async () => {
    await h.run([receivedOf(bodyOf({ eventId: 'a', payload: '[1]' })), receivedOf(bodyOf({ eventId: 'b', payload: '[1.0]' }))]);
    expect(h.http.requests.map((r) => [r.headers['webhook-id'], r.body.toString()]).sort()).toEqual([['a', '[1]'], ['b', '[1.0]']]);
    expect(new Set(h.http.requests.map((r) => r.headers['webhook-signature'])).size).toBe(2);
  });

  it.each([['no JSON at all', '{'], ['no object', '[]'], ['a key too many', bodyOf().replace('}', '},"x":1')], ['nesting without end', deep]])(
    'with one bad body (%s) delivers the others',
    async (_why, bad) => {
      const [good, malformed, alsoGood] = [receivedOf(bodyOf({ eventId: 'a' })), receivedOf(bad), receivedOf(bodyOf({ eventId: 'b' }))];
      expect(await h.run([good, malformed, alsoGood])).toEqual([]);
      expect(h.http.sent.sort()).toEqual(['a', 'b']);
      expect(h.queues.buried).toMatchObject([{ body: bad, record: { reason: 'malformed' } }]);
    },
  );

  it('in which all fail returns all ids, in the batch\'s order', async () => {
    h.http.script = () => answered(503);
    const batch = ['a', 'b', 'c'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch)).toEqual(batch.map((m) => m.messageId));
  });

  it('returns exactly the ids of what failed', async () => {
    h.http.script = (request) => answered(request.headers['webhook-id'] === 'b' ? 500 : 204);
    const batch = ['a', 'b', 'c'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch)).toEqual([batch[1]?.messageId]);
    expect(await h.lane()).toMatchObject({ ...idle, failures: 0 });
  });

  it('larger than the lane is sent in waves while they are quick, never more at a time than the lane holds', async () => {
    h = await Harness.create({ maxInFlight: 2 });
    const widths: number[] = [];
    h.http.script = async () => {
      const lane = await h.lane();
      widths.push(lane.slots - lane.avail);
      return answered(200);
    };
    const batch = ['a', 'b', 'c', 'd', 'e'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch)).toEqual([]);
    expect(h.http.sent).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(widths).toEqual([2, 2, 2, 2, 1]);
    expect(h.queues.delays).toEqual([]);
    expect(await h.lane()).toMatchObject({ avail: 2 });
  });

  it('larger than a slow lane sends one wave, and sheds the rest without an attempt (L3)', async () => {
    h = await Harness.create({ maxInFlight: 2 });
    h.http.script = slow;
    const batch = ['a', 'b', 'c', 'd'].map((eventId) => receivedOf(bodyOf({ eventId })));
    const retained = await h.run(batch);
    expect(h.http.sent).toEqual(['a', 'b']);
    expect(retained).toEqual(batch.slice(2).map((m) => m.messageId));
    expect(h.queues.delays.map((d) => d.messageId).sort()).toEqual([...retained].sort());
    expect(h.record({ eventId: 'c' })).toBeUndefined();
    expect(h.telemetry.events).toContainEqual({ name: 'shed', fields: { endpointId: 'acme', copies: 2 } });
  });

  it('uses a free slot although the first keys have live claims of others', async () => {
    h = await Harness.create({ maxInFlight: 2 });
    await h.claimElsewhere({ eventId: 'a' });
    const batch = ['a', 'b', 'c', 'd'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch)).toEqual([batch[0]?.messageId]);
    expect(h.http.sent).toEqual(['b', 'c', 'd']);
  });

  it('that is shed after its age gives up what was never sent, in one guarded write', async () => {
    h = await Harness.create({ maxInFlight: 1, retry: { maxAgeS: 3_600 } });
    const sentEpochMs = h.clock.nowEpochMs();
    h.store.seed(waitingOf({ firstEpochMs: sentEpochMs + 3_000_000 }, { eventId: 'renewed' }));
    h.clock.advance(3_601_000);
    await h.claimElsewhere({ eventId: 'x' }, h.clock.nowEpochMs() + 30_000);
    const batch = ['a', 'b', 'renewed'].map((eventId) => receivedOf(bodyOf({ eventId }), { sentEpochMs }));
    // A generation that is younger than its message has time left.
    expect(await h.run(batch)).toEqual([batch[2]?.messageId]);
    expect(h.queues.buried.map((b) => [b.record.eventId, b.record.reason]).sort()).toEqual([['a', 'expired'], ['b', 'expired']]);
    expect(h.http.sent).toEqual([]);
  });

  it('that needs one slot more than is free sends what fits, by a second try', async () => {
    h = await Harness.create({ maxInFlight: 3 });
    h.http.script = slow;
    await h.claimElsewhere({ eventId: 'x' });
    const batch = ['a', 'b', 'c'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch)).toEqual([batch[2]?.messageId]);
    expect(h.http.sent).toEqual(['a', 'b']);
    expect(await h.lane()).toMatchObject({ avail: 2 });
  });
});

describe('copies of one event in a batch', () => {
  it('are sent once, and all acknowledged', async () => {
    const batch = [1, 2, 3].map(() => receivedOf(bodyOf()));
    expect(await h.run(batch)).toEqual([]);
    expect(h.http.sent).toEqual(['evt_1']);
  });

  it('wait together where the first must wait', async () => {
    h = await Harness.create({ retry: { delaysS: [60] } });
    h.http.script = () => answered(503);
    const batch = [1, 2].map(() => receivedOf(bodyOf()));
    expect(await h.run(batch)).toEqual(batch.map((m) => m.messageId));
    expect(h.http.sent).toHaveLength(1);
    expect(h.queues.delays.map((delay) => delay.seconds)).toEqual([30, 30]);
    expect(h.record()).toMatchObject({ attempt: 1 });
  });

  it.each([
    ['was never started', noSocket],
    ['was rejected', answered(422)],
  ])('come back on their own where the first %s', async (_why, outcome) => {
    h.http.script = () => outcome;
    const batch = [1, 2].map(() => receivedOf(bodyOf()));
    expect(await h.run(batch)).toContain(batch[1]?.messageId);
    expect(h.http.sent).toHaveLength(1);
  });

  it('come back where the first had no room', async () => {
    h = await Harness.create({ maxInFlight: 1 });
    await h.claimElsewhere({ eventId: 'x' });
    const batch = [1, 2].map(() => receivedOf(bodyOf()));
    expect(await h.run(batch)).toHaveLength(2);
    expect(h.queues.delays.map((d) => d.messageId).sort()).toEqual(batch.map((m) => m.messageId).sort());
  });

  it('with another payload are no copies: the second comes back, and is then a conflict', async () => {
    const [one, two] = [receivedOf(bodyOf()), receivedOf(bodyOf({ payload: '[2]' }))];
    expect(await h.run([one, two])).toEqual([two.messageId]);
    expect(await h.run([two])).toEqual([]);
    expect(h.http.requests.map((r) => r.body.toString())).toEqual(['{"amount":1}']);
    expect(h.queues.buried).toMatchObject([{ record: { reason: 'conflict' } }]);
  });

  it('with a larger resend are sent in their own turn', async () => {
    const [one, two] = [receivedOf(bodyOf()), receivedOf(bodyOf({ resend: 1 }))];
    expect(await h.run([one, two])).toEqual([two.messageId]);
    expect(await h.run([two])).toEqual([]);
    expect(h.http.sent).toEqual(['evt_1', 'evt_1']);
  });
});

describe('a malformed body', () => {
  const bad = '{"endpointId":"acme","eventId":"evt_5","payload":5}';

  it('becomes a dead record under a key of its own, buried and acknowledged', async () => {
    expect(await h.runOne(bad)).toMatchObject({ exit: 'ack' });
    const record = h.store.record(syntheticKeyOf('acme', 'malformed', bad));
    expect(record).toMatchObject({ state: 'dead', phase: 'buried', reason: 'malformed', endpointId: 'acme', eventId: 'evt_5' });
    expect(h.queues.buried).toMatchObject([{ body: bad }]);
    expect(h.http.sent).toEqual([]);
  });

  it('is buried once, however often it comes', async () => {
    for (let i = 0; i < 3; i++) expect(await h.runOne(bad)).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toHaveLength(1);
    const twins = [receivedOf('['), receivedOf('[')];
    const left = await h.run(twins);
    expect(await h.run(twins.filter((m) => left.includes(m.messageId)))).toEqual([]);
  });

  it('is buried again when an operator redrives it', async () => {
    await h.runOne(bad);
    expect(await h.runOne(bad, { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried.map((b) => b.record.generation)).toEqual([0, 1]);
  });

  it('stays while the dead-letter queue is away, and is finished by the next receive', async () => {
    h.queues.failingBurials = 1;
    expect(await h.runOne(bad)).toMatchObject({ exit: 'retain', delayS: 3 });
    expect(h.store.record(syntheticKeyOf('acme', 'malformed', bad))).toMatchObject({ phase: 'burying' });
    expect(await h.runOne(bad)).toMatchObject({ exit: 'ack' });
    expect(h.store.record(syntheticKeyOf('acme', 'malformed', bad))).toMatchObject({ phase: 'buried' });
  });

  it('stays where its record cannot be read or written', async () => {
    const unread = h.recordsBut({ read: (keys) => Promise.resolve({ found: new Map(), unread: new Set(keys) }) });
    expect(await h.runOne(bad, {}, unread)).toMatchObject({ exit: 'retain' });
    for (const answer of ['lost', 'unsure', 'failed'] as const) {
      expect(await h.runOne(bad, {}, h.recordsBut({ write: () => Promise.resolve(answer) }))).toMatchObject({ exit: 'retain' });
    }
    expect(h.queues.buried).toEqual([]);
  });
});

describe('unread keys', () => {
  it('are never "no record": nothing is sent, the message comes back, the others go on', async () => {
    h.store.seed(waitingOf({}, { eventId: 'a' }));
    const records = h.recordsBut({
      read: async (keys) => {
        const { found } = await h.store.records.read(keys.slice(1));
        return { found, unread: new Set(keys.slice(0, 1)) };
      },
    });
    const batch = ['a', 'b'].map((eventId) => receivedOf(bodyOf({ eventId }), { sentEpochMs: t0EpochMs }));
    expect(await h.run(batch, records)).toEqual([batch[0]?.messageId]);
    expect(h.http.sent).toEqual(['b']);
    expect(await h.lane()).toMatchObject(idle);
  });
});

describe('a port that throws', () => {
  const boom = () => Promise.reject(new Error('boom'));

  it.each(['admit', 'giveBack'] as const)('lanes.%s keeps its endpoint\'s messages, and no others', async (method) => {
    await h.store.put(endpointOf({ endpointId: 'other' }));
    const lanes = h.lanesBut({ [method]: (ask: { endpointId: string }) => (ask.endpointId === 'other' ? boom() : (h.store.lanes[method] as (a: unknown) => Promise<unknown>)(ask)) });
    const [bad, good] = [receivedOf(bodyOf({ endpointId: 'other' })), receivedOf(bodyOf())];
    expect(await h.run([bad, good], lanes)).toEqual([bad.messageId]);
    expect(h.telemetry.faults).toHaveLength(1);
  });

  it.each(['read', 'write', 'markBuried'] as const)('records.%s keeps the message', async (method) => {
    h.http.script = () => answered(422);
    expect(await h.runOne(bodyOf(), {}, h.recordsBut({ [method]: boom }))).toMatchObject({ exit: 'retain' });
    expect(h.telemetry.faults).toHaveLength(1);
  });

  it('http keeps message and claim, for a byte may have left', async () => {
    expect(await h.runOne(bodyOf(), {}, { http: { post: boom, get: boom } })).toMatchObject({ exit: 'retain' });
    expect((await h.lane()).claims.size).toBe(1);
    expect(await h.lane()).toMatchObject({ avail: 8 });
  });

  it('endpoints keeps the message', async () => {
    expect(await h.runOne(bodyOf(), {}, { endpoints: { get: boom, refresh: boom } })).toMatchObject({ exit: 'retain' });
  });
});
