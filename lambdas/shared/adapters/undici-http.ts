import { Pool, type Dispatcher } from 'undici';
import type { AllowedBlocks } from '../core/address.ts';
import type { AttemptOutcome } from '../core/outcome.ts';
import { budgets, sockets } from '../limits/numbers.ts';
import type { Http, HttpRequest } from '../ports/index.ts';
import { codeOf, egressConnector, SetupError } from './egress-connector.ts';

type HttpOutcome = Awaited<ReturnType<Http['post']>>;

/** The sender's HTTP client: one per execution environment, one bounded pool per endpoint version (T6). */
export function createUndiciHttp(options: { allowed: AllowedBlocks; nowEpochMs: () => number }): Http & { close(): Promise<void> } {
  const pools = new Map<string, EndpointPool>();
  let lastUsedEpochMs = options.nowEpochMs();

  const poolFor = (request: HttpRequest): EndpointPool => {
    // After a freeze longer than the idle expiry the peer has closed what we still hold open (T7).
    if (options.nowEpochMs() - lastUsedEpochMs > sockets.idleMs) dropAll();
    lastUsedEpochMs = options.nowEpochMs();
    const pool = pools.get(request.poolKey) ?? new EndpointPool(request, options.allowed);
    // Re-inserted, so that the first key is the one that was used longest ago.
    pools.delete(request.poolKey);
    pools.set(request.poolKey, pool);
    const oldest = pools.size > sockets.maxPools ? pools.keys().next().value : undefined;
    if (oldest !== undefined) drop(oldest);
    return pool;
  };
  const drop = (key: string) => {
    // close() lets requests under way finish; idle sockets go at once.
    void pools.get(key)?.pool.close();
    pools.delete(key);
  };
  const dropAll = () => [...pools.keys()].forEach(drop);

  return {
    post: (request) => new Attempt(request, poolFor(request), options.nowEpochMs).run(),
    async close() {
      await Promise.all([...pools.values()].map(({ pool }) => pool.destroy()));
    },
  };
}

/** The sockets of one endpoint version, and how many of them are being set up. */
class EndpointPool {
  readonly pool: Pool;
  connecting = 0;

  constructor(request: HttpRequest, allowed: AllowedBlocks) {
    const connect = egressConnector({ allowed, setupMs: request.budgetsMs.setup });
    this.pool = new Pool(new URL(request.url).origin, {
      connections: sockets.perHost,
      pipelining: 1,
      // With HTTP/2 possible the pool would try it on one socket first, and hold all other requests until that is set up.
      allowH2: false,
      connect: (target, callback) => {
        this.connecting++;
        connect(target, (...result) => {
          this.connecting--;
          callback(...result);
        });
      },
      keepAliveTimeout: sockets.idleMs,
      keepAliveMaxTimeout: sockets.idleMs,
      maxHeaderSize: sockets.maxHeaderBytes,
      // Only a net under our own deadlines: undici's body timer starts anew with every byte.
      headersTimeout: budgets.maxTotalMs + budgets.connectionMs,
      bodyTimeout: budgets.maxTotalMs + budgets.connectionMs,
    });
  }
}

/** One request on the wire, from the wait for a socket to a named outcome; exactly one outcome, whatever comes later. */
class Attempt implements Dispatcher.DispatchHandler {
  readonly #request: HttpRequest;
  readonly #endpointPool: EndpointPool;
  readonly #startedMs = performance.now();
  readonly #nowEpochMs: () => number;
  readonly #startedEpochMs: number;
  readonly #result = Promise.withResolvers<HttpOutcome>();
  #controller: Dispatcher.DispatchController | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** `socket`: waiting for one. `setup`: still waiting, and one is being set up. */
  #phase: 'socket' | 'setup' | 'write' | 'headers' | 'body' | 'over' = 'socket';
  #status = 0;
  #received = 0;
  #kept: Buffer[] = [];

  constructor(request: HttpRequest, endpointPool: EndpointPool, nowEpochMs: () => number) {
    this.#request = request;
    this.#endpointPool = endpointPool;
    this.#nowEpochMs = nowEpochMs;
    this.#startedEpochMs = nowEpochMs();
  }

  run(): Promise<HttpOutcome> {
    const { body, headers, url, budgetsMs } = this.#request;
    const { pathname, search } = new URL(url);
    this.#timer = setTimeout(() => this.#noSocketYet(), budgetsMs.connection);
    this.#endpointPool.pool.dispatch(
      {
        method: 'POST',
        path: pathname + search,
        body,
        headers: { ...headers, 'content-length': String(body.length), 'accept-encoding': 'identity', 'user-agent': 'Sluice/1' },
      },
      this,
    );
    return this.#result.promise;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Cancelled while it waited: undici aborts it before a byte is written.
    if (this.#phase === 'over') return controller.abort(new Error('cancelled'));
    // Frozen while it waited, on a machine whose monotonic clock stood still: its claim may have expired by now.
    if (this.#nowEpochMs() - this.#startedEpochMs > this.#request.budgetsMs.connection + this.#request.budgetsMs.total) {
      this.#finish({ kind: 'notStarted', why: 'no-socket' });
      return controller.abort(new Error('too late'));
    }
    this.#controller = controller;
    this.#phase = 'write';
    this.#limit(this.#request.budgetsMs.write, 'timeout');
  }

  onRequestSent(): void {
    if (this.#phase !== 'write') return;
    this.#phase = 'headers';
    this.#limit(this.#request.budgetsMs.read, 'timeout');
  }

  onResponseStart(_controller: Dispatcher.DispatchController, statusCode: number): void {
    if (statusCode < 200 || this.#phase === 'over') return;
    this.#status = statusCode;
    this.#phase = 'body';
    this.#limit(this.#request.budgetsMs.read, 'timeout');
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#received < sockets.keptBodyBytes) this.#kept.push(chunk.subarray(0, sockets.keptBodyBytes - this.#received));
    this.#received += chunk.length;
    if (this.#received > sockets.maxResponseBytes) this.#fail('body too large');
  }

  onResponseEnd(): void {
    this.#finish(this.#answered());
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#phase === 'socket' || this.#phase === 'setup') this.#finish(this.#beforeTheWire(error));
    else this.#fail(codeOf(error));
  }

  /**
   * The wait for a socket is over. If all are busy, this attempt has not begun; if one is being set up, the endpoint is
   * slow to connect to, and the connector says how that ends, within the set-up's own budget.
   */
  #noSocketYet(): void {
    if (this.#endpointPool.connecting === 0) return this.#fail('timeout');
    this.#phase = 'setup';
    this.#timer = setTimeout(() => this.#fail('timeout'), this.#request.budgetsMs.setup);
  }

  /** (Re)arms the one timer: the phase's budget, cut to what is left of the total. */
  #limit(phaseMs: number, cause: string): void {
    clearTimeout(this.#timer);
    const { total, connection } = this.#request.budgetsMs;
    const leftMs = connection + total - this.#elapsedMs();
    this.#timer = setTimeout(() => this.#fail(cause), Math.max(0, Math.min(phaseMs, leftMs)));
  }

  /** Ends the attempt by what was on the wire: a status wins, else a byte may have left, else nothing has. */
  #fail(cause: string): void {
    if (this.#phase === 'body') this.#finish(this.#answered());
    else if (this.#phase === 'socket') this.#finish({ kind: 'notStarted', why: 'no-socket' });
    // Sockets were set up meanwhile, and others got them: this attempt has only waited.
    else if (this.#phase === 'setup' && this.#endpointPool.connecting === 0) this.#finish({ kind: 'notStarted', why: 'no-socket' });
    else if (this.#phase === 'setup') this.#finish({ kind: 'unsent', phase: 'connect', cause, durationMs: this.#elapsedMs() });
    else if (this.#phase !== 'over') this.#finish({ kind: 'ambiguous', phase: this.#phase, cause, durationMs: this.#elapsedMs() });
    // Destroys the socket: a request that has its outcome must not go on by itself, above all not after a freeze.
    this.#controller?.abort(new Error(cause));
  }

  #beforeTheWire(error: Error): HttpOutcome {
    if (error instanceof SetupError) {
      return { kind: 'unsent', phase: error.phase, cause: error.message, durationMs: this.#elapsedMs() };
    }
    const code = codeOf(error);
    if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED') return { kind: 'invalidConfiguration', detail: error.message };
    // The pool was closed under the waiting request, or a socket died before it got one: the endpoint has no part in it.
    return { kind: 'notStarted', why: 'no-socket' };
  }

  #answered(): AttemptOutcome & { kind: 'answered' } {
    const success = this.#status >= 200 && this.#status < 300;
    const excerpt = success ? '' : Buffer.concat(this.#kept).toString('utf8');
    return { kind: 'answered', status: this.#status, bodyExcerpt: excerpt, durationMs: this.#elapsedMs() };
  }

  #finish(outcome: HttpOutcome): void {
    this.#phase = 'over';
    clearTimeout(this.#timer);
    this.#result.resolve(outcome);
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#startedMs);
  }
}
