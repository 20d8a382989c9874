/** The client on real sockets: what it sends, when it uses a socket again, and how it waits. hostile.test.ts has the servers that misbehave. */
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createUndiciHttp } from '../../lambdas/shared/adapters/undici-http.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { sockets } from '../../lambdas/shared/limits/numbers.ts';
import type { HttpRequest } from '../../lambdas/shared/ports/index.ts';
import { closedPort, startHostile, type HostileServer } from '../support/hostile-server.ts';

const budgetsMs = { connection: 400, setup: 400, write: 400, read: 400, total: 1_500 };
const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi';
const timing = { durationMs: expect.any(Number) as number, phasesMs: expect.any(Object) as object, reused: expect.any(Boolean) as boolean };

let http: ReturnType<typeof createUndiciHttp>;
let nowEpochMs = 0;
let leftMs = Infinity;
let server: HostileServer | undefined;
beforeEach(() => {
  nowEpochMs = 0;
  http = createUndiciHttp({ egress: { ...defaultEgress, allow: ['127.0.0.0/8'], http: true }, nowEpochMs: () => nowEpochMs });
  leftMs = Infinity;
});
afterEach(async () => {
  http.close();
  await server?.close();
  server = undefined;
});

async function serve(...args: Parameters<typeof startHostile>): Promise<void> {
  server = await startHostile(...args);
}

async function post(more: Partial<HttpRequest> = {}) {
  const url = new URL(`http://127.0.0.1:${server?.port ?? 0}/in?a=1`);
  const startedMs = performance.now();
  const outcome = await http.post({ url, headers: { 'x-team': 'a' }, body: Buffer.from('{"é":1}'), budgetsMs, endpointId: 'acme', version: 'V1', remainingMs: () => leftMs, freshTry: true, ...more });
  return { outcome, elapsedMs: performance.now() - startedMs };
}

describe('a good answer', () => {
  it('is the status; of a success nothing else is kept', async () => {
    await serve((socket) => socket.write(ok));
    const { outcome, elapsedMs } = await post();
    expect(outcome).toEqual({ kind: 'answered', status: 200, bodyExcerpt: '', ...timing });
    expect(elapsedMs).toBeLessThan(10_000);
    const text = server?.received[0]?.toString() ?? '';
    expect(text).toMatch(/^POST \/in\?a=1 HTTP\/1\.1\r\n/);
    expect(text.endsWith('\r\n\r\n{"é":1}')).toBe(true);
    for (const name of ['host', 'content-length', 'x-team', 'user-agent', 'accept-encoding']) expect(text.match(new RegExp(`^${name}: `, 'gim'))).toHaveLength(1);
  });

  it('of a failure keeps 512 bytes', async () => {
    await serve((socket) => socket.write(`HTTP/1.1 503 No\r\nContent-Length: 600\r\n\r\n${'x'.repeat(600)}`));
    expect((await post()).outcome).toEqual({ kind: 'answered', status: 503, bodyExcerpt: 'x'.repeat(sockets.keptBodyBytes), ...timing });
  });

  it('is found behind an interim one', async () => {
    await serve((socket) => socket.write(`HTTP/1.1 103 Early Hints\r\n\r\n${ok}`));
    expect((await post()).outcome).toMatchObject({ kind: 'answered', status: 200 });
  });

  it.each([
    ['http://127.0.0.1:PORT/other?token=1', 'http://127.0.0.1:PORT'],
    ['https://user:secret@elsewhere.example:8443/a/b#c', 'https://elsewhere.example:8443'],
    ['/relative?token=1', 'http://127.0.0.1:PORT'],
    ['http://[', undefined],
    ['', 'http://127.0.0.1:PORT'],
  ])('that redirects to %s is not followed; of where it leads the origin is kept', async (location, origin) => {
    const at = (text: string) => text.replace('PORT', String(server?.port));
    await serve((socket) => socket.write(`HTTP/1.1 302 Found\r\nLocation: ${at(location)}\r\nContent-Length: 0\r\n\r\n`));
    const redirectsTo = origin === undefined ? {} : { redirectsTo: at(origin) };
    expect((await post()).outcome).toEqual({ kind: 'answered', status: 302, bodyExcerpt: '', ...redirectsTo, ...timing });
    expect(server?.received).toHaveLength(1);
    expect(server?.received[0]?.toString()).not.toContain('/other');
  });

  it('lets the socket be used again, until a freeze longer than its idle expiry', async () => {
    await serve((socket) => socket.write(ok));
    for (let i = 0; i < 6; i++) await post();
    expect(server?.received).toHaveLength(1);
    expect(http.sockets().hosts).toEqual({ [`127.0.0.1:${server?.port}`]: { requests: 6, reused: 5 } });
    nowEpochMs += sockets.idleMs + 1;
    expect((await post()).outcome).toMatchObject({ reused: false });
    expect(server?.received).toHaveLength(2);
  });

  it('is not shared between pool keys: another version of an endpoint connects anew', async () => {
    await serve((socket) => socket.write(ok));
    await post();
    await post({ version: 'V2' });
    expect(server?.received).toHaveLength(2);
  });
});

describe('a sender that was frozen while it waited for a socket', () => {
  it('sends nothing if less is left of the invocation than the request may take', async () => {
    await serve((socket) => socket.write(ok));
    const sent = post();
    leftMs = budgetsMs.total - 100;
    expect((await sent).outcome).toEqual({ kind: 'notStarted', why: 'no-time' });
    expect(server?.received.map(String).join('')).toBe('');
  });

  it('sends while its time lasts', async () => {
    await serve((socket) => socket.write(ok));
    const sent = post();
    leftMs = budgetsMs.total;
    expect((await sent).outcome).toMatchObject({ kind: 'answered', status: 200 });
  });
});

describe('a budget that runs out', () => {
  it('is the total, where that is less than what the phases would allow', async () => {
    await serve(() => undefined);
    const { outcome, elapsedMs } = await post({ budgetsMs: { ...budgetsMs, read: 20_000, total: 300 } });
    expect(outcome).toMatchObject({ kind: 'ambiguous', phase: 'headers', cause: 'timeout' });
    expect(elapsedMs).toBeLessThan(3_000);
  });

  it('of the reading covers head and body together', async () => {
    await serve((socket) => {
      setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n'), 1_000);
    });
    const { outcome } = await post({ budgetsMs: { ...budgetsMs, read: 2_000, total: 10_000 } });
    expect(outcome).toMatchObject({ kind: 'answered', status: 200, cut: 'body timeout' });
    expect((outcome as { phasesMs: { body: number } }).phasesMs.body).toBeLessThan(2_000);
  });

  it('while the loop stands still does not undo what had arrived by then', async () => {
    await serve((socket) => {
      socket.write(ok);
      for (const endMs = performance.now() + 2 * budgetsMs.read; performance.now() < endMs; );
    });
    expect((await post()).outcome).toMatchObject({ kind: 'answered', status: 200 });
  });

  it('leaves no connection, so that nothing is sent or heard later', async () => {
    const closed = Promise.withResolvers<void>();
    await serve((socket) => void socket.once('close', () => closed.resolve()));
    await post();
    await closed.promise;
    expect(http.sockets()).toMatchObject({ inUse: 0, idle: 0, pools: 0 });
  });
});

describe('nothing sent', () => {
  it('connection refused', async () => {
    const { outcome, elapsedMs } = await post({ url: new URL(`http://127.0.0.1:${await closedPort()}/`) });
    expect(outcome).toEqual({ kind: 'unsent', phase: 'connect', cause: 'ECONNREFUSED', ...timing });
    expect(elapsedMs).toBeLessThan(10_000);
  });

  it('an address that is not allowed, as a literal', async () => {
    await serve((socket) => socket.write(ok));
    http.close();
    http = createUndiciHttp({ egress: { ...defaultEgress, http: true }, nowEpochMs: () => 0 });
    expect((await post()).outcome).toEqual({ kind: 'unsent', phase: 'address', cause: 'refused: loopback', ...timing });
    expect((await post({ url: new URL('https://[::ffff:169.254.169.254]/'), endpointId: 'other' })).outcome).toMatchObject({ kind: 'unsent', phase: 'address', cause: 'refused: linkLocal' });
    expect(server?.received).toHaveLength(0);
  });

  it.each([
    ['a line break', { 'x-team': 'a\r\nx-admin: 1' }],
    ['a character beyond Latin-1', { 'x-team': '苗' }],
    ['a word for the connection itself', { expect: '100-continue' }],
  ])('a header with %s is a matter of configuration', async (_what, headers) => {
    await serve((socket) => socket.write(ok));
    expect((await post({ headers })).outcome).toEqual({ kind: 'invalidConfiguration', detail: expect.any(String) as string });
    expect(server?.received.map(String).join('')).toBe('');
  });

  it('plain http where the stage does not allow it, and a port that it does not list: nothing is dialled', async () => {
    await serve((socket) => socket.write(ok));
    const rules = { ...defaultEgress, allow: ['127.0.0.0/8'] };
    http = createUndiciHttp({ egress: rules, nowEpochMs: () => 0 });
    expect((await post()).outcome).toEqual({ kind: 'invalidConfiguration', detail: 'url: must be https, not http' });
    http = createUndiciHttp({ egress: { ...rules, http: true, ports: [443] }, nowEpochMs: () => 0 });
    expect((await post()).outcome).toEqual({ kind: 'invalidConfiguration', detail: `url: must use port 443, not ${server?.port}: this stage allows no other` });
    expect(server?.received).toHaveLength(0);
  });

  it('what may not begin once it has a socket: nothing is dialled, and the socket is another\'s', async () => {
    await serve((socket) => socket.write(ok));
    expect((await post({ mayBegin: () => Promise.resolve(false) })).outcome).toEqual({ kind: 'notStarted', why: 'not-allowed' });
    expect([server?.received.length, http.sockets()]).toMatchObject([0, { inUse: 0 }]);
    let asked = 0;
    expect((await post({ mayBegin: () => Promise.resolve(++asked === 1) })).outcome).toMatchObject({ kind: 'answered' });
    expect(asked).toBe(1);
  });

  it('no socket within the connection budget: nobody\'s fault, and it is never sent later', async () => {
    const held: Socket[] = [];
    await serve((socket) => void held.push(socket));
    const slow = { ...budgetsMs, read: 10_000, total: 10_000 };
    const first = Array.from({ length: sockets.perHost }, () => post({ budgetsMs: slow }));
    await expect.poll(() => held.length, { timeout: 5_000 }).toBe(sockets.perHost);
    const mayBegin = () => Promise.reject(new Error('asked without a socket'));
    const { outcome, elapsedMs } = await post({ mayBegin });
    expect(outcome).toEqual({ kind: 'notStarted', why: 'no-socket' });
    expect(elapsedMs).toBeGreaterThan(300);
    expect(elapsedMs).toBeLessThan(4_000);
    for (const socket of held) socket.write(ok);
    expect((await Promise.all(first)).map(({ outcome: { kind } }) => kind)).toEqual(Array(sockets.perHost).fill('answered'));
    await post();
    const requests = (server?.received ?? []).reduce((sum, bytes) => sum + bytes.toString().split('POST ').length - 1, 0);
    expect(requests).toBe(sockets.perHost + 1);
  });
});
