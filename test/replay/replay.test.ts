/** What a replay selects, moves and says. */
import { beforeEach, describe, expect, it } from 'vitest';
import type { ReplayDeps } from '../../lambdas/replay/types.ts';
import { dead } from '../../lambdas/shared/core/decide.ts';
import { decideReceive } from '../../lambdas/shared/core/receive.ts';
import type { WaitingRecord } from '../../lambdas/shared/core/record.ts';
import { hold as holds, replay as limits } from '../../lambdas/shared/limits/numbers.ts';
import { parseReplayRequest, type ReplayAsk } from '../../lambdas/shared/limits/replay-request.ts';
import type { ReplayMoveAnswer } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, namesOf, t0EpochMs } from '../support/builders.ts';
import { ReplayHarness } from '../support/replay-harness.ts';

let h: ReplayHarness;
beforeEach(() => void (h = new ReplayHarness()));

const none = { selected: 0, replayed: 0, sentAgain: 0, noPayload: 0, noEndpoint: 0, disabled: 0, capped: 0, busy: 0, gone: 0 };

describe('a move', () => {
  it('makes dead ones held, in their next generation with fresh attempts and age, and wakes the drain', async () => {
    const dead = await h.dies('evt_1', { record: { ambiguous: 2, resend: 4 } });
    const nowEpochMs = h.clock.nowEpochMs();
    const answer = await h.run();
    expect(answer).toEqual({ ...none, selected: 1, replayed: 1, problems: [], toEpochMs: nowEpochMs });
    // It has waited for its share of the rate.
    const movedEpochMs = nowEpochMs + 10;
    expect(h.record('evt_1')).toMatchObject({
      state: 'waiting', home: 'held', generation: 1, attempt: 0, ambiguous: 2, resend: 4, firstEpochMs: movedEpochMs, dueEpochMs: movedEpochMs,
    });
    // Under its next generation, and no longer under the old one.
    expect((await h.store.payloads.read([{ ...dead, generation: 1 }])).found.get(dead.recordKey)).toBe(bodyOf({ eventId: 'evt_1' }));
    expect(h.store.bodies.size).toBe(1);
    expect(h.woken).toEqual(['acme']);
    expect(await h.store.lane('acme')).toMatchObject({ holding: { count: 1, wakeAtEpochMs: movedEpochMs } });
  });

  it('of many keeps the order in which they died, in transactions of a batch', async () => {
    await h.die(60);
    let transactions = 0;
    const { replays } = h.deps;
    const deps: ReplayDeps = { ...h.deps, replays: { move: (...args) => (transactions++, replays.move(...args)) } };
    expect(await h.run({ perSecond: 1_000 }, deps)).toMatchObject({ selected: 60, replayed: 60 });
    expect(h.heldEvents()).toEqual(Array.from({ length: 60 }, (_, i) => `evt_${i}`));
    expect(transactions).toBe(Math.ceil(60 / limits.batch));
  });

  it('whose wake-up cannot be ordered has moved them all the same: the lane says that somebody should have come', async () => {
    await h.die(2);
    const deps: ReplayDeps = { ...h.deps, wake: () => Promise.reject(new Error('away')) };
    expect(await h.run({}, deps)).toMatchObject({ replayed: 2 });
    expect(h.telemetry.faults.map(({ name }) => name)).toEqual(['wake-up-failed']);
    expect(await h.store.lane('acme')).toMatchObject({ holding: { wakeAtEpochMs: expect.any(Number) as number } });
  });

  it('takes nothing twice', async () => {
    await h.die(3);
    expect(await h.run()).toMatchObject({ replayed: 3 });
    expect(await h.run()).toMatchObject(none);
    expect(await h.store.lane('acme')).toMatchObject({ holding: { count: 3 } });
  });
});

describe('what it selects', () => {
  it.each<[string, ReplayAsk['select'], string[]]>([
    ['a reason', { endpointId: 'acme', reason: 'rejected' }, ['b']],
    ['an event type', { endpointId: 'acme', eventType: 'x.y' }, ['c']],
    ['a time, the end outside', { endpointId: 'acme', fromEpochMs: t0EpochMs + 1, toEpochMs: t0EpochMs + 3 }, ['b', 'c']],
    ['events of the endpoint, each once', { endpointId: 'acme', eventIds: ['d', 'a', 'd', 'nothing'] }, ['a', 'd']],
    ['events of any endpoint', { eventIds: ['a', 'o'] }, ['a', 'o']],
    ['events and a time', { endpointId: 'acme', eventIds: ['d', 'a'], fromEpochMs: t0EpochMs + 1 }, ['d']],
    ['all of one endpoint', { endpointId: 'acme' }, ['a', 'b', 'c', 'd']],
  ])('by %s', async (_what, select, expected) => {
    await h.put({ endpointId: 'other' });
    for (const [i, eventId] of ['a', 'b', 'c', 'd'].entries()) {
      await h.dies(eventId, { reason: eventId === 'b' ? 'rejected' : 'exhausted', record: { lastEpochMs: t0EpochMs + i, eventType: eventId === 'c' ? 'x.y' : undefined } });
    }
    await h.dies('o', { endpointId: 'other' });
    expect(await h.run({ select })).toMatchObject({ selected: expected.length, replayed: expected.length });
    expect([...h.heldEvents('acme'), ...h.heldEvents('other')]).toEqual(expected);
  });

  it('never a failed ping, nor what is not buried yet', async () => {
    await h.dies('ping', { reason: 'ping-failed' });
    h.store.seed({ ...(await h.dies('burying')), phase: 'burying' });
    expect(await h.run({ select: { endpointId: 'acme', eventIds: ['ping', 'burying'] } })).toMatchObject(none);
    expect(await h.run()).toMatchObject(none);
  });

  it('with named events asks no index, and reads once', async () => {
    await h.die(3);
    const deps: ReplayDeps = { ...h.deps, dead: { page: () => Promise.reject(new Error('not asked')) } };
    expect(await h.run({ select: { endpointId: 'acme', eventIds: ['evt_1'] } }, deps)).toMatchObject({ replayed: 1 });
  });

  it('by an index that lags, only what is still dead', async () => {
    const [first] = await h.die(2);
    const stale = await h.store.dead.page({ endpointId: 'acme', fromEpochMs: 0, toEpochMs: Number.MAX_SAFE_INTEGER }, 10, undefined);
    expect(await h.run({ select: { endpointId: 'acme', eventIds: ['evt_0'] } })).toMatchObject({ replayed: 1 });
    const deps: ReplayDeps = { ...h.deps, dead: { page: () => Promise.resolve(stale) } };
    expect(await h.run({}, deps)).toMatchObject({ selected: 1, replayed: 1, gone: 0 });
    expect(h.store.record(first?.recordKey ?? '')?.generation).toBe(1);
  });

  it('never what dies after its first call, also where its end lies in the future: what dies again is not taken again', async () => {
    await h.die(3);
    const select = { endpointId: 'acme', toEpochMs: h.clock.nowEpochMs() + 86_400_000 };
    const nowEpochMs = h.clock.nowEpochMs();
    const first = await h.run({ select, perSecond: 1, forMs: 1_000 });
    expect(first).toMatchObject({ selected: 1, replayed: 1, toEpochMs: nowEpochMs, cursor: expect.any(String) as string });
    // It is refused at once, while the replay goes on.
    h.store.seed({ ...dead(h.record('evt_0') as WaitingRecord, 'rejected', 'status 400'), phase: 'buried', lastEpochMs: h.clock.nowEpochMs() });
    expect(await h.run({ select, cursor: first.cursor })).toMatchObject({ selected: 2, replayed: 2 });
    expect(h.record('evt_0')).toMatchObject({ state: 'dead', generation: 1 });
  });

  it('everything only when that is said', async () => {
    expect(() => parseReplayRequest({})).toThrow('select: needs a selection, or all: true');
    expect(() => parseReplayRequest({ select: { toEpochMs: 5 } })).toThrow('needs a selection');
    await h.die(2);
    expect(await h.run({ select: {}, all: true })).toMatchObject({ replayed: 2 });
  });
});

describe('a request that is none', () => {
  it.each<[unknown, string]>([
    [{ select: { endpointId: 'a.b' } }, 'select.endpointId: must match [A-Za-z0-9_-]{1,128} (got "a.b")'],
    [{ select: { endpointId: 'a' }, perSecond: 0 }, 'perSecond: Too small: expected number to be >=1 (got 0)'],
    [{ select: { endpointId: 'a' }, perSecond: 1_001 }, 'expected number to be <=1000 (got 1001)'],
    [{ select: { endpointId: 'a' }, forMs: 60_001 }, 'forMs: Too big'],
    [{ select: { reason: 'exausted' } }, 'select.reason: Invalid option'],
    [{ select: { eventIds: [] } }, 'select.eventIds: Too small'],
    [{ select: { eventIds: Array(101).fill('x') } }, 'select.eventIds: Too big'],
    [{ all: true, limit: 5 }, 'limit: unknown key (got 5)'],
    [undefined, 'document: '],
    ['all', 'document: '],
  ])('%j is refused with field, value and bound', (input, message) => {
    expect(() => parseReplayRequest(input)).toThrow(expect.objectContaining({ name: 'InvalidReplayRequest', message: expect.stringContaining(message) as string }) as Error);
  });

  it.each(['', 'x', Buffer.from('[2]').toString('base64url'), Buffer.from('{"a":1}').toString('base64url')])('a cursor %j is refused, and nothing is moved', async (cursor) => {
    await h.die(1);
    await expect(h.run({ cursor })).rejects.toMatchObject({ name: 'InvalidReplayRequest', message: 'cursor: is none of this function' });
    expect(h.heldEvents()).toEqual([]);
  });
});

describe('what is not moved', () => {
  it('one without its body, as an older version buried it', async () => {
    await h.die(2);
    await h.dies('old', { isOld: true });
    const answer = await h.run();
    expect(answer).toMatchObject({ selected: 3, replayed: 2, noPayload: 1, problems: [{ endpointId: 'acme', eventId: 'old', why: expect.stringContaining('dead-letter queue') as string }] });
    expect(h.record('old')?.state).toBe('dead');
  });

  it('one whose body was lost while it was held: only its producer has it, and a copy of the generation before delivers nothing', async () => {
    await h.dies('lost', { reason: 'payload-missing', record: { generation: 1 }, isOld: true });
    expect(await h.run()).toMatchObject({ noPayload: 1, replayed: 0, problems: [{ eventId: 'lost', why: 'its body is lost: send it again, with a larger resend' }] });
    const { payloadHash } = namesOf({ eventId: 'lost' });
    const received = { eventId: 'lost', payloadHash, resend: 0, deadLetterGeneration: 0 };
    expect(decideReceive(received, h.record('lost'), h.clock.nowEpochMs())).toEqual({ kind: 'done', why: 'stale-dead' });
    expect(decideReceive({ ...received, resend: 1, deadLetterGeneration: undefined }, h.record('lost'), h.clock.nowEpochMs())).toEqual({ kind: 'renew', why: 'resend' });
  });

  it('one of an endpoint that is not there, is disabled, or cannot be used as it is stored', async () => {
    await h.put({ endpointId: 'off', status: 'disabled' });
    await h.put({ endpointId: 'spoilt' });
    await h.store.spoil('spoilt', 'maxInFlight: Too big');
    await h.put({ endpointId: 'removed' });
    await h.store.remove('removed');
    for (const endpointId of ['never', 'off', 'spoilt', 'removed']) await h.dies('evt_1', { endpointId });
    let reads = 0;
    const deps: ReplayDeps = { ...h.deps, endpoints: { read: (id) => (reads++, h.store.endpoints.read(id)) } };
    const answer = await h.run({ select: {}, all: true }, deps);
    expect(answer).toMatchObject({ selected: 4, replayed: 0, noEndpoint: 2, disabled: 2 });
    expect(answer.problems.map(({ endpointId, why }) => `${endpointId}: ${why}`)).toEqual([
      'never: no endpoint never', 'off: endpoint off is disabled', 'removed: no endpoint removed', 'spoilt: endpoint spoilt cannot be used as it is stored: maxInFlight: Too big',
    ]);
    expect(reads).toBe(4);
  });

  it('to a paused endpoint it is: the drain keeps it until the endpoint is resumed', async () => {
    await h.put({ status: 'paused' });
    await h.die(1);
    expect(await h.run()).toMatchObject({ replayed: 1 });
  });

  it('one whose endpoint has as many held as may be', async () => {
    await h.die(2);
    await h.store.lanes.hold('acme', { count: holds.maxCount, nowEpochMs: 0, wakeAtEpochMs: 0, isReady: true });
    const answer = await h.run();
    expect(answer).toMatchObject({ replayed: 0, busy: 2 });
    expect(answer.problems[0]?.why).toBe('1000000 deliveries are held for endpoint acme already');
  });

  it('one whose endpoint is removed between the read and the move', async () => {
    await h.die(2);
    const deps: ReplayDeps = { ...h.deps, payloads: { ...h.store.payloads, read: async (names) => (await h.store.remove('acme'), h.store.payloads.read(names)) } };
    expect(await h.run({}, deps)).toMatchObject({ noEndpoint: 2, replayed: 0 });
  });

  it('one that was replayed too often, unless its event is named', async () => {
    await h.dies('often', { record: { generation: limits.maxGeneration } });
    await h.dies('nearly', { record: { generation: limits.maxGeneration - 1 } });
    expect(await h.run()).toMatchObject({ selected: 2, replayed: 1, capped: 1, problems: [{ eventId: 'often', why: expect.stringContaining('10 times') as string }] });
    expect(await h.run({ select: { endpointId: 'acme', eventIds: ['often'] } })).toMatchObject({ replayed: 1, capped: 0 });
  });

  it.each(['alive', 'dead'])('of a worker that is %s: a claim is waited for, or cleared', async (worker) => {
    await h.die(3);
    const { claimKey, shortHash } = namesOf({ eventId: 'evt_1' });
    const expiresEpochMs = h.clock.nowEpochMs() + (worker === 'alive' ? 3_600_000 : -1);
    await h.store.lanes.admit({ endpointId: 'acme', cfg: 'V1', leaseId: 'l1', expiresEpochMs, wanted: [{ claimKey, shortHash }] });
    const answer = await h.run();
    if (worker === 'alive') expect(answer).toMatchObject({ replayed: 2, busy: 1, problems: [{ eventId: 'evt_1', why: 'a worker has a claim on it' }] });
    else expect(answer).toMatchObject({ replayed: 3, busy: 0 });
    expect((await h.store.lane('acme'))?.claims.has(claimKey)).toBe(worker === 'alive');
  });

  it('an expired claim on what is dead no more stays: its owner may have sent, and left no verdict', async () => {
    const [record] = await h.die(1);
    const { claimKey, shortHash, recordKey } = namesOf({ eventId: 'evt_0' });
    const { records } = h.store;
    let reads = 0;
    const deps: ReplayDeps = {
      ...h.deps,
      records: {
        read: async (keys) => {
          const answer = await records.read(keys);
          // After the selection it is redriven, and whoever sends it dies.
          if (reads++ === 0 && record !== undefined) {
            await h.store.lanes.admit({ endpointId: 'acme', cfg: 'V1', leaseId: 'l1', expiresEpochMs: h.clock.nowEpochMs() - 1, wanted: [{ claimKey, shortHash }] });
            h.store.seed({ ...record, state: 'waiting', home: 'queue', dueEpochMs: 0, generation: 1 } as never);
          }
          return answer;
        },
      },
    };
    expect(await h.run({}, deps)).toMatchObject({ replayed: 0, gone: 1 });
    expect((await h.store.lane('acme'))?.claims.has(claimKey)).toBe(true);
    expect(h.store.record(recordKey)).toMatchObject({ state: 'waiting', generation: 1, ambiguous: 0 });
  });

  it('nor is such a claim cleared where the answer of the transaction did not say that the record has changed', async () => {
    const [record] = await h.die(1);
    const { claimKey, shortHash } = namesOf({ eventId: 'evt_0' });
    const deps: ReplayDeps = {
      ...h.deps,
      replays: {
        move: async (...args) => {
          await h.store.lanes.admit({ endpointId: 'acme', cfg: 'V1', leaseId: 'l1', expiresEpochMs: h.clock.nowEpochMs() - 1, wanted: [{ claimKey, shortHash }] });
          if (record !== undefined) h.store.seed({ ...record, state: 'waiting', home: 'queue', dueEpochMs: 0, generation: 1 } as never);
          const answer = await h.store.replays.move(...args);
          return answer.kind === 'refused' ? { ...answer, changed: new Map() } : answer;
        },
      },
    };
    expect(await h.run({}, deps)).toMatchObject({ replayed: 0, busy: 1 });
    expect((await h.store.lane('acme'))?.claims.has(claimKey)).toBe(true);
  });

  it('an endpoint that cannot be read now: repeat', async () => {
    await h.die(2);
    const deps: ReplayDeps = { ...h.deps, endpoints: { read: () => Promise.reject(new Error('throttled')) } };
    expect(await h.run({}, deps)).toMatchObject({ selected: 2, busy: 2, replayed: 0 });
    expect(await h.run()).toMatchObject({ replayed: 2 });
  });

  it('a payload that cannot be read or written now: repeat', async () => {
    const [first, second] = await h.die(3);
    const { payloads } = h.store;
    const deps: ReplayDeps = {
      ...h.deps,
      payloads: {
        ...payloads,
        read: async (names) => ({ found: (await payloads.read(names.filter(({ recordKey }) => recordKey !== first?.recordKey))).found, unread: new Set([first?.recordKey ?? '']) }),
        put: (name, ...rest) => (name.recordKey === second?.recordKey ? Promise.resolve('failed') : payloads.put(name, ...rest)),
      },
    };
    expect(await h.run({}, deps)).toMatchObject({ selected: 3, busy: 2, replayed: 1, noPayload: 0 });
    expect(await h.run()).toMatchObject({ selected: 2, replayed: 2 });
  });

  it('records that stay unread are counted, and not selected', async () => {
    await h.die(2);
    const deps: ReplayDeps = { ...h.deps, records: { read: (keys) => Promise.resolve({ found: new Map(), unread: new Set(keys) }) } };
    expect(await h.run({}, deps)).toMatchObject({ selected: 0, busy: 2, problems: [{ endpointId: 'acme', why: 'the record could not be read now' }, {}] });
    expect(await h.run({ select: { endpointId: 'acme', eventIds: ['evt_1'] } }, deps)).toMatchObject({ selected: 0, busy: 1 });
  });

  it('explains at most so many', async () => {
    await h.die(30, { isOld: true });
    const answer = await h.run();
    expect([answer.noPayload, answer.problems.length]).toEqual([30, limits.maxProblems]);
  });
});

describe('a transaction', () => {
  const answering = (...answers: (ReplayMoveAnswer | 'through' | 'lost')[]): ReplayDeps => ({
    ...h.deps,
    replays: {
      move: async (...args) => {
        const answer = answers.shift() ?? 'through';
        if (typeof answer === 'object') return answer;
        const real = await h.store.replays.move(...args);
        return answer === 'lost' ? { kind: 'unsure' } : real;
      },
    },
  });

  it.each<[string, (ReplayMoveAnswer | 'through' | 'lost')[]]>([
    ['in conflict twice', [{ kind: 'notApplied' }, { kind: 'notApplied' }]],
    ['never arrived', [{ kind: 'unsure' }]],
    ['applied, its answer lost', ['lost']],
    ['applied, its answer lost, its repeats in conflict', ['lost', { kind: 'notApplied' }, { kind: 'unsure' }]],
  ])('that was %s is tried again, and moves once', async (_how, answers) => {
    await h.die(3);
    expect(await h.run({}, answering(...answers))).toMatchObject({ replayed: 3, gone: 0, busy: 0 });
    expect(await h.store.lane('acme')).toMatchObject({ holdSeq: 1, holding: { count: 3 } });
    expect([h.store.bodies.size, h.woken]).toEqual([3, ['acme']]);
    expect(h.record('evt_0')).toMatchObject({ generation: 1 });
  });

  it('that is in conflict without end leaves them for a repeat, after a bounded number of tries', async () => {
    await h.die(2);
    expect(await h.run({}, answering(...Array<ReplayMoveAnswer>(limits.tries).fill({ kind: 'notApplied' })))).toMatchObject({ busy: 2, replayed: 0 });
    expect(h.woken).toEqual([]);
    expect(h.pauses.filter((ms) => ms > 0).length).toBeLessThanOrEqual(limits.tries);
    expect(await h.run()).toMatchObject({ replayed: 2 });
  });

  it('that is refused for some moves the rest', async () => {
    const [, second] = await h.die(3);
    const deps: ReplayDeps = {
      ...h.deps,
      payloads: {
        ...h.store.payloads,
        read: async (names) => {
          const found = await h.store.payloads.read(names);
          // Between the read and the move, somebody else redrives one.
          if (second !== undefined) h.store.seed({ ...second, generation: 1, phase: 'burying' });
          return found;
        },
      },
    };
    expect(await h.run({}, deps)).toMatchObject({ selected: 3, replayed: 2, gone: 1, problems: [] });
    expect(h.store.record(second?.recordKey ?? '')).toMatchObject({ state: 'dead', phase: 'burying', generation: 1 });
  });
});

describe('messages that have no delivery of their own', () => {
  it('are sent again with their generation, which makes a repeat harmless', async () => {
    const fresh = bodyOf({ eventId: 'evt_c' });
    await h.diesByBody('no message', 'malformed', '', 3);
    await h.diesByBody(fresh, 'conflict', 'acme');
    expect(await h.run({ select: {}, all: true })).toMatchObject({ selected: 2, sentAgain: 2, replayed: 0 });
    expect(h.sent).toEqual(expect.arrayContaining([{ body: 'no message', groupId: undefined, generation: 3 }, { body: fresh, groupId: 'acme', generation: 0 }]));
    expect(h.woken).toEqual([]);
  });

  it('are found by their reason, also with events named', async () => {
    const conflict = await h.diesByBody(bodyOf({ eventId: 'evt_c' }), 'conflict', 'acme');
    h.store.seed({ ...conflict, eventId: 'evt_c' });
    await h.dies('evt_c');
    expect(await h.run({ select: { endpointId: 'acme', eventIds: ['evt_c'], reason: 'conflict' } })).toMatchObject({ sentAgain: 1, replayed: 0 });
    expect(await h.run({ select: { endpointId: 'acme', eventIds: ['evt_c'] } })).toMatchObject({ sentAgain: 0, replayed: 1 });
  });

  it('that cannot be sent stay, and say why', async () => {
    await h.diesByBody('no message', 'malformed', '');
    const deps: ReplayDeps = { ...h.deps, sendAgain: () => Promise.reject(new Error('too long')) };
    expect(await h.run({ select: {}, all: true }, deps)).toMatchObject({ busy: 1, problems: [{ endpointId: '', why: 'could not be sent again: too long' }] });
  });
});

describe('a dry run', () => {
  it('counts, and changes nothing', async () => {
    await h.die(120);
    await h.dies('often', { record: { generation: 99 } });
    const before = structuredClone([h.store.bodies, await h.store.lane('acme')]);
    expect(await h.run({ dryRun: true })).toMatchObject({ ...none, selected: 121, capped: 1 });
    expect([h.store.bodies, await h.store.lane('acme'), h.heldEvents(), h.woken, h.pauses]).toEqual([...before, [], [], []]);
  });
});

describe('calls one after the other', () => {
  it('go on where the one before has ended, at the pace that was asked for', async () => {
    await h.die(250);
    const beganMs = h.clock.monotonicMs();
    const answers = await h.runAll({ perSecond: 50, forMs: 2_000 });
    expect(answers.map(({ replayed }) => replayed)).toEqual([100, 100, 50]);
    expect(h.clock.monotonicMs() - beganMs).toBe(5_000);
    expect(h.heldEvents()).toEqual(Array.from({ length: 250 }, (_, i) => `evt_${i}`));
  });

  it.each([1, 3, 7, 25, 100, 1_000])('at %i a second are never faster, and always get on', async (perSecond) => {
    const count = Math.min(400, perSecond * 5);
    await h.die(count);
    const beganMs = h.clock.monotonicMs();
    const answers = await h.runAll({ perSecond, forMs: 1_000 });
    expect(answers.reduce((sum, { replayed }) => sum + replayed, 0)).toBe(count);
    expect(h.clock.monotonicMs() - beganMs).toBeGreaterThanOrEqual((count / perSecond) * 1_000);
    expect(answers.every(({ replayed, cursor }) => replayed > 0 || cursor === undefined)).toBe(true);
  });

  it('never wait beyond the time of a call', async () => {
    await h.die(30);
    const beganMs = h.clock.monotonicMs();
    await h.run({ perSecond: 1, forMs: 5_500 });
    expect(h.clock.monotonicMs() - beganMs).toBe(5_000);
  });

  it('get on by at least one batch, however long they have read', async () => {
    await h.die(80);
    const deps: ReplayDeps = { ...h.deps, dead: { page: (...args) => (h.clock.advance(10_000), h.store.dead.page(...args)) } };
    expect(await h.run({ forMs: 1_000 }, deps)).toMatchObject({ replayed: 25, cursor: expect.any(String) as string });
  });

  it('share the number of deliveries that were asked for', async () => {
    await h.die(100);
    const answers = await h.runAll({ perSecond: 20, forMs: 1_000, max: 45 });
    expect(answers.map(({ replayed }) => replayed)).toEqual([20, 20, 5]);
    expect(h.heldEvents()).toEqual(Array.from({ length: 45 }, (_, i) => `evt_${i}`));
  });

  it('do not take again what has died again meanwhile', async () => {
    await h.die(60);
    const first = await h.run({ perSecond: 30, forMs: 1_000 });
    expect(first).toMatchObject({ replayed: 25, cursor: expect.any(String) as string });
    // The first ones were sent, and are dead again, in their next generation.
    for (const { eventId } of h.store.held()) await h.dies(eventId ?? '', { record: { generation: 1, lastEpochMs: h.clock.nowEpochMs() } });
    let cursor = first.cursor;
    let replayed = first.replayed;
    while (cursor !== undefined) {
      const answer = await h.run({ perSecond: 30, forMs: 1_000, cursor });
      replayed += answer.replayed;
      cursor = answer.cursor;
      expect(answer.toEpochMs).toBe(first.toEpochMs);
    }
    expect(replayed).toBe(60);
    expect(h.record('evt_0')).toMatchObject({ state: 'dead', generation: 1 });
  });

  it('with named events go on as well', async () => {
    await h.die(60);
    const eventIds = Array.from({ length: 60 }, (_, i) => `evt_${59 - i}`);
    const answers = await h.runAll({ select: { endpointId: 'acme', eventIds }, perSecond: 30, forMs: 1_000 });
    expect(answers.reduce((sum, { replayed }) => sum + replayed, 0)).toBe(60);
    expect(answers.length).toBeGreaterThan(1);
    expect(h.heldEvents()).toEqual(Array.from({ length: 60 }, (_, i) => `evt_${i}`));
  });

  it('say what was done where an index cannot be read any more', async () => {
    await h.die(150);
    let pages = 0;
    const deps: ReplayDeps = { ...h.deps, dead: { page: (...args) => (pages++ === 0 ? h.store.dead.page(...args) : Promise.reject(new Error('away'))) } };
    const answer = await h.run({}, deps);
    expect(answer).toMatchObject({ replayed: 100, cursor: expect.any(String) as string });
    expect(await h.run({ cursor: answer.cursor })).toMatchObject({ replayed: 50 });
    const never: ReplayDeps = { ...h.deps, dead: { page: () => Promise.reject(new Error('away')) } };
    await expect(h.run({}, never)).rejects.toThrow('away');
  });
});
