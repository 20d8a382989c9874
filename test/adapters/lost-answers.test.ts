/** Writes whose answer is lost: the SDK repeats them, and what it then hears must be read for what it is. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readRefusal } from '../../lambdas/shared/core/lane.ts';
import { afterReap, dead, held } from '../../lambdas/shared/core/decide.ts';
import type { DeadRecord, DeliveredRecord, WaitingRecord } from '../../lambdas/shared/core/record.ts';
import { deliveredOf, endpointOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { startDynamoSubject, type DynamoSubject } from '../support/dynamo-subject.ts';
import { FaultyHandler, type Fate } from '../support/sdk-faults.ts';
import { expiresEpochMs, LaneSubject, type World } from '../support/world.ts';

let subject: DynamoSubject;
let faulty: World & { registry: DynamoSubject['world']['registry'] };
let handler: FaultyHandler;
let lane: LaneSubject;

beforeAll(async () => {
  subject = await startDynamoSubject();
  handler = new FaultyHandler();
});
afterAll(() => subject.close());
beforeEach(async () => {
  handler.next();
  // A client of its own: the SDK repeats nothing any more once too many calls of a client have failed.
  faulty = subject.worldOn(subject.connect({ requestHandler: handler }));
  // The client learns its endpoint and credentials with the first call.
  await faulty.records.read(['x']);
  lane = new LaneSubject(subject.world);
  await lane.put();
});

const waiting = (overrides = {}) => waitingOf(overrides, { endpointId: lane.endpointId, eventId: 'a' });
const settled = { lastLease: { leaseId: 'l1', kind: 'settled' as const } };

describe('admit', () => {
  const admit = async (...fates: Fate[]) => {
    handler.next(...fates);
    return faulty.lanes.admit(lane.ask(['a', 'b']));
  };

  it('that was applied and repeated is refused with its own lease in the item: granted', async () => {
    const answer = await admit('lost');
    expect(handler.requests).toBe(2);
    if (answer.kind !== 'refused') throw new Error(answer.kind);
    const ask = lane.ask(['a', 'b']);
    expect(readRefusal(answer.lane, ask, 0)).toEqual({ kind: 'granted', granted: ask.wanted, others: [] });
    expect(await lane.lane()).toMatchObject({ avail: 6 });
  });

  it('that never arrived is granted by the repeat', async () => {
    expect(await admit('dropped')).toMatchObject({ kind: 'granted' });
    expect(await lane.lane()).toMatchObject({ avail: 6 });
  });

  it.each<[string, Fate[]]>([
    ['every answer was lost', ['lost', 'lost', 'lost']],
    ['no request arrived', ['dropped', 'dropped', 'dropped']],
    ['the repeats were throttled', ['lost', 'throttled', 'throttled']],
    ['only the last was throttled', ['dropped', 'lost', 'throttled']],
  ])('is unsure where %s, and can be taken back', async (_why, fates) => {
    expect(await admit(...fates)).toEqual({ kind: 'unsure' });
    await lane.lane();
    const give = lane.give({ slots: 2, release: [lane.key('a'), lane.key('b')], failures: 1 });
    expect(await faulty.lanes.giveBack(give)).toBe('done');
    expect(await lane.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map() });
  });

  it.each<Fate>(['throttled', 'conflict'])('that was %s at its first and only attempt was certainly not applied', async (fate) => {
    const once = subject.worldOn(subject.connect({ requestHandler: handler, maxAttempts: 1 }));
    handler.next(fate);
    expect(await once.lanes.admit(lane.ask(['a']))).toEqual({ kind: 'throttled' });
    expect(await lane.lane()).toMatchObject({ avail: 8 });
  });

  it.each<[string, Fate[]]>([
    ['throttles', ['throttled', 'throttled', 'throttled']],
    ['conflicts with a transaction, and a throttle', ['conflict', 'throttled', 'conflict']],
  ])('all of whose attempts met %s was certainly not applied', async (_why, fates) => {
    expect(await admit(...fates)).toEqual({ kind: 'throttled' });
    expect(await lane.lane()).toMatchObject({ avail: 8 });
  });

  it('that was throttled once and then granted is granted', async () => {
    expect(await admit('throttled')).toMatchObject({ kind: 'granted' });
  });
});

describe('giveBack', () => {
  const give = () => lane.give({ slots: 2, release: [lane.key('a')], keep: [lane.key('b')], failures: 2 });
  beforeEach(() => subject.world.lanes.admit(lane.ask(['a', 'b'])));

  it.each<[string, Fate[], string]>([
    ['applied and repeated', ['lost'], 'done'],
    ['throttled once', ['throttled'], 'done'],
    ['never answered', ['lost', 'lost', 'lost'], 'unsure'],
    ['never applied', ['dropped', 'dropped', 'dropped'], 'unsure'],
  ])('%s: %s is %s, and no slot is returned twice', async (_why, fates, answer) => {
    handler.next(...fates);
    expect(await faulty.lanes.giveBack(give())).toBe(answer);
    const now = await lane.lane();
    if (!fates.every((fate) => fate === 'dropped')) expect(now).toMatchObject({ avail: 8, failures: 2 });
    expect(await faulty.lanes.giveBack(give())).toBe('done');
    expect(await lane.lane()).toMatchObject({ avail: 8, failures: 2 });
  });

  it('applied, repeated, releasing all: the claims are not another\'s by then', async () => {
    handler.next('lost');
    expect(await faulty.lanes.giveBack({ ...give(), release: [lane.key('a'), lane.key('b')], keep: [] })).toBe('done');
    expect(await lane.lane()).toMatchObject({ avail: 8, leases: new Map(), claims: new Map() });
  });
});

describe('reaping', () => {
  beforeEach(() => subject.world.lanes.admit(lane.ask(['a', 'b'])));
  const reap = () => {
    const { claimKey, shortHash } = lane.names('a');
    const ambiguous = { from: undefined, to: afterReap(waiting(), 'l1', expiresEpochMs, undefined) };
    return faulty.lanes.reapClaim({ endpointId: lane.endpointId, claimKey, claim: { leaseId: 'l1', shortHash }, ambiguous });
  };

  it('a lease returns its slots once, however often it is repeated', async () => {
    handler.next('lost', 'lost');
    await faulty.lanes.reapLease(lane.endpointId, 'l1', { slots: 2, expiresEpochMs });
    expect(await lane.lane()).toMatchObject({ avail: 8 });
  });

  it('a claim records one attempt, for the transaction carries its token', async () => {
    handler.next('lost');
    expect(await reap()).toBe('reaped');
    expect(await lane.record('a')).toMatchObject({ attempt: 1, ambiguous: 1 });
  });

  it('a claim whose reap is never answered counts as lost, and is not recorded twice', async () => {
    handler.next('lost', 'lost', 'lost');
    expect(await reap()).toBe('lost');
    expect(await reap()).toBe('lost');
    expect(await lane.record('a')).toMatchObject({ attempt: 1, ambiguous: 1 });
  });
});

describe('records', () => {
  const verdict = () => waiting({ attempt: 1, ...settled });

  it.each<[string, Fate[], string]>([
    ['applied and repeated', ['lost'], 'written'],
    ['never arrived the first time', ['dropped'], 'written'],
    ['throttled, then applied', ['throttled'], 'written'],
    ['never answered', ['lost', 'lost', 'lost'], 'unsure'],
    ['repeat throttled', ['lost', 'throttled', 'throttled'], 'unsure'],
  ])('a write %s is what it is', async (_why, fates, answer) => {
    handler.next(...fates);
    expect(await faulty.records.write(undefined, verdict())).toBe(answer);
    expect(await lane.record('a')).toEqual(verdict());
  });

  it('a write that was certainly not applied is repeated, for a verdict that is not written costs a repeat of the request', async () => {
    const once = subject.worldOn(subject.connect({ requestHandler: handler, maxAttempts: 1 }));
    handler.next('throttled', 'throttled');
    expect(await once.records.write(undefined, verdict())).toBe('written');
    expect(await lane.record('a')).toMatchObject({ attempt: 1 });
  });

  it('a write that is throttled however often it is repeated has failed', async () => {
    const once = subject.worldOn(subject.connect({ requestHandler: handler, maxAttempts: 1 }));
    handler.next('throttled', 'throttled', 'throttled');
    expect(await once.records.write(undefined, verdict())).toBe('failed');
    expect(await lane.record('a')).toBeUndefined();
  });

  it('a give-back that is throttled at first is repeated', async () => {
    const once = subject.worldOn(subject.connect({ requestHandler: handler, maxAttempts: 1 }));
    expect((await once.lanes.admit(lane.ask(['a']))).kind).toBe('granted');
    handler.next('throttled');
    expect(await once.lanes.giveBack(lane.give({ release: [lane.key('a')] }))).toBe('done');
    expect(await lane.lane()).toMatchObject({ avail: 8, claims: new Map() });
  });

  it('a repeat that meets a foreign write has lost, whatever its first attempt did', async () => {
    await subject.world.records.write(undefined, waiting({ attempt: 1, lastLease: { leaseId: 'l2', kind: 'settled' } }));
    handler.next('lost');
    expect(await faulty.records.write(undefined, verdict())).toBe('lost');
  });

  it('a guarded write applied and repeated is written', async () => {
    const record = dead(waiting(settled), 'disabled', 'x');
    handler.next('lost');
    const guard = { endpointId: lane.endpointId, claimKey: lane.key('a'), lane: { kind: 'atVersion', cfg: 'V1' } } as const;
    expect(await faulty.records.writeUnclaimed(undefined, record, guard)).toEqual({ answer: 'written' });
    expect(await lane.record('a')).toEqual(record);
  });

  it('a mark applied and repeated is written', async () => {
    const record = dead(waiting(settled), 'gone', 'x');
    await subject.world.records.write(undefined, record);
    handler.next('lost');
    expect(await faulty.records.markBuried(record)).toBe('written');
  });

  it.each<[string, Fate]>([['throttled', 'throttled'], ['cut off', 'lost']])('a read that was %s to its end leaves every key unread', async (_why, fate) => {
    handler.next(fate, fate, fate);
    expect(await faulty.records.read(['k1', 'k2', 'k1'])).toEqual({ found: new Map(), unread: new Set(['k1', 'k2']) });
  });
});

describe('holding', () => {
  const note = { count: 2, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs + 1, isReady: true };
  const run = { leaseId: 'd1', expiresEpochMs };
  const [lost, throttled]: Fate[][] = [['lost', 'lost', 'lost'], ['lost', 'throttled', 'throttled']];

  it('a hold that was applied and repeated is noted, once more than it happened: too many holds do no harm', async () => {
    handler.next('lost');
    expect(await faulty.lanes.hold(lane.endpointId, note)).toMatchObject({ kind: 'noted' });
    expect(await lane.lane()).toMatchObject({ holdSeq: 2, holding: { wakeAtEpochMs: note.wakeAtEpochMs } });
  });

  it('a run that was begun and repeated is begun, with the lane as it is', async () => {
    await subject.world.lanes.hold(lane.endpointId, note);
    handler.next('lost');
    const answer = await faulty.lanes.beginDrain(lane.endpointId, run, t0EpochMs);
    expect(answer).toEqual({ kind: 'begun', lane: await lane.lane(), wakeAtEpochMs: t0EpochMs, wasReady: true });
    expect(await lane.lane()).toMatchObject({ drain: run, holding: { wakeAtEpochMs: expiresEpochMs } });
  });

  it.each([['a wake-up', t0EpochMs + 9], ['nothing held', undefined]])('a run that was ended with %s and repeated is ended, and takes nothing twice', async (_how, wakeAtEpochMs) => {
    await subject.world.lanes.hold(lane.endpointId, note);
    await subject.world.lanes.beginDrain(lane.endpointId, run, t0EpochMs);
    handler.next('lost');
    expect(await faulty.lanes.endDrain(lane.endpointId, { leaseId: 'd1', seq: 1, seenEpochMs: expiresEpochMs, taken: 1, wakeAtEpochMs, isReady: true })).toEqual({ kind: 'moved' });
    expect(handler.requests).toBe(2);
    const { drain, holding } = await lane.lane();
    expect([drain, holding?.count]).toEqual([undefined, wakeAtEpochMs === undefined ? undefined : 1]);
  });

  it('a run whose end was applied, and after which another hold came, is lost to its own repeat: that hold has its own wake-up', async () => {
    await subject.world.lanes.hold(lane.endpointId, note);
    await subject.world.lanes.beginDrain(lane.endpointId, run, t0EpochMs);
    const end = { leaseId: 'd1', seq: 1, seenEpochMs: expiresEpochMs, taken: 2, wakeAtEpochMs: undefined, isReady: false };
    expect(await subject.world.lanes.endDrain(lane.endpointId, end)).toEqual({ kind: 'moved' });
    await subject.world.lanes.hold(lane.endpointId, note);
    expect(await faulty.lanes.endDrain(lane.endpointId, end)).toMatchObject({ kind: 'lost', lane: { holdSeq: 2, holding: { count: 2 } } });
  });

  it('a pace that was applied and repeated is lost to itself, with the lane that says so', async () => {
    const pace = { isSlow: true, recent: '222' };
    handler.next('lost');
    expect(await faulty.lanes.movePace(lane.endpointId, undefined, pace)).toMatchObject({ kind: 'lost', lane: { pace } });
    expect(await lane.lane()).toMatchObject({ pace });
  });

  it('a wake-up that was moved and repeated is lost to itself', async () => {
    await subject.world.lanes.hold(lane.endpointId, note);
    handler.next('lost');
    expect(await faulty.lanes.moveWakeUp(lane.endpointId, note.wakeAtEpochMs, t0EpochMs)).toMatchObject({ kind: 'lost', lane: { holding: { wakeAtEpochMs: t0EpochMs } } });
  });

  it.each<[string, Fate[] | undefined]>([['never answered', lost], ['throttled after an answer was lost', throttled]])('each write that is %s is unsure', async (_how, fates = []) => {
    const unsure = async (write: () => Promise<unknown>) => {
      handler.next(...fates);
      expect(await write()).toEqual({ kind: 'unsure' });
    };
    await unsure(() => faulty.lanes.hold(lane.endpointId, note));
    await unsure(() => faulty.lanes.beginDrain(lane.endpointId, run, t0EpochMs));
    await unsure(() => faulty.lanes.endDrain(lane.endpointId, { leaseId: 'd1', seq: 1, seenEpochMs: expiresEpochMs, taken: 1, wakeAtEpochMs: undefined, isReady: true }));
    await unsure(() => faulty.lanes.movePace(lane.endpointId, undefined, { isSlow: true, recent: '222' }));
    await unsure(() => faulty.lanes.moveWakeUp(lane.endpointId, note.wakeAtEpochMs, t0EpochMs));
  });

  it.each([['no record', undefined], ['a record', true]])('a record that was held and is held again by the repeat is written: from %s', async (_from, isThere) => {
    const from = isThere === undefined ? undefined : waiting();
    if (from !== undefined) await subject.world.records.write(undefined, from);
    handler.next('lost');
    expect(await faulty.records.hold(from, held(waiting(), 0))).toBe('written');
    expect(handler.requests).toBe(2);
    expect(await lane.record('a')).toEqual(held(waiting(), 0));
  });

  const verdicts: [string, WaitingRecord | DeadRecord | DeliveredRecord][] = [
    ['waiting', waitingOf({ attempt: 1, ...settled }, { eventId: 'a' })],
    ['delivered', deliveredOf({ attempt: 1, ...settled }, { eventId: 'a' })],
    ['dead', dead(waitingOf({ attempt: 1, ...settled }, { eventId: 'a' }), 'gone', 'x')],
  ];
  it.each(verdicts.flatMap(([name, to]) => [1, 2].map((nth) => [name, nth, to] as const)))('a write across a hold, to %s, whose %i. request lost its answer is written', async (_name, nth, verdict) => {
    const { endpointId, recordKey } = waiting();
    const to = { ...verdict, endpointId, recordKey };
    await subject.world.records.hold(undefined, held(waiting(), 0));
    handler.next(...(nth === 1 ? (['lost'] as const) : (['through', 'lost'] as const)));
    expect(await faulty.records.write(undefined, to)).toBe('written');
    expect(handler.requests).toBe(3);
    expect(await lane.record('a')).toEqual(to.state === 'waiting' ? { ...to, home: 'held' } : to);
  });

  it('a write that was applied, and held before the SDK repeats it, has lost as any that meets another: its claim is reaped without an attempt', async () => {
    const to = waiting({ attempt: 1, ...settled });
    await subject.world.records.write(undefined, to);
    await subject.world.records.hold(to, held(to, 0));
    expect(await faulty.records.write(undefined, to)).toBe('lost');
    expect(await lane.record('a')).toEqual(held(to, 0));
  });
});

describe('the registry', () => {
  it('writes once, though its answer was lost', async () => {
    handler.next('through', 'through', 'lost');
    expect(await faulty.registry.put(endpointOf({ endpointId: lane.endpointId, maxInFlight: 3 }, 'V2'))).toBe('written');
    expect(await lane.lane()).toMatchObject({ slots: 3, avail: 3, cfg: 'V2' });
  });
});
