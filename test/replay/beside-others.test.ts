/**
 * A replay beside everything else that may come to the same dead letter: redrives of its copies, a second copy of its message, a
 * resend, the drain, an operator's drop, and an endpoint that is paused, disabled, removed and registered again. Each of them may die
 * at any of its calls.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createEndpointCache } from '../../lambdas/deliver/endpoint-cache.ts';
import { replay } from '../../lambdas/replay/replay.ts';
import type { ReplayDeps } from '../../lambdas/replay/types.ts';
import { dropped } from '../../lambdas/shared/core/decide.ts';
import { drain, lease } from '../../lambdas/shared/limits/numbers.ts';
import { parseReplayRequest } from '../../lambdas/shared/limits/replay-request.ts';
import type { ReceivedMessage } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, endpointOf, namesOf, receivedOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered } from '../support/fakes.ts';

const { claimKey, recordKey } = namesOf();
const resent = bodyOf({ resend: 1 });

class Died extends Error {}

type Around = <T>(call: () => Promise<T>) => Promise<T>;

interface Actor {
  readonly does: 'replay' | 'drain' | 'drop' | 'redrive' | 'redrive of the next' | 'copy' | 'resend';
  /** Dies at its n-th call, before or after that is performed; undefined: lives. */
  readonly dies: { readonly nth: number; readonly when: 'before' | 'after' } | undefined;
  /** Begins so many steps of the others later. */
  readonly late: number;
}

const actor: fc.Arbitrary<Actor> = fc.record({
  does: fc.constantFrom('replay', 'drain', 'drop', 'redrive', 'redrive of the next', 'copy', 'resend'),
  dies: fc.option(fc.record({ nth: fc.integer({ min: 1, max: 16 }), when: fc.constantFrom('before', 'after') }), { nil: undefined }),
  late: fc.integer({ min: 0, max: 12 }),
});

/** What the endpoint is while they are at it; at the end it is enabled. */
const endpoints: Record<string, readonly string[]> = {
  enabled: [], paused: ['paused'], disabled: ['disabled'], removed: ['removed'], changing: ['disabled', 'enabled', 'paused', 'removed', 'enabled', 'disabled', 'enabled'],
};

class Play {
  readonly #h: Harness;
  readonly #s: fc.Scheduler;
  /** What the delivery queue still has. */
  readonly #queue = new Set<ReceivedMessage>();
  #version = 1;
  #posts = 0;
  /** What replays that lived have said. */
  replayed = 0;

  constructor(h: Harness, s: fc.Scheduler, answers: number[]) {
    [this.#h, this.#s] = [h, s];
    h.http.script = () => (this.#posts++, answered(answers.shift() ?? 200));
  }

  async put(status: string): Promise<void> {
    if (status === 'removed') return this.#h.store.remove('acme');
    return this.#h.store.put(endpointOf({ status }, `V${++this.#version}`));
  }

  async change(statuses: readonly string[]): Promise<void> {
    for (const status of statuses) {
      await this.#steps(statuses.length === 1 ? 0 : 6);
      await this.put(status);
    }
  }

  async act({ does, dies, late }: Actor): Promise<void> {
    await this.#steps(late);
    const around = this.#mortal(dies);
    const sentEpochMs = this.#h.clock.nowEpochMs();
    const receive = (body: string, deadLetterGeneration?: number) => this.#receive(receivedOf(body, { sentEpochMs, deadLetterGeneration }), around);
    const acts = {
      replay: () => this.#replay(around),
      drain: () => this.#h.drain(this.#deliverPorts(around)),
      drop: () => this.#drop(around),
      redrive: () => receive(bodyOf(), 0),
      'redrive of the next': () => receive(bodyOf(), 1),
      copy: () => receive(bodyOf()),
      resend: () => receive(resent),
    };
    await acts[does]().catch((error: unknown) => {
      // What deliver and the drain make of a death is theirs.
      if (!(error instanceof Died) && (does === 'replay' || does === 'drop')) throw error;
    });
  }

  /** Time passes, messages come back, the drain is woken, until nothing is left. */
  async recover(): Promise<void> {
    const isHolding = async () => (await this.#h.store.lane('acme'))?.holding !== undefined;
    for (let rounds = 0; rounds < 20 && (this.#queue.size > 0 || (await isHolding())); rounds++) {
      this.#h.clock.advance(drain.timeoutS * 1_000 + lease.skewMs + 1_000);
      for (const message of [...this.#queue]) if ((await this.#h.run([message])).length === 0) this.#queue.delete(message);
      if (await isHolding()) await this.#h.drain();
    }
    expect([this.#queue.size, await isHolding()]).toEqual([0, false]);
  }

  /** Ended; whatever is dead has its body beside it and its copy; and no request was made that the record does not know of. */
  async check(): Promise<void> {
    const record = this.#h.record();
    expect(record?.state).toMatch(/^(dead|delivered|dropped)$/);
    if (record?.state === 'dead') {
      expect([record.phase, record.reason]).toEqual(['buried', expect.stringMatching(/^(rejected|disabled|unknown-endpoint)$/)]);
      expect([bodyOf(), resent]).toContain((await this.#h.store.payloads.read([record])).found.get(recordKey));
      expect(this.#h.queues.buried.map((copy) => copy.record.generation)).toContain(record.generation);
    }
    const verdicts = (record?.history.filter(({ outcome }) => outcome === 'answered').length ?? 0) + (record?.ambiguous ?? 0);
    // The one of which it died first.
    expect(this.#posts + 1).toBeLessThanOrEqual(verdicts);
    expect((await this.#h.lane()).claims.has(claimKey)).toBe(false);
  }

  async #steps(count: number): Promise<void> {
    for (let i = 0; i < count; i++) await this.#s.schedule(Promise.resolve());
  }

  #mortal(dies: Actor['dies']): Around {
    let calls = 0;
    return async (call) => {
      await this.#s.schedule(Promise.resolve());
      calls++;
      if (dies !== undefined && (calls > dies.nth || (calls === dies.nth && dies.when === 'before'))) throw new Died();
      const answer = await call();
      if (calls === dies?.nth) throw new Died();
      return answer;
    };
  }

  #ports(around: Around) {
    const each = <Port extends object>(port: Port): Port =>
      new Proxy(port, {
        get: (target, name) => {
          const value: unknown = Reflect.get(target, name);
          return typeof value === 'function' ? (...args: unknown[]) => around(() => (value as (...a: unknown[]) => Promise<unknown>).apply(target, args)) : value;
        },
      });
    const { store, queues, wakeUps, http } = this.#h;
    const { lanes, records, payloads } = store;
    return {
      endpoints: each(store.endpoints), lanes: each(lanes), records: each(records), payloads: each(payloads),
      queues: each(queues), wakeUps: each(wakeUps), http: each(http), dead: each(store.dead), replays: each(store.replays),
    };
  }

  #deliverPorts(around: Around) {
    const ports = this.#ports(around);
    return { ...ports, endpoints: createEndpointCache(ports.endpoints, 100) };
  }

  async #receive(message: ReceivedMessage, around: Around): Promise<void> {
    this.#queue.add(message);
    if ((await this.#h.run([message], this.#deliverPorts(around))).length === 0) this.#queue.delete(message);
  }

  async #replay(around: Around): Promise<void> {
    const { clock, random, telemetry } = this.#h;
    const deps: ReplayDeps = {
      ...this.#ports(around), clock, random, telemetry,
      pause: (ms) => Promise.resolve(clock.advance(ms)),
      wake: () => around(() => Promise.resolve()),
      sendAgain: () => Promise.reject(new Error('of its own')),
    };
    this.replayed += (await replay(deps, parseReplayRequest({ select: { endpointId: 'acme' } }))).replayed;
  }

  /** As the command does it. */
  async #drop(around: Around): Promise<void> {
    const { records, payloads } = this.#ports(around);
    const record = (await records.read([recordKey])).found.get(recordKey);
    if (record?.state !== 'dead' || record.phase !== 'buried') return;
    const endpoint = await around(() => this.#h.store.endpoints.read('acme'));
    const to = dropped(record, { why: 'why', by: 'by', nowEpochMs: this.#h.clock.nowEpochMs(), leaseId: this.#h.random.leaseId() });
    const lane = endpoint === undefined ? { kind: 'absent' as const } : { kind: 'atVersion' as const, cfg: endpoint.version };
    if ((await records.writeUnclaimed(record, to, { endpointId: 'acme', claimKey, lane })).answer === 'written') await payloads.remove(record);
  }
}

it('is never sent twice for one verdict, and never lost, however they interleave and whoever dies', { timeout: 60_000 }, async () => {
  let replayed = 0;
  const anyEndpoint = fc.constantFrom(...Object.values(endpoints));
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), fc.array(actor, { minLength: 2, maxLength: 5 }), fc.array(fc.constantFrom(200, 422), { maxLength: 4 }), anyEndpoint, async (s, actors, answers, statuses) => {
      const h = await Harness.create();
      h.http.script = () => answered(422);
      await h.runOne(bodyOf());
      expect(h.record()).toMatchObject({ state: 'dead', phase: 'buried' });
      h.clock.advance(1_000);
      const play = new Play(h, s, [...answers]);
      await s.waitFor(Promise.all([play.change(statuses), ...actors.map((one) => play.act(one))]));
      await play.put('enabled');
      await play.recover();
      await play.check();
      replayed += play.replayed;
    }),
    { numRuns: Number(process.env['REPLAY_RUNS'] ?? 1_500) },
  );
  // Or nothing was tried.
  expect(replayed).toBeGreaterThan(20);
});
