/** What may have arrived: unknown, looked for by the drain, decided by what is found (U3–U5). */
import { beforeEach, describe, expect, it } from 'vitest';
import { lease } from '../../lambdas/shared/limits/numbers.ts';
import type { UnknownRecord } from '../../lambdas/shared/core/record.ts';
import type { Records } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, endpointOf, namesOf, openBreaker, unknownOf, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { ambiguous, answered, shows, unsent } from '../support/fakes.ts';

const lookup = { url: 'https://api.example.com/events/{eventId}', match: { '$.id': 'eventId', '$.amount': '$.amount' }, reference: '$.ref', delaysS: [60, 300, 900] };
const effect = { id: 'evt_1', amount: 1, ref: 'eff_7' };

let h: Harness;
/** Time passes until the drain is to come, and it does. */
async function passLook(): Promise<void> {
  const wakeAtEpochMs = (await h.lane()).holding?.wakeAtEpochMs;
  if (wakeAtEpochMs === undefined) throw new Error('nobody is to come');
  h.clock.advance(Math.max(0, wakeAtEpochMs - h.clock.nowEpochMs()));
  await h.drain();
}

async function begin(settings: Readonly<Record<string, unknown>>): Promise<void> {
  h = await Harness.create(settings);
  h.http.script = () => ambiguous;
}

describe('an attempt that may have arrived, under reconcile', () => {
  beforeEach(() => begin({ onAmbiguous: 'reconcile', lookup }));

  it('is unknown, with its payload beside it, and its message goes once the lane knows when it is looked for', async () => {
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'unknown', attempt: 1, ambiguous: 1, looks: 0, nextLookEpochMs: h.clock.nowEpochMs() + 60_000, stuck: undefined, detail: 'headers timeout' });
    expect([...h.store.bodies.values()]).toEqual([bodyOf()]);
    expect((await h.lane()).holding).toMatchObject({ wakeAtEpochMs: h.clock.nowEpochMs() + 60_000, count: 0, isReady: false });
    expect(h.wakeUps.orders).toEqual([{ endpointId: 'acme', atEpochMs: h.clock.nowEpochMs() + 60_000 }]);
    expect((await h.lane()).claims.size).toBe(0);
  });

  it('is found, and delivered via lookup: one request, its reference kept, its payload gone', async () => {
    await h.runOne(bodyOf());
    h.http.looks = () => shows(effect);
    await passLook();
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'lookup', reference: 'eff_7', attempt: 1 });
    expect([h.http.sent.length, h.http.lookRequests.length, h.store.bodies.size]).toEqual([1, 1, 0]);
    expect(h.record()?.history.map(({ outcome, detail }) => `${outcome} ${detail}`)).toEqual(['ambiguous headers timeout', 'look found: 200']);
    const [request] = h.http.lookRequests;
    expect(request?.url.href).toBe('https://api.example.com/events/evt_1');
    expect(request?.headers).toMatchObject({ 'webhook-id': 'evt_1', 'sluice-look': '1' });
    // The run that found it knows that nothing is left.
    h.clock.advance(60_000);
    await h.drain();
    expect((await h.lane()).holding).toBeUndefined();
  });

  it('is found different: a person must decide, and the record names the difference; the log does not', async () => {
    await h.runOne(bodyOf());
    h.http.looks = () => shows({ ...effect, amount: 90 });
    await passLook();
    expect(h.record()).toMatchObject({ state: 'unknown', stuck: 'different', nextLookEpochMs: undefined, looks: 1, detail: 'different: $.amount is 90, must be 1' });
    expect(JSON.stringify(h.telemetry.events)).not.toContain('90');
    expect(h.store.bodies.size).toBe(1);
    await h.drain();
    expect([h.http.sent.length, h.http.lookRequests.length]).toEqual([1, 1]);
  });

  it('is not found: looked for again as the schedule says, then left to a person; never sent', async () => {
    await h.runOne(bodyOf());
    const due: number[] = [];
    for (let looks = 0; looks < 3; looks++) {
      due.push(((await h.lane()).holding?.wakeAtEpochMs ?? 0) - h.clock.nowEpochMs());
      await passLook();
    }
    expect(due).toEqual([60_000, 300_000, 900_000]);
    expect(h.record()).toMatchObject({ state: 'unknown', stuck: 'absent', looks: 3, nextLookEpochMs: undefined, detail: 'absent: 404' });
    expect([h.http.sent.length, h.http.lookRequests.length]).toEqual([1, 3]);
    h.clock.advance(60_000);
    await h.drain();
    expect((await h.lane()).holding).toBeUndefined();
  });

  it('is looked for in vain: a look that fails proves nothing, and the last one says why', async () => {
    await h.runOne(bodyOf());
    const answers = [unsent, answered(500), shows('<html>')];
    h.http.looks = (_request, nth) => answers[nth] ?? answered(500);
    for (let looks = 0; looks < 3; looks++) await passLook();
    expect(h.record()).toMatchObject({ state: 'unknown', stuck: 'look-failed', detail: 'look failed: 200, and the answer is no JSON' });
    expect(h.http.sent).toHaveLength(1);
  });

  it('is left to a person at once where there is no look-up', async () => {
    await h.store.put(endpointOf({ onAmbiguous: 'reconcile' }, 'V2'));
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'unknown', stuck: 'no-lookup', nextLookEpochMs: undefined });
    expect((await h.lane()).holding).toBeUndefined();
  });

  it.each(['copy', 'resend'])('a %s of it is acknowledged, and never sent', async (kind) => {
    await h.runOne(bodyOf());
    const again = await h.runOne(bodyOf(kind === 'resend' ? { resend: 1 } : {}));
    expect(again.exit).toBe('ack');
    expect(h.http.sent).toHaveLength(1);
    h.http.looks = () => shows(effect);
    await passLook();
    // A second receive of the resend asks for nothing: it was answered.
    await h.runOne(bodyOf(kind === 'resend' ? { resend: 1 } : {}));
    expect([h.record()?.state, h.http.sent.length]).toEqual(['delivered', 1]);
  });

  it('waits with its message while its payload cannot be kept', async () => {
    const payloads = { ...h.store.payloads, put: () => Promise.resolve('failed' as const) };
    expect(await h.runOne(bodyOf(), {}, { payloads })).toMatchObject({ exit: 'retain' });
    expect(h.record()).toBeUndefined();
    expect((await h.lane()).claims.size).toBe(1);
    // Nobody may send it before the claim is reaped, and that is an attempt that may have arrived.
    h.clock.advance(60_000);
    expect(await h.runOne(bodyOf(), {}, { payloads })).toMatchObject({ exit: 'retain' });
    expect(h.record()).toBeUndefined();
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'unknown', attempt: 1, ambiguous: 1, detail: 'the sender died before it could settle' });
    expect(h.http.sent).toHaveLength(1);
  });

  it('is looked for although its wake-up and its note were lost: the copy that comes back notes it', async () => {
    const retained = await h.runOne(bodyOf(), {}, h.lanesBut({ hold: () => Promise.resolve({ kind: 'unsure' }) }));
    expect(retained.exit).toBe('retain');
    expect(h.record()).toMatchObject({ state: 'unknown' });
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect((await h.lane()).holding).toMatchObject({ wakeAtEpochMs: h.clock.nowEpochMs() + 60_000 });
    expect(h.http.sent).toHaveLength(1);
  });

  it('is unknown also where the drain sent it; the same run orders its look', async () => {
    h.store.seed(waitingOf({ home: 'held', attempt: 1 }));
    await h.store.payloads.put(waitingOf(), bodyOf(), 0);
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    h.clock.advance(20_000);
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'unknown', attempt: 2 });
    expect((await h.lane()).holding).toMatchObject({ count: 0, wakeAtEpochMs: h.clock.nowEpochMs() + 60_000 });
    h.http.looks = () => shows(effect);
    await passLook();
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'lookup' });
  });
});

describe('an authoritative absence', () => {
  beforeEach(() => begin({ onAmbiguous: 'reconcile', lookup: { ...lookup, absenceProvesAfterS: 300 } }));

  it('counts after the processing time only, and then it is sent again, marked, by the next run', async () => {
    await h.runOne(bodyOf());
    await passLook();
    expect(h.record()).toMatchObject({ state: 'unknown', looks: 1 });
    h.http.script = () => answered(200);
    await passLook();
    // Whoever looked for it has it in the claim that is given back: the run after that sends it, at once.
    expect(h.record()).toMatchObject({ state: 'waiting', home: 'held', cleared: 1 });
    expect((await h.lane()).holding).toMatchObject({ count: 1, wakeAtEpochMs: h.clock.nowEpochMs() });
    await passLook();
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'response', attempt: 2, cleared: 1, ambiguous: 1, generation: 0 });
    expect(h.record()?.history.map(({ outcome, detail }) => `${outcome} ${detail}`)).toEqual(['ambiguous headers timeout', 'look absent: 404', 'look absent: 404', 'answered 200']);
    expect((await h.lane()).holding?.count ?? 0).toBe(0);
    expect(h.http.requests.map(({ headers }) => headers['sluice-possible-duplicate'])).toEqual([undefined, 'true']);
    expect(h.http.lookRequests).toHaveLength(2);
  });

  it('is not believed of a look that began before, by whichever clock', async () => {
    await begin({ onAmbiguous: 'reconcile', lookup: { ...lookup, delaysS: [60, 244], absenceProvesAfterS: 300 } });
    await h.runOne(bodyOf());
    const sentEpochMs = h.clock.nowEpochMs();
    await passLook();
    // The last look is put off until it can prove something.
    expect((await h.lane()).holding?.wakeAtEpochMs).toBe(sentEpochMs + 300_000 + lease.skewMs);
    await passLook();
    expect(h.record()).toMatchObject({ state: 'waiting', home: 'held' });
  });

  it('is not believed of a look that ends after that time and began before it: what is there by now it has not seen', async () => {
    await begin({ onAmbiguous: 'reconcile', lookup: { ...lookup, delaysS: [60, 300], absenceProvesAfterS: 50 } });
    await h.runOne(bodyOf());
    // Woken before its time by whoever wants the drain to come, and begun a second too early for an answer of ten.
    h.store.seed({ ...(h.record() as UnknownRecord), nextLookEpochMs: h.clock.nowEpochMs() + 54_000 });
    h.clock.advance(54_000);
    h.http.looks = () => {
      h.clock.advance(10_000);
      return answered(404);
    };
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'unknown', looks: 1 });
  });

  it('of a delivery that is found meanwhile proves nothing any more: one effect', async () => {
    await h.runOne(bodyOf());
    h.http.looks = (_request, nth) => (nth === 0 ? answered(404) : shows(effect));
    await passLook();
    await passLook();
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'lookup' });
    expect(h.http.sent).toHaveLength(1);
  });

  it('clears what was in doubt: the next doubt begins anew', async () => {
    await h.runOne(bodyOf());
    await passLook();
    await passLook();
    await passLook();
    expect(h.record()).toMatchObject({ state: 'unknown', attempt: 2, ambiguous: 2, cleared: 1, looks: 0 });
    expect(h.http.sent).toHaveLength(2);
  });
});

describe('an index that shows a delivery nowhere, for it has just moved from one of its parts to the other', () => {
  const none = () => Promise.resolve({ keys: [], next: undefined });
  const nowhere = () => ({ held: { ...h.store.heldIndex, page: none, unknown: none } });

  it('does not make the next run forget what is to be looked for', async () => {
    await begin({ onAmbiguous: 'reconcile', lookup: { ...lookup, delaysS: [5, 5] } });
    h.store.seed(waitingOf({ home: 'held' }));
    await h.store.payloads.put(waitingOf(), bodyOf(), 0);
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    h.clock.advance(60_000);
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'unknown' });
    h.clock.advance(5_000);
    await h.drain(nowhere());
    expect((await h.lane()).holding).toBeDefined();
    h.http.looks = () => shows(effect);
    await passLook();
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'lookup' });
  });

  it('does not make a run forget what a dead one has left', async () => {
    await begin({ onAmbiguous: 'reconcile', lookup });
    h.store.seed(waitingOf({ home: 'held' }));
    await h.store.payloads.put(waitingOf(), bodyOf(), 0);
    await h.claimElsewhere();
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    h.clock.advance(60_000);
    await h.drain(nowhere());
    expect(h.record()).toMatchObject({ state: 'unknown', detail: 'the sender died before it could settle' });
    h.clock.advance(5_000);
    await h.drain(nowhere());
    h.http.looks = () => shows(effect);
    for (let runs = 0; runs < 3 && (await h.lane()).holding !== undefined; runs++) await passLook();
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'lookup' });
    expect(h.http.sent).toEqual([]);
  });

  it('does not make the next run forget what is to be sent again', async () => {
    await begin({ onAmbiguous: 'reconcile', lookup: { ...lookup, delaysS: [60], absenceProvesAfterS: 1 } });
    await h.runOne(bodyOf());
    await passLook();
    expect(h.record()).toMatchObject({ state: 'waiting', home: 'held' });
    await h.drain(nowhere());
    expect((await h.lane()).holding).toBeDefined();
    h.http.script = () => answered(200);
    await passLook();
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'response' });
  });
});

describe('looks beside deliveries', () => {
  /** Unknown deliveries that are to be looked for, and held ones, all of them due. */
  async function due(unknown: number, held: number): Promise<void> {
    const now = h.clock.nowEpochMs();
    for (let i = 0; i < unknown + held; i++) {
      const names = { eventId: `${i < unknown ? 'u' : 'h'}${i}` };
      const record = i < unknown ? unknownOf({ nextLookEpochMs: now, sinceEpochMs: now - 60_000 }, names) : waitingOf({ home: 'held', dueEpochMs: now + i }, names);
      h.store.seed(record);
      await h.store.payloads.put(record, bodyOf(names), 0);
    }
    await h.store.lanes.hold('acme', { count: held, nowEpochMs: now, wakeAtEpochMs: now, isReady: held > 0 });
    h.clock.advance(20_000);
  }
  const hangs = () => {
    h.clock.advance(10_000);
    return ambiguous;
  };
  beforeEach(async () => {
    await begin({ onAmbiguous: 'reconcile', lookup, maxInFlight: 10 });
    h.http.script = () => answered(200);
  });

  it('come after what is held, and a host that hangs takes one wave of a share of the lane, and then none for a minute', async () => {
    await due(500, 300);
    h.http.looks = hangs;
    await h.drain();
    expect([h.http.sent.length, h.http.lookRequests.length]).toEqual([300, 2]);
    const { holding } = await h.lane();
    expect((holding?.wakeAtEpochMs ?? 0) - h.clock.nowEpochMs()).toBe(60_000);
    // Live traffic has the whole lane meanwhile.
    expect(holding?.isReady).toBe(false);
  });

  it('leave live traffic most of the lane while they hang', async () => {
    await due(500, 0);
    const live: string[] = [];
    h.http.looks = async (_request, nth) => {
      live.push((await h.runOne(bodyOf({ eventId: `live-${nth}` }))).exit);
      return hangs();
    };
    await h.drain();
    expect([live, h.http.sent.length]).toEqual([['ack', 'ack'], 2]);
  });

  it('that are answered go on for as long as they have, and the rest at once after that', async () => {
    await due(50, 0);
    h.http.looks = (request) => {
      h.clock.advance(500);
      return shows({ id: request.headers['webhook-id'], amount: 1 });
    };
    await h.drain();
    const first = h.http.lookRequests.length;
    expect(first).toBeGreaterThan(10);
    expect(first).toBeLessThan(50);
    for (let runs = 0; runs < 5; runs++) await h.drain();
    expect(h.http.lookRequests.length).toBe(50);
  });

  it('never are the canary where a delivery is held; without one, one at a time, and the run ends', async () => {
    await due(30, 1);
    await h.store.lanes.moveBreaker('acme', undefined, openBreaker({ untilEpochMs: h.clock.nowEpochMs() - 1 }));
    h.http.script = () => answered(503);
    h.http.looks = hangs;
    await h.drain();
    expect([h.http.sent.length, h.http.lookRequests.length]).toEqual([1, 0]);

    await begin({ onAmbiguous: 'reconcile', lookup, maxInFlight: 10 });
    await due(30, 0);
    const breaker = openBreaker({ untilEpochMs: h.clock.nowEpochMs() - 1 });
    await h.store.lanes.moveBreaker('acme', undefined, breaker);
    h.http.looks = () => shows('not this one');
    await h.drain();
    expect(h.http.lookRequests).toHaveLength(1);
    // It has said nothing of the endpoint, and its place is free.
    expect((await h.lane()).breaker).toEqual(breaker);
    expect(((await h.lane()).holding?.wakeAtEpochMs ?? 0) - h.clock.nowEpochMs()).toBe(5_000);
  });

  it('do not keep what is past its age from being given up', async () => {
    await due(3, 3);
    await h.store.put(endpointOf({ onAmbiguous: 'reconcile', lookup, status: 'paused', pauses: [{ fromEpochMs: h.clock.nowEpochMs(), toEpochMs: null }] }, 'V2'));
    h.clock.advance(40 * 86_400_000);
    await h.drain();
    expect([h.queues.buried.length, h.http.lookRequests.length]).toEqual([3, 0]);
  });

  it('of a disabled endpoint are left to people, and are not counted as taken from what is held', async () => {
    await due(5, 0);
    await h.store.put(endpointOf({ onAmbiguous: 'reconcile', lookup, status: 'disabled' }, 'V2'));
    await h.drain();
    expect((await h.lane()).holding?.count ?? 0).toBe(0);
    expect(h.record({ eventId: 'u4' })).toMatchObject({ stuck: 'no-endpoint' });
  });
});

describe('under retry', () => {
  it('is sent again, marked; with maxAmbiguous the n-th is unknown instead of a dead letter', async () => {
    await begin({ maxAmbiguous: 2, retry: { baseS: 1, factor: 1, attempts: 2 } });
    await h.runOne(bodyOf());
    expect(h.record()).toMatchObject({ state: 'waiting', ambiguous: 1 });
    h.clock.advance(60_000);
    await h.runOne(bodyOf());
    expect(h.record()).toMatchObject({ state: 'unknown', attempt: 2, ambiguous: 2, stuck: 'no-lookup' });
    expect(h.queues.buried).toEqual([]);
    expect(h.http.requests.map(({ headers }) => headers['sluice-possible-duplicate'])).toEqual([undefined, 'true']);
  });

  it('what is due when the endpoint is reconciled is not sent once more', async () => {
    await begin({ retry: { baseS: 1, factor: 1 } });
    await h.runOne(bodyOf());
    await h.store.put(endpointOf({ onAmbiguous: 'reconcile', lookup }, 'V2'));
    h.clock.advance(60_000);
    expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'unknown', attempt: 1, ambiguous: 1, detail: 'an earlier attempt may have arrived' });
    expect(h.http.sent).toHaveLength(1);
    expect(h.store.bodies.size).toBe(1);
  });
});

describe('what may have arrived is not given up as if it had not', () => {
  it.each([
    ['past its age while its endpoint is paused', { status: 'paused' }, 'unknown', undefined],
    ['at an endpoint that is disabled', { status: 'disabled' }, 'unknown', 'no-endpoint'],
  ])('%s', async (_why, more, state, stuck) => {
    await begin({ retry: { baseS: 1, factor: 1, maxAgeS: 60, attempts: 2 } });
    await h.runOne(bodyOf());
    expect(h.record()).toMatchObject({ state: 'waiting', ambiguous: 1 });
    await h.store.put(endpointOf({ onAmbiguous: 'reconcile', lookup, retry: { maxAgeS: 60, attempts: 2 }, pauses: [], ...more }, 'V2'));
    h.clock.advance(120_000);
    for (let receives = 0; receives < 3; receives++) await h.runOne(bodyOf(), { sentEpochMs: h.clock.nowEpochMs() - 200_000 });
    if ((await h.lane()).holding !== undefined) await passLook();
    expect(h.record()).toMatchObject({ state, stuck });
    expect([h.http.sent.length, h.queues.buried.length, h.store.bodies.size]).toEqual([1, 0, 1]);
  });
});

describe('a claim whose owner died (U4)', () => {
  it.each([
    ['retry', {}, 'waiting'],
    ['reconcile', { onAmbiguous: 'reconcile', lookup }, 'unknown'],
    ['retry, at the first doubt', { maxAmbiguous: 1, lookup }, 'unknown'],
  ])('under %s', async (_policy, settings, state) => {
    await begin(settings);
    h.http.script = () => answered(200);
    await h.claimElsewhere();
    h.clock.advance(30_000);
    await h.runOne(bodyOf());
    if (state === 'waiting') expect([h.record()?.state, h.http.sent.length]).toEqual(['delivered', 1]);
    else expect([h.record()?.state, h.http.sent.length, h.store.bodies.size]).toEqual(['unknown', 0, 1]);
  });

  it('and whose payload another message has is left to that message', async () => {
    await begin({ onAmbiguous: 'reconcile' });
    h.store.seed(waitingOf());
    await h.claimElsewhere();
    h.clock.advance(30_000);
    // A conflict: the same event with another payload.
    await h.runOne(bodyOf({ payload: '{"amount":2}' }));
    expect(h.record()).toMatchObject({ state: 'waiting' });
    expect((await h.lane()).claims.size).toBe(1);
    await h.runOne(bodyOf());
    expect(h.record()).toMatchObject({ state: 'unknown' });
    expect([...h.store.bodies.keys()].filter((key) => key.includes(namesOf().payloadHash))).toHaveLength(1);
  });

  it('and whose message is in the queue is left to it by the drain, which has no payload to keep', async () => {
    await begin({ onAmbiguous: 'reconcile' });
    h.store.seed(waitingOf());
    await h.claimElsewhere();
    await h.store.lanes.hold('acme', { count: 0, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    h.clock.advance(30_000);
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'waiting', attempt: 0 });
    expect((await h.lane()).claims.size).toBe(1);
  });

  it('of a conflicting message counts all the same: a hold may have made the record since', async () => {
    await begin({ onAmbiguous: 'reconcile' });
    h.http.script = () => answered(200);
    // Another payload came first: its worker has the claim, has perhaps sent it, and died.
    await h.claimElsewhere({ payload: '{"amount":2}' });
    h.store.seed(waitingOf({ home: 'held' }));
    await h.store.payloads.put(waitingOf(), bodyOf(), 0);
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    h.clock.advance(30_000);
    await h.drain();
    expect([h.record()?.state, h.http.sent.length]).toEqual(['unknown', 0]);
  });

  it('a test event is no delivery that somebody would have to decide about, also where it is given up', async () => {
    await begin({ onAmbiguous: 'reconcile' });
    const ping = { home: 'held' as const, eventType: 'sluice.ping', dueEpochMs: 0, attempt: 1, ambiguous: 1 };
    h.store.seed(waitingOf(ping));
    await h.store.payloads.put(waitingOf(ping), bodyOf().replace('"payload"', '"eventType":"sluice.ping","payload"'), 0);
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    await h.store.put(endpointOf({ onAmbiguous: 'reconcile', status: 'disabled' }, 'V2'));
    h.clock.advance(30_000);
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'dead', reason: 'disabled' });
  });

  it('a test event may be sent again: it has no effect to look for', async () => {
    await begin({ onAmbiguous: 'reconcile' });
    h.http.script = () => answered(200);
    const ping = { home: 'held' as const, eventType: 'sluice.ping', dueEpochMs: 0 };
    h.store.seed(waitingOf(ping));
    const body = bodyOf().replace('"payload"', '"eventType":"sluice.ping","payload"');
    await h.store.payloads.put(waitingOf(ping), body, 0);
    await h.claimElsewhere();
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    h.clock.advance(30_000);
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'delivered' });
  });
});

describe('what is unknown', () => {
  const settings = { onAmbiguous: 'reconcile', lookup };
  beforeEach(async () => {
    await begin(settings);
    await h.runOne(bodyOf());
  });

  it.each([
    ['is disabled', endpointOf({ ...settings, status: 'disabled' }, 'V2')],
    ['declares no look-up any more', endpointOf({ onAmbiguous: 'reconcile' }, 'V2')],
  ])('is left to a person where the endpoint %s', async (_why, endpoint) => {
    await h.store.put(endpoint);
    await passLook();
    expect(h.record()).toMatchObject({ state: 'unknown', nextLookEpochMs: undefined, stuck: endpoint.config.status === 'disabled' ? 'no-endpoint' : 'no-lookup' });
    expect(h.http.lookRequests).toEqual([]);
    h.clock.advance(60_000);
    await h.drain();
    expect((await h.lane()).holding).toBeUndefined();
  });

  it('waits while the endpoint is paused, and is not given up for its age', async () => {
    await h.store.put(endpointOf({ ...settings, status: 'paused', retry: { maxAgeS: 60, attempts: 2 } }, 'V2'));
    h.clock.advance(3_600_000);
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'unknown', looks: 0 });
    expect(h.http.lookRequests).toEqual([]);
    await h.store.put(endpointOf(settings, 'V3'));
    h.http.looks = () => shows(effect);
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'delivered' });
  });

  it('is left to a person where its payload is gone', async () => {
    h.store.bodies.clear();
    await passLook();
    expect(h.record()).toMatchObject({ state: 'unknown', stuck: 'payload-missing' });
    expect(h.http.lookRequests).toEqual([]);
  });

  it('is decided by one of two looks: what the slower one found decides nothing', async () => {
    const slow = Promise.withResolvers<void>();
    h.http.looks = async (_request, nth) => {
      if (nth === 0) await slow.promise;
      return nth === 0 ? shows({ ...effect, amount: 2 }) : shows(effect);
    };
    h.clock.advance(60_000);
    const first = h.drain();
    await new Promise((resolve) => setImmediate(resolve));
    // Its run and its claim are taken for dead.
    h.clock.advance(200_000);
    await h.drain();
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'lookup' });
    slow.resolve();
    await first;
    expect(h.record()).toMatchObject({ state: 'delivered', via: 'lookup' });
  });

  it('is looked for by the next run where this one could not write what it found', async () => {
    h.http.looks = () => shows(effect);
    h.clock.advance(60_000);
    const write: Records['write'] = () => Promise.resolve('failed');
    await h.drain(h.recordsBut({ write }));
    expect(h.record()).toMatchObject({ state: 'unknown', looks: 0 });
    expect((await h.lane()).claims.size).toBe(0);
    await passLook();
    expect(h.record()).toMatchObject({ state: 'delivered' });
  });
});
