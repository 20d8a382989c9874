import { constants } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import net from 'node:net';
import tls from 'node:tls';
import { addressProblem } from '../core/address.ts';
import { portOf, type EgressRules } from '../limits/egress.ts';
import { sockets } from '../limits/numbers.ts';
import { connectFirst, type Spare } from './connect-first.ts';
import { deadline } from './deadline.ts';
import { codeOf, SetupError } from './setup-error.ts';

export interface EgressOptions {
  readonly rules: EgressRules;
  /** All addresses of a host name; default: the system's resolver. */
  readonly resolve?: (hostname: string) => Promise<readonly { address: string }[]>;
  /** Begins to connect to an address that was judged; default: net.connect. */
  readonly dial?: (address: string, port: number) => net.Socket;
}

/** Opens a socket for a URL. `began` is told as each phase begins. Rejects with SetupError, and leaves nothing open then. */
export type Connect = (url: URL, budgetMs: number, began: (phase: 'dns' | 'connect' | 'tls') => void, spare: Spare) => Promise<net.Socket>;

/**
 * Connects with the egress guard inside (T8): literals are judged too, every resolved address is, one bad address refuses
 * the whole host, and only addresses that were judged are dialled, with the host name kept for TLS. DNS, TCP and TLS share
 * one budget.
 */
export function createEgress({ rules, resolve = systemResolver, dial = systemDialer }: EgressOptions): Connect {
  return async (url, budgetMs, began, spare) => {
    const endsMs = performance.now() + budgetMs;
    const leftMs = () => Math.max(1, endsMs - performance.now());
    // A literal IPv6 host arrives in brackets.
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const isLiteral = net.isIP(host) !== 0;
    if (!isLiteral) began('dns');
    const addresses = isLiteral ? [host] : await resolved(host, resolve, leftMs());
    for (const address of addresses) {
      // Text that only a lenient parser takes for an address would be resolved once more by the dial.
      const problem = net.isIP(address) === 0 ? 'not an IP address' : addressProblem(address, rules);
      if (problem !== undefined) throw new SetupError('address', `refused: ${problem}`);
    }
    began('connect');
    const socket = await connectFirst(inTurns(addresses), (address) => dial(address, portOf(url)), leftMs(), spare);
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

/** TLS on a connected socket; a fault or the end of the budget destroys it. Verification is on whatever the environment says. */
function secured(socket: net.Socket, host: string, isLiteral: boolean, budgetMs: number): Promise<net.Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<net.Socket>();
  const secure = tls.connect({
    socket,
    host,
    ALPNProtocols: ['http/1.1'],
    minVersion: 'TLSv1.2',
    // A peer could ask for handshakes without end, none of which is seen by what counts the bytes of a response.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
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
  let tickets = 0;
  secure.on('session', () => {
    // Nor are session tickets.
    if (++tickets > sockets.maxTlsTickets) fail('too many session tickets');
  });
  secure.once('secureConnect', () => {
    cancel();
    secure.off('close', onClose);
    resolve(secure);
  });
  return promise;
}
