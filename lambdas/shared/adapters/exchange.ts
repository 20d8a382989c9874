import type { Dispatcher } from 'undici';
import { hintsOf, type Hints } from '../core/hints.ts';
import { referenceFrom } from '../core/lookup.ts';
import type { AttemptOutcome } from '../core/outcome.ts';
import { StatusLineReader } from '../core/status-line.ts';
import { endpoint, sockets } from '../limits/numbers.ts';
import type { HttpRequest } from '../ports/index.ts';
import type { Connection } from './connection.ts';
import { deadline } from './deadline.ts';
import { codeOf } from './setup-error.ts';
import type { Stopwatch } from './stopwatch.ts';

type Untimed<T> = T extends AttemptOutcome ? Omit<T, 'durationMs' | 'phasesMs' | 'reused'> : never;

/** How one request on one socket ended. */
export type Exchanged =
  | Untimed<AttemptOutcome & { kind: 'answered' | 'ambiguous' | 'invalidConfiguration' }>
  /** The kernel has taken no byte of it: nothing can have reached the peer. */
  | { kind: 'neverLeft'; cause: string }
  | { kind: 'noTime' };

/** What is put on the wire: a delivery, or a look, whose answer is kept whole. */
export type WireRequest = Omit<HttpRequest, 'body'> & ({ readonly method: 'POST'; readonly body: Buffer } | { readonly method: 'GET' });

const nothing = Buffer.alloc(0);

/** Sends a request on a connection. @param endsMs by the stopwatch: the end of the attempt's total budget. Never rejects. */
export function exchange(connection: Connection, request: WireRequest, path: string, watch: Stopwatch, endsMs: number): Promise<Exchanged> {
  return new Exchange(connection, request, path, watch, endsMs).run();
}

/** One request on the wire, from the first byte to a named outcome; exactly one outcome, whatever comes later. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #connection: Connection;
  readonly #request: WireRequest;
  /** Bytes of the answer that are kept. */
  readonly #keptBytes: number;
  readonly #path: string;
  readonly #watch: Stopwatch;
  readonly #endsMs: number;
  readonly #statusLine = new StatusLineReader();
  readonly #result = Promise.withResolvers<Exchanged>();
  #phase: 'begin' | 'write' | 'headers' | 'body' | 'over' = 'begin';
  /** By the stopwatch: the end of the phase under way, and when the timer looks at it, no later. */
  #limitMs = Infinity;
  #timerMs = Infinity;
  #cancelTimer = () => {};
  #onWire = 0;
  #bodyBytes = 0;
  #kept: Buffer[] = [];
  #redirectsTo: string | undefined;
  #hints: Hints | undefined;
  #reference: string | undefined;

  constructor(connection: Connection, request: WireRequest, path: string, watch: Stopwatch, endsMs: number) {
    this.#connection = connection;
    this.#request = request;
    this.#keptBytes = request.method === 'GET' ? sockets.maxResponseBytes : sockets.keptBodyBytes;
    this.#path = path;
    this.#watch = watch;
    this.#endsMs = endsMs;
  }

  run(): Promise<Exchanged> {
    const { headers, method } = this.#request;
    this.#watch.begin('write');
    this.#limit(this.#request.budgetsMs.write);
    const options = {
      method,
      path: this.#path,
      body: this.#request.method === 'POST' ? this.#request.body : null,
      headers: { ...headers, 'accept-encoding': 'identity', 'user-agent': 'Sluice/1' },
    } as const;
    this.#connection.send(options, this, (chunk) => this.#received(chunk));
    return this.#result.promise;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#phase !== 'begin') return controller.abort(new Error('over'));
    // Frozen until now: less is left of the invocation than this request may take, so its claim could expire under it.
    if (this.#request.remainingMs() < this.#leftMs()) {
      this.#finish({ kind: 'noTime' });
      return controller.abort(new Error('no time'));
    }
    this.#phase = 'write';
  }

  onRequestSent(): void {
    if (this.#phase !== 'write') return;
    const { socket } = this.#connection;
    // undici has just made its one write of the request, and the kernel refused it: the peer had closed before.
    if (socket.errored !== null) return this.#finish({ kind: 'neverLeft', cause: codeOf(socket.errored) });
    if (socket.writableNeedDrain) socket.once('drain', () => this.#written());
    else this.#written();
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void {
    if (this.#phase === 'over') return;
    // Two readers of one head that disagree: what it says is not known.
    if (status !== this.#statusLine.status) return this.#fail('unclear status');
    this.#phase = 'body';
    this.#watch.begin('body');
    this.#connection.idleMs = idleMsOf(headers['keep-alive']);
    if (status >= 300 && status < 400) this.#redirectsTo = originOf(headers['location'], this.#request.url);
    this.#hints = hintsOf(status, headers);
    const { referenceHeader } = this.#request;
    if (referenceHeader !== undefined) this.#reference = referenceFrom(headers[referenceHeader.toLowerCase()]);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#bodyBytes < this.#keptBytes) this.#kept.push(chunk.subarray(0, this.#keptBytes - this.#bodyBytes));
    this.#bodyBytes += chunk.length;
    if (this.#bodyBytes > sockets.maxResponseBytes) this.#fail(`more than ${sockets.maxResponseBytes} bytes`);
  }

  onResponseEnd(): void {
    const { socket } = this.#connection;
    if (socket.writableLength === 0) return this.#finish(this.#answered(undefined));
    // TLS learns a little later that the kernel has everything. If it has not, the answer came early, and the rest of the
    // request would be taken for the beginning of the next.
    setImmediate(() => {
      if (socket.writableLength > 0) this.#connection.destroy();
      this.#finish(this.#answered(undefined));
    });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const code = codeOf(error);
    if (this.#phase === 'begin' && (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED')) {
      this.#finish({ kind: 'invalidConfiguration', detail: error.message });
    } else {
      this.#fail(code);
    }
  }

  /** The kernel has the whole request. */
  #written(): void {
    if (this.#phase !== 'write') return;
    this.#phase = 'headers';
    this.#watch.begin('headers');
    // One budget for the whole response, its head and its body.
    this.#limit(this.#request.budgetsMs.read);
  }

  #received(chunk: Buffer): Buffer {
    // Before the request nothing can answer it. The parser has no request either, and closes the socket on it.
    if (this.#phase === 'begin') return chunk;
    this.#onWire += chunk.length;
    const rest = this.#statusLine.take(chunk);
    if (this.#onWire <= sockets.maxWireBytes) return rest;
    // Interim responses, chunk extensions and trailers have no end of their own.
    this.#fail(`more than ${sockets.maxWireBytes} bytes on the wire`);
    return nothing;
  }

  /** Sets the one deadline anew: the phase's budget, cut to what is left of the total. */
  #limit(phaseMs: number): void {
    const nowMs = this.#watch.elapsedMs();
    this.#limitMs = Math.min(nowMs + phaseMs, this.#endsMs);
    // A timer that comes earlier stays: nearly every attempt is over by then, and a second timer costs as much as the first.
    if (this.#limitMs < this.#timerMs) this.#arm(nowMs);
  }

  #arm(nowMs: number): void {
    this.#cancelTimer();
    this.#timerMs = this.#limitMs;
    this.#cancelTimer = deadline(this.#limitMs - nowMs, () => {
      const expiredMs = this.#watch.elapsedMs();
      if (expiredMs < this.#limitMs) this.#arm(expiredMs);
      else this.#fail('timeout');
    });
  }

  #leftMs(): number {
    return this.#endsMs - this.#watch.elapsedMs();
  }

  /** Ends the attempt by what was on the wire: a status wins, else a byte may have left, else nothing has. */
  #fail(cause: string): void {
    if (this.#phase === 'over') return;
    if (this.#phase === 'begin') this.#finish({ kind: 'neverLeft', cause });
    else if (this.#statusLine.status !== undefined && cause !== 'unclear status') this.#finish(this.#answered(`${this.#phase} ${cause}`));
    else this.#finish({ kind: 'ambiguous', phase: this.#phase === 'write' ? 'write' : 'headers', cause });
    // A request that has its outcome must not go on by itself, above all not after a freeze.
    this.#connection.destroy();
  }

  #answered(cut: string | undefined): Exchanged & { kind: 'answered' } {
    const status = this.#statusLine.status ?? 0;
    const isSuccess = status >= 200 && status < 300;
    const body = Buffer.concat(this.#kept);
    const bodyExcerpt = isSuccess ? '' : body.toString('utf8', 0, sockets.keptBodyBytes);
    const redirectsTo = this.#redirectsTo;
    return {
      kind: 'answered', status, bodyExcerpt,
      ...(cut === undefined ? {} : { cut }), ...(redirectsTo === undefined ? {} : { redirectsTo }), ...(this.#hints === undefined ? {} : { hints: this.#hints }),
      ...(this.#reference === undefined ? {} : { reference: this.#reference }), ...(this.#request.method === 'GET' ? { body } : {}),
    };
  }

  #finish(exchanged: Exchanged): void {
    if (this.#phase === 'over') return;
    this.#phase = 'over';
    this.#cancelTimer();
    this.#connection.settled();
    this.#result.resolve(exchanged);
  }
}

/** Where a redirect leads, for the operator to see; it is never followed. */
function originOf(location: string | string[] | undefined, from: URL): string | undefined {
  if (typeof location !== 'string' || !URL.canParse(location, from.href)) return undefined;
  const { protocol, host } = new URL(location, from);
  return `${protocol}//${host}`.slice(0, endpoint.maxUrlLength);
}

/** How long the peer keeps an idle connection, less a margin for the way there; without a word from it, our own short time. */
function idleMsOf(keepAlive: string | string[] | undefined): number {
  const seconds = /(?:^|[\s,])timeout=(\d+)/i.exec(String(keepAlive ?? ''))?.[1];
  if (seconds === undefined) return sockets.idleMs;
  return Math.max(0, Math.min(Number(seconds) * 1_000 - sockets.keepAliveMarginMs, sockets.maxIdleMs));
}
