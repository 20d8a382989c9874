/** An endpoint, its attempts, and the sweep that tells of it, on fakes. */
import { escalate, type EscalateDeps } from '../../lambdas/sweep/escalate.ts';
import type { EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { pingDueEpochMs, pingEventType } from '../../lambdas/shared/limits/names.ts';
import type { Lane } from '../../lambdas/shared/core/lane.ts';
import { bodyOf, receivedOf, timed, waitingOf } from './builders.ts';
import { Harness } from './deliver-harness.ts';
import { fakeAttention, type FakeAttention } from './fake-attention.ts';

export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const dayMs = 86_400_000;

/** How an attempt ends; `silent` without an answer. */
export type Ending = number | 'silent';

export class EscalateHarness {
  readonly h: Harness;
  readonly fake: FakeAttention;
  #events = 0;

  private constructor(h: Harness) {
    this.h = h;
    this.fake = fakeAttention(h);
  }

  /** With a breaker that does not open, so that each attempt is made. */
  static async create(): Promise<EscalateHarness> {
    return new EscalateHarness(await Harness.create({ tenantId: 'shop', maxInFlight: 32, breaker: { connectFailures: 100, minAttempts: 1_000 } }));
  }

  get lastEventId(): string {
    return `e${this.#events}`;
  }

  /** What somebody was told. */
  steps(): string[] {
    return this.fake.notices.map(({ step }) => step);
  }

  async config(): Promise<EndpointConfig | undefined> {
    return (await this.h.store.endpoints.read('acme'))?.config;
  }

  deps(more: Partial<EscalateDeps> = {}): EscalateDeps {
    return { clock: this.h.clock, telemetry: this.h.telemetry, lanes: this.h.store.lanes, ...this.fake.deps, ...more };
  }

  /** The sweep looks at the endpoint, as it is now. */
  async run(more: Partial<EscalateDeps> = {}): Promise<void> {
    await this.runOn(await this.h.lane(), more);
  }

  async runOn(lane: Lane, more: Partial<EscalateDeps> = {}): Promise<void> {
    await escalate(this.deps(more), [{ endpointId: 'acme', lane }], this.h.clock.monotonicMs());
  }

  /** One minute later, as the sweep comes. */
  async next(more: Partial<EscalateDeps> = {}): Promise<void> {
    this.h.clock.advance(minuteMs);
    await this.run(more);
  }

  async attempts(n: number, ending: Ending): Promise<void> {
    this.#answer(ending);
    for (let i = 0; i < n; i++) await this.h.run([receivedOf(bodyOf({ eventId: `e${++this.#events}` }), { sentEpochMs: this.h.clock.nowEpochMs() })]);
  }

  /** An attempt that has begun, and ends when `end` is called. */
  async begun(ending: Ending): Promise<{ end(): Promise<void> }> {
    const [isAsked, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    this.#answer(ending);
    const { script } = this.h.http;
    this.h.http.script = async (request, nth) => {
      isAsked.resolve();
      await mayEnd.promise;
      return script(request, nth);
    };
    const running = this.h.run([receivedOf(bodyOf({ eventId: `e${++this.#events}` }), { sentEpochMs: this.h.clock.nowEpochMs() })]);
    await isAsked.promise;
    return {
      async end() {
        mayEnd.resolve();
        await running;
      },
    };
  }

  /** An operator's test event, as the drain sends it. */
  async ping(ending: Ending): Promise<void> {
    this.#answer(ending);
    const eventId = `ping${++this.#events}`;
    this.h.store.seed({ ...waitingOf({ home: 'held', dueEpochMs: pingDueEpochMs }, { eventId }), eventType: pingEventType });
    await this.h.serve([receivedOf(bodyOf({ eventId }).replace('{', `{"eventType":"${pingEventType}",`), { sentEpochMs: this.h.clock.nowEpochMs() })]);
  }

  #answer(ending: Ending): void {
    this.h.http.script = () => (ending === 'silent' ? { kind: 'unsent', phase: 'connect', cause: 'timeout', ...timed(3_000) } : { kind: 'answered', status: ending, bodyExcerpt: '', ...timed(50) });
  }
}
