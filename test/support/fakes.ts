/** The world of the flow in memory: a manual clock, chance that is none, queues that record, HTTP by script. */
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import type { AttemptOutcome } from '../../lambdas/shared/core/outcome.ts';
import type { Clock, Http, HttpRequest, Queues, Random, ReceivedMessage, WakeUps } from '../../lambdas/shared/ports/index.ts';
import { t0EpochMs, timed } from './builders.ts';

export { FakeStore } from './fake-store.ts';
export { FakeTelemetry } from './fake-telemetry.ts';

export class ManualClock implements Clock {
  #epochMs = t0EpochMs;
  #monotonicMs = 0;

  nowEpochMs(): number {
    return this.#epochMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  advance(ms: number): void {
    this.#epochMs += ms;
    this.#monotonicMs += ms;
  }

  /** Moves the wall clock alone, as a correction does. */
  stepWall(ms: number): void {
    this.#epochMs += ms;
  }
}

/** Always the middle of every range; lease ids count up. */
export class FakeRandom implements Random {
  #leases = 0;

  number(): number {
    return 0.5;
  }

  leaseId(): string {
    return `lease-${++this.#leases}`;
  }
}

export class FakeQueues implements Queues {
  readonly delays: { messageId: string; seconds: number }[] = [];
  readonly buried: { body: string; record: DeadRecord }[] = [];
  /** How many of the next burials fail. */
  failingBurials = 0;

  delay(message: ReceivedMessage, seconds: number): Promise<void> {
    this.delays.push({ messageId: message.messageId, seconds });
    return Promise.resolve();
  }

  bury(body: string, record: DeadRecord): Promise<void> {
    if (this.failingBurials > 0) {
      this.failingBurials--;
      return Promise.reject(new Error('the dead-letter queue is away'));
    }
    this.buried.push({ body, record });
    return Promise.resolve();
  }

  /** Messages that the queue would say are hidden. */
  hiddenNow = 0;

  hidden(): Promise<number> {
    return Promise.resolve(this.hiddenNow);
  }

  delayOf(message: ReceivedMessage): number | undefined {
    return this.delays.findLast((delay) => delay.messageId === message.messageId)?.seconds;
  }
}

/** Orders of the drain, in the order in which they came. */
export class FakeWakeUps implements WakeUps {
  readonly orders: { endpointId: string; atEpochMs: number }[] = [];
  /** How many of the next orders fail. */
  failing = 0;

  order(endpointId: string, atEpochMs: number): Promise<void> {
    if (this.failing > 0) {
      this.failing--;
      return Promise.reject(new Error('the scheduler is away'));
    }
    this.orders.push({ endpointId, atEpochMs });
    return Promise.resolve();
  }
}

export type HttpOutcome = AttemptOutcome;
export type LookRequest = Parameters<Http['get']>[0];
/** The answer to a look, with its body. */
export const shows = (body: unknown, status = 200): HttpOutcome => ({ kind: 'answered', status, bodyExcerpt: '', body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)), ...timed(20) });
export type HttpScript = (request: HttpRequest, nth: number) => HttpOutcome | Promise<HttpOutcome>;

export const answered = (status: number): HttpOutcome => ({ kind: 'answered', status, bodyExcerpt: '', ...timed(20) });
export const ambiguous: HttpOutcome = { kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timed(10_000) };
export const unsent: HttpOutcome = { kind: 'unsent', phase: 'connect', cause: 'ECONNREFUSED', ...timed(5) };
export const noSocket: HttpOutcome = { kind: 'notStarted', why: 'no-socket' };

export class FakeHttp implements Http {
  readonly requests: HttpRequest[] = [];
  /** Decides each answer; 200 unless a test says otherwise. */
  script: HttpScript = () => answered(200);

  /** Decides what each look finds; 404 unless a test says otherwise. */
  looks: (request: LookRequest, nth: number) => HttpOutcome | Promise<HttpOutcome> = () => answered(404);
  readonly lookRequests: LookRequest[] = [];

  async post(request: HttpRequest): Promise<HttpOutcome> {
    if (request.mayBegin !== undefined && !(await request.mayBegin())) return { kind: 'notStarted', why: 'not-allowed' };
    const nth = this.requests.push(request) - 1;
    return this.script(request, nth);
  }

  async get(request: LookRequest): Promise<HttpOutcome> {
    const nth = this.lookRequests.push(request) - 1;
    return this.looks(request, nth);
  }

  /** The event ids that were sent, in order. */
  get sent(): string[] {
    return this.requests.map((request) => request.headers['webhook-id'] ?? '');
  }
}
