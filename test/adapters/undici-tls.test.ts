/** TLS on real sockets: verification is always on, against the name that was asked for. */
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import selfsigned from 'selfsigned';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createUndiciHttp } from '../../lambdas/shared/adapters/undici-http.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { startHostile, type HostileServer } from '../support/hostile-server.ts';

const budgetsMs = { connection: 500, setup: 500, write: 500, read: 500, total: 2_000 };
const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';
const common = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;
const timing = { durationMs: expect.any(Number) as number, phasesMs: expect.any(Object) as object, reused: false };

const of = (endpointId: string) => ({ endpointId, version: 'V1', remainingMs: () => Infinity, freshTry: true });

type Pair = Awaited<ReturnType<typeof selfsigned.generate>>;
let authority: Pair;
const original = getCACertificates('default');
const http = createUndiciHttp({ egress: { ...defaultEgress, allow: ['127.0.0.0/8', '::1/128'] }, nowEpochMs: () => 0 });
let server: HostileServer | undefined;

beforeAll(async () => {
  authority = await selfsigned.generate([{ name: 'commonName', value: 'Test CA' }], {
    ...common,
    extensions: [{ name: 'basicConstraints', cA: true, critical: true }, { name: 'keyUsage', keyCertSign: true, critical: true }],
  });
  setDefaultCACertificates([...original, authority.cert]);
});
afterAll(() => {
  setDefaultCACertificates(original);
  http.close();
});
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const issue = (names: readonly string[], more: object = {}) =>
  selfsigned.generate([{ name: 'commonName', value: 'server' }], {
    ...common,
    ca: { key: authority.private, cert: authority.cert },
    extensions: [{ name: 'subjectAltName', altNames: names.map((value) => ({ type: 2 as const, value })) }],
    ...more,
  });

async function postTo(pair: Pair, host: string) {
  // Listening on the name itself, for it may stand for ::1 first.
  server = await startHostile((socket) => socket.write(ok), { host, tls: { key: pair.private, cert: pair.cert } });
  return http.post({ url: new URL(`https://${host}:${server.port}/`), headers: {}, body: Buffer.from('x'), budgetsMs, ...of(`${host}-${server.port}`) });
}

describe('a certificate', () => {
  it('of a known authority for the name that was asked for is accepted', async () => {
    expect(await postTo(await issue(['localhost']), 'localhost')).toMatchObject({ kind: 'answered', status: 200 });
  });

  it.each<[string, string, () => Promise<Pair>, string]>([
    ['for another name', 'localhost', () => issue(['other.example']), 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['for a name, where an address was asked for', '127.0.0.1', () => issue(['localhost']), 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['that has expired', 'localhost', () => issue(['localhost'], { notBeforeDate: new Date('2024-01-01'), notAfterDate: new Date('2024-02-01') }), 'CERT_HAS_EXPIRED'],
    ['that signed itself', 'localhost', () => selfsigned.generate([{ name: 'commonName', value: 'localhost' }], common), 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ])('%s is refused, and nothing was sent', async (_why, host, pair, cause) => {
    expect(await postTo(await pair(), host)).toEqual({ kind: 'unsent', phase: 'tls', cause, ...timing });
    expect(server?.received.every((bytes) => bytes.length === 0)).toBe(true);
  });
});

describe('verification', () => {
  const envName = 'NODE_TLS_REJECT_UNAUTHORIZED';
  afterEach(() => void delete process.env[envName]);

  it('cannot be switched off by the environment', async () => {
    process.env[envName] = '0';
    const pair = await selfsigned.generate([{ name: 'commonName', value: 'localhost' }], common);
    expect(await postTo(pair, 'localhost')).toMatchObject({ kind: 'unsent', phase: 'tls', cause: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
    expect(await postTo(await issue(['other.example']), 'localhost')).toMatchObject({ kind: 'unsent', phase: 'tls', cause: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  });

  it('is against the name of the URL, which the peer is told as well, whatever address it leads to', async () => {
    const pair = await issue(['hooks.example.com']);
    const names: unknown[] = [];
    server = await startHostile((socket) => {
      names.push((socket as TLSSocket & { servername?: unknown }).servername);
      socket.write(ok);
    }, { tls: { key: pair.private, cert: pair.cert } });
    const { port } = server;
    const named = createUndiciHttp({ egress: { ...defaultEgress, allow: ['127.0.0.0/8'] }, nowEpochMs: () => 0, resolve: () => Promise.resolve([{ address: '127.0.0.1' }]) });
    const post = (host: string) => named.post({ url: new URL(`https://${host}:${port}/`), headers: {}, body: Buffer.from('x'), budgetsMs, ...of(host.replaceAll('.', '-')) });
    expect(await post('hooks.example.com')).toMatchObject({ kind: 'answered', status: 200 });
    expect(await post('elsewhere.example.com')).toMatchObject({ kind: 'unsent', phase: 'tls', cause: 'ERR_TLS_CERT_ALTNAME_INVALID' });
    expect(names).toEqual(['hooks.example.com']);
    expect(server.received[0]?.toString()).toContain(`\r\nhost: hooks.example.com:${port}\r\n`);
    named.close();
  });
});

describe('a peer that accepts and never starts TLS', () => {
  const stall = (more: object) =>
    http.post({ url: new URL(`https://127.0.0.1:${server?.port ?? 0}/`), headers: {}, body: Buffer.from('x'), budgetsMs: { ...budgetsMs, ...more }, ...of(JSON.stringify(more)) });

  it.each([
    ['shorter than', { connection: 100, setup: 400 }],
    ['as long as', { connection: 400, setup: 400 }],
    ['longer than', { connection: 800, setup: 400 }],
  ])('is unsent, and the endpoint\'s fault, with a wait for a socket %s the set-up', async (_how, budgets) => {
    server = await startHostile(() => undefined, {});
    const started = performance.now();
    // Not "no socket": that would be put back for ever, and nobody would be told.
    expect(await stall(budgets)).toEqual({ kind: 'unsent', phase: expect.stringMatching(/tls|connect/) as string, cause: 'timeout', ...timing });
    expect(performance.now() - started).toBeLessThan(3_000);
  });
});

describe('the sockets of a cold pool', () => {
  it('are set up together, and each request that had one in time says how that ended', async () => {
    server = await startHostile(() => undefined, {});
    const post = () => http.post({ url: new URL(`https://127.0.0.1:${server?.port ?? 0}/`), headers: {}, body: Buffer.from('x'), budgetsMs, ...of('cold') });
    const outcomes = await Promise.all(Array.from({ length: 8 }, post));
    expect(outcomes).toEqual(Array(8).fill({ kind: 'unsent', phase: 'tls', cause: 'timeout', ...timing }));
  });
});
