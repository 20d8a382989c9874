import type { ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Authority } from '../../local/authority.ts';

/** One request as it arrived, whole. */
export interface Recorded {
  readonly path: string;
  readonly eventId: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export interface Reply {
  readonly status: number;
  readonly body?: string;
  readonly headers?: Record<string, string>;
  /** Before the answer. */
  readonly afterMs?: number;
  /** Answer nothing and close the connection. */
  readonly hangUp?: boolean;
}

/** An HTTPS consumer on loopback that keeps what it got and answers as it is told. */
export interface Recorder {
  readonly requests: Recorded[];
  /** Requests that have arrived whole and are not answered yet. */
  open(): number;
  reply(decide: (request: Recorded, nth: number) => Reply): void;
  url(path?: string): string;
  close(): Promise<void>;
}

export async function startRecorder(authority: Authority): Promise<Recorder> {
  const requests: Recorded[] = [];
  let decide: (request: Recorded, nth: number) => Reply = () => ({ status: 200 });
  let open = 0;
  const server = https.createServer({ key: authority.key, cert: authority.cert }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const headers = request.headers as Record<string, string>;
      const recorded = { path: request.url ?? '', eventId: headers['webhook-id'] ?? '', headers, rawHeaders: request.rawHeaders, body: Buffer.concat(chunks) };
      requests.push(recorded);
      open++;
      void answer(recorded, response).finally(() => open--);
    });
  });
  const answer = async (recorded: Recorded, response: ServerResponse) => {
    const nth = requests.filter((r) => r.eventId === recorded.eventId).length;
    const reply = decide(recorded, nth);
    if (reply.afterMs !== undefined) await sleep(reply.afterMs);
    if (reply.hangUp === true) response.socket?.destroy();
    else response.writeHead(reply.status, { 'content-type': 'text/plain', ...reply.headers }).end(reply.body ?? '');
  };
  // A client that was killed half way is no failure of the consumer.
  server.on('clientError', (_error, socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    requests,
    open: () => open,
    reply: (next) => (decide = next),
    url: (path = '/hooks') => `https://localhost:${(server.address() as AddressInfo).port}${path}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
