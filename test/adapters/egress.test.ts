/** The guard where it sits, inside the connector. Tests that name far addresses dial nothing: a dialer records them. */
import net from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createEgress, type EgressOptions } from '../../lambdas/shared/adapters/egress.ts';
import type { Spare } from '../../lambdas/shared/adapters/connect-first.ts';
import { SetupError } from '../../lambdas/shared/adapters/setup-error.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { sockets } from '../../lambdas/shared/limits/numbers.ts';
import { startHostile, type HostileServer } from '../support/hostile-server.ts';

const loopback = { ...defaultEgress, allow: ['127.0.0.0/8', '::1/128'], http: true };
let server: HostileServer | undefined;
const opened: net.Socket[] = [];
afterEach(async () => {
  for (const socket of opened.splice(0)) socket.destroy();
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

/** A dialer that remembers what it was to dial, and by script leads to `server`, refuses, or stays silent. */
function dialerOf(behaviour: (address: string) => 'server' | 'refused' | 'silent') {
  const dialled: string[] = [];
  return {
    dialled,
    dial: (address: string): net.Socket => {
      dialled.push(address);
      const what = behaviour(address);
      if (what === 'server') return net.connect(server?.port ?? 0, address);
      const socket = new net.Socket();
      if (what === 'refused') process.nextTick(() => socket.destroy(Object.assign(new Error('no'), { code: 'ECONNREFUSED' })));
      opened.push(socket);
      return socket;
    },
  };
}

/** Connects, and gives the socket or the refusal, with the phases that were begun. */
async function connect(url: string, options: Partial<EgressOptions>, budgetMs = 1_000, spare: Spare = () => () => undefined) {
  const phases: string[] = [];
  try {
    const socket = await createEgress({ rules: loopback, ...options })(new URL(url), budgetMs, (phase) => phases.push(phase), spare);
    opened.push(socket);
    return { phases, peer: socket.remoteAddress };
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    return { phases, refused: `${error.phase} ${error.message}` };
  }
}

const listening = async () => (server = await startHostile(() => undefined));
const urlOf = (host: string) => `http://${host}:${server?.port ?? 80}/`;

describe('the egress guard', () => {
  it('dials the address that was judged', async () => {
    await listening();
    const resolver = resolverOf(['127.0.0.1']);
    expect(await connect(urlOf('hooks.example.com'), resolver)).toEqual({ phases: ['dns', 'connect'], peer: '127.0.0.1' });
    expect(resolver.asked).toEqual(['hooks.example.com']);
  });

  it.each([
    ['the only answer is loopback', ['127.0.0.1'], []],
    ['the first of two answers is private', ['10.0.0.1', '203.0.114.1'], []],
    ['the last of two answers is private', ['203.0.114.1', '10.0.0.1'], []],
    ['the last of many answers is private', [...Array.from({ length: 20 }, (_, i) => `203.0.114.${i + 1}`), '10.0.0.1'], []],
    ['one of two answers is the metadata service', ['127.0.0.1', '169.254.169.254'], loopback.allow],
    ['one of two answers is unique-local', ['203.0.114.1', 'fd00::1'], []],
    ['one of two answers is NAT64', ['127.0.0.1', '64:ff9b::a00:1'], loopback.allow],
    ['one of two answers is no address', ['127.0.0.1', 'localhost'], loopback.allow],
    // The dial would resolve these once more, to something that nobody judged.
    ['an answer is an address in one number', ['134744072'], []],
    ['an answer is an address in octal', ['010.8.8.8'], []],
    ['an answer is a short form', ['8.8'], []],
  ])('refuses the whole host where %s, and dials nothing', async (_why, answers, allow) => {
    const dialer = dialerOf(() => 'silent');
    const { refused } = await connect('http://hooks.example.com/', { ...resolverOf(answers), ...dialer, rules: { ...loopback, allow } });
    expect([refused, dialer.dialled]).toEqual([expect.stringMatching(/^address refused: /), []]);
  });

  it.each(['127.0.0.1', '[::1]', '[::ffff:7f00:1]', '2130706433', '0x7f.1', '169.254.169.254', '[fd00:ec2::254]', '10.0.0.1'])('judges the literal %s without any resolver', async (host) => {
    const [resolver, dialer] = [resolverOf(['8.8.8.8']), dialerOf(() => 'silent')];
    const { phases, refused } = await connect(`http://${host}/`, { ...resolver, ...dialer, rules: defaultEgress });
    expect([phases, refused, resolver.asked, dialer.dialled]).toEqual([[], expect.stringMatching(/^address refused: /), [], []]);
  });

  it('judges anew on each connect: a name that turns to another address is caught', async () => {
    const resolver = resolverOf(['203.0.114.1'], ['169.254.169.254']);
    const dialer = dialerOf(() => 'refused');
    const options = { ...resolver, ...dialer, rules: defaultEgress };
    expect((await connect('http://rebind.example/', options)).refused).toBe('connect ECONNREFUSED');
    expect((await connect('http://rebind.example/', options)).refused).toBe('address refused: linkLocal');
    expect([resolver.asked.length, dialer.dialled]).toEqual([2, ['203.0.114.1']]);
  });

  it('resolves once for a connect, so that no second answer can differ from the judged one', async () => {
    await listening();
    const resolver = resolverOf(['127.0.0.1'], ['10.0.0.1']);
    expect((await connect(urlOf('rebind.example'), resolver)).peer).toBe('127.0.0.1');
    expect(resolver.asked).toHaveLength(1);
  });

  it('gives up a connection whose peer is not the address that was dialled', async () => {
    await listening();
    // As by a rule of the host's own that redirects connections.
    const { refused } = await connect(urlOf('hooks.example.com'), { ...resolverOf(['127.0.0.2']), dial: () => net.connect(server?.port ?? 0, '127.0.0.1') });
    expect(refused).toBe('address refused: connected to another address than was judged');
  });

  it.each<[string, EgressOptions['resolve'] & object, string]>([
    ['a name that does not exist', () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' })), 'dns ENOTFOUND'],
    ['a resolver that fails', () => Promise.reject(Object.assign(new Error('no'), { code: 'EAI_AGAIN' })), 'dns EAI_AGAIN'],
    ['a name without addresses', () => Promise.resolve([]), 'dns no address'],
    ['a resolver that never answers', () => new Promise(() => undefined), 'dns timeout'],
  ])('%s is a fault of DNS', async (_why, resolve, message) => {
    const startedMs = performance.now();
    expect(await connect('http://hooks.example.com/', { resolve }, 200)).toEqual({ phases: ['dns'], refused: message });
    expect(performance.now() - startedMs).toBeLessThan(3_000);
  });

  it('reaches a host that has IPv6 addresses only', async () => {
    server = await startHostile(() => undefined, { host: '::1' });
    expect((await connect(urlOf('v6.example'), resolverOf(['::1']))).peer).toBe('::1');
  });
});

describe('several addresses', () => {
  it('are tried in both families by turns, up to a bound', async () => {
    const dialer = dialerOf(() => 'refused');
    const v4 = Array.from({ length: 6 }, (_, i) => `203.0.114.${i + 1}`);
    const resolver = resolverOf(['2606:4700::1', ...v4, '2606:4700::2']);
    expect((await connect('http://hooks.example.com/', { ...resolver, ...dialer })).refused).toBe('connect ECONNREFUSED');
    expect(dialer.dialled).toEqual(['2606:4700::1', '203.0.114.1', '2606:4700::2', '203.0.114.2', '203.0.114.3', '203.0.114.4']);
    expect(dialer.dialled).toHaveLength(sockets.maxAddresses);
  });

  it('reach the host over the one that works: after a refusal at once, after silence with the stagger', async () => {
    await listening();
    const startedMs = performance.now();
    const behaviour = { '127.0.0.2': 'refused', '127.0.0.3': 'silent', '127.0.0.1': 'server' } as const;
    const dialer = dialerOf((address) => behaviour[address as keyof typeof behaviour]);
    expect((await connect(urlOf('hooks.example.com'), { ...resolverOf(['127.0.0.2', '127.0.0.3', '127.0.0.1']), ...dialer })).peer).toBe('127.0.0.1');
    expect(dialer.dialled).toEqual(['127.0.0.2', '127.0.0.3', '127.0.0.1']);
    expect(performance.now() - startedMs).toBeGreaterThan(sockets.staggerMs - 50);
    // The silent one is not left open.
    expect(opened.filter((socket) => !socket.destroyed && socket.remoteAddress === undefined)).toEqual([]);
  });

  it('are not given up after the stagger: the first, slow one may be the only one that works', async () => {
    await listening();
    const late = new net.Socket();
    opened.push(late);
    const dialer = dialerOf(() => 'silent');
    const connected = connect(urlOf('hooks.example.com'), {
      ...resolverOf(['127.0.0.1', '127.0.0.2']),
      dial: (address) => (address === '127.0.0.1' ? late : dialer.dial(address)),
    });
    await expect.poll(() => dialer.dialled).toEqual(['127.0.0.2']);
    late.connect(server?.port ?? 0, '127.0.0.1');
    expect((await connected).peer).toBe('127.0.0.1');
  });

  it('that all stay silent end with the budget', async () => {
    const startedMs = performance.now();
    const dialer = dialerOf(() => 'silent');
    expect((await connect('http://hooks.example.com/', { ...resolverOf(['203.0.114.1', '203.0.114.2']), ...dialer }, 400)).refused).toBe('connect timeout');
    expect(performance.now() - startedMs).toBeLessThan(3_000);
    expect(opened.every((socket) => socket.destroyed)).toBe(true);
  });

  it('that cannot be dialled at all end as a fault of connecting, and bring nothing down', async () => {
    const throwing = () => {
      throw Object.assign(new Error('no'), { code: 'EMFILE' });
    };
    expect((await connect('http://hooks.example.com/', { ...resolverOf(['203.0.114.1', '203.0.114.2']), dial: throwing })).refused).toBe('connect EMFILE');
    // Only the second, and that behind the stagger.
    const dialer = dialerOf(() => 'silent');
    const dial = (address: string) => (address === '203.0.114.1' ? dialer.dial(address) : throwing());
    expect((await connect('http://hooks.example.com/', { ...resolverOf(['203.0.114.1', '203.0.114.2']), dial }, 500)).refused).toBe('connect timeout');
  });

  it('of which one is reset as it is accepted: a fault of connecting, no matter of the guard', async () => {
    const reset = () => {
      const socket = new net.Socket();
      process.nextTick(() => socket.emit('connect'));
      return socket;
    };
    expect((await connect('http://hooks.example.com/', { ...resolverOf(['203.0.114.1']), dial: reset })).refused).toBe('connect ECONNRESET');
  });

  it('are tried side by side only while there is room: else the one that is silent longest gives way', async () => {
    await listening();
    let [rooms, given] = [1, 0];
    const spare = () => (rooms === 0 ? undefined : (rooms--, () => void given++));
    const dialer = dialerOf((address) => (address === '127.0.0.1' ? 'server' : 'silent'));
    const { peer } = await connect(urlOf('hooks.example.com'), { ...resolverOf(['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.1']), ...dialer }, 3_000, spare);
    expect([peer, dialer.dialled.length, given]).toEqual(['127.0.0.1', 4, 1]);
  });
});
