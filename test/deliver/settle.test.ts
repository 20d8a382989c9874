import { beforeEach, describe, expect, it } from 'vitest';
import { toEndpoint } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import { deliver } from '../../lambdas/shared/limits/numbers.ts';
import type { WriteAnswer } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, configOf, deliveredOf, deadOf, endpointOf, receivedOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { ambiguous, answered, noSocket, unsent } from '../support/fakes.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create();
});
const idle = { avail: 8, leases: new Map(), claims: new Map() };

describe('an attempt', () => {
  it('that was answered 503 waits by the backoff', async () => {
    h.http.script = () => answered(503);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain', delayS: 3 });
    expect(h.record()).toMatchObject({ state: 'waiting', attempt: 1, dueEpochMs: t0EpochMs + 2_500 });
    expect(await h.lane()).toMatchObject({ ...idle, failures: 1 });
  });

  it('that is ambiguous is repeated, and the repeat is marked', async () => {
    h.http.script = (_request, nth) => (nth === 0 ? ambiguous : answered(200));
    await h.runOne(bodyOf());
    h.clock.advance(60_000);
    await h.runOne(bodyOf(), { sentEpochMs: t0EpochMs });
    expect(h.http.requests.map((r) => r.headers['sluice-possible-duplicate'])).toEqual([undefined, 'true']);
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 2, ambiguous: 1 });
  });

  it('that was unsent counts, and is no possible duplicate', async () => {
    h.http.script = (_request, nth) => (nth === 0 ? unsent : answered(200));
    await h.runOne(bodyOf());
    expect(h.record()).toMatchObject({ state: 'waiting', attempt: 1, ambiguous: 0 });
    expect(await h.lane()).toMatchObject({ failures: 1 });
    h.clock.advance(60_000);
    await h.runOne(bodyOf());
    expect(h.http.requests.map((r) => [r.headers['sluice-attempt'], r.headers['sluice-possible-duplicate']])).toEqual([['1', undefined], ['2', undefined]]);
  });

  it('that found no socket counts for nothing', async () => {
    h.http.script = () => noSocket;
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain', delayS: 3 });
    expect([h.record(), h.telemetry.attempts]).toEqual([undefined, []]);
    expect(await h.lane()).toMatchObject({ ...idle, failures: 0 });
  });

  it('keeps id and bytes in every repeat, and signs anew', async () => {
    h.http.script = (_request, nth) => answered(nth < 2 ? 500 : 200);
    for (let i = 0; i < 3; i++) {
      await h.runOne(bodyOf(), { sentEpochMs: t0EpochMs });
      h.clock.advance(100_000);
    }
    const sent = h.http.requests.map((r) => [r.headers['webhook-id'], r.body.toString(), r.headers['webhook-timestamp'], r.headers['webhook-signature']]);
    expect(new Set(sent.map(([id, body]) => `${id}|${body}`)).size).toBe(1);
    expect(sent.map(([, , timestamp]) => Number(timestamp) - t0EpochMs / 1_000)).toEqual([0, 100, 200]);
    expect(new Set(sent.map(([, , , signature]) => signature)).size).toBe(3);
  });

  it('carries the endpoint\'s own headers, and ours whatever those say', async () => {
    // As an older version may have stored it, before these names were reserved.
    const headers = { 'X-Team': 'a', 'Webhook-Signature': 'v1,AAAA', 'CONTENT-TYPE': 'x/y' };
    const { version, secrets } = endpointOf();
    const stored = toEndpoint({ pk: 'acme', version, secrets, config: { ...configOf(), headers } });
    await h.run([receivedOf(bodyOf())], { endpoints: { get: () => Promise.resolve(stored), refresh: () => Promise.resolve(stored) } });
    const names = Object.keys(h.http.requests[0]?.headers ?? {});
    expect(names.filter((name) => /^(webhook-signature|content-type)$/i.test(name)).sort()).toEqual(['content-type', 'webhook-signature']);
    expect(h.http.requests[0]?.headers).toMatchObject({ 'X-Team': 'a', 'content-type': 'application/json' });
    expect(h.http.requests[0]?.headers['webhook-signature']).not.toBe('v1,AAAA');
  });

  it('carries id, time and every signature that the endpoint asks for', async () => {
    const signing = [{ scheme: 'hub256' }, { scheme: 'hmac-body', header: 'X-Acme-Signature', encoding: 'base64' }];
    await h.store.put({ ...endpointOf({ signing }), bodySecret: "It's a Secret to Everybody" });
    await h.runOne(bodyOf({ payload: '"Hello, World!"' }));
    expect(h.http.requests[0]?.headers).toMatchObject({
      'webhook-id': 'evt_1',
      'webhook-timestamp': String(t0EpochMs / 1_000),
      'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      'X-Acme-Signature': 'dXEH6g6yUJ/CESIczphLijdXC211hsIsRvQ3nIsEPhc=',
    });
    expect(h.http.requests[0]?.headers).not.toHaveProperty('webhook-signature');
  });

  it.each([
    ['no body secret', { bodySecret: undefined }, 'no body secret'],
    ['an odd body secret', { bodySecret: 'topsecret ' }, 'body secret must not start or end with white space'],
    ['no signing secret', { secrets: [] }, 'no signing secret'],
  ])('that has %s is buried without an attempt, naming why', async (_why, secrets, detail) => {
    await h.store.put({ ...endpointOf({ signing: [{ scheme: 'standard' }, { scheme: 'hub256' }] }), bodySecret: 'x', ...secrets });
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toMatchObject([{ record: { reason: 'invalid-configuration', attempt: 0, detail: expect.stringContaining(detail) as string } }]);
    expect(JSON.stringify([h.queues.buried, h.telemetry])).not.toContain('topsecret');
    expect(h.http.sent).toEqual([]);
  });

  it('after the last one the message is buried with its reason', async () => {
    h = await Harness.create({ retry: { attempts: 2 } });
    h.store.seed(waitingOf({ attempt: 1 }));
    h.http.script = () => answered(500);
    expect(await h.runOne(bodyOf(), { sentEpochMs: t0EpochMs })).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toMatchObject([{ record: { reason: 'exhausted', attempt: 2 } }]);
    expect(h.record()).toMatchObject({ state: 'dead', phase: 'buried' });
  });

  it.each([['exhausted', { attempt: 12 }], ['expired', { firstEpochMs: t0EpochMs - 259_200_001 }]])('is not made where the record is %s by now', async (reason, overrides) => {
    h.store.seed(waitingOf({ dueEpochMs: t0EpochMs, ...overrides }));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect([h.http.sent, h.queues.buried]).toMatchObject([[], [{ record: { reason } }]]);
  });

  it('of a message that was sent too long ago is not made, though there is no record', async () => {
    expect(await h.runOne(bodyOf(), { sentEpochMs: t0EpochMs - 259_200_001 })).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toMatchObject([{ record: { reason: 'expired', attempt: 0 } }]);
  });

  it('that no configuration allows is buried, naming why', async () => {
    h = await Harness.create({ body: 'envelope' });
    expect(await h.runOne(bodyOf({ payload: '"not json"' }))).toMatchObject({ exit: 'ack' });
    expect(h.queues.buried).toMatchObject([{ record: { reason: 'invalid-configuration', attempt: 0, detail: expect.stringContaining('envelope') as string } }]);
    expect(h.http.sent).toEqual([]);
  });
});

describe('time that is left', () => {
  it('too little from the start, for the start took long: that is no fault of the configuration', async () => {
    expect(await h.runOne(bodyOf(), {}, {}, h.invocation(12_000))).toMatchObject({ exit: 'retain' });
    expect([h.record(), h.queues.buried]).toEqual([undefined, []]);
  });

  it('never enough for the budgets as configured: they are cut to what the function has', async () => {
    const invocation = h.invocation(12_000);
    expect(await h.runOne(bodyOf(), {}, { limits: { ...deliver, timeoutS: 12 } }, invocation)).toMatchObject({ exit: 'ack' });
    expect(h.http.requests[0]?.budgetsMs).toMatchObject({ connection: 705, total: 5_294, setup: 3_000 });
  });

  it('too little: nothing is sent, the message comes back, and everything is given back', async () => {
    const invocation = h.invocation();
    h.clock.advance(9_001);
    expect(await h.runOne(bodyOf(), {}, {}, invocation)).toMatchObject({ exit: 'retain', delayS: 3 });
    expect([h.http.sent, h.record()]).toEqual([[], undefined]);
    expect(await h.lane()).toMatchObject(idle);
  });

  it('just enough: it is sent', async () => {
    const invocation = h.invocation();
    h.clock.advance(9_000);
    expect(await h.runOne(bodyOf(), {}, {}, invocation)).toMatchObject({ exit: 'ack' });
  });

  it('counts by the later of both clocks: a wall clock that was set back lengthens nothing', async () => {
    const invocation = h.invocation();
    h.clock.advance(9_001);
    h.clock.stepWall(-60_000);
    expect(await h.runOne(bodyOf(), { sentEpochMs: t0EpochMs }, {}, invocation)).toMatchObject({ exit: 'retain' });
    expect(h.http.sent).toEqual([]);
  });
});

describe('a settle whose condition was lost, or whose fate is not known,', () => {
  it.each<WriteAnswer>(['lost', 'unsure', 'failed'])('%s: after bytes were sent it keeps the claim, and does not acknowledge', async (answer) => {
    const { exit, delayS } = await h.runOne(bodyOf(), {}, h.recordsBut({ write: () => Promise.resolve(answer) }));
    // 30 s of invocation, 5 s of skew, 5 s past the claim.
    expect([exit, delayS]).toEqual(['retain', 40]);
    const lane = await h.lane();
    expect(lane).toMatchObject({ avail: 8, leases: new Map([['lease-1', { slots: 0, expiresEpochMs: t0EpochMs + 35_000 }]]) });
    expect(lane.claims.size).toBe(1);
  });

  it.each<WriteAnswer>(['lost', 'unsure', 'failed'])('%s: where bytes were sent and no answer came, the claim stays too', async (answer) => {
    h.http.script = () => ambiguous;
    expect(await h.runOne(bodyOf(), {}, h.recordsBut({ write: () => Promise.resolve(answer) }))).toMatchObject({ exit: 'retain', delayS: 40 });
    expect((await h.lane()).claims.size).toBe(1);
  });

  it('after its claim has expired the message counts what happened, and goes on', async () => {
    await h.runOne(bodyOf(), {}, h.recordsBut({ write: () => Promise.resolve('unsure') }));
    h.clock.advance(34_999);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'retain' });
    h.clock.advance(1);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toHaveLength(2);
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 2, ambiguous: 1 });
  });

  it('where it was applied after all, the message finds its verdict, and sends nothing', async () => {
    const write: typeof h.store.records.write = async (from, to) => {
      await h.store.records.write(from, to);
      return 'unsure';
    };
    await h.runOne(bodyOf(), {}, h.recordsBut({ write }));
    h.clock.advance(40_000);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.http.sent).toHaveLength(1);
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 1, ambiguous: 0 });
    expect((await h.lane()).claims.size).toBe(0);
  });

  it.each<[WriteAnswer, number]>([['failed', 0], ['unsure', 1], ['lost', 1]])('%s, and nothing was sent: %d claims stay', async (answer, claims) => {
    h.http.script = () => unsent;
    expect(await h.runOne(bodyOf(), {}, h.recordsBut({ write: () => Promise.resolve(answer) }))).toMatchObject({ exit: 'retain' });
    expect((await h.lane()).claims.size).toBe(claims);
  });

  it('keeps only its own claim: the others of the lease are released and acknowledged', async () => {
    const write: typeof h.store.records.write = (from, to) => (to.eventId === 'b' ? Promise.resolve('lost') : h.store.records.write(from, to));
    const batch = ['a', 'b', 'c'].map((eventId) => receivedOf(bodyOf({ eventId })));
    expect(await h.run(batch, h.recordsBut({ write }))).toEqual([batch[1]?.messageId]);
    expect((await h.lane()).claims.size).toBe(1);
  });
});

describe('the next generation', () => {
  it.each<WriteAnswer>(['lost', 'unsure', 'failed'])('is written before anything is sent in it: %s, and nothing is sent', async (answer) => {
    h.store.seed(deliveredOf());
    expect(await h.runOne(bodyOf({ resend: 1 }), {}, h.recordsBut({ write: () => Promise.resolve(answer) }))).toMatchObject({ exit: 'retain' });
    expect(h.http.sent).toEqual([]);
    expect(await h.lane()).toMatchObject(idle);
  });

  it('that began before a crash is found begun: one ambiguous attempt, and no third generation', async () => {
    h.store.seed(deadOf('buried', { lastLease: { leaseId: 'old', kind: 'settled' } }));
    // The sender dies amid its request: neither settle nor give-back happen.
    const crash = () => new Promise<never>(() => undefined);
    void h.run([receivedOf(bodyOf(), { deadLetterGeneration: 0 })], { http: { post: crash, get: crash } });
    await expect.poll(() => h.record()).toMatchObject({ state: 'waiting', generation: 1, attempt: 0 });
    h.clock.advance(35_000);
    expect(await h.runOne(bodyOf(), { deadLetterGeneration: 0 })).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', generation: 1, attempt: 2, ambiguous: 1 });
  });
});
