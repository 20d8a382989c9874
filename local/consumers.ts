/** The demo's customers: HTTPS servers that verify signatures as a receiver should, each with a way of its own to behave. */
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import type { Authority } from './authority.ts';

export interface Answer {
  readonly status: number;
  readonly body?: string;
  /** Real time from the request to the answer; default: at once. */
  readonly afterMs?: number;
}

/** Decides what a consumer answers to its n-th verified request (from 1) about an event. */
export type Behaviour = (request: { eventId: string; nth: number }) => Answer;

export interface Consumer {
  readonly url: string;
  /** Verified requests by event id. */
  readonly seen: ReadonlyMap<string, number>;
  /** The most requests at once that were neither answered nor given up by their sender. */
  readonly mostAtOnce: () => number;
  /** Requests whose signature did not verify. */
  readonly rejectedSignatures: () => number;
  /** The secret is known only once the endpoint is registered. */
  trust(secret: string): void;
  become(behaviour: Behaviour): void;
  close(): Promise<void>;
}

export async function startConsumer(authority: Authority, behaviour: Behaviour): Promise<Consumer> {
  const seen = new Map<string, number>();
  let current = behaviour;
  let webhook: Webhook | undefined;
  let badSignatures = 0;
  let [open, most] = [0, 0];

  const answer = (headers: Record<string, string>, body: string): Answer => {
    try {
      webhook?.verify(body, headers);
    } catch {
      badSignatures++;
      return { status: 401, body: 'bad signature' };
    }
    const eventId = headers['webhook-id'] ?? '';
    const nth = (seen.get(eventId) ?? 0) + 1;
    seen.set(eventId, nth);
    return current({ eventId, nth });
  };
  const server = https.createServer({ key: authority.key, cert: authority.cert }, (request, response) => {
    const chunks: Buffer[] = [];
    most = Math.max(most, ++open);
    response.once('close', () => open--);
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { status, body = '', afterMs = 0 } = answer(request.headers as Record<string, string>, Buffer.concat(chunks).toString());
      const respond = () => void response.writeHead(status, { 'content-type': 'text/plain', 'content-length': Buffer.byteLength(body) }).end(body);
      if (afterMs === 0) respond();
      // An answer that is still due when the consumer is closed holds no process up.
      else setTimeout(respond, afterMs).unref();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  return {
    url: `https://localhost:${(server.address() as AddressInfo).port}/hooks`,
    seen,
    mostAtOnce: () => most,
    rejectedSignatures: () => badSignatures,
    trust: (secret) => (webhook = new Webhook(secret)),
    become: (next) => (current = next),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export const healthy: Behaviour = () => ({ status: 200, body: 'ok' });
/** Refuses each event twice, then takes it. */
export const flaky: Behaviour = ({ nth }) => (nth <= 2 ? { status: 503, body: 'try again later' } : { status: 200 });
export const rejecting: Behaviour = () => ({ status: 400, body: 'bad field' });
