/** A customer with a memory: an HTTPS server that keeps one effect for each event, says which it has, and loses answers. */
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import type { Authority } from './authority.ts';

/** What an event has done there. */
export interface Effect {
  readonly id: string;
  readonly eventId: string;
  readonly amount: unknown;
}

/** A request that it had, with what came of it. */
export interface Had {
  readonly method: 'POST' | 'GET';
  readonly endpointId: string;
  readonly eventId: string;
  readonly possibleDuplicate: boolean;
  /** True where this very request made the effect. */
  readonly isNew: boolean;
  readonly effect: Effect | undefined;
  /** Undefined where the connection was dropped instead. */
  readonly status: number | undefined;
}

export interface EffectsCustomer {
  readonly had: readonly Had[];
  readonly effects: ReadonlyMap<string, Effect>;
  /** Requests whose signature did not verify. */
  readonly rejectedSignatures: () => number;
  urlOf(endpointId: string): string;
  /** Where the effect of an event is found, as the template of a look-up. */
  lookUrlOf(endpointId: string): string;
  /** The secret is known only once the endpoint is registered. */
  trust(endpointId: string, secret: string): void;
  close(): Promise<void>;
}

/**
 * @param drops whether the answer to the `nth` POST (from 1) to an endpoint is lost, once the effect is there
 * @param tell is told of each request, before it is answered
 */
export async function startEffectsCustomer(authority: Authority, drops: (endpointId: string, nth: number) => boolean, tell: (had: Had) => void): Promise<EffectsCustomer> {
  const effects = new Map<string, Effect>();
  const had: Had[] = [];
  const webhooks = new Map<string, Webhook>();
  let badSignatures = 0;

  /** Answers 200 once and for all: by its webhook-id an event that comes again is known, and does nothing more. */
  const take = (endpointId: string, headers: Record<string, string>, body: string): Had => {
    const eventId = headers['webhook-id'] ?? '';
    const known = effects.get(eventId);
    const effect = known ?? { id: `eff_${effects.size + 1}`, eventId, amount: (JSON.parse(body) as { amount?: unknown }).amount };
    effects.set(eventId, effect);
    const nth = had.filter((one) => one.method === 'POST' && one.endpointId === endpointId).length + 1;
    const possibleDuplicate = headers['sluice-possible-duplicate'] === 'true';
    return { method: 'POST', endpointId, eventId, possibleDuplicate, isNew: known === undefined, effect, status: drops(endpointId, nth) ? undefined : 200 };
  };
  const show = (endpointId: string, eventId: string): Had => {
    const effect = effects.get(eventId);
    return { method: 'GET', endpointId, eventId, possibleDuplicate: false, isNew: false, effect, status: effect === undefined ? 404 : 200 };
  };

  const server = https.createServer({ key: authority.key, cert: authority.cert }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const headers = request.headers as Record<string, string>;
      const [, endpointId = '', , looked = ''] = (request.url ?? '').split('/');
      try {
        webhooks.get(endpointId)?.verify(body, headers);
      } catch {
        badSignatures++;
        return void response.writeHead(401).end();
      }
      const one = request.method === 'GET' ? show(endpointId, looked) : take(endpointId, headers, body);
      had.push(one);
      tell(one);
      if (one.status === undefined) request.socket.destroy();
      else response.writeHead(one.status, { 'content-type': 'application/json' }).end(JSON.stringify(one.effect ?? {}));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `https://localhost:${(server.address() as AddressInfo).port}`;

  return {
    had,
    effects,
    rejectedSignatures: () => badSignatures,
    urlOf: (endpointId) => `${origin}/${endpointId}/hooks`,
    lookUrlOf: (endpointId) => `${origin}/${endpointId}/effects/{eventId}`,
    trust: (endpointId, secret) => void webhooks.set(endpointId, new Webhook(secret)),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
