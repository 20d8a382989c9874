/** Looks on real sockets: a GET by the same budgets, sockets and guard as a delivery, whose answer is kept whole or not at all (U5). */
import net from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createUndiciHttp } from '../../lambdas/shared/adapters/undici-http.ts';
import type { AttemptOutcome } from '../../lambdas/shared/core/outcome.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { sockets } from '../../lambdas/shared/limits/numbers.ts';
import { closedPort, startHostile, type HostileServer } from '../support/hostile-server.ts';

const budgetsMs = { connection: 400, setup: 400, write: 400, read: 400, total: 1_500 };
const ofLength = (body: string, status = '200 OK', more = '') => `HTTP/1.1 ${status}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}\r\n${body}`;

let http: ReturnType<typeof createUndiciHttp>;
let server: HostileServer | undefined;
/** Addresses that were dialled or asked of the resolver. */
let dialled: string[];
beforeEach(() => {
  dialled = [];
  http = createUndiciHttp({
    egress: { ...defaultEgress, allow: ['127.0.0.0/8'], http: true }, nowEpochMs: () => 0,
    resolve: (name) => Promise.resolve([{ address: name === 'metadata.example' ? '169.254.169.254' : '127.0.0.1' }]),
  });
});
afterEach(async () => {
  http.close();
  await server?.close();
  server = undefined;
});

async function look(answer: string | readonly string[], path = '/effects/evt_1?full=1'): Promise<AttemptOutcome> {
  const answers = typeof answer === 'string' ? [answer] : answer;
  server = await startHostile((socket, nth) => void socket.write(answers[nth] ?? answers.at(-1) ?? ''));
  return get(`http://127.0.0.1:${server.port}${path}`);
}

function get(url: string): Promise<AttemptOutcome> {
  return http.get({ url: new URL(url), headers: { accept: 'application/json', 'x-team': 'a' }, budgetsMs, endpointId: 'acme', version: 'V1', remainingMs: () => Infinity });
}

const bodyOf = (outcome: AttemptOutcome) => (outcome.kind === 'answered' ? outcome.body?.toString() : undefined);

describe('a look', () => {
  it('is a GET without a body, and keeps the whole answer', async () => {
    const body = JSON.stringify({ id: 'evt_1', text: 'é'.repeat(2_000) });
    const outcome = await look(ofLength(body));
    expect(outcome).toMatchObject({ kind: 'answered', status: 200, bodyExcerpt: '' });
    expect(bodyOf(outcome)).toBe(body);
    const text = server?.received[0]?.toString() ?? '';
    expect(text).toMatch(/^GET \/effects\/evt_1\?full=1 HTTP\/1\.1\r\n/);
    expect(text).not.toMatch(/content-length|transfer-encoding|content-type/i);
    expect(text).toMatch(/\r\naccept: application\/json\r\n/i);
    expect(text.endsWith('\r\n\r\n')).toBe(true);
  });

  it('keeps a chunked answer whole', async () => {
    expect(bodyOf(await look('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'))).toBe('{"a":1}');
  });

  it.each([
    ['one that is too long', ofLength('x'.repeat(sockets.maxResponseBytes + 1)), `body more than ${sockets.maxResponseBytes} bytes`],
    ['one without end', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n` + `${'fff\r\n'.padEnd(4_100, 'x')}\r\n`.repeat(5), `body more than ${sockets.maxResponseBytes} bytes`],
    ['one that is cut off', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"id":"evt_1"}', 'body timeout'],
  ])('says of %s that it is no whole answer', async (_what, answer, cut) => {
    const outcome = await look(answer);
    expect(outcome).toMatchObject({ kind: 'answered', status: 200, cut });
    expect(bodyOf(outcome)?.length).toBeLessThanOrEqual(sockets.maxResponseBytes);
  });

  it('follows no redirect, and is not decompressed', async () => {
    const outcome = await look(ofLength('', '302 Found', 'Location: http://metadata.example/x\r\n'));
    expect(outcome).toMatchObject({ kind: 'answered', status: 302, redirectsTo: 'http://metadata.example' });
    expect(server?.received).toHaveLength(1);
    expect(server?.received[0]?.toString()).toMatch(/accept-encoding: identity/i);
  });

  it('that is not answered is over in time', async () => {
    expect(await look('')).toMatchObject({ kind: 'ambiguous', phase: 'headers', cause: 'timeout' });
    expect(await get(`http://127.0.0.1:${await closedPort()}/x`)).toMatchObject({ kind: 'unsent', phase: 'connect', cause: 'ECONNREFUSED' });
  });

  it('on a socket that its peer has closed is begun anew', async () => {
    server = await startHostile((socket, nth) => void (nth === 0 ? socket.end(ofLength('{}')) : socket.write(ofLength('{"n":2}'))));
    const url = `http://127.0.0.1:${server.port}/x`;
    await get(url);
    expect(bodyOf(await get(url))).toBe('{"n":2}');
    expect(server.received).toHaveLength(2);
  });

  it('on a used socket that breaks under it is made anew, for it changes nothing there', async () => {
    let requests = 0;
    server = await startHostile((socket) => void (++requests === 2 ? socket.resetAndDestroy() : socket.write(ofLength(`{"n":${requests}}`))));
    const url = `http://127.0.0.1:${server.port}/x`;
    await get(url);
    expect(bodyOf(await get(url))).toBe('{"n":3}');
    // Only once, and not on a fresh one.
    await server.close();
    server = await startHostile((socket) => void socket.resetAndDestroy());
    expect(await get(`http://127.0.0.1:${server.port}/x`)).toMatchObject({ kind: 'ambiguous', reused: false });
    expect(server.received).toHaveLength(1);
  });

  it.each([
    ['http://169.254.169.254/latest/evt_1', 'unicast'],
    ['http://10.0.0.1/evt_1', 'private'],
    ['http://[::1]/evt_1', 'loopback'],
    ['http://metadata.example/evt_1', 'unicast'],
  ])('to %s is refused, and nothing is dialled', async (url) => {
    const guarded = createUndiciHttp({
      egress: { ...defaultEgress, http: true }, nowEpochMs: () => 0,
      resolve: () => Promise.resolve([{ address: '169.254.169.254' }]),
      dial: (address) => {
        dialled.push(address);
        throw new Error('nothing is dialled');
      },
    });
    const outcome = await guarded.get({ url: new URL(url), headers: {}, budgetsMs, endpointId: 'acme', version: 'V1', remainingMs: () => Infinity });
    expect(outcome).toMatchObject({ kind: 'unsent', phase: 'address', cause: expect.stringMatching(/^refused: /) as string });
    expect(dialled).toEqual([]);
    guarded.close();
  });

  it('by a scheme that the stage forbids is no request at all', async () => {
    const strict = createUndiciHttp({ egress: defaultEgress, nowEpochMs: () => 0 });
    const outcome = await strict.get({ url: new URL('http://hooks.example.com/x'), headers: {}, budgetsMs, endpointId: 'acme', version: 'V1', remainingMs: () => Infinity });
    expect(outcome).toMatchObject({ kind: 'invalidConfiguration' });
    strict.close();
  });
});

describe('an endpoint that is delivered at one host and looked up at another', () => {
  const seen: string[] = [];
  const servers: HostileServer[] = [];
  const portOf: Record<string, number> = {};
  beforeEach(async () => {
    seen.splice(0);
    for (const host of ['127.0.0.1', '127.0.0.2']) {
      const started = await startHostile((socket) => {
        seen.push(`${host}: ${started.received.map(String).join('').match(/(GET|POST) \S+/g)?.at(-1) ?? ''}`);
        socket.write(ofLength('{}', host === '127.0.0.2' ? '404 Not Found' : '200 OK'));
      }, { host });
      servers.push(started);
      portOf[host] = started.port;
    }
    http.close();
    http = createUndiciHttp({
      egress: { ...defaultEgress, allow: ['127.0.0.0/8'], http: true }, nowEpochMs: () => 0,
      resolve: (name) => Promise.resolve([{ address: name.startsWith('look') ? '127.0.0.2' : '127.0.0.1' }]),
      // Told apart by their address alone, as names that lead to port 443 are.
      dial: (address) => net.connect({ host: address, port: portOf[address] ?? 0 }),
    });
  });
  afterEach(() => Promise.all(servers.splice(0).map((one) => one.close())));
  const post = (url: string) => http.post({ url: new URL(url), headers: { authorization: 'Bearer secret' }, body: Buffer.from('{}'), budgetsMs, endpointId: 'acme', version: 'V1', remainingMs: () => Infinity, freshTry: false });

  it('has no delivery go where it was looked up, over the socket that the look has left', async () => {
    expect(await get('http://look.example.com/effects/evt_1')).toMatchObject({ status: 404 });
    expect(await post('http://hooks.example.com/in')).toMatchObject({ status: 200 });
    expect(seen).toEqual(['127.0.0.2: GET /effects/evt_1', '127.0.0.1: POST /in']);
  });

  it('is not looked up where it was delivered: what that host does not know proves nothing', async () => {
    await post('http://hooks.example.com/in');
    expect(await get('http://look.example.com/effects/evt_1')).toMatchObject({ status: 404 });
    expect(seen).toEqual(['127.0.0.1: POST /in', '127.0.0.2: GET /effects/evt_1']);
  });

  it('sends nothing in clear over a socket of a look by http', async () => {
    await get('http://hooks.example.com/effects/evt_1');
    expect(await post('https://hooks.example.com/in')).toMatchObject({ kind: 'unsent', phase: 'tls' });
    expect(seen).toEqual(['127.0.0.1: GET /effects/evt_1']);
  });
});

describe('the id that an answer to a delivery returns', () => {
  const post = async (head: string, referenceHeader?: string) => {
    server = await startHostile((socket) => void socket.write(`HTTP/1.1 503 No\r\nContent-Length: 0\r\n${head}\r\n`));
    const url = new URL(`http://127.0.0.1:${server.port}/in`);
    return http.post({ url, headers: {}, body: Buffer.from('{}'), budgetsMs, endpointId: 'acme', version: 'V1', remainingMs: () => Infinity, freshTry: true, ...(referenceHeader === undefined ? {} : { referenceHeader }) });
  };
  it.each([
    ['X-Order-Id: ord_1\r\n', 'ord_1'],
    ['x-order-id:   ord_1  \r\n', 'ord_1'],
    ['X-Order-Id: ord_1\r\nX-Order-Id: ord_2\r\n', undefined],
    ['X-Order-Id: ..\r\n', undefined],
    ['X-Order-Id: a b\r\n', undefined],
    [`X-Order-Id: ${'x'.repeat(201)}\r\n`, undefined],
    ['', undefined],
  ])('%j: %s', async (head, reference) => {
    const outcome = await post(head, 'X-Order-ID');
    expect(outcome).toMatchObject({ kind: 'answered', status: 503 });
    expect(outcome.kind === 'answered' ? outcome.reference : undefined).toBe(reference);
    expect('body' in outcome).toBe(false);
  });
  it('is not looked for where nobody asks', async () => {
    expect(await post('X-Order-Id: ord_1\r\n')).not.toHaveProperty('reference');
  });
});
