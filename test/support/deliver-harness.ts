/** Runs the deliver flow on fakes, batch by batch. */
import { copyOf, deliverBatch } from '../../lambdas/deliver/deliver-batch.ts';
import { createEndpointCache } from '../../lambdas/deliver/endpoint-cache.ts';
import { createInFlightGuard } from '../../lambdas/deliver/in-flight-guard.ts';
import type { DeliverDeps, Invocation } from '../../lambdas/deliver/types.ts';
import type { Lane } from '../../lambdas/shared/core/lane.ts';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { sendWaves, type Pacing, type Waves } from '../../lambdas/deliver/waves.ts';
import { drainBatch } from '../../lambdas/drain/drain-batch.ts';
import type { DrainDeps } from '../../lambdas/drain/types.ts';
import { deliver, drain, lease } from '../../lambdas/shared/limits/numbers.ts';
import type { Lanes, ReceivedMessage, Records } from '../../lambdas/shared/ports/index.ts';
import { endpointOf, namesOf, receivedOf, type Names } from './builders.ts';
import { FakeHttp, FakeQueues, FakeRandom, FakeStore, FakeTelemetry, FakeWakeUps, ManualClock } from './fakes.ts';
import { expectBalanced } from './world.ts';

export const timeoutMs = 30_000;

export class Harness {
  readonly clock = new ManualClock();
  readonly store = new FakeStore();
  readonly http = new FakeHttp();
  readonly queues = new FakeQueues();
  readonly telemetry = new FakeTelemetry();
  readonly random = new FakeRandom();
  readonly wakeUps = new FakeWakeUps();
  readonly deps: DeliverDeps = {
    clock: this.clock,
    random: this.random,
    endpoints: createEndpointCache(this.store.endpoints, 100),
    disableEndpoint: this.store.disableEndpoint,
    lanes: this.store.lanes,
    records: this.store.records,
    queues: this.queues,
    serves: 'queue',
    payloads: this.store.payloads,
    wakeUps: this.wakeUps,
    inFlight: createInFlightGuard(this.queues, this.clock),
    http: this.http,
    telemetry: this.telemetry,
    limits: deliver,
  };

  /** A harness with one enabled endpoint `acme`. */
  static async create(overrides: Readonly<Record<string, unknown>> = {}): Promise<Harness> {
    const harness = new Harness();
    await harness.store.put(endpointOf(overrides));
    return harness;
  }

  /** An invocation that starts now and is given `givenMs`. */
  invocation(givenMs = timeoutMs): Invocation {
    const [startedEpochMs, startedMs] = [this.clock.nowEpochMs(), this.clock.monotonicMs()];
    return {
      startedEpochMs,
      leaseExpiresEpochMs: startedEpochMs + givenMs + lease.skewMs,
      remainingMs: () => givenMs - Math.max(this.clock.nowEpochMs() - startedEpochMs, this.clock.monotonicMs() - startedMs),
    };
  }

  /** Delivers a batch; the ids that must stay in the queue. */
  async run(batch: readonly ReceivedMessage[], deps: Partial<DeliverDeps> = {}, invocation = this.invocation()): Promise<string[]> {
    return (await deliverBatch({ ...this.deps, ...deps }, batch, invocation)).retained;
  }

  /** The drain's dependencies: a pause moves the clock. */
  drainDeps(deps: Partial<DrainDeps> = {}): DrainDeps {
    return {
      ...this.deps,
      serves: 'held',
      queues: { delay: () => Promise.resolve(), bury: (...args) => this.queues.bury(...args), hidden: () => this.queues.hidden() },
      payloads: this.store.payloads,
      held: this.store.heldIndex,
      pause: (ms) => Promise.resolve(this.clock.advance(ms)),
      limits: drain,
      ...deps,
    };
  }

  /** What the drain does with these messages, as if it had found them held: one wave after the other, while something may go. */
  async serve(batch: readonly ReceivedMessage[], deps: Partial<DrainDeps> = {}): Promise<Waves> {
    const copies = batch.map((received) => {
      const parsed = parseMessage(received.body);
      if (!parsed.ok) throw new Error(parsed.detail);
      return copyOf(received, parsed.message);
    });
    const pacing: Pacing = { spending: undefined, goesOn: () => true, more: () => Promise.resolve([]), wait: () => Promise.resolve(false), settled: () => undefined };
    return sendWaves(this.drainDeps(deps), copies[0]?.message.endpointId ?? '', copies, pacing, this.invocation());
  }

  /** One run of the drain for an endpoint, woken now as whoever wants it to come does. */
  async drain(deps: Partial<DrainDeps> = {}, endpointId = 'acme', invocation = this.invocation(drain.timeoutS * 1_000)): Promise<void> {
    const wakeAtEpochMs = (await this.store.lane(endpointId))?.holding?.wakeAtEpochMs;
    const isLive = ((await this.store.lane(endpointId))?.drain?.expiresEpochMs ?? 0) > this.clock.nowEpochMs();
    if (wakeAtEpochMs !== undefined && !isLive && wakeAtEpochMs > this.clock.nowEpochMs()) await this.store.lanes.moveWakeUp(endpointId, wakeAtEpochMs, this.clock.nowEpochMs());
    await drainBatch(this.drainDeps(deps), [JSON.stringify({ endpointId })], invocation);
  }

  /** Delivers one message, received anew with every call. */
  async runOne(body: string, overrides: Partial<ReceivedMessage> = {}, deps: Partial<DeliverDeps> = {}, invocation = this.invocation()): Promise<One> {
    const received = receivedOf(body, { sentEpochMs: this.clock.nowEpochMs(), ...overrides });
    const retained = await this.run([received], deps, invocation);
    return { exit: retained.length === 0 ? 'ack' : 'retain', delayS: this.queues.delayOf(received), received };
  }

  /** Ports whose named methods are replaced. */
  lanesBut(methods: Partial<Lanes>): { lanes: Lanes } {
    return { lanes: { ...this.store.lanes, ...methods } };
  }

  recordsBut(methods: Partial<Records>): { records: Records } {
    return { records: { ...this.store.records, ...methods } };
  }

  record(names: Names = {}): DeliveryRecord | undefined {
    return this.store.record(namesOf(names).recordKey);
  }

  async lane(endpointId = 'acme'): Promise<Lane> {
    const lane = await this.store.lane(endpointId);
    if (lane === undefined) throw new Error('no lane');
    expectBalanced(lane);
    return lane;
  }

  /** Puts a claim of another worker, which may be dead, on a delivery. */
  async claimElsewhere(names: Names = {}, expiresEpochMs = this.clock.nowEpochMs() + 20_000, cfg = 'V1'): Promise<void> {
    const { endpointId, claimKey, shortHash } = namesOf(names);
    const answer = await this.store.lanes.admit({ endpointId, cfg, leaseId: 'elsewhere', expiresEpochMs, wanted: [{ claimKey, shortHash }] });
    if (answer.kind !== 'granted') throw new Error(answer.kind);
  }
}

export interface One {
  readonly exit: 'ack' | 'retain';
  readonly delayS: number | undefined;
  readonly received: ReceivedMessage;
}
