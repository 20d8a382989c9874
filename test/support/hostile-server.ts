/** Servers on loopback that answer as no good server would: each connection is handed to a script of the test's own. */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { startScripted } from '../../local/hostile/scripted-server.ts';

export interface HostileServer {
  readonly port: number;
  /** The first 64 KiB that each connection sent, in the order of the connections. */
  readonly received: readonly Buffer[];
  close(): Promise<void>;
}

/** Runs for each request on a connection, when that is complete. */
export type Script = (socket: net.Socket, nth: number) => void;

/** Starts a server; `onConnect` runs before anything was read. Behaviours that have a name are in local/hostile. */
export async function startHostile(script: Script, options: { tls?: { key: string; cert: string }; onConnect?: Script; host?: string } = {}): Promise<HostileServer> {
  const { onConnect, ...more } = options;
  const server = await startScripted(
    { onConnect: ({ socket, nth }) => onConnect?.(socket, nth), onRequest: ({ socket, nth }) => script(socket, nth) },
    more,
  );
  return {
    port: server.port,
    get received() {
      return server.peers.map((peer) => peer.received);
    },
    close: () => server.close(),
  };
}

/** A port on which nothing listens. */
export async function closedPort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
