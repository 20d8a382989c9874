/** Runs one function as Lambda does: environments start on demand, are reused when idle, and never serve two invocations at once. */
import { type EnvironmentOptions, type HostedFunction, LambdaEnvironment, type Outcome } from './lambda-environment.ts';

export interface LambdaHostOptions extends EnvironmentOptions {
  /** Environments at most; further invocations wait for one. Default 10. */
  maxEnvironments?: number | undefined;
}

/** `cold`: the environment was started for this invocation. `durationMs` is real time and excludes the wait for an environment and its start. */
export type InvokeResult = Outcome & { durationMs: number; cold: boolean };

const defaultMaxEnvironments = 10;

export class LambdaHost {
  readonly #function: HostedFunction;
  readonly #options: LambdaHostOptions;
  /** Value: whether an invocation (or the start) has it. */
  readonly #environments = new Map<LambdaEnvironment, { busy: boolean }>();
  readonly #waiting: (() => void)[] = [];
  readonly #counts = { errors: 0, throttles: 0 };
  #closed = false;
  #throttled = false;

  constructor(fn: HostedFunction, options: LambdaHostOptions) {
    this.#function = fn;
    this.#options = options;
  }

  /** Never rejects: what goes wrong in the function, or because of close(), is an `error` result; so is a throttle. */
  async invoke(event: unknown): Promise<InvokeResult> {
    if (this.#throttled) {
      this.#counts.throttles++;
      return { ...throttledOutcome, durationMs: 0, cold: false };
    }
    const result = await this.#run(event);
    if (result.kind === 'error') this.#counts.errors++;
    return result;
  }

  /** Refuses all invocations, or none any more, as Lambda does where the account's concurrency is used up. */
  throttle(throttled: boolean): void {
    this.#throttled = throttled;
  }

  /** From the start, as CloudWatch counts them: a throttle is no error. */
  counts(): { readonly errors: number; readonly throttles: number } {
    return { ...this.#counts };
  }

  async #run(event: unknown): Promise<InvokeResult> {
    while (!this.#closed && !this.#hasRoom()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.#closed) return { ...hostClosed, durationMs: 0, cold: false };
    const idle = this.#takeIdle();
    const environment = idle ?? this.#add();
    try {
      const started = idle === undefined ? await environment.start() : undefined;
      if (started?.kind === 'error') return { ...started, durationMs: 0, cold: true };
      const startMs = performance.now();
      const outcome = await environment.invoke(event);
      return { ...outcome, durationMs: performance.now() - startMs, cold: idle === undefined };
    } finally {
      this.#release(environment);
    }
  }

  environments(): { pid: number; busy: boolean }[] {
    return [...this.#environments].flatMap(([{ pid, dead }, { busy }]) => (pid === undefined || dead ? [] : [{ pid, busy }]));
  }

  /**
   * Kills one environment with SIGKILL, as a crash of its machine would, and waits until it is gone.
   * @param which its pid, or its id (LambdaEnvironment.id). @throws Error if there is none such.
   */
  async kill(which: number | string): Promise<void> {
    const environment = [...this.#environments.keys()].find((one) => one.pid === which || one.id === which);
    if (!environment) throw new Error(`No environment of ${this.#function.name} has ${typeof which === 'number' ? 'pid' : 'id'} ${which}`);
    await environment.close();
    if (this.#environments.get(environment)?.busy === false) this.#release(environment);
  }

  /** Kills all environments and waits until they are gone; invocations in flight and waiting end as errors. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const wake of this.#waiting.splice(0)) wake();
    await Promise.all([...this.#environments.keys()].map((environment) => environment.close()));
    this.#environments.clear();
  }

  #hasRoom(): boolean {
    for (const [environment, { busy }] of this.#environments) if (environment.dead && !busy) this.#environments.delete(environment);
    return [...this.#environments.values()].some(({ busy }) => !busy) || this.#environments.size < (this.#options.maxEnvironments ?? defaultMaxEnvironments);
  }

  /** The most recently used comes first, as on Lambda, so that surplus ones stay cold. */
  #takeIdle(): LambdaEnvironment | undefined {
    for (const [environment, state] of [...this.#environments].reverse()) {
      if (environment.dead || state.busy) continue;
      state.busy = true;
      return environment;
    }
    return undefined;
  }

  #add(): LambdaEnvironment {
    const environment = new LambdaEnvironment(this.#function, this.#options);
    this.#environments.set(environment, { busy: true });
    return environment;
  }

  #release(environment: LambdaEnvironment): void {
    this.#environments.delete(environment);
    // Back at the end of the map: the order of use.
    if (!environment.dead && !this.#closed) this.#environments.set(environment, { busy: false });
    this.#waiting.shift()?.();
  }
}

/** The error of Lambda's API that says so. */
export const throttledType = 'TooManyRequestsException';
const throttledOutcome: Outcome = { kind: 'error', errorType: throttledType, errorMessage: 'Rate Exceeded.' };
const hostClosed: Outcome = { kind: 'error', errorType: 'Sandbox.Closed', errorMessage: 'The host was closed' };
