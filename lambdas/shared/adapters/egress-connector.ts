import { lookup } from 'node:dns/promises';
import net from 'node:net';
import tls from 'node:tls';
import type { buildConnector } from 'undici';
import { addressProblem, type AllowedBlocks } from '../core/address.ts';

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
  readonly allowed: AllowedBlocks;
  /** One budget for DNS, TCP and TLS together. */
  readonly setupMs: number;
  readonly resolve?: (hostname: string) => Promise<readonly { address: string }[]>;
}

/**
 * Connects for undici, with the egress guard inside (T8): literals are judged too, every resolved address is, and the
 * very address that was judged is dialled, with the host name kept for TLS. One bad address refuses the whole host.
 */
export function egressConnector(options: EgressOptions): buildConnector.connector {
  const resolve = options.resolve ?? ((hostname) => lookup(hostname, { all: true }));
  return (target, callback) => {
    connect(options, resolve, target).then(
      (socket) => callback(null, socket),
      (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), null),
    );
  };
}

async function connect(
  options: EgressOptions,
  resolve: NonNullable<EgressOptions['resolve']>,
  target: buildConnector.Options,
): Promise<net.Socket> {
  const endsMs = performance.now() + options.setupMs;
  const remainingMs = () => Math.max(1, endsMs - performance.now());
  // A literal IPv6 host arrives in brackets.
  const host = target.hostname.replace(/^\[|\]$/g, '');
  const address = await vetted(host, options, resolve, remainingMs());
  const socket = await dial(address, Number(target.port) || 443, remainingMs());
  return target.protocol === 'https:' ? secure(socket, host, remainingMs()) : socket;
}

async function vetted(
  host: string,
  options: EgressOptions,
  resolve: NonNullable<EgressOptions['resolve']>,
  budgetMs: number,
): Promise<string> {
  const addresses = net.isIP(host) === 0 ? await resolved(host, resolve, budgetMs) : [host];
  for (const address of addresses) {
    const problem = addressProblem(address, options.allowed);
    if (problem !== undefined) throw new SetupError('address', `refused: ${problem}`);
  }
  const first = addresses[0];
  if (first === undefined) throw new SetupError('dns', 'no address');
  return first;
}

async function resolved(host: string, resolve: NonNullable<EgressOptions['resolve']>, budgetMs: number): Promise<string[]> {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => timeout.reject(new SetupError('dns', 'timeout')), budgetMs);
  try {
    return (await Promise.race([resolve(host), timeout.promise])).map((answer) => answer.address);
  } catch (error) {
    throw error instanceof SetupError ? error : new SetupError('dns', codeOf(error));
  } finally {
    clearTimeout(timer);
  }
}

function dial(address: string, port: number, budgetMs: number): Promise<net.Socket> {
  return settleSocket(net.connect({ host: address, port, noDelay: true, autoSelectFamily: false }), 'connect', 'connect', budgetMs);
}

function secure(socket: net.Socket, host: string, budgetMs: number): Promise<net.Socket> {
  const secured = tls.connect({
    socket,
    host,
    ALPNProtocols: ['http/1.1'],
    rejectUnauthorized: true,
    ...(net.isIP(host) === 0 ? { servername: host } : {}),
  });
  return settleSocket(secured, 'secureConnect', 'tls', budgetMs);
}

/** Resolves at `event`; a fault or the end of the budget destroys the socket, so that nothing is left half open. */
function settleSocket<T extends net.Socket>(socket: T, event: string, phase: 'connect' | 'tls', budgetMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const fail = (cause: string) => {
      clearTimeout(timer);
      socket.destroy();
      reject(new SetupError(phase, cause));
    };
    const onError = (error: Error) => fail(codeOf(error));
    const onClose = () => fail('closed');
    const timer = setTimeout(() => fail('timeout'), budgetMs);
    socket.once('error', onError).once('close', onClose);
    socket.once(event, () => {
      clearTimeout(timer);
      socket.off('error', onError).off('close', onClose);
      resolve(socket);
    });
  });
}

/** A short, stable name of a fault: the code of Node or OpenSSL where there is one. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const code = (error as { code?: unknown }).code;
  return typeof code === 'string' ? code : error.name;
}
