/** Servers on loopback that answer as no good server would: each connection is handed to a script. */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import tls from 'node:tls';

export interface HostileServer {
  readonly port: number;
  /** Bytes that each connection sent, in the order of the connections. */
  readonly received: Buffer[];
  close(): Promise<void>;
}

/** Runs once for a connection, when the first request on it is complete. */
export type Script = (socket: net.Socket, nth: number) => void;

/** Starts a server; `onConnect` runs before anything was read. */
export async function startHostile(script: Script, options: { tls?: { key: string; cert: string }; onConnect?: Script; host?: string } = {}): Promise<HostileServer> {
  const received: Buffer[] = [];
  const sockets = new Set<net.Socket>();
  const serve = (socket: net.Socket) => {
    const nth = received.push(Buffer.alloc(0)) - 1;
    let answered = 0;
    options.onConnect?.(socket, nth);
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      received[nth] = Buffer.concat([received[nth] ?? Buffer.alloc(0), chunk]);
      const complete = requestsIn(received[nth]);
      for (; answered < complete; answered++) script(socket, nth);
    });
  };
  const server = options.tls === undefined ? net.createServer(serve) : tls.createServer(options.tls, serve);
  server.on('tlsClientError', () => undefined);
  server.on('connection', (socket: net.Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
  });
  server.listen(0, options.host ?? '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    received,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Complete requests with a Content-Length in what a connection has sent. */
function requestsIn(bytes: Buffer): number {
  let [at, count] = [0, 0];
  for (;;) {
    const head = bytes.indexOf('\r\n\r\n', at);
    if (head < 0) return count;
    const length = Number(/content-length: (\d+)/i.exec(bytes.toString('latin1', at, head))?.[1] ?? 0);
    at = head + 4 + length;
    if (at > bytes.length) return count;
    count++;
  }
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
