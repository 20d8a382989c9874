/** Slots that are used again for the rest of a batch: one write between two waves, and what happens where that write fails. */
import { beforeEach, describe, expect, it } from 'vitest';
import { createEndpointCache } from '../../lambdas/deliver/endpoint-cache.ts';
import type { AdmitAnswer, GiveBack, Lanes } from '../../lambdas/shared/ports/index.ts';
import { deliver } from '../../lambdas/shared/limits/numbers.ts';
import { bodyOf, endpointOf, receivedOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered } from '../support/fakes.ts';

let h: Harness;
let writes: string[];
const idle = { leases: new Map(), claims: new Map() };
const batchOf = (...eventIds: string[]) => eventIds.map((eventId) => receivedOf(bodyOf({ eventId })));

beforeEach(async () => {
  h = await Harness.create({ maxInFlight: 2 });
  writes = [];
});

/** The store's lanes, noting each write; `methods` replace some. */
function noted(methods: Partial<Lanes> = {}): { lanes: Lanes } {
  const lanes = { ...h.store.lanes, ...methods };
  const note = <A extends unknown[], R>(name: string, method: (...args: A) => Promise<R>) => (...args: A) => {
    writes.push(name);
    return method(...args);
  };
  return {
    lanes: {
      admit: note('admit', lanes.admit), exchange: note('exchange', lanes.exchange), giveBack: note('giveBack', lanes.giveBack),
      reapLease: note('reapLease', lanes.reapLease), reapClaim: note('reapClaim', lanes.reapClaim), moveBreaker: note('moveBreaker', lanes.moveBreaker), moveRate: note('moveRate', lanes.moveRate), moveDay: note('moveDay', lanes.moveDay),
      movePace: note('movePace', lanes.movePace), pauseUntil: note('pauseUntil', lanes.pauseUntil), flag: note('flag', lanes.flag), hold: note('hold', lanes.hold), moveWakeUp: note('moveWakeUp', lanes.moveWakeUp),
      beginDrain: note('beginDrain', lanes.beginDrain), endDrain: note('endDrain', lanes.endDrain),
      countOffers: note('countOffers', lanes.countOffers), takeWindow: lanes.takeWindow, moveTold: lanes.moveTold,
    },
  };
}

describe('a batch that is larger than its lane', () => {
  it('is delivered in waves, with one write between two', async () => {
    expect(await h.run(batchOf('a', 'b', 'c', 'd', 'e'), noted())).toEqual([]);
    expect(writes).toEqual(['admit', 'exchange', 'exchange', 'giveBack']);
    expect(h.http.sent).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(await h.lane()).toMatchObject({ avail: 2, failures: 0, ...idle });
  });

  it('counts failures in a row over its waves', async () => {
    h.http.script = () => answered(503);
    await h.run(batchOf('a', 'b', 'c'), noted());
    expect((await h.lane()).failures).toBe(3);
  });

  it('uses its slots again only while that is quick', async () => {
    h.http.script = () => {
      h.clock.advance(deliver.waveMs / 2 + 1);
      return answered(200);
    };
    const batch = batchOf('a', 'b', 'c');
    expect(await h.run(batch, noted())).toEqual([batch[2]?.messageId]);
    expect(writes).toEqual(['admit', 'giveBack', 'countOffers']);
  });

  it('asks for the room that others have returned meanwhile', async () => {
    await h.claimElsewhere({ eventId: 'x' });
    const give: GiveBack = { endpointId: 'acme', leaseId: 'elsewhere', expiresEpochMs: h.clock.nowEpochMs() + 20_000, slots: 1, release: [...(await h.lane()).claims.keys()], keep: [], successes: 0, failures: 0 };
    const taken: number[] = [];
    const lanes = noted({
      exchange: async (held, ask) => {
        taken.push(ask.wanted.length);
        if (taken.length === 1) await h.store.lanes.giveBack(give);
        return h.store.lanes.exchange(held, ask);
      },
    });
    expect(await h.run(batchOf('a', 'b', 'c', 'd'), lanes)).toEqual([]);
    // The first exchange knows of one slot; its answer says that there are two.
    expect(taken).toEqual([1, 2]);
    expect(await h.lane()).toMatchObject({ avail: 2, ...idle });
  });
});

describe('an exchange', () => {
  it.each<[string, (apply: () => Promise<AdmitAnswer>) => Promise<AdmitAnswer>]>([
    ['never arrives', () => Promise.resolve({ kind: 'unsure' })],
    ['is applied, and nobody hears of it', async (apply) => (await apply(), { kind: 'unsure' })],
    ['is throttled', () => Promise.resolve({ kind: 'throttled' })],
  ])('that %s: what was settled is acknowledged, the rest shed, and the lane is whole', async (_why, fate) => {
    const batch = batchOf('a', 'b', 'c', 'd');
    const retained = await h.run(batch, noted({ exchange: (held, ask) => fate(() => h.store.lanes.exchange(held, ask)) }));
    expect(retained).toEqual([batch[2]?.messageId, batch[3]?.messageId]);
    expect(h.http.sent).toEqual(['a', 'b']);
    expect(await h.lane()).toMatchObject({ avail: 2, ...idle });
    // The old lease first: an exchange that is still on its way needs it.
    expect(writes.slice(0, 3)).toEqual(['admit', 'exchange', 'giveBack']);
  });

  it('that was applied and repeated by the SDK is granted', async () => {
    const lanes = noted({
      exchange: async (held, ask) => {
        await h.store.lanes.exchange(held, ask);
        return h.store.lanes.exchange(held, ask);
      },
    });
    expect(await h.run(batchOf('a', 'b', 'c', 'd'), lanes)).toEqual([]);
    expect(h.http.sent).toEqual(['a', 'b', 'c', 'd']);
    expect(await h.lane()).toMatchObject({ avail: 2, ...idle });
  });

  it('that comes late, after its sender gave up, changes nothing', async () => {
    const late: (() => Promise<AdmitAnswer>)[] = [];
    const lanes = noted({
      exchange: (held, ask) => {
        late.push(() => h.store.lanes.exchange(held, ask));
        return Promise.resolve({ kind: 'unsure' });
      },
    });
    await h.run(batchOf('a', 'b', 'c'), lanes);
    const before = await h.lane();
    expect(await late[0]?.()).toMatchObject({ kind: 'refused' });
    expect(await h.lane()).toEqual(before);
  });

  it('that is refused, for its lease was reaped, keeps the messages whose claims may be left', async () => {
    const lanes = noted({
      exchange: async (held, ask) => {
        await h.store.lanes.reapLease('acme', held.leaseId, { slots: held.slots, expiresEpochMs: held.expiresEpochMs });
        return h.store.lanes.exchange(held, ask);
      },
    });
    const batch = batchOf('a', 'b', 'c');
    expect(await h.run(batch, lanes)).toEqual([batch[0]?.messageId, batch[1]?.messageId]);
    expect(h.http.sent).toEqual(['a', 'b', 'c']);
    expect(h.telemetry.count('give-back-failed')).toBe(1);
    expect(await h.lane()).toMatchObject({ avail: 2, leases: new Map() });
  });

  it('under another configuration gives back, and goes on by the new one', async () => {
    const lanes = noted({
      exchange: async (held, ask) => {
        await h.store.put(endpointOf({ maxInFlight: 1, url: 'https://other.example.com/in' }, 'V2'));
        return h.store.lanes.exchange(held, ask);
      },
    });
    const batch = batchOf('a', 'b', 'c', 'd');
    await h.run(batch, lanes);
    expect(h.http.requests.map((request) => `${request.endpointId}@${request.version}`)).toEqual(['acme@V1', 'acme@V1', 'acme@V2', 'acme@V2']);
    expect(await h.lane()).toMatchObject({ slots: 1, avail: 1, ...idle });
  });

  it('under another configuration that cannot be read sheds the rest, and what was settled is acknowledged', async () => {
    const lanes = noted({
      exchange: async (held, ask) => {
        await h.store.put(endpointOf({ maxInFlight: 2 }, 'V2'));
        return h.store.lanes.exchange(held, ask);
      },
    });
    const endpoints = { get: () => h.deps.endpoints.get('acme'), refresh: () => Promise.reject(new Error('the table is away')) };
    const batch = batchOf('a', 'b', 'c');
    expect(await h.run(batch, { ...lanes, endpoints })).toEqual([batch[2]?.messageId]);
    expect(h.telemetry.faults).toHaveLength(1);
    expect(await h.lane()).toMatchObject({ avail: 2, ...idle });
  });

  it('to an endpoint that was disabled meanwhile buries the rest', async () => {
    const lanes = noted({
      exchange: async (held, ask) => {
        await h.store.put(endpointOf({ maxInFlight: 2, status: 'disabled' }, 'V2'));
        return h.store.lanes.exchange(held, ask);
      },
    });
    expect(await h.run(batchOf('a', 'b', 'c'), lanes)).toEqual([]);
    expect(h.queues.buried.map(({ record }) => [record.eventId, record.reason])).toEqual([['c', 'disabled']]);
    expect(await h.lane()).toMatchObject({ avail: 2, ...idle });
  });
});

describe('an endpoint that is not delivered to', () => {
  it.each(['disabled', 'paused', 'unknown'])('is read once for what is received of it (%s)', async (status) => {
    if (status === 'unknown') await h.store.remove('acme');
    else await h.store.put(endpointOf({ status }, 'V2'));
    let reads = 0;
    const read = (endpointId: string) => (reads++, h.store.endpoints.read(endpointId));
    await h.run(batchOf('a', 'b'), { endpoints: createEndpointCache({ read }, 10) });
    expect(reads).toBe(1);
  });
});
