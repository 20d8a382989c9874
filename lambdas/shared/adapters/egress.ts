import { lookup } from 'node:dns/promises';
import net from 'node:net';
import tls from 'node:tls';
import { addressProblem, isSameAddress } from '../core/address.ts';
import { portOf, type EgressRules } from '../limits/egress.ts';
import { sockets } from '../limits/numbers.ts';
import { deadline } from './deadline.ts';

/** Why a connection was not made; nothing of a request has left when it is thrown. */
export class SetupError extends Error {
  readonly phase: 'dns' | 'address' | 'connect' | 'tls';
  constructor(phase: SetupError['phase'], cause: string) {
    super(cause);
    this.name = 'SetupError';
    this.phase = phase;
  }
}

export interface EgressOptions {
  readonly rules: EgressRules;
  /** All addresses of a host name; default: the system's resolver. */
  readonly resolve?: (hostname: string) => Promise<readonly { address: string }[]>;
  /** Begins to connect to an address that was judged; default: net.connect. */
  readonly dial?: (address: string, port: number) => net.Socket;
}

/** Opens a socket for a URL. `began` is told as each phase begins. Rejects with SetupError, and leaves nothing open then. */
export type Connect = (url: URL, budgetMs: number, began: (phase: 'dns' | 'connect' | 'tls') => void) => Promise<net.Socket>;

/**
 * Connects with the egress guard inside (T8): literals are judged too, every resolved address is, one bad address refuses
 * the whole host, and only addresses that were judged are dialled, with the host name kept for TLS. DNS, TCP and TLS share
 * one budget.
 */
export function createEgress({ rules, resolve = systemResolver, dial = systemDialer }: EgressOptions): Connect {
  return async (url, budgetMs, began) => {
    const endsMs = performance.now() + budgetMs;
    const leftMs = () => Math.max(1, endsMs - performance.now());
    // A literal IPv6 host arrives in brackets.
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const isLiteral = net.isIP(host) !== 0;
    if (!isLiteral) began('dns');
    const addresses = isLiteral ? [host] : await resolved(host, resolve, leftMs());
    for (const address of addresses) {
      const problem = addressProblem(address, rules);
      if (problem !== undefined) throw new SetupError('address', `refused: ${problem}`);
    }
    began('connect');
    const socket = await connectFirst(inTurns(addresses), (address) => dial(address, portOf(url)), leftMs());
    if (url.protocol !== 'https:') return socket;
    began('tls');
    return secured(socket, host, isLiteral, leftMs());
  };
}

const systemResolver: NonNullable<EgressOptions['resolve']> = (hostname) => lookup(hostname, { all: true });
const systemDialer: NonNullable<EgressOptions['dial']> = (host, port) => net.connect({ host, port, noDelay: true, autoSelectFamily: false });

async function resolved(host: string, resolve: NonNullable<EgressOptions['resolve']>, budgetMs: number): Promise<string[]> {
  const timeout = Promise.withResolvers<never>();
  const cancel = deadline(budgetMs, () => timeout.reject(new SetupError('dns', 'timeout')));
  try {
    const answers = await Promise.race([resolve(host), timeout.promise]);
    if (answers.length === 0) throw new SetupError('dns', 'no address');
    return answers.map((answer) => answer.address);
  } catch (error) {
    throw error instanceof SetupError ? error : new SetupError('dns', codeOf(error));
  } finally {
    cancel();
  }
}

/** Both families in turns, beginning with the resolver's first choice, so that a dead family costs one stagger. */
function inTurns(addresses: readonly string[]): string[] {
  const first = addresses.filter((a) => net.isIP(a) === net.isIP(addresses[0] ?? ''));
  const others = addresses.filter((a) => !first.includes(a));
  return first.flatMap((address, i) => [address, ...others.slice(i, i + 1)]).concat(others.slice(first.length)).slice(0, sockets.maxAddresses);
}

/**
 * The first connection that is made. The next address is tried when one has failed or after the stagger, and an earlier
 * one goes on meanwhile: an address that is slow to answer may be the only one that works.
 */
function connectFirst(addresses: readonly string[], dial: (address: string) => net.Socket, budgetMs: number): Promise<net.Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<net.Socket>();
  const pending = new Set<net.Socket>();
  let tried = 0;
  let stagger: NodeJS.Timeout | undefined;
  const end = () => {
    cancel();
    clearTimeout(stagger);
    for (const socket of pending) socket.destroy();
    pending.clear();
  };
  const fail = (error: SetupError) => {
    end();
    reject(error);
  };
  const next = () => {
    clearTimeout(stagger);
    const address = addresses[tried++];
    if (address === undefined) return;
    const socket = dial(address);
    pending.add(socket);
    socket.once('connect', () => {
      pending.delete(socket);
      end();
      if (isSameAddress(socket.remoteAddress ?? '', address)) return resolve(socket);
      socket.destroy();
      reject(new SetupError('address', 'refused: connected to another address than was judged'));
    });
    // Kept for good: a socket without a listener would take the process down with a late reset.
    socket.on('error', (error) => {
      if (!pending.delete(socket)) return;
      if (tried < addresses.length) next();
      else if (pending.size === 0) fail(new SetupError('connect', codeOf(error)));
    });
    if (tried < addresses.length) stagger = setTimeout(next, sockets.staggerMs);
  };
  const cancel = deadline(budgetMs, () => fail(new SetupError('connect', 'timeout')));
  next();
  return promise;
}

/** TLS on a connected socket; a fault or the end of the budget destroys it. Verification is on whatever the environment says. */
function secured(socket: net.Socket, host: string, isLiteral: boolean, budgetMs: number): Promise<net.Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<net.Socket>();
  const secure = tls.connect({
    socket,
    host,
    ALPNProtocols: ['http/1.1'],
    minVersion: 'TLSv1.2',
    rejectUnauthorized: true,
    ...(isLiteral ? {} : { servername: host }),
  });
  const fail = (cause: string) => {
    cancel();
    secure.destroy();
    socket.destroy();
    reject(new SetupError('tls', cause));
  };
  const onClose = () => fail('closed');
  const cancel = deadline(budgetMs, () => fail('timeout'));
  secure.once('close', onClose).on('error', (error) => fail(codeOf(error)));
  secure.once('secureConnect', () => {
    cancel();
    secure.off('close', onClose);
    resolve(secure);
  });
  return promise;
}

/** A short, stable name of a fault: the code of Node or OpenSSL where there is one. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const code = (error as { code?: unknown }).code;
  return typeof code === 'string' ? code : error.name;
}
