import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { SocketLeases, type Reusable, type Slot, type Wanted } from '../../lambdas/shared/adapters/socket-leases.ts';
import { watchTimers } from '../support/timers.ts';

class FakeConnection implements Reusable {
  static open = 0;
  isOpen = true;
  idleMs = 4_000;
  onClose: (() => void) | undefined;

  constructor() {
    FakeConnection.open++;
  }

  /** As a socket is: closed at once, its event later. */
  destroy(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    FakeConnection.open--;
  }

  /** The peer closes it. */
  die(): void {
    this.destroy();
    this.onClose?.();
  }
}

afterEach(() => void vi.restoreAllMocks());

type Leases = SocketLeases<FakeConnection>;
const ceilings = { total: 4, perHost: 2, maxWaiting: 3 };
const of = (endpointId: string, host = endpointId, version = 'V1', scheme = 'https'): Wanted => ({ endpointId, version, host, origin: `${scheme}://${host}` });
let nowEpochMs = 0;
let leases: Leases;
beforeEach(() => {
  FakeConnection.open = 0;
  nowEpochMs = 0;
  leases = new SocketLeases(ceilings, () => nowEpochMs);
});

/** A slot with a socket in it, as an attempt holds one. */
async function lease(wanted: Wanted, waitMs = 0): Promise<Slot<FakeConnection>> {
  const slot = await leases.acquire(wanted, waitMs);
  if (slot === undefined) throw new Error('no slot');
  slot.connection ??= new FakeConnection();
  return slot;
}

describe('SocketLeases', () => {
  it('gives the socket used last again, within one version of one endpoint', async () => {
    const [one, two] = [await lease(of('a')), await lease(of('a'))];
    leases.release(one);
    leases.release(two);
    expect((await lease(of('a'))).connection).toBe(two.connection);
    expect((await lease(of('b', 'a'))).connection).not.toBe(one.connection);
  });

  it('closes what an older version of the endpoint left, idle or in use', async () => {
    const [idle, used] = [await lease(of('a')), await lease(of('a'))];
    leases.release(idle);
    const newer = await lease(of('a', 'a', 'V2'));
    expect([idle.connection?.isOpen, used.connection?.isOpen, newer.connection?.isOpen]).toEqual([false, true, true]);
    leases.release(used);
    leases.release(newer);
    expect([used.connection?.isOpen, newer.connection?.isOpen]).toEqual([false, true]);
    expect(leases.counts()).toMatchObject({ inUse: 0, idle: 1, waiting: 0, pools: 1 });
  });

  it('closes what an older version left idle at once, also where there is room for both', async () => {
    const idle = await lease(of('a'));
    leases.release(idle);
    const newer = await lease(of('a', 'a', 'V2'));
    expect([idle.connection?.isOpen, newer.connection?.isOpen]).toEqual([false, true]);
    expect(leases.counts()).toMatchObject({ inUse: 1, idle: 0, waiting: 0, pools: 1 });
  });

  it('does not take back what is closed, or what the peer wants closed', async () => {
    const [closed, unwanted] = [await lease(of('a')), await lease(of('a'))];
    closed.connection?.destroy();
    if (unwanted.connection !== undefined) unwanted.connection.idleMs = 0;
    leases.release(closed);
    leases.release(unwanted);
    expect(leases.counts()).toMatchObject({ inUse: 0, idle: 0, waiting: 0, pools: 0 });
    expect(FakeConnection.open).toBe(0);
  });

  it('forgets an idle socket that its peer closes', async () => {
    const slot = await lease(of('a'));
    leases.release(slot);
    slot.connection?.die();
    expect(leases.counts()).toMatchObject({ inUse: 0, idle: 0, waiting: 0, pools: 0 });
  });

  it.each([
    ['a freeze', () => {
      nowEpochMs += 4_001;
    }],
    ['a freeze beyond what the peer allows', (slot: Slot<FakeConnection>) => {
      if (slot.connection !== undefined) slot.connection.idleMs = 500;
      nowEpochMs += 501;
    }],
  ])('drops idle sockets after %s, whoever asks next', async (_why, freeze) => {
    const slot = await lease(of('a'));
    leases.release(slot);
    freeze(slot);
    await lease(of('b'));
    expect(slot.connection?.isOpen).toBe(false);
    expect(leases.counts()).toMatchObject({ inUse: 1, idle: 0 });
  });

  it('keeps them over a shorter one, and over a wall clock that was set back', async () => {
    const slot = await lease(of('a'));
    leases.release(slot);
    nowEpochMs += 4_000;
    expect((await lease(of('a'))).connection).toBe(slot.connection);
    leases.release(slot);
    nowEpochMs -= 100_000;
    expect((await lease(of('a'))).connection).toBe(slot.connection);
  });

  it('drops them by the monotonic clock too: a wall clock that is set back keeps none', async () => {
    const slot = await lease(of('a'));
    leases.release(slot);
    nowEpochMs -= 100_000;
    const laterMs = performance.now() + 4_001;
    vi.spyOn(performance, 'now').mockImplementation(() => laterMs);
    await lease(of('b'));
    expect(slot.connection?.isOpen).toBe(false);
    expect(leases.counts()).toMatchObject({ inUse: 1, idle: 0 });
  });

  it('holds the ceiling of a host over all endpoints there, and makes room by an idle socket of another', async () => {
    const [one, two] = [await lease(of('a', 'h')), await lease(of('b', 'h'))];
    expect(await leases.acquire(of('c', 'h'), 0)).toBeUndefined();
    leases.release(one);
    const three = await lease(of('c', 'h'));
    expect([one.connection?.isOpen, two.connection?.isOpen, three.connection?.isOpen]).toEqual([false, true, true]);
  });

  it('makes room at a host by the socket idle longest there', async () => {
    const slots = [await lease(of('a', 'h')), await lease(of('b', 'h'))];
    for (const slot of slots.toReversed()) leases.release(slot);
    await lease(of('c', 'h'));
    expect(slots.map((slot) => slot.connection?.isOpen)).toEqual([true, false]);
  });

  it('counts an endpoint that has moved to another host there', async () => {
    const [before, moved] = [await lease(of('a', 'h')), await lease(of('a', 'i', 'V2'))];
    const more = [await lease(of('b', 'h')), await lease(of('c', 'i'))];
    expect([await leases.acquire(of('d', 'h'), 0), await leases.acquire(of('d', 'i'), 0)]).toEqual([undefined, undefined]);
    for (const slot of [before, moved, ...more]) leases.release(slot);
    // Where it was, its sockets end by their idle time.
    expect(leases.counts()).toMatchObject({ inUse: 0, idle: 4, waiting: 0, pools: 4 });
    leases.close();
    // And is counted no longer, at either.
    await Promise.all([of('d', 'h'), of('e', 'h'), of('d2', 'i'), of('e2', 'i')].map((wanted) => lease(wanted)));
  });

  it('holds the ceiling over all hosts, and closes the socket idle longest first', async () => {
    const slots = await Promise.all(['a', 'b', 'c', 'd'].map((id) => lease(of(id))));
    expect(await leases.acquire(of('e'), 0)).toBeUndefined();
    for (const slot of [2, 0, 1].map((i) => slots[i])) if (slot !== undefined) leases.release(slot);
    await lease(of('e'));
    await lease(of('f'));
    expect(slots.map((slot) => slot.connection?.isOpen)).toEqual([false, true, false, true]);
    expect(FakeConnection.open).toBe(4);
  });

  it('serves those who wait in their order, past those whose host is full', async () => {
    const held = [await lease(of('a', 'h')), await lease(of('a', 'h')), await lease(of('b', 'i')), await lease(of('b', 'i'))];
    const order: string[] = [];
    const waiting = [of('a', 'h'), of('b', 'i'), of('b', 'i')].map(async (wanted, i) => {
      const slot = await leases.acquire(wanted, 60_000);
      order.push(`${i}`);
      return slot;
    });
    // One more is turned away at once: the queue is bounded.
    expect(await leases.acquire(of('c'), 60_000)).toBeUndefined();
    for (const slot of [held[2], held[3], held[0]]) if (slot !== undefined) leases.release(slot);
    const slots = await Promise.all(waiting);
    expect(order).toEqual(['1', '2', '0']);
    expect(slots.map((slot) => slot?.connection)).toEqual([held[0]?.connection, held[2]?.connection, held[3]?.connection]);
  });

  it('spares room for one more socket within the ceilings, after those who wait', async () => {
    const one = await lease(of('a'));
    const giveBack = leases.spare(one);
    expect([giveBack, leases.spare(one), leases.counts().inUse]).toEqual([expect.any(Function), undefined, 2]);
    const waiting = leases.acquire(of('b', 'a'), 60_000);
    giveBack?.();
    expect((await waiting)?.pool.endpointId).toBe('b');
    expect([leases.spare(one), leases.counts().inUse]).toEqual([undefined, 2]);
  });

  it('keeps nothing once it is closed', async () => {
    const slot = await lease(of('a'));
    leases.close();
    leases.release(slot);
    expect([slot.connection?.isOpen, leases.counts()]).toMatchObject([false, { inUse: 0, idle: 0, waiting: 0, pools: 0 }]);
  });

  it('knows the most that were in use since it was last asked', async () => {
    const [one, two] = [await lease(of('a')), await lease(of('a'))];
    leases.release(one);
    leases.release(two);
    leases.release(await lease(of('a')));
    expect([leases.takeCounts().peakInUse, leases.takeCounts().peakInUse]).toEqual([2, 0]);
    const again = await lease(of('a'));
    expect([leases.takeCounts().peakInUse, leases.takeCounts().peakInUse]).toEqual([1, 1]);
    leases.release(again);
  });

  it('turns nobody away from a host that has room, however many wait for another', async () => {
    const held = [await lease(of('a', 'h')), await lease(of('a', 'h'))];
    const waiting = Array.from({ length: ceilings.maxWaiting }, () => leases.acquire(of('a', 'h'), 60_000));
    expect(await leases.acquire(of('b'), 0)).toBeDefined();
    for (const slot of held) leases.release(slot);
    for (const one of waiting) leases.release((await one) as Slot<FakeConnection>);
    expect(leases.counts()).toMatchObject({ inUse: 1, waiting: 0 });
  });

  it('gives up a wait after its time, and then leaves the slot to others', async () => {
    const held = [await lease(of('a', 'h')), await lease(of('a', 'h'))];
    expect(await leases.acquire(of('a', 'h'), 5)).toBeUndefined();
    expect(leases.counts().waiting).toBe(0);
    for (const slot of held) leases.release(slot);
    expect(leases.counts()).toMatchObject({ inUse: 0, idle: 2, waiting: 0, pools: 1 });
  });

  it('leaves no timer behind once a wait was served', async () => {
    const held = [await lease(of('a', 'h')), await lease(of('a', 'h'))];
    const armed = watchTimers(60_000);
    const waiting = leases.acquire(of('a', 'h'), 60_000);
    expect(armed()).toEqual([60_000]);
    if (held[0] !== undefined) leases.release(held[0]);
    await waiting;
    expect(armed()).toEqual([]);
  });

  it('leads where it is wanted: two hosts of one endpoint, or two schemes of one host, share no socket', async () => {
    const there = async (wanted: Wanted) => (await leases.acquire(wanted, 10))?.connection;
    const slot = await leases.acquire(of('a', 'hooks'), 10);
    const connection = new FakeConnection();
    if (slot !== undefined) {
      slot.connection = connection;
      leases.release(slot);
    }
    expect(await there(of('a', 'look'))).toBeUndefined();
    expect(await there(of('a', 'hooks', 'V1', 'http'))).toBeUndefined();
    expect(await there(of('a', 'hooks'))).toBe(connection);
  });

  it('never passes a ceiling, never loses a slot, and serves everyone in the end, whatever happens in which order', async () => {
    const wantedArbitrary = fc.record({ endpointId: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), version: fc.constantFrom('V1', 'V2') })
      .chain(({ endpointId, version }) => fc.constantFrom('', 'look-up of ').map((prefix): Wanted => of(endpointId, prefix + ({ a: 'h', b: 'h', c: 'h', d: 'i', e: 'j', f: 'k' }[endpointId] ?? ''), version)));
    const step = fc.oneof(
      fc.record({ kind: fc.constant('acquire' as const), wanted: wantedArbitrary }),
      fc.record({ kind: fc.constant('release' as const), nth: fc.nat(10), closed: fc.boolean() }),
      fc.record({ kind: fc.constant('die' as const), nth: fc.nat(10) }),
      fc.record({ kind: fc.constant('freeze' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        FakeConnection.open = 0;
        leases = new SocketLeases(ceilings, () => nowEpochMs);
        const held: Slot<FakeConnection>[] = [];
        const seen: FakeConnection[] = [];
        let waiting = 0;
        const check = () => {
          const { inUse, idle, pools } = leases.counts();
          expect(inUse).toBe(held.length);
          expect(inUse + idle).toBeLessThanOrEqual(ceilings.total);
          expect(FakeConnection.open).toBeLessThanOrEqual(ceilings.total);
          expect(pools).toBeLessThanOrEqual(inUse + idle);
          for (const host of ['h', 'i', 'j', 'k']) expect(held.filter((slot) => slot.pool.host === host).length).toBeLessThanOrEqual(ceilings.perHost);
        };
        for (const s of steps) {
          if (s.kind === 'acquire') {
            waiting++;
            void leases.acquire(s.wanted, 60_000).then((slot) => {
              waiting--;
              if (slot === undefined) return;
              expect(slot.connection?.isOpen).not.toBe(false);
              slot.connection ??= new FakeConnection();
              seen.push(slot.connection);
              held.push(slot);
            });
          } else if (s.kind === 'release') {
            const [slot] = held.splice(s.nth % Math.max(1, held.length), 1);
            if (s.closed) slot?.connection?.destroy();
            if (slot !== undefined) leases.release(slot);
          } else if (s.kind === 'die') {
            seen[s.nth % Math.max(1, seen.length)]?.die();
          } else {
            nowEpochMs += 5_000;
          }
          await new Promise(setImmediate);
          check();
        }
        while (held.length > 0) {
          leases.release(held.shift() as Slot<FakeConnection>);
          await new Promise(setImmediate);
          check();
        }
        expect([waiting, leases.counts().inUse]).toEqual([0, 0]);
        leases.close();
        expect([FakeConnection.open, leases.counts()]).toMatchObject([0, { inUse: 0, idle: 0, waiting: 0, pools: 0 }]);
      }),
      { numRuns: 300 },
    );
  });
});
