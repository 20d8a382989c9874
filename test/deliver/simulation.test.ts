/**
 * The whole flow under random histories: several copies of a few events, workers that run at the same time and die at any
 * step, answers of every kind, messages that SQS hands out twice. fast-check prints seed and history on a failure.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DeliverDeps } from '../../lambdas/deliver/types.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import type { Lanes, ReceivedMessage, Records } from '../../lambdas/shared/ports/index.ts';
import { isExpired } from '../../lambdas/shared/core/lane.ts';
import { bodyOf, namesOf, receivedOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { ambiguous, answered, noSocket, unsent, type HttpOutcome } from '../support/fakes.ts';

const outcomes = { ok: answered(200), busy: answered(503), bad: answered(422), ambiguous, unsent, noSocket };
type OutcomeName = keyof typeof outcomes;

interface Step {
  /** Messages that this worker receives, as indexes of what is in the queue. */
  readonly take: readonly number[];
  /** Answers of its requests, in order. */
  readonly outcomes: readonly OutcomeName[];
  /** Dies before its n-th call of a port; undefined where it lives. */
  readonly diesAt: number | undefined;
  /** Time that passes afterwards. */
  readonly passMs: number;
  /** Runs at the same time as the next step. */
  readonly overlaps: boolean;
}

const step: fc.Arbitrary<Step> = fc.record({
  take: fc.array(fc.nat(9), { minLength: 1, maxLength: 4 }),
  outcomes: fc.array(fc.constantFrom<OutcomeName>('ok', 'busy', 'bad', 'ambiguous', 'unsent', 'noSocket'), { maxLength: 4 }),
  diesAt: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined, freq: 3 }),
  passMs: fc.constantFrom(0, 1_000, 20_000, 41_000, 400_000),
  overlaps: fc.boolean(),
});

/** A queue in which a message stays until it is acknowledged. */
class World {
  readonly h: Harness;
  readonly queue = new Map<string, ReceivedMessage>();
  /** What was attempted, and how it ended, whether or not its sender lived to hear of it. */
  readonly posts: { eventId: string; outcome: HttpOutcome }[] = [];

  constructor(h: Harness) {
    this.h = h;
    for (const eventId of ['a', 'a', 'b', 'c', 'c']) this.add(eventId);
  }

  add(eventId: string): void {
    const received = receivedOf(bodyOf({ eventId }));
    this.queue.set(received.messageId, received);
  }

  async run({ take, outcomes: names, diesAt }: Step): Promise<void> {
    const all = [...this.queue.values()];
    const batch = [...new Set(take.map((i) => all[i % all.length]))].filter((m) => m !== undefined);
    if (batch.length === 0) return;
    const { deps, dead } = this.#mortal(diesAt, [...names]);
    const retained = await Promise.race([this.h.run(batch, deps), dead]);
    if (retained === undefined) return;
    for (const { messageId } of batch) if (!retained.includes(messageId)) this.queue.delete(messageId);
  }

  /** Ports that stop answering for good at the n-th call, as they do for a process that was killed. */
  #mortal(diesAt: number | undefined, names: OutcomeName[]): { deps: Partial<DeliverDeps>; dead: Promise<undefined> } {
    const death = Promise.withResolvers<undefined>();
    let calls = 0;
    const alive = <A extends unknown[], R>(call: (...args: A) => Promise<R>) => async (...args: A): Promise<R> => {
      await Promise.resolve();
      if (diesAt !== undefined && ++calls >= diesAt) {
        death.resolve(undefined);
        return new Promise<never>(() => undefined);
      }
      return call(...args);
    };
    const { lanes, records } = this.h.store;
    const post: DeliverDeps['http']['post'] = (request) => {
      const outcome = outcomes[names.shift() ?? 'ok'];
      if (outcome.kind !== 'notStarted') this.posts.push({ eventId: request.headers['webhook-id'] ?? '', outcome });
      return Promise.resolve(outcome);
    };
    const deps: Partial<DeliverDeps> = {
      lanes: {
        admit: alive((ask: Parameters<Lanes['admit']>[0]) => lanes.admit(ask)),
        exchange: alive((...args: Parameters<Lanes['exchange']>) => lanes.exchange(...args)),
        giveBack: alive((give: Parameters<Lanes['giveBack']>[0]) => lanes.giveBack(give)),
        reapLease: alive((...args: Parameters<Lanes['reapLease']>) => lanes.reapLease(...args)),
        reapClaim: alive((reap: Parameters<Lanes['reapClaim']>[0]) => lanes.reapClaim(reap)),
        moveRate: alive((...args: Parameters<Lanes['moveRate']>) => lanes.moveRate(...args)),
        moveDay: alive((...args: Parameters<Lanes['moveDay']>) => lanes.moveDay(...args)),
        moveBreaker: alive((...args: Parameters<Lanes['moveBreaker']>) => lanes.moveBreaker(...args)),
        movePace: alive((...args: Parameters<Lanes['movePace']>) => lanes.movePace(...args)),
        flag: alive((...args: Parameters<Lanes['flag']>) => lanes.flag(...args)),
        pauseUntil: alive((...args: Parameters<Lanes['pauseUntil']>) => lanes.pauseUntil(...args)),
        hold: alive((...args: Parameters<Lanes['hold']>) => lanes.hold(...args)),
        moveWakeUp: alive((...args: Parameters<Lanes['moveWakeUp']>) => lanes.moveWakeUp(...args)),
        beginDrain: alive((...args: Parameters<Lanes['beginDrain']>) => lanes.beginDrain(...args)),
        moveTold: alive((...args: Parameters<Lanes['moveTold']>) => lanes.moveTold(...args)),
        countOffers: alive((...args: Parameters<Lanes['countOffers']>) => lanes.countOffers(...args)),
        takeWindow: alive((...args: Parameters<Lanes['takeWindow']>) => lanes.takeWindow(...args)),
        endDrain: alive((...args: Parameters<Lanes['endDrain']>) => lanes.endDrain(...args)),
      },
      records: {
        ...records,
        read: alive((keys: readonly string[]) => records.read(keys)),
        hold: alive((...args: Parameters<Records['hold']>) => records.hold(...args)),
        write: alive((...args: Parameters<Records['write']>) => records.write(...args)),
        markBuried: alive((record: DeadRecord) => records.markBuried(record)),
      },
      http: {
        get: () => Promise.reject(new Error('nothing is looked for')),
        post: async (request) => {
          await alive(() => Promise.resolve())();
          const outcome = await post(request);
          // A request may have been sent although its sender did not live to hear of it.
          await alive(() => Promise.resolve())();
          return outcome;
        },
      },
      queues: { hidden: () => this.h.queues.hidden(), delay: (...args) => this.h.queues.delay(...args), bury: alive((...args: Parameters<DeliverDeps['queues']['bury']>) => this.h.queues.bury(...args)) },
    };
    return { deps, dead: death.promise };
  }
}

async function play(steps: readonly Step[]): Promise<World> {
  const world = new World(await Harness.create({ maxInFlight: 3, retry: { attempts: 25, baseS: 1, factor: 1 } }));
  let running: Promise<void>[] = [];
  for (const each of steps) {
    running.push(world.run(each));
    if (each.overlaps) continue;
    await Promise.all(running);
    running = [];
    await expectConsistent(world);
    world.h.clock.advance(each.passMs);
  }
  await Promise.all(running);
  return world;
}

async function expectConsistent({ h, posts }: World): Promise<void> {
  const lane = await h.lane();
  expect(lane.avail).toBeGreaterThanOrEqual(0);
  for (const eventId of ['a', 'b', 'c']) {
    const record = h.record({ eventId });
    const sent = posts.filter((post) => post.eventId === eventId);
    // Each request has a verdict, or a claim under which it will get one; a reaped claim may stand for no request at all.
    expect(sent.length).toBeLessThanOrEqual((record?.attempt ?? 0) + Number(lane.claims.has(namesOf({ eventId }).claimKey)));
  }
}

function expectSettled({ h, posts }: World, eventId: string): void {
  const record = h.record({ eventId });
  const sent = posts.filter((post) => post.eventId === eventId);
  expect(sent.length).toBeLessThanOrEqual(record?.attempt ?? 0);
  if (record?.state === 'delivered') expect(sent.some(({ outcome }) => outcome.kind === 'answered' && outcome.status === 200)).toBe(true);
  else expect([record, h.queues.buried.some((b) => b.record.eventId === eventId)]).toMatchObject([{ state: 'dead', phase: 'buried' }, true]);
}

/** Lets every message come back until none is left. */
async function drain(world: World): Promise<void> {
  for (let i = 0; i < 60 && world.queue.size > 0; i++) {
    world.h.clock.advance(3_700_000);
    await world.run({ take: [0, 1, 2, 3, 4], outcomes: [], diesAt: undefined, passMs: 0, overlaps: false });
  }
}

describe('the flow', () => {
  it('loses nothing, sends nothing twice at a time, and leaves nothing behind, whatever dies', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        const world = await play(steps);
        await drain(world);
        expect(world.queue.size).toBe(0);
        // Left may be the claim of a worker that took the second receipt of a deleted message, and died: nothing comes for it.
        const lane = await world.h.lane();
        expect([...lane.claims.values()].filter((claim) => !isExpired(lane, claim, world.h.clock.nowEpochMs()))).toEqual([]);
        for (const eventId of ['a', 'b', 'c']) expectSettled(world, eventId);
        expect(world.h.telemetry.faults).toEqual([]);
      }),
      { numRuns: 1_000 },
    );
  });
});
