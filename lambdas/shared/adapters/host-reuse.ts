/** Requests to one host, and how many of them used a socket again. */
export interface Reuse {
  readonly requests: number;
  readonly reused: number;
}

/** Counts by host, bounded: the host asked for longest ago is forgotten first. */
export class HostReuse {
  readonly #maxHosts: number;
  readonly #hosts = new Map<string, Reuse>();

  constructor(maxHosts: number) {
    this.#maxHosts = maxHosts;
  }

  count(host: string, reused: boolean): void {
    const before = this.#hosts.get(host) ?? { requests: 0, reused: 0 };
    this.#hosts.delete(host);
    this.#hosts.set(host, { requests: before.requests + 1, reused: before.reused + (reused ? 1 : 0) });
    const oldest = this.#hosts.size > this.#maxHosts ? this.#hosts.keys().next().value : undefined;
    if (oldest !== undefined) this.#hosts.delete(oldest);
  }

  byHost(): Readonly<Record<string, Reuse>> {
    return Object.fromEntries(this.#hosts);
  }
}
