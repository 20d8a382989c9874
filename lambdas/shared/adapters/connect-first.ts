import type net from 'node:net';
import { isSameAddress } from '../core/address.ts';
import { sockets } from '../limits/numbers.ts';
import { deadline } from './deadline.ts';
import { codeOf, SetupError } from './setup-error.ts';

/** Room for one more socket beside the first, while several are set up; undefined where there is none. @returns what gives it back */
export type Spare = () => (() => void) | undefined;

/**
 * The first connection that is made to one of the addresses. The next is tried when one has failed or after the stagger,
 * and an earlier one goes on meanwhile: an address that is slow to answer may be the only one that works. Rejects with
 * SetupError, and leaves nothing open then.
 */
export function connectFirst(addresses: readonly string[], dial: (address: string) => net.Socket, budgetMs: number, spare: Spare): Promise<net.Socket> {
  return new Race(addresses, dial, spare).run(budgetMs);
}

class Race {
  readonly #addresses: readonly string[];
  readonly #dial: (address: string) => net.Socket;
  readonly #spare: Spare;
  readonly #result = Promise.withResolvers<net.Socket>();
  /** The one dialled longest ago first. */
  readonly #pending = new Set<net.Socket>();
  readonly #spares: (() => void)[] = [];
  #tried = 0;
  #stagger: NodeJS.Timeout | undefined;
  #cancel = () => {};

  constructor(addresses: readonly string[], dial: (address: string) => net.Socket, spare: Spare) {
    this.#addresses = addresses;
    this.#dial = dial;
    this.#spare = spare;
  }

  run(budgetMs: number): Promise<net.Socket> {
    this.#cancel = deadline(budgetMs, () => this.#fail('connect', 'timeout'));
    this.#next();
    return this.#result.promise;
  }

  #next(): void {
    clearTimeout(this.#stagger);
    const address = this.#addresses[this.#tried];
    if (address === undefined) return;
    this.#tried++;
    this.#makeRoom();
    try {
      this.#begin(this.#dial(address), address);
    } catch (error) {
      return this.#lost(error);
    }
    if (this.#tried < this.#addresses.length) this.#stagger = setTimeout(() => this.#next(), sockets.staggerMs);
  }

  #begin(socket: net.Socket, address: string): void {
    this.#pending.add(socket);
    socket.once('connect', () => {
      if (this.#pending.delete(socket)) this.#connected(socket, address);
    });
    // Kept for good: a socket without a listener would take the process down with a late reset.
    socket.on('error', (error) => {
      if (this.#pending.delete(socket)) this.#lost(error);
    });
  }

  /** Sockets that are set up side by side count like all others. */
  #makeRoom(): void {
    if (this.#pending.size <= this.#spares.length) return;
    const giveBack = this.#spare();
    if (giveBack !== undefined) return void this.#spares.push(giveBack);
    // Full: the one that has been silent longest gives way, or a host whose first address is dead would never be reached.
    const [oldest] = this.#pending;
    if (oldest !== undefined) this.#pending.delete(oldest);
    oldest?.destroy();
  }

  #connected(socket: net.Socket, address: string): void {
    const peer = socket.remoteAddress;
    if (peer !== undefined && isSameAddress(peer, address)) {
      this.#end();
      return this.#result.resolve(socket);
    }
    socket.destroy();
    // The kernel no longer knows the peer of a connection that was reset at once.
    if (peer === undefined) this.#fail('connect', 'ECONNRESET');
    else this.#fail('address', 'refused: connected to another address than was judged');
  }

  #lost(error: unknown): void {
    if (this.#tried < this.#addresses.length) this.#next();
    else if (this.#pending.size === 0) this.#fail('connect', codeOf(error));
  }

  #fail(phase: SetupError['phase'], cause: string): void {
    this.#end();
    this.#result.reject(new SetupError(phase, cause));
  }

  #end(): void {
    this.#cancel();
    clearTimeout(this.#stagger);
    for (const socket of this.#pending) socket.destroy();
    this.#pending.clear();
    for (const giveBack of this.#spares.splice(0)) giveBack();
  }
}
