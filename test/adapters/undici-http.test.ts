/** Hostile servers on real sockets: each case asserts the exact outcome, and generously bounds the time it may take. */
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createUndiciHttp } from '../../lambdas/shared/adapters/undici-http.ts';
import { sockets } from '../../lambdas/shared/limits/numbers.ts';
import type { HttpRequest } from '../../lambdas/shared/ports/index.ts';
import { closedPort, startHostile, type HostileServer, type Script } from '../support/hostile-server.ts';

const budgetsMs = { connection: 400, setup: 400, write: 400, read: 400, total: 1_500 };
const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi';
const durationMs = expect.any(Number) as number;

let http: ReturnType<typeof createUndiciHttp>;
let nowEpochMs = 0;
let server: HostileServer | undefined;
beforeEach(() => {
  nowEpochMs = 0;
  http = createUndiciHttp({ allowed: ['127.0.0.0/8'], nowEpochMs: () => nowEpochMs });
});
afterEach(async () => {
  await http.close();
  await server?.close();
  server = undefined;
});

async function serve(...args: Parameters<typeof startHostile>): Promise<void> {
  server = await startHostile(...args);
}

async function post(more: Partial<HttpRequest> = {}) {
  const url = `http://127.0.0.1:${server?.port ?? 0}/in?a=1`;
  const startedMs = performance.now();
  const outcome = await http.post({ url, headers: { 'x-team': 'a' }, body: Buffer.from('{"é":1}'), budgetsMs, poolKey: 'k', ...more });
  return { outcome, elapsedMs: performance.now() - startedMs };
}

describe('a good answer', () => {
  it('is the status; of a success nothing else is kept', async () => {
    await serve((socket) => socket.write(ok));
    const { outcome, elapsedMs } = await post();
    expect(outcome).toEqual({ kind: 'answered', status: 200, bodyExcerpt: '', durationMs });
    expect(elapsedMs).toBeLessThan(10_000);
    const text = server?.received[0]?.toString() ?? '';
    expect(text).toMatch(/^POST \/in\?a=1 HTTP\/1\.1\r\n/);
    expect(text.endsWith('\r\n\r\n{"é":1}')).toBe(true);
    for (const name of ['host', 'content-length', 'x-team', 'user-agent', 'accept-encoding']) expect(text.match(new RegExp(`^${name}: `, 'gim'))).toHaveLength(1);
  });

  it('of a failure keeps 512 bytes', async () => {
    await serve((socket) => socket.write(`HTTP/1.1 503 No\r\nContent-Length: 600\r\n\r\n${'x'.repeat(600)}`));
    expect((await post()).outcome).toEqual({ kind: 'answered', status: 503, bodyExcerpt: 'x'.repeat(sockets.keptBodyBytes), durationMs });
  });

  it('is found behind an interim one', async () => {
    await serve((socket) => socket.write(`HTTP/1.1 103 Early Hints\r\n\r\n${ok}`));
    expect((await post()).outcome).toMatchObject({ kind: 'answered', status: 200 });
  });

  it('that redirects is not followed', async () => {
    await serve((socket) => socket.write(`HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:${server?.port ?? 0}/other\r\nContent-Length: 0\r\n\r\n`));
    expect((await post()).outcome).toEqual({ kind: 'answered', status: 302, bodyExcerpt: '', durationMs });
    expect(server?.received).toHaveLength(1);
    expect(server?.received[0]?.toString()).not.toContain('/other');
  });

  it('lets the socket be used again, until a freeze longer than its idle expiry', async () => {
    await serve((socket) => socket.write(ok));
    for (let i = 0; i < 6; i++) await post();
    const used = server?.received.length ?? 0;
    // Two: a request that is made as the answer before it arrives finds that socket not idle yet.
    expect(used).toBeLessThanOrEqual(2);
    nowEpochMs += sockets.idleMs + 1;
    await post();
    expect(server?.received).toHaveLength(used + 1);
  });

  it('is not shared between pool keys: another version of an endpoint connects anew', async () => {
    await serve((socket) => socket.write(ok));
    await post({ poolKey: 'acme@V1' });
    await post({ poolKey: 'acme@V2' });
    expect(server?.received).toHaveLength(2);
  });
});

describe('a sender that was frozen while it waited for a socket', () => {
  it('sends nothing if its time is over by the wall clock, whatever the monotonic one says', async () => {
    await serve((socket) => socket.write(ok));
    const sent = post();
    nowEpochMs += budgetsMs.connection + budgetsMs.total + 1;
    expect((await sent).outcome).toEqual({ kind: 'notStarted', why: 'no-socket' });
    expect(server?.received.map(String).join('')).toBe('');
  });

  it('sends while its time lasts', async () => {
    await serve((socket) => socket.write(ok));
    const sent = post();
    nowEpochMs += budgetsMs.connection + budgetsMs.total;
    expect((await sent).outcome).toMatchObject({ kind: 'answered', status: 200 });
  });
});

describe('a status wins over what comes after it', () => {
  it.each<[string, Script]>([
    ['a reset in mid-body', (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc', () => setImmediate(() => socket.resetAndDestroy()))],
    ['a close in mid-body', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc')],
    ['a body that does not come', (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n')],
    ['a broken chunk', (socket) => socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')],
    ['a body that never ends', (socket) => flood(socket, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '1\r\nx\r\n', 20)],
    ['a body far above the cap', (socket) => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n${'x'.repeat(200_000)}`)],
  ])('%s', async (_why, script) => {
    await serve(script);
    const { outcome, elapsedMs } = await post();
    expect(outcome).toEqual({ kind: 'answered', status: 200, bodyExcerpt: '', durationMs });
    expect(elapsedMs).toBeLessThan(4_000);
  });

  it('a failure\'s too, with the part of the body that came', async () => {
    await serve((socket) => socket.write('HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\nabc', () => setImmediate(() => socket.resetAndDestroy())));
    expect((await post()).outcome).toEqual({ kind: 'answered', status: 500, bodyExcerpt: 'abc', durationMs });
  });

  it('an endless body costs no more than the cap, and its socket is not used again', async () => {
    let sentBytes = 0;
    await serve((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      const more = () => {
        while (!socket.destroyed && socket.write('x'.repeat(65_536))) sentBytes += 65_536;
        socket.once('drain', more);
      };
      more();
    });
    expect((await post()).outcome).toMatchObject({ kind: 'answered', status: 200 });
    await post();
    expect(server?.received).toHaveLength(2);
    expect(sentBytes).toBeLessThan(50_000_000);
  });
});

describe('no status after bytes were sent is ambiguous', () => {
  it.each<[string, string, Script]>([
    ['silence', 'timeout', () => undefined],
    ['headers that drip byte by byte', 'timeout', (socket) => drip(socket, `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(500)}`)],
    ['a close before the headers', 'UND_ERR_SOCKET', (socket) => socket.end()],
    ['a close amid the status line', 'UND_ERR_SOCKET', (socket) => socket.end('HTTP/1.1 2')],
    ['a reset', 'ECONNRESET', (socket) => socket.resetAndDestroy()],
    ['what is not HTTP', 'HTTPParserError', (socket) => socket.write('SMTP ready\r\n')],
  ])('%s', async (_why, cause, script) => {
    await serve(script);
    const { outcome, elapsedMs } = await post();
    expect(outcome).toEqual({ kind: 'ambiguous', phase: 'headers', cause, durationMs });
    expect(elapsedMs).toBeLessThan(3_000);
  });

  it('a request that cannot be written in time', async () => {
    await serve(() => undefined, { onConnect: (socket) => void socket.pause() });
    const { outcome, elapsedMs } = await post({ body: Buffer.alloc(50_000_000, 'x') });
    expect(outcome).toMatchObject({ kind: 'ambiguous', cause: 'timeout' });
    expect(elapsedMs).toBeLessThan(3_000);
  });

  it('the total cuts what the phases would allow', async () => {
    await serve(() => undefined);
    const { outcome, elapsedMs } = await post({ budgetsMs: { ...budgetsMs, read: 20_000, total: 300 } });
    expect(outcome).toMatchObject({ kind: 'ambiguous', phase: 'headers', cause: 'timeout' });
    expect(elapsedMs).toBeLessThan(3_000);
  });

  it('and the connection is gone by then, so that nothing is sent or heard later', async () => {
    const closed = Promise.withResolvers<void>();
    await serve((socket) => void socket.once('close', () => closed.resolve()));
    await post();
    await closed.promise;
  });
});

describe('nothing sent', () => {
  it('connection refused', async () => {
    const { outcome, elapsedMs } = await post({ url: `http://127.0.0.1:${await closedPort()}/` });
    expect(outcome).toEqual({ kind: 'unsent', phase: 'connect', cause: 'ECONNREFUSED', durationMs });
    expect(elapsedMs).toBeLessThan(10_000);
  });

  it('an address that is not allowed, as a literal', async () => {
    await serve((socket) => socket.write(ok));
    await http.close();
    http = createUndiciHttp({ allowed: [], nowEpochMs: () => 0 });
    expect((await post()).outcome).toEqual({ kind: 'unsent', phase: 'address', cause: 'refused: loopback', durationMs });
    expect((await post({ url: 'https://[::ffff:169.254.169.254]/', poolKey: 'm' })).outcome).toMatchObject({ kind: 'unsent', phase: 'address', cause: 'refused: linkLocal' });
    expect(server?.received).toHaveLength(0);
  });

  it.each([['a line break', 'a\r\nx-admin: 1'], ['a character beyond Latin-1', '苗']])('a header with %s is a matter of configuration', async (_why, value) => {
    await serve((socket) => socket.write(ok));
    expect((await post({ headers: { 'x-team': value } })).outcome).toEqual({ kind: 'invalidConfiguration', detail: expect.any(String) as string });
    expect(server?.received).toHaveLength(0);
  });

  it('an Expect header too', async () => {
    await serve((socket) => socket.write(ok));
    expect((await post({ headers: { expect: '100-continue' } })).outcome).toMatchObject({ kind: 'invalidConfiguration' });
  });

  it('no socket within the connection budget: nobody\'s fault, and it is never sent later', async () => {
    const held: Socket[] = [];
    await serve((socket) => void held.push(socket));
    const slow = { ...budgetsMs, read: 10_000, total: 10_000 };
    const first = Array.from({ length: sockets.perHost }, () => post({ budgetsMs: slow }));
    await expect.poll(() => held.length, { timeout: 5_000 }).toBe(sockets.perHost);
    const { outcome, elapsedMs } = await post();
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

/** Writes `text` byte by byte for as long as the socket lives. */
function drip(socket: Socket, text: string): void {
  const bytes = [...Buffer.from(text)];
  const timer = setInterval(() => {
    const byte = bytes.shift();
    if (byte === undefined || socket.destroyed) clearInterval(timer);
    else socket.write(Buffer.from([byte]));
  }, 20);
}

function flood(socket: Socket, head: string, chunk: string, everyMs: number): void {
  socket.write(head);
  const timer = setInterval(() => {
    if (socket.destroyed) clearInterval(timer);
    else socket.write(chunk);
  }, everyMs);
}
