/** One connection of a hostile server, as its script sees it. */
import type net from 'node:net';
import { RequestCounter } from './request-counter.ts';

/** Kept of what one connection sent, in bytes: enough for any head, and 8 MiB of body cost nothing. */
const keptBytes = 65_536;

/** What a behaviour does on the wire. Each step is optional; without any the server reads, and says nothing. */
export interface Script {
  /** On the TCP connection, before TLS is spoken on it. */
  readonly onAccept?: (raw: net.Socket) => void;
  /** Once bytes of a request can be exchanged: after the TLS handshake on https. */
  readonly onConnect?: (peer: Peer) => void;
  /** At the first bytes of each request. @param nth of the request on this connection, from 0 */
  readonly onBegin?: (peer: Peer, nth: number) => void;
  /** When a request has been read to its end. @param nth of the request on this connection, from 0 */
  readonly onRequest?: (peer: Peer, nth: number) => void;
}

export class Peer {
  /** Carries the plain bytes of requests and answers: on https a TLS socket. */
  readonly socket: net.Socket;
  /** Of this connection among those of its server, from 0. */
  readonly nth: number;
  /** Bytes of requests that arrived. */
  receivedBytes = 0;
  readonly #raw: net.Socket;
  readonly #requests = new RequestCounter();
  #kept: Buffer[] = [];

  constructor(raw: net.Socket, socket: net.Socket, nth: number) {
    this.#raw = raw;
    this.socket = socket;
    this.nth = nth;
  }

  /** The first 64 KiB of what arrived. */
  get received(): Buffer {
    this.#kept = [Buffer.concat(this.#kept)];
    return this.#kept[0] ?? Buffer.alloc(0);
  }

  /** Requests of which bytes have arrived. */
  get begun(): number {
    return this.#requests.begun;
  }

  /** Ends the connection by RST; a TLS socket cannot do that by itself. */
  reset(): void {
    this.#raw.resetAndDestroy();
    this.socket.destroy();
  }

  /** Reads from now on, and takes the script through its steps. */
  run(script: Script): void {
    script.onConnect?.(this);
    this.socket.on('data', (chunk: Buffer) => {
      const [begun, complete] = [this.#requests.begun, this.#requests.complete];
      this.#keep(chunk);
      this.#requests.push(chunk);
      for (let nth = begun; nth < this.#requests.begun; nth++) script.onBegin?.(this, nth);
      for (let nth = complete; nth < this.#requests.complete; nth++) script.onRequest?.(this, nth);
    });
  }

  #keep(chunk: Buffer): void {
    if (this.receivedBytes < keptBytes) this.#kept.push(chunk.subarray(0, keptBytes - this.receivedBytes));
    this.receivedBytes += chunk.length;
  }
}
