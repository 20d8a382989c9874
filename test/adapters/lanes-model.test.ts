/** Random histories of one lane in DynamoDB against a model that knows one thing at a time. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { afterReap } from '../../lambdas/shared/core/decide.ts';
import { removedCfg, type Lane } from '../../lambdas/shared/core/lane.ts';
import { endpointOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { startDynamoSubject, type DynamoSubject } from '../support/dynamo-subject.ts';
import { expectBalanced, LaneSubject } from '../support/world.ts';

const events = ['a', 'b', 'c', 'd', 'e'];
const leaseMs = 1_000;

interface Held {
  readonly events: readonly string[];
  readonly expiresEpochMs: number;
}

/** What the lane should be, and what senders believe that they hold. */
interface Model {
  nowEpochMs: number;
  slots: number;
  avail: number;
  cfg: string;
  largest: number;
  writes: number;
  /** Lease id to its slots; senders that died are in it until somebody reaps them. */
  readonly leases: Map<string, { slots: number; expiresEpochMs: number }>;
  readonly claims: Map<string, string>;
  /** Senders that live: only they give back. */
  readonly senders: Map<string, Held>;
}

class Real {
  readonly world = subject.world;
  readonly lane = new LaneSubject(subject.world);

  put(maxInFlight: number, version: string) {
    return this.world.put(endpointOf({ endpointId: this.lane.endpointId, maxInFlight }, version));
  }
}

type Command = fc.AsyncCommand<Model, Real>;
let subject: DynamoSubject;
beforeAll(async () => void (subject = await startDynamoSubject()));
afterAll(() => subject.close());

const command = (name: string, check: (m: Model) => boolean, run: (m: Model, r: Real) => Promise<void>): Command => ({
  check,
  run: async (m, r) => {
    await run(m, r);
    await compare(m, r);
  },
  toString: () => name,
});

async function compare(m: Model, { lane, world }: Real): Promise<void> {
  const real = await world.lane(lane.endpointId);
  if (real === undefined) throw new Error('no lane');
  expectBalanced(real);
  expect({ slots: real.slots, avail: real.avail, cfg: real.cfg }).toEqual({ slots: m.slots, avail: m.avail, cfg: m.cfg });
  expect(real.leases).toEqual(m.leases);
  expect(new Map([...real.claims].map(([key, { leaseId }]) => [key, leaseId]))).toEqual(new Map([...m.claims].map(([event, leaseId]) => [lane.key(event), leaseId])));
  expect(inFlightOf(real, m.nowEpochMs)).toBeLessThanOrEqual(m.largest);
}

function inFlightOf(lane: Lane, nowEpochMs: number): number {
  return [...lane.leases.values()].filter((l) => l.expiresEpochMs > nowEpochMs).reduce((sum, l) => sum + l.slots, 0);
}

const admit = (wanted: readonly string[], stale: boolean): Command =>
  command(`admit ${wanted.join('+')}${stale ? ' with an old configuration' : ''}`, () => true, async (m, r) => {
    const leaseId = `lease-${++m.writes}`;
    const expiresEpochMs = m.nowEpochMs + leaseMs;
    const ask = r.lane.ask(wanted, { cfg: stale ? 'V-old' : m.cfg === removedCfg ? 'V-any' : m.cfg, leaseId, expiresEpochMs });
    const fits = !stale && m.cfg !== removedCfg && m.avail >= wanted.length && wanted.every((event) => !m.claims.has(event));
    expect((await r.world.lanes.admit(ask)).kind).toBe(fits ? 'granted' : 'refused');
    if (!fits) return;
    m.avail -= wanted.length;
    m.leases.set(leaseId, { slots: wanted.length, expiresEpochMs });
    m.senders.set(leaseId, { events: wanted, expiresEpochMs });
    for (const event of wanted) m.claims.set(event, leaseId);
  });

const pick = <T>(all: Iterable<T>, n: number): T | undefined => {
  const list = [...all];
  return list[n % Math.max(1, list.length)];
};

const giveBack = (which: number, keeps: boolean, twice: boolean): Command =>
  command(`giveBack #${which}${keeps ? ' keeping one' : ''}${twice ? ' twice' : ''}`, (m) => m.senders.size > 0, async (m, r) => {
    const [leaseId, held] = pick(m.senders, which) as [string, Held];
    const keep = keeps ? held.events.slice(0, 1) : [];
    const release = held.events.slice(keep.length);
    const keys = (some: readonly string[]) => some.map((event) => r.lane.key(event));
    const give = r.lane.give({ leaseId, slots: held.events.length, release: keys(release), keep: keys(keep), expiresEpochMs: held.expiresEpochMs, failures: 1 });
    const isOwn = (event: string) => m.claims.get(event) === leaseId;
    const applies = m.leases.has(leaseId) && release.every(isOwn);
    // Nothing of ours left is the same as done: the SDK may have repeated us.
    const left = !applies && (m.leases.has(leaseId) || release.some(isOwn));
    for (let i = 0; i <= Number(twice); i++) expect(await r.world.lanes.giveBack(give)).toBe(left ? 'lost' : 'done');
    m.senders.delete(leaseId);
    if (!applies) return;
    m.avail += held.events.length;
    if (keeps) m.leases.set(leaseId, { slots: 0, expiresEpochMs: held.expiresEpochMs });
    else m.leases.delete(leaseId);
    for (const event of release) m.claims.delete(event);
  });

const pass = (ms: number): Command =>
  command(`pass ${ms}`, () => true, (m) => {
    m.nowEpochMs += ms;
    return Promise.resolve();
  });

const reapLease = (which: number): Command =>
  command(`reapLease #${which}`, (m) => [...m.leases.values()].some((l) => l.expiresEpochMs <= m.nowEpochMs), async (m, r) => {
    const [leaseId, seen] = pick([...m.leases].filter(([, l]) => l.expiresEpochMs <= m.nowEpochMs), which) as [string, { slots: number; expiresEpochMs: number }];
    await r.world.lanes.reapLease(r.lane.endpointId, leaseId, seen);
    await r.world.lanes.reapLease(r.lane.endpointId, leaseId, seen);
    m.avail += seen.slots;
    m.leases.delete(leaseId);
  });

const reapClaim = (event: string): Command =>
  command(`reapClaim ${event}`, (m) => m.claims.has(event) && (m.leases.get(m.claims.get(event) ?? '')?.expiresEpochMs ?? 0) <= m.nowEpochMs, async (m, r) => {
    const leaseId = m.claims.get(event) ?? '';
    const { claimKey, recordKey, shortHash } = r.lane.names(event);
    const from = await r.lane.record(event);
    const base = from?.state === 'waiting' ? from : waitingOf({}, { endpointId: r.lane.endpointId, eventId: event });
    const ambiguous = { from: from?.state === 'waiting' ? from : undefined, to: afterReap(base, leaseId, m.nowEpochMs) };
    const reap = { endpointId: r.lane.endpointId, claimKey, claim: { leaseId, shortHash }, recordKey, ambiguous };
    expect(await r.world.lanes.reapClaim(reap)).toBe('reaped');
    expect(await r.world.lanes.reapClaim(reap)).toBe('lost');
    expect((await r.lane.record(event))?.attempt ?? 0).toBe((from?.attempt ?? 0) + 1);
    m.claims.delete(event);
  });

const put = (slots: number): Command =>
  command(`put ${slots}`, () => true, async (m, r) => {
    m.cfg = `V${++m.writes}`;
    await r.put(slots, m.cfg);
    m.avail += slots - m.slots;
    m.slots = slots;
    m.largest = Math.max(m.largest, slots);
  });

const remove = (): Command =>
  command('remove', (m) => m.cfg !== removedCfg, async (m, r) => {
    await r.world.remove(r.lane.endpointId);
    m.cfg = removedCfg;
  });

const commands = [
  fc.tuple(fc.subarray(events, { minLength: 1 }), fc.integer({ min: 0, max: 9 })).map(([wanted, n]) => admit(wanted, n === 0)),
  fc.subarray(events, { minLength: 1, maxLength: 2 }).map((wanted) => admit(wanted, false)),
  fc.tuple(fc.nat(9), fc.boolean(), fc.boolean()).map((args) => giveBack(...args)),
  fc.constantFrom(300, 1_000, 2_000).map(pass),
  fc.nat(9).map(reapLease),
  fc.constantFrom(...events).map(reapClaim),
  fc.integer({ min: 1, max: 6 }).map(put),
  fc.constant(remove()),
];

describe('a lane, through any history', () => {
  it('keeps avail and leases in balance, one claim a key, and never more in flight than it was ever allowed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.commands(commands, { size: 'max', maxCommands: 60 }), async (history) => {
        const real = new Real();
        await real.put(3, 'V0');
        const model: Model = { nowEpochMs: t0EpochMs, slots: 3, avail: 3, cfg: 'V0', largest: 3, writes: 0, leases: new Map(), claims: new Map(), senders: new Map() };
        await fc.asyncModelRun(() => ({ model, real }), history);
      }),
      { numRuns: 25 },
    );
  });
});
