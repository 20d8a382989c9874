/** The flow of a replay on the fake store, with dead letters and their bodies in it. */
import { replay } from '../../lambdas/replay/replay.ts';
import type { ReplayDeps } from '../../lambdas/replay/types.ts';
import { dead } from '../../lambdas/shared/core/decide.ts';
import { hashOf, syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import { blankRecord, type DeadReason, type DeadRecord, type DeliveryRecord, type WaitingRecord } from '../../lambdas/shared/core/record.ts';
import { parseReplayRequest, type ReplayAnswer, type ReplayAsk } from '../../lambdas/shared/limits/replay-request.ts';
import { bodyOf, endpointOf, namesOf, t0EpochMs, waitingOf } from './builders.ts';
import { FakeRandom, FakeStore, FakeTelemetry, ManualClock } from './fakes.ts';

export interface Seed {
  readonly endpointId?: string;
  readonly reason?: DeadReason;
  readonly record?: Partial<WaitingRecord>;
  /** Without its body, as an older version buried it. */
  readonly isOld?: boolean;
}

export class ReplayHarness {
  readonly clock = new ManualClock();
  readonly store = new FakeStore();
  readonly telemetry = new FakeTelemetry();
  readonly random = new FakeRandom();
  readonly woken: string[] = [];
  readonly sent: { body: string; groupId: string | undefined; generation: number }[] = [];
  readonly pauses: number[] = [];
  readonly deps: ReplayDeps = {
    clock: this.clock,
    random: this.random,
    telemetry: this.telemetry,
    pause: (ms) => {
      this.pauses.push(ms);
      this.clock.advance(ms);
      return Promise.resolve();
    },
    dead: this.store.dead,
    records: this.store.records,
    payloads: this.store.payloads,
    endpoints: this.store.endpoints,
    lanes: this.store.lanes,
    replays: this.store.replays,
    wake: (endpointId) => {
      this.woken.push(endpointId);
      return Promise.resolve();
    },
    sendAgain: (body, groupId, generation) => {
      this.sent.push({ body, groupId, generation });
      return Promise.resolve();
    },
  };

  constructor() {
    void this.put();
    this.clock.advance(3_600_000);
  }

  put(overrides: Readonly<Record<string, unknown>> = {}): Promise<void> {
    return this.store.put(endpointOf(overrides));
  }

  /** A dead delivery with its body beside it. */
  async dies(eventId: string, { endpointId = 'acme', reason = 'exhausted', record = {}, isOld = false }: Seed = {}): Promise<DeadRecord> {
    const found: DeadRecord = { ...dead(waitingOf({ attempt: 3, ...record }, { endpointId, eventId }), reason, 'why'), phase: 'buried' };
    this.store.seed(found);
    if (!isOld) await this.store.payloads.put(found, bodyOf({ endpointId, eventId }), t0EpochMs);
    return found;
  }

  /** `count` of them, one a second, `evt_0` first. */
  async die(count: number, seed: Seed = {}): Promise<DeadRecord[]> {
    return Promise.all(Array.from({ length: count }, (_, i) => this.dies(`evt_${i}`, { ...seed, record: { lastEpochMs: t0EpochMs + i * 1_000, ...seed.record } })));
  }

  /** A message that has no delivery of its own. */
  async diesByBody(body: string, reason: 'malformed' | 'conflict', endpointId: string, generation = 0): Promise<DeadRecord> {
    const recordKey = syntheticKeyOf(endpointId === '' ? undefined : endpointId, reason, body);
    const blank = blankRecord({ endpointId, eventId: undefined, eventType: undefined, payloadHash: hashOf(Buffer.from(body)), recordKey }, t0EpochMs);
    const found: DeadRecord = { ...dead({ ...blank, generation }, reason, 'why'), phase: 'buried' };
    this.store.seed(found);
    await this.store.payloads.put(found, body, t0EpochMs);
    return found;
  }

  run(ask: ReplayAsk = {}, deps: ReplayDeps = this.deps): Promise<ReplayAnswer> {
    return replay(deps, parseReplayRequest({ select: { endpointId: 'acme' }, ...ask }));
  }

  /** Call after call, to the end. */
  async runAll(ask: ReplayAsk): Promise<ReplayAnswer[]> {
    const answers: ReplayAnswer[] = [];
    for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
      const answer = await this.run({ ...ask, ...(cursor === undefined ? {} : { cursor }) });
      answers.push(answer);
      cursor = answer.cursor;
    }
    return answers;
  }

  record(eventId: string, endpointId = 'acme'): DeliveryRecord | undefined {
    return this.store.record(namesOf({ endpointId, eventId }).recordKey);
  }

  /** Event ids in the order in which the drain will send them. */
  heldEvents(endpointId = 'acme'): (string | undefined)[] {
    return this.store.held(endpointId).map(({ eventId }) => eventId);
  }
}

/** Every dependency that does something, with its calls handed through `around`. */
export function wrapped(deps: ReplayDeps, around: <T>(call: () => Promise<T>) => Promise<T>): ReplayDeps {
  const each = <Port extends object>(port: Port): Port =>
    new Proxy(port, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? (...args: unknown[]) => around(() => (value as (...a: unknown[]) => Promise<unknown>).apply(target, args)) : value;
      },
    });
  return {
    ...deps,
    dead: each(deps.dead),
    records: each(deps.records),
    payloads: each(deps.payloads),
    endpoints: each(deps.endpoints),
    lanes: each(deps.lanes),
    replays: each(deps.replays),
    wake: (...args) => around(() => deps.wake(...args)),
    sendAgain: (...args) => around(() => deps.sendAgain(...args)),
  };
}
