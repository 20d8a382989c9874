import { deadline } from './deadline.ts';

/** Bounds on the sockets of one execution environment (T6). */
export interface Ceilings {
  readonly total: number;
  readonly perHost: number;
  /** Attempts that wait at once. */
  readonly maxWaiting: number;
}

/** An open socket, as far as its lease goes. */
export interface Reusable {
  readonly isOpen: boolean;
  /** How long it may stay idle. */
  readonly idleMs: number;
  /** Called when it closes, whoever closed it. */
  onClose: (() => void) | undefined;
  destroy(): void;
}

/** Whose socket is wanted, and whereto. A new version of an endpoint never uses a socket of an older one: its address was judged for that. */
export interface Wanted {
  readonly endpointId: string;
  readonly version: string;
  /** Scheme, host and port to which the socket leads: what one endpoint is delivered at and looked up at may differ. */
  readonly origin: string;
  /** Host and port. */
  readonly host: string;
}

/** Room for one socket, held by one attempt. */
export interface Slot<C extends Reusable> {
  readonly pool: Pool<C>;
  /** An open socket to use again; without one the holder sets one up and puts it here. */
  connection: C | undefined;
}

interface Pool<C extends Reusable> extends Wanted {
  /** Idle ones, the one used last at the end: it is the least likely to have been closed. */
  readonly idle: Idle<C>[];
  /** Slots in use or idle. */
  slots: number;
}

interface Idle<C extends Reusable> extends Slot<C> {
  readonly connection: C;
  readonly sinceEpochMs: number;
  readonly sinceMs: number;
}

interface Waiter<C extends Reusable> {
  readonly wanted: Wanted;
  readonly give: (slot: Slot<C> | undefined) => void;
}

export interface SocketCounts {
  readonly inUse: number;
  readonly idle: number;
  readonly waiting: number;
  readonly pools: number;
  /** The most that were in use at once since this was last asked for by `takeCounts`. */
  readonly peakInUse: number;
}

/**
 * Who may have a socket: one ceiling over all and one per host, over every endpoint there. Idle sockets count, and make
 * room when they are in the way, the one idle longest first. A wait is bounded in time and in length.
 */
export class SocketLeases<C extends Reusable> {
  readonly #ceilings: Ceilings;
  readonly #nowEpochMs: () => number;
  readonly #pools = new Map<string, Pool<C>>();
  /** Over all pools, the one idle longest first. */
  readonly #idle = new Set<Idle<C>>();
  readonly #perHost = new Map<string, number>();
  #waiting: Waiter<C>[] = [];
  #total = 0;
  #peakInUse = 0;
  #isClosed = false;

  constructor(ceilings: Ceilings, nowEpochMs: () => number) {
    this.#ceilings = ceilings;
    this.#nowEpochMs = nowEpochMs;
  }

  /** A slot, as soon as there is one; undefined where none came free within `waitMs`, or too many wait already. */
  async acquire(wanted: Wanted, waitMs: number): Promise<Slot<C> | undefined> {
    this.#dropStale();
    // Past nobody: whoever waits has no room, and whoever makes room serves those who wait first.
    const slot = this.#take(wanted);
    if (slot !== undefined) return slot;
    if (this.#waiting.length >= this.#ceilings.maxWaiting) return undefined;
    const { promise, resolve } = Promise.withResolvers<Slot<C> | undefined>();
    const waiter: Waiter<C> = { wanted, give: resolve };
    this.#waiting.push(waiter);
    const cancel = deadline(waitMs, () => {
      this.#waiting = this.#waiting.filter((other) => other !== waiter);
      resolve(undefined);
    });
    try {
      return await promise;
    } finally {
      cancel();
    }
  }

  /** Ends a slot's use. Its socket stays for the next attempt while it is open, wanted there, and within its idle time. */
  release(slot: Slot<C>): void {
    const { pool, connection } = slot;
    if (!this.#isClosed && connection?.isOpen === true && connection.idleMs > 0 && this.#pools.get(keyOf(pool)) === pool) {
      const idle: Idle<C> = { pool, connection, sinceEpochMs: this.#nowEpochMs(), sinceMs: performance.now() };
      pool.idle.push(idle);
      this.#idle.add(idle);
      connection.onClose = () => this.#closedIdle(idle);
    } else {
      connection?.destroy();
      this.#free(pool);
    }
    this.#serve();
  }

  /** Room for one more socket to a slot's host while it is being set up; undefined where there is none. @returns what gives it back */
  spare({ pool }: Slot<C>): (() => void) | undefined {
    if (!this.#makeRoom(pool.host)) return undefined;
    this.#count(pool);
    return () => {
      this.#free(pool);
      this.#serve();
    };
  }

  counts(): SocketCounts {
    return { inUse: this.#inUse(), idle: this.#idle.size, waiting: this.#waiting.length, pools: this.#pools.size, peakInUse: this.#peakInUse };
  }

  /** As `counts`, and the peak begins anew. */
  takeCounts(): SocketCounts {
    const counts = this.counts();
    this.#peakInUse = counts.inUse;
    return counts;
  }

  #inUse(): number {
    return this.#total - this.#idle.size;
  }

  /** Closes what is idle; what is in use is closed when it is released. */
  close(): void {
    this.#isClosed = true;
    for (const idle of this.#idle) this.#drop(idle);
  }

  /** First come, first served, past those whose host is full. */
  #serve(): void {
    this.#waiting = this.#waiting.filter((waiter) => {
      const slot = this.#take(waiter.wanted);
      if (slot !== undefined) waiter.give(slot);
      return slot === undefined;
    });
  }

  #take(wanted: Wanted): Slot<C> | undefined {
    const pool = this.#poolOf(wanted);
    const idle = pool.idle.at(-1);
    if (idle !== undefined) {
      this.#forget(idle);
      this.#peakInUse = Math.max(this.#peakInUse, this.#inUse());
      return { pool, connection: idle.connection };
    }
    if (!this.#makeRoom(wanted.host)) return undefined;
    this.#count(pool);
    this.#pools.set(keyOf(pool), pool);
    return { pool, connection: undefined };
  }

  /** The endpoint's pool of sockets that lead there, empty where its configuration has changed: what an older version left idle is closed. */
  #poolOf(wanted: Wanted): Pool<C> {
    const known = this.#pools.get(keyOf(wanted));
    if (known?.version === wanted.version) return known;
    for (const idle of known?.idle.slice() ?? []) this.#drop(idle);
    return { ...wanted, idle: [], slots: 0 };
  }

  /** True where one more socket to the host fits, if need be in the place of an idle one. */
  #makeRoom(host: string): boolean {
    if ((this.#perHost.get(host) ?? 0) >= this.#ceilings.perHost) {
      const there = [...this.#idle].find((idle) => idle.pool.host === host);
      if (there === undefined) return false;
      this.#drop(there);
    }
    if (this.#total >= this.#ceilings.total) {
      const [oldest] = this.#idle;
      if (oldest === undefined) return false;
      this.#drop(oldest);
    }
    return true;
  }

  /** By both clocks: a monotonic one stands still in some freezes, a wall clock may be set back. */
  #dropStale(): void {
    const [epochMs, ms] = [this.#nowEpochMs(), performance.now()];
    for (const idle of this.#idle) {
      if (Math.max(epochMs - idle.sinceEpochMs, ms - idle.sinceMs) > idle.connection.idleMs) this.#drop(idle);
    }
  }

  #closedIdle(idle: Idle<C>): void {
    this.#forget(idle);
    this.#free(idle.pool);
    this.#serve();
  }

  #drop(idle: Idle<C>): void {
    this.#forget(idle);
    this.#free(idle.pool);
    idle.connection.destroy();
  }

  #forget(idle: Idle<C>): void {
    idle.connection.onClose = undefined;
    this.#idle.delete(idle);
    idle.pool.idle.splice(idle.pool.idle.indexOf(idle), 1);
  }

  #count(pool: Pool<C>): void {
    this.#total++;
    this.#peakInUse = Math.max(this.#peakInUse, this.#inUse());
    this.#perHost.set(pool.host, (this.#perHost.get(pool.host) ?? 0) + 1);
    pool.slots++;
  }

  #free(pool: Pool<C>): void {
    this.#total--;
    const others = (this.#perHost.get(pool.host) ?? 1) - 1;
    if (others === 0) this.#perHost.delete(pool.host);
    else this.#perHost.set(pool.host, others);
    pool.slots--;
    if (pool.slots === 0 && this.#pools.get(keyOf(pool)) === pool) this.#pools.delete(keyOf(pool));
  }
}

/** No id holds a space, and no origin. */
function keyOf({ endpointId, origin }: Wanted): string {
  return `${endpointId} ${origin}`;
}
