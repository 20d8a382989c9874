import type { ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Authority } from '../../local/authority.ts';

/** One request as it arrived, whole. */
export interface Recorded {
  readonly method: string;
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
  /** Done before the answer, and once it has been handed to the system. */
  readonly before?: () => Promise<void>;
  readonly after?: () => Promise<void>;
}

/** An HTTPS consumer on loopback that keeps what it got and answers as it is told. */
export interface Recorder {
  readonly requests: Recorded[];
  /** Requests that have arrived whole and are not answered yet. */
  open(): number;
  /** The most of them at once, from the start, whose client was there: what a client that died had open is orphaned. */
  mostLive(): number;
  /** Requests, from the start, whose client was gone before they were answered. */
  orphaned(): number;
  reply(decide: (request: Recorded, nth: number) => Reply): void;
  url(path?: string): string;
  close(): Promise<void>;
}

/** @param port default: any that is free */
export async function startRecorder(authority: Authority, port = 0): Promise<Recorder> {
  const requests: Recorded[] = [];
  let decide: (request: Recorded, nth: number) => Reply = () => ({ status: 200 });
  const open = new Set<{ isLive: boolean }>();
  let mostLive = 0;
  let orphaned = 0;
  const opened = ({ socket }: ServerResponse) => {
    const one = { isLive: true };
    open.add(one);
    mostLive = Math.max(mostLive, [...open].filter(({ isLive }) => isLive).length);
    const gone = () => {
      if (one.isLive) orphaned++;
      one.isLive = false;
    };
    // The end as well: it comes before the close, and by then the client's slot may be somebody else's.
    const signs = ['end', 'error', 'close'];
    for (const sign of signs) socket?.once(sign, gone);
    return () => {
      for (const sign of signs) socket?.off(sign, gone);
      open.delete(one);
    };
  };
  const server = https.createServer({ key: authority.key, cert: authority.cert }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const headers = request.headers as Record<string, string>;
      const recorded = { method: request.method ?? '', path: request.url ?? '', eventId: headers['webhook-id'] ?? '', headers, rawHeaders: request.rawHeaders, body: Buffer.concat(chunks) };
      requests.push(recorded);
      void answer(recorded, response, opened(response));
    });
  });
  const answer = async (recorded: Recorded, response: ServerResponse, closed: () => void) => {
    const nth = requests.filter((r) => r.eventId === recorded.eventId).length;
    const reply = decide(recorded, nth);
    if (reply.afterMs !== undefined) await sleep(reply.afterMs);
    await reply.before?.();
    // Before the answer: whoever has it may send the next request at once.
    closed();
    if (reply.hangUp === true) response.socket?.destroy();
    else await ended(response.writeHead(reply.status, { 'content-type': 'text/plain', ...reply.headers }), reply.body);
    await reply.after?.();
  };
  // A client that was killed half way is no failure of the consumer.
  server.on('clientError', (_error, socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    requests,
    open: () => open.size,
    mostLive: () => mostLive,
    orphaned: () => orphaned,
    reply: (next) => (decide = next),
    url: (path = '/hooks') => `https://localhost:${(server.address() as AddressInfo).port}${path}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Ends an answer, and waits until it is on its way; or until its client turns out to be gone. */
function ended(response: ServerResponse, body = ''): Promise<void> {
  if (response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    response.once('close', resolve);
    response.end(body, () => resolve());
  });
}
