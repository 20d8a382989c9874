/**
 * Reconciled deliveries under random faults (U3–U6): requests and responses that are lost, workers that die before or after any of their
 * calls, writes that the SDK repeats, messages that SQS hands out twice, consumers that take their time, looks that fail, operators.
 * However they interleave: no event is POSTed again after an attempt that may have arrived, unless an operator asked for it or an
 * authoritative absence was seen in between. fast-check prints seed and history on a failure; RECONCILE_RUNS makes more of them.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createEndpointCache } from '../../lambdas/deliver/endpoint-cache.ts';
import { held, renewed } from '../../lambdas/shared/core/decide.ts';
import { drain, lease } from '../../lambdas/shared/limits/numbers.ts';
import type { ReceivedMessage } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, endpointOf, namesOf, receivedOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { ambiguous, answered, shows, unsent, type HttpOutcome } from '../support/fakes.ts';

const { claimKey, recordKey } = namesOf();
const processingS = 600;
const lookup = { url: 'https://api.example.com/{eventId}', match: { '$.id': 'eventId' }, delaysS: [60, 300, 600, 900], absenceProvesAfterS: processingS };

class Died extends Error {}

type Around = <T>(call: () => Promise<T>) => Promise<T>;

/** What a worker's n-th call meets: its death before or after it, or the SDK that makes it twice. */
interface Fault {
  readonly nth: number;
  readonly kind: 'dies before' | 'dies after' | 'repeated';
}

interface Actor {
  readonly does: 'copy' | 'drain' | 'resend by an operator';
  readonly fault: Fault | undefined;
  readonly late: number;
}

const actor: fc.Arbitrary<Actor> = fc.record({
  does: fc.oneof({ weight: 4, arbitrary: fc.constant('copy' as const) }, { weight: 4, arbitrary: fc.constant('drain' as const) }, { weight: 1, arbitrary: fc.constant('resend by an operator' as const) }),
  fault: fc.option(fc.record({ nth: fc.integer({ min: 1, max: 14 }), kind: fc.constantFrom('dies before', 'dies after', 'repeated') }), { nil: undefined }),
  late: fc.integer({ min: 0, max: 12 }),
});

/** What the consumer makes of a request: `slowly`, its effect shows shortly before its processing time is over. */
const consumed = {
  answered: { effectAfterS: 0, outcome: answered(200) },
  busy: { effectAfterS: undefined, outcome: answered(503) },
  'request lost': { effectAfterS: undefined, outcome: ambiguous },
  'response lost': { effectAfterS: 0, outcome: ambiguous },
  slowly: { effectAfterS: processingS - 1, outcome: ambiguous },
  'no connection': { effectAfterS: undefined, outcome: unsent },
} as const;
type Consumed = keyof typeof consumed;

class Play {
  readonly #h: Harness;
  readonly #s: fc.Scheduler;
  readonly #queue = new Set<ReceivedMessage>();
  readonly #consumes: Consumed[];
  readonly #failingLooks: boolean[];
  /** When each effect shows. */
  readonly #effectsEpochMs: number[] = [];
  readonly problems: string[] = [];
  /** Requests that left, since somebody last answered for all that had. */
  #unanswered = 0;
  #answeredBefore = 0;
  #lastPostEpochMs = 0;
  #operators = 0;
  posts = 0;
  proved = 0;

  constructor(h: Harness, s: fc.Scheduler, { consumes, failingLooks }: { consumes: readonly Consumed[]; failingLooks: readonly boolean[] }) {
    [this.#h, this.#s, this.#consumes, this.#failingLooks] = [h, s, [...consumes], [...failingLooks]];
    h.http.script = () => this.#post();
    h.http.looks = () => this.#look();
  }

  get effects(): number {
    return this.#effectsEpochMs.length;
  }

  get operators(): number {
    return this.#operators;
  }

  #answeredVerdicts(): number {
    return this.#h.record()?.history.filter(({ outcome }) => outcome === 'answered').length ?? 0;
  }

  #post(): HttpOutcome {
    const { effectAfterS, outcome } = consumed[this.#consumes.shift() ?? 'answered'];
    if (outcome.kind === 'unsent') return outcome;
    const open = this.#unanswered - (this.#answeredVerdicts() - this.#answeredBefore);
    if (open > 0) this.problems.push(`POST ${this.posts + 1} although ${open} before it may have arrived`);
    this.posts++;
    this.#unanswered++;
    this.#lastPostEpochMs = this.#h.clock.nowEpochMs();
    if (effectAfterS !== undefined) this.#effectsEpochMs.push(this.#lastPostEpochMs + effectAfterS * 1_000);
    return outcome;
  }

  #look(): HttpOutcome {
    if (this.#failingLooks.shift() === true) return answered(500);
    const nowEpochMs = this.#h.clock.nowEpochMs();
    if (this.#effectsEpochMs.some((at) => at <= nowEpochMs)) return shows({ id: 'evt_1' });
    if (nowEpochMs >= this.#lastPostEpochMs + processingS * 1_000) {
      this.proved++;
      this.#answerFor();
    }
    return answered(404);
  }

  #answerFor(): void {
    this.#unanswered = 0;
    this.#answeredBefore = this.#answeredVerdicts();
  }

  async act({ does, fault, late }: Actor): Promise<void> {
    for (let i = 0; i < late; i++) await this.#s.schedule(Promise.resolve());
    const around = this.#around(fault);
    const acts = {
      copy: () => this.#receive(receivedOf(bodyOf(), { sentEpochMs: this.#h.clock.nowEpochMs() }), around),
      drain: () => this.#h.drain(this.#ports(around)),
      'resend by an operator': () => this.#resend(around),
    };
    await acts[does]().catch((error: unknown) => {
      if (!(error instanceof Died)) throw error;
    });
  }

  /** Time passes, messages come back, the drain is woken, until nothing is left to do. */
  async recover(): Promise<void> {
    const wakeAt = async () => (await this.#h.store.lane('acme'))?.holding?.wakeAtEpochMs;
    for (let rounds = 0; rounds < 60 && (this.#queue.size > 0 || (await wakeAt()) !== undefined); rounds++) {
      const leftMs = ((await wakeAt()) ?? 0) - this.#h.clock.nowEpochMs();
      this.#h.clock.advance(Math.max(leftMs, drain.timeoutS * 1_000 + lease.skewMs + 1_000));
      for (const message of [...this.#queue]) if ((await this.#h.run([message])).length === 0) this.#queue.delete(message);
      if ((await wakeAt()) !== undefined) await this.#h.drain();
    }
    if (this.#queue.size > 0 || (await wakeAt()) !== undefined) this.problems.push('something is left to do for ever');
  }

  async check(): Promise<void> {
    const record = this.#h.record();
    const ends = record?.state === 'unknown' && record.stuck !== undefined ? 'left to a person' : record?.state;
    if (this.posts > 0 || ends !== undefined) expect(['delivered', 'left to a person']).toContain(ends);
    if (record?.state === 'unknown') expect((await this.#h.store.payloads.read([record])).found.get(recordKey)).toBe(bodyOf());
    if (record?.state === 'delivered') expect(this.effects).toBeGreaterThan(0);
    expect(this.effects).toBeLessThanOrEqual(1 + this.#operators);
    expect((await this.#h.lane()).claims.has(claimKey)).toBe(false);
    expect(this.problems).toEqual([]);
  }

  #around(fault: Fault | undefined): Around {
    let calls = 0;
    return async (call) => {
      await this.#s.schedule(Promise.resolve());
      calls++;
      const dead = fault !== undefined && fault.kind !== 'repeated' && (calls > fault.nth || (calls === fault.nth && fault.kind === 'dies before'));
      if (dead) throw new Died();
      if (calls === fault?.nth && fault.kind === 'repeated') await call();
      const answer = await call();
      if (calls === fault?.nth && fault.kind === 'dies after') throw new Died();
      return answer;
    };
  }

  #ports(around: Around) {
    const each = <Port extends object>(port: Port, once: readonly string[] = []): Port =>
      new Proxy(port, {
        get: (target, name) => {
          const value: unknown = Reflect.get(target, name);
          if (typeof value !== 'function') return value;
          const call = (...args: unknown[]) => (value as (...a: unknown[]) => Promise<unknown>).apply(target, args);
          // No SDK repeats a request to a consumer.
          const made = (...args: unknown[]) => {
            let answer: Promise<unknown> | undefined;
            return around(() => (once.includes(String(name)) ? (answer ??= call(...args)) : call(...args)));
          };
          return made;
        },
      });
    const { store, queues, wakeUps, http } = this.#h;
    return {
      endpoints: createEndpointCache(each(store.endpoints), 100), lanes: each(store.lanes), records: each(store.records), payloads: each(store.payloads),
      queues: each(queues), wakeUps: each(wakeUps), http: each(http, ['post', 'get']), held: each(store.heldIndex),
    };
  }

  async #receive(message: ReceivedMessage, around: Around): Promise<void> {
    this.#queue.add(message);
    const { held: _index, ...ports } = this.#ports(around);
    if ((await this.#h.run([message], ports)).length === 0) this.#queue.delete(message);
  }

  /** As the command does it: the next generation, held, in one transaction with the lane. */
  async #resend(around: Around): Promise<void> {
    const { records, payloads } = this.#ports(around);
    const from = (await records.read([recordKey])).found.get(recordKey);
    if (from?.state !== 'unknown') return;
    const nowEpochMs = this.#h.clock.nowEpochMs();
    const to = { ...held(renewed(from, nowEpochMs, from.resend), from.resend), lastLease: { leaseId: this.#h.random.leaseId(), kind: 'settled' as const } };
    await payloads.put(to, bodyOf(), nowEpochMs);
    await around(async () => {
      const answer = await this.#h.store.replays.move('acme', [{ from, to, claimKey }], nowEpochMs);
      if (answer.kind !== 'moved') return;
      this.#operators++;
      this.#answerFor();
    });
  }
}

it('nothing is sent again that may have arrived, nothing is lost, and no look is forgotten', { timeout: 120_000 }, async () => {
  const seen = { posts: 0, proved: 0, operators: 0, twice: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(), fc.array(actor, { minLength: 2, maxLength: 6 }),
      fc.array(fc.constantFrom<Consumed>('answered', 'busy', 'request lost', 'response lost', 'slowly', 'no connection'), { maxLength: 4 }),
      fc.array(fc.boolean(), { maxLength: 3 }),
      async (s, actors, consumes, failingLooks) => {
        const h = await Harness.create();
        await h.store.put(endpointOf({ onAmbiguous: 'reconcile', lookup, retry: { baseS: 1, factor: 1 } }, 'V2'));
        const play = new Play(h, s, { consumes, failingLooks });
        await s.waitFor(Promise.all(actors.map((one) => play.act(one))));
        await play.recover();
        await play.check();
        seen.posts += play.posts;
        seen.proved += play.proved;
        seen.operators += play.operators;
        seen.twice += Number(play.posts > 1);
      },
    ),
    { numRuns: Number(process.env['RECONCILE_RUNS'] ?? 1_500) },
  );
  // Or nothing was tried.
  expect(Math.min(seen.posts, seen.proved, seen.operators, seen.twice)).toBeGreaterThan(20);
});
