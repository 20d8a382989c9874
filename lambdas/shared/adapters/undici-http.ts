import type { AttemptOutcome } from '../core/outcome.ts';
import { perObject } from '../core/per-object.ts';
import { urlProblem, type EgressRules } from '../limits/egress.ts';
import { sockets } from '../limits/numbers.ts';
import type { Http } from '../ports/index.ts';
import { clientSettings, Connection } from './connection.ts';
import { createEgress, type EgressOptions } from './egress.ts';
import { exchange, type Exchanged, type WireRequest } from './exchange.ts';
import { HostReuse, type Reuse } from './host-reuse.ts';
import { SetupError } from './setup-error.ts';
import { SocketLeases, type Ceilings, type Slot, type SocketCounts } from './socket-leases.ts';
import { Stopwatch } from './stopwatch.ts';

export interface HttpOptions extends Omit<EgressOptions, 'rules'> {
  readonly egress: EgressRules;
  /** Wall clock. */
  readonly nowEpochMs: () => number;
  /** Default: those of limits/numbers.ts. */
  readonly ceilings?: Ceilings;
  /** Told when a socket that was used again turned out to be dead before a byte left: an event of the pool, no failure of the endpoint. */
  readonly onStaleSocket?: (host: string) => void;
}

export interface SocketUse extends SocketCounts {
  /** By host and port: requests, and how many of them went over a socket that an earlier one had set up (T12). */
  readonly hosts: Readonly<Record<string, Reuse>>;
}

/** What a URL says about its requests. */
interface Target {
  /** With the port, unless it is the scheme's own. */
  readonly host: string;
  readonly path: string;
  /** Why this stage sends nothing there. */
  readonly problem: string | undefined;
}

export interface UndiciHttp extends Http {
  sockets(): SocketUse;
  /** Sockets in use and idle; the peak of those in use begins anew. */
  takeSocketCounts(): SocketCounts;
  /** Every limit that is in force, for the log at start (C1). */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Closes idle sockets; those in use end with their request. */
  close(): void;
}

/** The sender's HTTP client: one per execution environment. @throws Error at start where a limit is not set. */
export function createUndiciHttp(options: HttpOptions): UndiciHttp {
  const ceilings = options.ceilings ?? sockets;
  const settings = { ...clientSettings, ...sockets, ...ceilings, egress: options.egress };
  assertSet(settings);
  const leases = new SocketLeases<Connection>(ceilings, options.nowEpochMs);
  const connect = createEgress({ ...options, rules: options.egress });
  const reuse = new HostReuse(sockets.maxHosts);

  const targetOf = perObject((url: URL): Target => ({ host: url.host, path: url.pathname + url.search, problem: urlProblem(url, options.egress) }));

  const perform = async (request: WireRequest): Promise<AttemptOutcome> => {
    const target = targetOf(request.url);
    // What no attempt can mend, found before there is a socket.
    if (target.problem !== undefined) return { kind: 'invalidConfiguration', detail: `url: ${target.problem}` };
    const watch = new Stopwatch();
    watch.begin('connection');
    const slot = await leases.acquire({ endpointId: request.endpointId, version: request.version, origin: request.url.origin, host: target.host }, request.budgetsMs.connection);
    if (slot === undefined) return { kind: 'notStarted', why: 'no-socket' };
    try {
      if (request.mayBegin !== undefined && !(await request.mayBegin())) return { kind: 'notStarted', why: 'not-allowed' };
      return await attemptOn(slot, request, target, watch);
    } finally {
      leases.release(slot);
    }
  };

  /** The attempt from the moment that it has room for a socket. */
  const attemptOn = async (slot: Slot<Connection>, request: WireRequest, { host, path }: Target, watch: Stopwatch): Promise<AttemptOutcome> => {
    const endsMs = watch.elapsedMs() + request.budgetsMs.total;
    const reused = slot.connection !== undefined;
    try {
      slot.connection ??= await open(slot, request, watch, endsMs);
      let exchanged = await exchange(slot.connection, request, path, watch, endsMs);
      let usedAgain = reused;
      if (reused && (exchanged.kind === 'neverLeft' || isBrokenLook(request, exchanged))) {
        options.onStaleSocket?.(host);
        if (!request.freshTry) return { kind: 'notStarted', why: 'stale-socket' };
        usedAgain = false;
        slot.connection = await open(slot, request, watch, endsMs);
        exchanged = await exchange(slot.connection, request, path, watch, endsMs);
      }
      reuse.count(host, usedAgain);
      return outcomeOf(exchanged, watch, usedAgain);
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      return { kind: 'unsent', phase: error.phase, cause: error.message, ...watch.timing(false) };
    }
  };

  const open = async (slot: Slot<Connection>, request: WireRequest, watch: Stopwatch, endsMs: number): Promise<Connection> => {
    const budgetMs = Math.min(request.budgetsMs.setup, endsMs - watch.elapsedMs());
    return new Connection(request.url.origin, await connect(request.url, budgetMs, (phase) => watch.begin(phase), () => leases.spare(slot)));
  };

  return {
    post: (request) => perform({ ...request, method: 'POST' }),
    // It changes nothing there: one that never left may always be begun anew.
    get: (request) => perform({ ...request, method: 'GET', freshTry: true }),
    settings,
    sockets: () => ({ ...leases.counts(), hosts: reuse.byHost() }),
    takeSocketCounts: () => leases.takeCounts(),
    close: () => leases.close(),
  };
}

/** A look whose used socket broke under it: it changes nothing there, so that it may be made anew whatever has arrived. */
function isBrokenLook({ method }: WireRequest, exchanged: Exchanged): boolean {
  return method === 'GET' && exchanged.kind === 'ambiguous' && exchanged.cause !== 'timeout';
}

function outcomeOf(exchanged: Exchanged, watch: Stopwatch, reused: boolean): AttemptOutcome {
  switch (exchanged.kind) {
    case 'invalidConfiguration':
      return exchanged;
    case 'noTime':
      return { kind: 'notStarted', why: 'no-time' };
    case 'neverLeft':
      return { kind: 'unsent', phase: 'write', cause: exchanged.cause, ...watch.timing(reused) };
    case 'answered':
    case 'ambiguous':
      return { ...exchanged, ...watch.timing(reused) };
  }
}

/** A limit that is missing would be undici's own, or none. -1 and 0 are values there: "none, on purpose". */
function assertSet(settings: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(settings)) {
    if (value === undefined || value === null || Number.isNaN(value)) throw new Error(`HTTP client: ${name} is not set`);
  }
}
