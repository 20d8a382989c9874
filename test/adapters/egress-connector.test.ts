import { Pool, type Dispatcher } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { egressConnector, SetupError, type EgressOptions } from '../../lambdas/shared/adapters/egress-connector.ts';
import { startHostile, type HostileServer } from '../support/hostile-server.ts';

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';
const loopback = ['127.0.0.0/8'];
let server: HostileServer | undefined;
const pools: Pool[] = [];
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.destroy()));
  await server?.close();
  server = undefined;
});

/** A resolver that remembers what it was asked, and answers by script. */
function resolverOf(...answers: string[][]) {
  const asked: string[] = [];
  return {
    asked,
    resolve: (hostname: string) => {
      asked.push(hostname);
      return Promise.resolve((answers[asked.length - 1] ?? answers.at(-1) ?? []).map((address) => ({ address })));
    },
  };
}

async function poolOf(host: string, options: Partial<EgressOptions>): Promise<Pool> {
  server ??= await startHostile((socket) => socket.write(ok));
  const pool = new Pool(`http://${host}:${server.port}`, { connect: egressConnector({ allowed: loopback, setupMs: 1_000, ...options }), connections: 1 });
  pools.push(pool);
  return pool;
}

const request = async (pool: Pool): Promise<Dispatcher.ResponseData> => {
  const answer = await pool.request({ method: 'POST', path: '/', body: 'x' });
  await answer.body.dump();
  return answer;
};

async function refusal(pool: Pool): Promise<{ phase: string; message: string }> {
  const error = await request(pool).then(() => undefined, (e: unknown) => e);
  if (!(error instanceof SetupError)) throw new Error(`expected a SetupError, got ${String(error)}`);
  return { phase: error.phase, message: error.message };
}

describe('egressConnector', () => {
  it('dials the address that was judged, and keeps the host name', async () => {
    const resolver = resolverOf(['127.0.0.1']);
    const pool = await poolOf('hooks.example.com', resolver);
    expect((await request(pool)).statusCode).toBe(200);
    expect(resolver.asked).toEqual(['hooks.example.com']);
    expect(server?.received[0]?.toString()).toContain(`host: hooks.example.com:${server?.port}`);
  });

  it.each([
    ['the only answer is loopback', ['127.0.0.1'], []],
    ['the first of two answers is private', ['10.0.0.1', '127.0.0.1'], loopback],
    ['the last of two answers is private', ['127.0.0.1', '10.0.0.1'], loopback],
    ['one of two answers is the metadata service', ['127.0.0.1', '169.254.169.254'], loopback],
    ['one of two answers is IPv6 loopback', ['127.0.0.1', '::1'], loopback],
    ['one of two answers is no address', ['127.0.0.1', 'localhost'], loopback],
  ])('refuses the whole host where %s, and dials nothing', async (_why, answers, allowed) => {
    const pool = await poolOf('hooks.example.com', { ...resolverOf(answers), allowed });
    expect(await refusal(pool)).toMatchObject({ phase: 'address', message: expect.stringMatching(/^refused: /) as string });
    expect(server?.received).toHaveLength(0);
  });

  it('judges a literal without any resolver', async () => {
    const resolver = resolverOf(['8.8.8.8']);
    const pool = await poolOf('127.0.0.1', { ...resolver, allowed: [] });
    expect(await refusal(pool)).toEqual({ phase: 'address', message: 'refused: loopback' });
    const bracketed = await poolOf('[::1]', { ...resolver, allowed: [] });
    expect(await refusal(bracketed)).toEqual({ phase: 'address', message: 'refused: loopback' });
    expect([resolver.asked, server?.received]).toEqual([[], []]);
  });

  it('judges anew on each connect: a name that turns to a private address is caught', async () => {
    const resolver = resolverOf(['127.0.0.1'], ['10.0.0.1']);
    server = await startHostile((socket) => socket.end(`${ok.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')}`));
    const pool = await poolOf('rebind.example', resolver);
    expect((await request(pool)).statusCode).toBe(200);
    expect(await refusal(pool)).toMatchObject({ phase: 'address' });
    expect([resolver.asked.length, server.received.length]).toEqual([2, 1]);
  });

  it.each<[string, EgressOptions['resolve'] & object, string]>([
    ['a name that does not exist', () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' })), 'ENOTFOUND'],
    ['a name without addresses', () => Promise.resolve([]), 'no address'],
    ['a resolver that never answers', () => new Promise(() => undefined), 'timeout'],
  ])('%s is a fault of DNS', async (_why, resolve, message) => {
    const startedMs = performance.now();
    expect(await refusal(await poolOf('hooks.example.com', { resolve, setupMs: 200 }))).toEqual({ phase: 'dns', message });
    expect(performance.now() - startedMs).toBeLessThan(3_000);
  });
});
