/** Servers on real sockets that hand each connection to a script: plain or TLS, down to the RST. */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import tls from 'node:tls';
import { Peer, type Script } from './peer.ts';

export interface ScriptedOptions {
  /** Speaks TLS with this; default: plain TCP. */
  readonly tls?: tls.SecureContextOptions;
  /** Address or name to listen on; default 127.0.0.1. */
  readonly host?: string;
}

export interface ScriptedServer {
  readonly port: number;
  /** Every connection that was accepted, also those that never spoke TLS. */
  readonly peers: readonly Peer[];
  /** Ends all connections, and resolves when nothing is left of them. */
  close(): Promise<void>;
}

export async function startScripted(script: Script, options: ScriptedOptions = {}): Promise<ScriptedServer> {
  const peers: Peer[] = [];
  const open = new Set<net.Socket>();
  const secureContext = options.tls === undefined ? undefined : tls.createSecureContext(options.tls);
  const server = net.createServer({ noDelay: true }, (raw) => {
    open.add(raw);
    raw.on('error', () => undefined).once('close', () => open.delete(raw));
    serve(raw);
  });
  const serve = (raw: net.Socket) => {
    script.onAccept?.(raw);
    const socket = secureContext === undefined || raw.destroyed ? raw : new tls.TLSSocket(raw, { isServer: true, secureContext });
    const peer = new Peer(raw, socket, peers.length);
    peers.push(peer);
    if (socket === raw) return peer.run(script);
    // A failed handshake is the peer's verdict about us, and no fault of this process.
    socket.on('error', () => undefined);
    socket.once('secure', () => peer.run(script));
  };
  server.listen(0, options.host ?? '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    peers,
    close: async () => {
      const closed = [...open].map((socket) => once(socket, 'close'));
      for (const peer of peers) peer.socket.destroy();
      for (const socket of open) socket.destroy();
      server.close();
      await Promise.all([once(server, 'close'), ...closed]);
    },
  };
}
