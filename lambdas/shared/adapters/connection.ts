import type net from 'node:net';
import { Client, type Dispatcher } from 'undici';
import { budgets, sockets } from '../limits/numbers.ts';

/** A net under our own deadlines, which are all shorter: undici's timers are coarse, and its body timer starts anew with every byte. */
const netMs = budgets.maxTotalMs * 2;

/** Everything that undici would otherwise take from its defaults (C1); what it reads here is logged at start. */
export const clientSettings = {
  pipelining: 1,
  // With HTTP/2 possible the client would ask for it first.
  allowH2: false,
  strictContentLength: true,
  maxHeaderSize: sockets.maxHeaderBytes,
  // Ours: a response above the cap ends as what its status says, not as a fault.
  maxResponseSize: -1,
  maxRequestsPerClient: 0,
  maxCachedSessions: 0,
  autoSelectFamily: false,
  autoSelectFamilyAttemptTimeout: sockets.staggerMs,
  connectTimeout: netMs,
  headersTimeout: netMs,
  bodyTimeout: netMs,
  keepAliveTimeout: sockets.idleMs,
  keepAliveMaxTimeout: sockets.maxIdleMs,
  keepAliveTimeoutThreshold: sockets.keepAliveMarginMs,
} satisfies Client.Options;

/** Sees what the socket has received before the HTTP parser does. @returns what of it the parser gets. */
export type Observe = (chunk: Buffer) => Buffer;

/** One socket with undici's HTTP/1.1 on it: one request at a time, and never a second socket in its place. */
export class Connection {
  readonly socket: net.Socket;
  readonly #client: Client;
  #observe: Observe | undefined;
  #unaskedBytes = 0;
  /** Requests that were begun on it. */
  requests = 0;
  /** How long it may stay idle, by the peer's last Keep-Alive header or our own rule. */
  idleMs: number = sockets.idleMs;
  /** Called when the socket closes, whoever closed it. */
  onClose: (() => void) | undefined;

  constructor(origin: string, socket: net.Socket) {
    this.socket = socket;
    let handed = false;
    this.#client = new Client(origin, {
      ...clientSettings,
      connect: (_target, callback) => {
        // Asked again, the socket has died: whoever wants another takes it through the guard.
        const isClosed = handed;
        handed = true;
        // Later, as of a connector: the client is not ready for an answer within the call.
        queueMicrotask(() => (isClosed ? callback(new Error('the socket is closed'), null) : callback(null, socket)));
      },
    });
    socket.once('close', () => this.onClose?.());
    this.#observeReads();
  }

  get isOpen(): boolean {
    return !this.socket.destroyed;
  }

  /** Sends one request. What is received until `settled` goes to `observe` before the parser has it. */
  send(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler, observe: Observe): void {
    this.#observe = observe;
    this.#unaskedBytes = 0;
    const dispatch = () => void this.#client.dispatch(options, handler);
    // A used socket is looked at once more before the write: what lies on it by then answers nothing. undici does so in the
    // same turn only, and from the answer to an AWS call that is before the loop has asked the kernel.
    if (this.requests++ === 0) dispatch();
    else setImmediate(dispatch);
  }

  /** The request on it has its outcome: whatever still comes is for the parser alone, which closes on it. */
  settled(): void {
    this.#observe = undefined;
  }

  destroy(): void {
    // Both: a client that has not taken its socket yet would leave it open.
    this.socket.destroy();
    void this.#client.destroy();
  }

  /** Nobody asked for it: the parser closes on most of it, but would skip line ends without end. */
  #isTooMuch(chunk: Buffer): boolean {
    this.#unaskedBytes += chunk.length;
    if (this.#unaskedBytes <= sockets.maxUnaskedBytes) return false;
    this.socket.destroy();
    return true;
  }

  /** undici takes what a socket has received by `read`, and nothing else does. */
  #observeReads(): void {
    const read = this.socket.read.bind(this.socket);
    this.socket.read = (size?: number) => {
      for (;;) {
        const chunk = read(size) as Buffer | null;
        if (chunk === null) return null;
        if (this.#observe === undefined) return this.#isTooMuch(chunk) ? null : chunk;
        const rest = this.#observe(chunk);
        // If nothing of it is for the parser, the next: null would say that nothing more has come.
        if (rest.length > 0) return rest;
      }
    };
  }
}
