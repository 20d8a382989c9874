/** Names, by a resolver of the test's own, through the whole client: each answer is an outcome of its own (T2, T8). */
import net from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createUndiciHttp, type HttpOptions, type UndiciHttp } from '../../lambdas/shared/adapters/undici-http.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { startHostile, type HostileServer } from '../support/hostile-server.ts';

const budgetsMs = { connection: 300, setup: 300, write: 300, read: 300, total: 1_000 };
const timing = { durationMs: expect.any(Number) as number, reused: false };
const spent = expect.any(Number) as number;
const loopback = { ...defaultEgress, allow: ['127.0.0.0/8', '::1/128'], http: true };
const failing = (code: string) => () => Promise.reject(Object.assign(new Error('no'), { code }));
const answering = (...addresses: string[]) => () => Promise.resolve(addresses.map((address) => ({ address })));

let client: UndiciHttp;
let server: HostileServer | undefined;
afterEach(async () => {
  client.close();
  await server?.close();
  server = undefined;
});

/** A client for attempts to a name. Nothing far is ever dialled: what is not loopback is a socket that never connects. */
async function clientWith(options: Partial<HttpOptions>) {
  server = await startHostile((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'), { host: '::' });
  const { port } = server;
  const dialled: string[] = [];
  const dial = (address: string) => {
    dialled.push(address);
    return /^(127\.|::1$)/.test(address) ? net.connect(port, address) : new net.Socket();
  };
  client = createUndiciHttp({ egress: loopback, nowEpochMs: () => Date.now(), dial, ...options });
  const request = { url: new URL(`http://hooks.example.com:${port}/`), headers: {}, body: Buffer.from('{}'), endpointId: 'acme', version: 'V1', remainingMs: () => Infinity, freshTry: true };
  return { dialled, port, post: (more: Partial<typeof budgetsMs> = {}) => client.post({ ...request, budgetsMs: { ...budgetsMs, ...more } }) };
}

describe('a host name', () => {
  it.each<[string, HttpOptions['resolve'] & object, string, string]>([
    ['that does not exist', failing('ENOTFOUND'), 'dns', 'ENOTFOUND'],
    ['that the resolver cannot tell now', failing('EAI_AGAIN'), 'dns', 'EAI_AGAIN'],
    ['that is never answered', () => new Promise(() => undefined), 'dns', 'timeout'],
    ['without an address', answering(), 'dns', 'no address'],
    ['that is loopback where the stage does not allow it', answering('127.0.0.1'), 'address', 'refused: loopback'],
    ['of which one address of several is private', answering('203.0.114.1', '203.0.114.2', '10.1.2.3'), 'address', 'refused: private'],
    ['that is the metadata service', answering('169.254.169.254'), 'address', 'refused: linkLocal'],
    ['that is what a resolver should never say', answering('not an address'), 'address', 'refused: not an IP address'],
  ])('%s: nothing is dialled, nothing sent, and the phase says why', async (_why, resolve, phase, cause) => {
    const { post, dialled } = await clientWith({ resolve, egress: { ...defaultEgress, http: true } });
    expect(await post()).toEqual({ kind: 'unsent', phase, cause, ...timing, phasesMs: { connection: spent, dns: spent } });
    expect([dialled, server?.received]).toEqual([[], []]);
  });

  it('whose addresses do not answer: the time goes to the phase of connecting', async () => {
    const { post, dialled } = await clientWith({ resolve: answering('203.0.114.1', '203.0.114.2') });
    expect(await post()).toEqual({ kind: 'unsent', phase: 'connect', cause: 'timeout', ...timing, phasesMs: { connection: spent, dns: spent, connect: spent } });
    expect(dialled).toEqual(['203.0.114.1', '203.0.114.2']);
  });

  it('with IPv6 addresses only is reached, and told the name', async () => {
    const { post, dialled, port } = await clientWith({ resolve: answering('::1') });
    expect(await post()).toMatchObject({ kind: 'answered', status: 200 });
    expect(dialled).toEqual(['::1']);
    expect(server?.received[0]?.toString()).toContain(`\r\nhost: hooks.example.com:${port}\r\n`);
  });

  it('whose IPv6 address is dead is reached over IPv4, within the same budget', async () => {
    const { post, dialled } = await clientWith({ resolve: answering('2606:4700::1', '127.0.0.1') });
    expect(await post({ setup: 3_000, total: 5_000 })).toMatchObject({ kind: 'answered', status: 200 });
    expect(dialled).toEqual(['2606:4700::1', '127.0.0.1']);
  });

  it('that turns from a good address to a bad one between two answers: caught at the next connect, while an open socket keeps its judged address', async () => {
    const answers = [['127.0.0.1'], ['169.254.169.254']];
    const resolve = () => Promise.resolve((answers.shift() ?? []).map((address) => ({ address })));
    const { post, dialled } = await clientWith({ resolve });
    expect(await post()).toMatchObject({ kind: 'answered', reused: false });
    expect(await post()).toMatchObject({ kind: 'answered', reused: true });
    client.close();
    expect(await post()).toMatchObject({ kind: 'unsent', phase: 'address', cause: 'refused: linkLocal' });
    expect(dialled).toEqual(['127.0.0.1']);
  });
});
