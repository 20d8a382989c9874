/** The hostile kit keeps its promises on the wire, as a client sees them that judges nothing. */
import { gunzipSync } from 'node:zlib';
import type tls from 'node:tls';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createIssuer, type Issuer } from '../../local/authority.ts';
import { owedBy, type Scheme } from '../../local/hostile/behaviour.ts';
import { largeBytes } from '../../local/hostile/behaviours-silence.ts';
import { behaviourNamed, hostileBehaviours } from '../../local/hostile/behaviours.ts';
import { type Certificates, createCertificates } from '../../local/hostile/certificates.ts';
import { type HostileServer, startHostile } from '../../local/hostile/hostile-server.ts';
import { ambiguous, delivered, isOwed, outcomeText, unsent } from '../../local/hostile/outcomes.ts';
import { RequestCounter } from '../../local/hostile/request-counter.ts';
import { idSchema } from '../../lambdas/shared/limits/message-schema.ts';
import { RawClient } from '../support/raw-client.ts';

/** How long silence is listened to. */
const silenceMs = 100;

let issuer: Issuer;
let certificates: Certificates;
const servers: HostileServer[] = [];
const clients: RawClient[] = [];

beforeAll(async () => {
  issuer = await createIssuer();
  certificates = createCertificates(issuer);
});

/** Sockets and listeners of this process. */
const held = () => process.getActiveResourcesInfo().filter((name) => name.startsWith('TCP')).sort().join();
let heldBefore = '';
afterEach(async () => {
  const closed = servers.splice(0);
  await Promise.all(closed.map((server) => server.close()));
  for (const client of clients.splice(0)) client.close();
  // A listener that a thread still had would not be among what this one holds.
  for (const server of closed) await connect(server).ends('ECONNREFUSED');
  clients.splice(0);
  await expect.poll(held).toBe(heldBefore);
});

async function start(name: string, scheme?: Scheme): Promise<HostileServer> {
  if (servers.length === 0) heldBefore = held();
  const server = await startHostile(name, { certificates, ...(scheme === undefined ? {} : { scheme }) });
  servers.push(server);
  return server;
}

function connect(server: HostileServer, options?: tls.ConnectionOptions): RawClient {
  const client = new RawClient(server, options);
  clients.push(client);
  return client;
}

async function staysSilent(client: RawClient): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, silenceMs));
  expect([client.bytes, client.end]).toEqual([0, undefined]);
}

const rawHead = (status: string) => new RegExp(`^HTTP/1\\.1 ${status}\\r\\n`);
const complete = (status: string, body = '') => new RegExp(`^HTTP/1\\.1 ${status}\\r\\n(.+\\r\\n)+\\r\\n${body}$`);

/** What a client sees that sends one POST of the size that the behaviour wants. */
const promises: Readonly<Record<string, (client: RawClient, server: HostileServer) => Promise<void>>> = {
  silent: staysSilent,
  'silent-large': async (client) => {
    await staysSilent(client);
    expect(client.socket.writableLength).toBeGreaterThan(0);
  },
  'silent-after-request': async (client, server) => {
    await expect.poll(() => server.received()[0]?.prefix.toString()).toMatch(/\r\n\r\nx{7}$/);
    await staysSilent(client);
  },
  'drip-status-line': async (client) => {
    await client.sees(/^HTTP\/1\.1 200 OK and so/);
    expect(client.text).not.toContain('\n');
  },
  'drip-headers': async (client) => {
    await client.sees(/^HTTP\/1\.1 200 OK\r\nX-Drip: drop\r\nX-/);
    expect(client.text).not.toContain('\r\n\r\n');
  },
  'drip-body': (client) => client.sees(/\r\n\r\ndrop drop/),
  'close-before-status': async (client) => {
    await client.ends('closed');
    expect(client.bytes).toBe(0);
  },
  'close-in-status': (client) => seesThenEnds(client, /^HTTP\/1\.1 200 O$/, 'closed'),
  'close-in-headers': (client) => seesThenEnds(client, /^HTTP\/1\.1 200 OK\r\nContent-Le$/, 'closed'),
  'close-in-body': (client) => seesThenEnds(client, /^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nabc$/, 'closed'),
  'close-in-failure': (client) => seesThenEnds(client, /^HTTP\/1\.1 503 No\r\n.*\r\n\r\nabc$/, 'closed'),
  'rst-in-request': async (client, server) => {
    await client.ends('reset');
    expect(client.bytes).toBe(0);
    expect(server.received()[0]?.bytes).toBeGreaterThan(0);
    expect(server.received()[0]?.bytes).toBeLessThan(largeBytes);
  },
  'rst-after-request': async (client, server) => {
    await client.ends('reset');
    expect(client.bytes).toBe(0);
    expect(server.received()[0]?.prefix.toString()).toMatch(/\r\n\r\nx{7}$/);
  },
  'rst-in-status': (client) => seesThenEnds(client, /^HTTP\/1\.1 200 O$/, 'reset'),
  'rst-after-head': (client) => seesThenEnds(client, /^HTTP\/1\.1 200 OK\r\n.*\r\n\r\n$/, 'reset'),
  'rst-after-body': (client) => seesThenEnds(client, complete('200 OK', 'hi'), 'reset'),
  'early-401': async (client, server) => {
    await client.sees(complete('401 Unauthorized', 'no'));
    await expect.poll(() => server.received()[0]?.bytes, { timeout: 10_000 }).toBeGreaterThan(largeBytes);
    expect(server.received()[0]?.prefix).toHaveLength(65_536);
  },
  'early-401-closes': async (client, server) => {
    await client.ends(/closed|reset/);
    expect(client.text).toMatch(/^$|401/);
    expect(server.received()[0]?.bytes).toBeLessThan(largeBytes);
  },
  'body-100-mb': (client) => client.takes(100_000_000),
  'gzip-bomb': async (client) => {
    await client.sees(/\r\n\r\n/);
    const [head = ''] = client.text.split('\r\n\r\n', 1);
    const size = Number(/Content-Length: (\d+)/.exec(head)?.[1]);
    expect(size).toBeLessThan(200_000);
    await client.takes(head.length + 4 + size);
    expect(gunzipSync(Buffer.from(client.text.slice(head.length + 4), 'latin1')).length).toBeGreaterThan(100_000_000);
  },
  'head-1-mb': async (client) => {
    await client.takes(1_048_576);
    expect(client.text).toMatch(rawHead('200 OK'));
    expect(client.text).not.toContain('\r\n\r\n');
  },
  'status-line-endless': async (client) => {
    await client.takes(500_000);
    expect(client.text).toMatch(/^HTTP\/1\.1 200 O+$/);
  },
  'interim-endless': async (client) => {
    await client.takes(500_000);
    expect(client.text).toMatch(/^(HTTP\/1\.1 103 Early Hints\r\nLink: [^\r]*\r\n\r\n){1000}/);
  },
  'interim-few': (client) => client.sees(/^HTTP\/1\.1 100 .*\r\n\r\nHTTP\/1\.1 102 .*\r\n\r\nHTTP\/1\.1 103 .*\r\n.*\r\n\r\nHTTP\/1\.1 200 OK\r\n.*\r\n\r\nhi$/),
  'chunk-extension-endless': async (client) => {
    await client.takes(500_000);
    expect(client.text).toMatch(/^HTTP\/1\.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;(x=y;)+(x?=?y?)$/);
  },
  'garbage-endless': async (client) => {
    await client.takes(500_000);
    expect(client.text).not.toContain('\n');
  },
  'status-204': (client) => client.sees(/^HTTP\/1\.1 204 No Content\r\n\r\n$/),
  'status-200-empty': (client) => client.sees(complete('200 OK')),
  'redirect-302': seesRedirect,
  'redirect-307': seesRedirect,
  'http-1-0': (client) => seesThenEnds(client, /^HTTP\/1\.0 200 OK\r\nContent-Length: 2\r\n\r\nhi$/, 'closed'),
  'http-1-0-until-close': (client) => seesThenEnds(client, /^HTTP\/1\.0 200 OK\r\n\r\nhi$/, 'closed'),
  'chunked-trailers': (client) => client.sees(/\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n$/),
  'line-feeds': (client) => client.sees(/^HTTP\/1\.1 200 OK\nContent-Length: 2\n\nhi$/),
  'switching-protocols': (client) => client.sees(/^HTTP\/1\.1 101 (.+\r\n)+\r\nHTTP\/1\.1 200/),
  garbage: (client) => client.sees(/^220 /),
  'interim-with-body': (client) => client.sees(/^HTTP\/1\.1 103 (.+\r\n)+\r\nhelloHTTP\/1\.1 200/),
  'status-304-with-body': (client) => client.sees(complete('304 Not Modified', 'hello')),
  'status-204-with-body': (client) => client.sees(complete('204 No Content', 'hello')),
  'status-999': (client) => client.sees(complete('999 What')),
  'status-000': (client) => client.sees(complete('000 Nothing')),
  'two-lengths': (client) => client.sees(/Content-Length: 2\r\nContent-Length: 5\r\n\r\nhi$/),
  'length-and-chunks': (client) => client.sees(/Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n$/),
  'length-negative': (client) => client.sees(/Content-Length: -1\r\n\r\nhi$/),
  'length-huge': (client) => client.sees(/Content-Length: 9{40}\r\n\r\nhi$/),
  'header-nul': (client) => client.sees(/X-Nul: a\u0000b\r\n/),
  'keep-alive-closes-idle': (client) => seesThenEnds(client, /Keep-Alive: timeout=60\r\n.*\r\n\r\nhi$/, 'closed'),
  'keep-alive-resets-idle': (client) => seesThenEnds(client, /Keep-Alive: timeout=60\r\n.*\r\n\r\nhi$/, 'reset'),
  'keep-alive-closes-at-once': (client) => seesThenEnds(client, /Keep-Alive: timeout=60\r\n.*\r\n\r\nhi$/, 'closed'),
  'keep-alive-resets-next': async (client) => {
    await client.sees(/Keep-Alive: timeout=60\r\n.*\r\n\r\nhi$/);
    const before = client.bytes;
    expect(client.end).toBeUndefined();
    client.post();
    await client.ends('reset');
    expect(client.bytes).toBe(before);
  },
  'garbage-after-answer': (client) => client.sees(/^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nhiand then some/),
  'second-answer': (client) => client.sees(/^HTTP\/1\.1 500 (.+\r\n)+\r\nnoHTTP\/1\.1 200 OK\r\n.*\r\n\r\nhi$/),
  'second-answer-later': async (client) => {
    await client.sees(/^HTTP\/1\.1 500 (.+\r\n)+\r\nno$/);
    await client.sees(/^HTTP\/1\.1 500 (.+\r\n)+\r\nnoHTTP\/1\.1 200 OK\r\n.*\r\n\r\nhi$/);
  },
};

async function seesThenEnds(client: RawClient, pattern: RegExp, how: string): Promise<void> {
  await client.ends(how);
  expect(client.text).toMatch(pattern);
}

/** Follows, as no sender should: the server has seen it. */
async function seesRedirect(client: RawClient, server: HostileServer): Promise<void> {
  await client.sees(/Location: /);
  const url = new URL(/Location: (\S+)/.exec(client.text)?.[1] ?? '');
  expect([url.protocol, url.port]).toEqual([`${server.scheme}:`, String(server.port)]);
  expect(server.followed()).toBe(false);
  client.socket.write(`POST ${url.pathname} HTTP/1.1\r\nContent-Length: 0\r\n\r\n`);
  await expect.poll(() => server.followed()).toBe(true);
}

const scripted = hostileBehaviours.filter(({ name }) => name in promises);

describe('once a connection is there', () => {
  it.each(scripted.flatMap(({ name }) => [[name, 'http'], [name, 'https']] as const))('%s over %s', async (name, scheme) => {
    const server = await start(name, scheme);
    const client = connect(server);
    client.post(server.behaviour.bodyBytes);
    await promises[name]?.(client, server);
    expect(server.connections()).toBe(1);
  });

  it('a keep-alive that is used in time goes on', async () => {
    const client = connect(await start('keep-alive-resets-idle'));
    for (let n = 1; n <= 3; n++) {
      client.post();
      await client.sees(new RegExp(`^(HTTP/1\\.1 200 OK\\r\\n(.+\\r\\n)+\\r\\nhi){${n}}$`));
    }
  });

  it('whoever takes a second answer for the next one is wrong: the next one comes behind it', async () => {
    const client = connect(await start('second-answer'));
    client.post();
    await client.sees(/hi$/);
    client.post();
    await client.sees(/(500 Internal[^]*200 OK[^]*){2}/);
  });
});

describe('a connection that cannot be had', () => {
  it.each(['http', 'https'] as const)('refused over %s', async (scheme) => {
    const server = await start('refused', scheme);
    for (let i = 0; i < 3; i++) await connect(server).ends('ECONNREFUSED');
  });

  it.each(['http', 'https'] as const)('a SYN black hole over %s neither refuses nor connects', async (scheme) => {
    const server = await start('syn-black-hole', scheme);
    const fresh = Array.from({ length: 3 }, () => connect(server));
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(fresh.map(({ socket, end }) => [socket.connecting, end])).toEqual(Array(3).fill([true, undefined]));
  });

  it.each(['http', 'https'] as const)('a reset on accept over %s', async (scheme) => {
    const client = connect(await start('rst-on-accept', scheme));
    client.post();
    await client.ends('reset');
    expect(client.bytes).toBe(0);
  });

  it('a TLS stall', async () => {
    const server = await start('tls-stall');
    const client = connect(server);
    await expect.poll(() => server.connections()).toBe(1);
    await staysSilent(client);
    expect(client.isConnected).toBe(false);
  });

  it('a reset of the ClientHello', async () => {
    const server = await start('tls-reset');
    await connect(server).ends('reset');
    expect(server.received()[0]?.prefix[0]).toBe(0x16);
  });

  it('plain HTTP where TLS was expected', async () => {
    await connect(await start('plain-http')).ends(/^ERR_SSL_|EPROTO/);
  });

  it.each([
    ['cert-expired', 'CERT_HAS_EXPIRED'],
    ['cert-not-yet-valid', 'CERT_NOT_YET_VALID'],
    ['cert-self-signed', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    ['cert-wrong-host', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['cert-untrusted', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
  ])('%s is refused for that reason alone', async (name, code) => {
    const server = await start(name);
    await connect(server, { ca: issuer.ca, rejectUnauthorized: true }).ends(code);
    const careless = connect(server);
    careless.post();
    await careless.sees(/hi$/);
  });

  it('a good certificate is accepted, by its name and by its address', async () => {
    const server = await start('garbage', 'https');
    const named = [connect(server, { ca: issuer.ca, rejectUnauthorized: true, servername: 'localhost' }), connect(server, { ca: issuer.ca, rejectUnauthorized: true })];
    for (const client of named) await expect.poll(() => client.isConnected).toBe(true);
  });

  it.each([['tls-1-0', 'TLSv1'], ['tls-1-1', 'TLSv1.1']] as const)('%s is spoken, and refused by who wants better', async (name, version) => {
    const server = await start(name);
    await connect(server).ends('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION');
    const old = connect(server, { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' });
    await expect.poll(() => old.isConnected).toBe(true);
    expect((old.socket as tls.TLSSocket).getProtocol()).toBe(version);
  });
});

describe('the table', () => {
  it('has a check of every behaviour here, and names that endpoints can have', () => {
    const names = hostileBehaviours.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !idSchema.safeParse(name).success)).toEqual([]);
    const setup = names.filter((name) => !(name in promises));
    expect(setup).toEqual([
      'refused', 'syn-black-hole', 'rst-on-accept', 'tls-stall', 'tls-reset', 'plain-http',
      'cert-expired', 'cert-not-yet-valid', 'cert-self-signed', 'cert-wrong-host', 'cert-untrusted', 'tls-1-0', 'tls-1-1',
    ]);
    expect(Object.keys(promises).filter((name) => !names.includes(name))).toEqual([]);
  });

  it('says what is owed by scheme, size and turn', () => {
    const silent = behaviourNamed('silent-large');
    expect(owedBy(silent, { scheme: 'http', bodyBytes: largeBytes, nth: 0 })).toEqual([ambiguous('write')]);
    expect(owedBy(silent, { scheme: 'https', bodyBytes: 10, nth: 3 })).toEqual([ambiguous('headers')]);
    expect(owedBy(behaviourNamed('rst-on-accept'), { scheme: 'https', bodyBytes: 1, nth: 0 })).toEqual([unsent('tls'), unsent('connect')]);
    expect(owedBy(behaviourNamed('keep-alive-closes-idle'), { scheme: 'https', bodyBytes: 1, nth: 1 })).toContainEqual(unsent('write'));
  });

  it('compares with what a record keeps', () => {
    const entry = { atEpochMs: 0, durationMs: 1, generation: 0 };
    expect(isOwed({ ...entry, outcome: 'answered', detail: '200' }, [delivered])).toBe(true);
    expect(isOwed({ ...entry, outcome: 'answered', detail: '204' }, [delivered])).toBe(false);
    expect(isOwed({ ...entry, outcome: 'unsent', detail: 'connect ECONNREFUSED' }, [unsent('tls'), unsent('connect')])).toBe(true);
    expect(isOwed({ ...entry, outcome: 'ambiguous', detail: 'headers timeout' }, [ambiguous('write')])).toBe(false);
    expect(outcomeText(unsent('tls'), delivered)).toBe('unsent tls or delivered 200');
  });

  it('refuses what it cannot start', async () => {
    await expect(startHostile('nobody')).rejects.toThrow('no hostile behaviour is named nobody');
    await expect(startHostile('tls-stall', { scheme: 'http' })).rejects.toThrow('tls-stall can only be had on https');
    await expect(startHostile('silent', { scheme: 'https' })).rejects.toThrow('silent on https needs certificates');
  });
});

describe('requests are counted', () => {
  it('whatever the pieces they come in', () => {
    const text = 'POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab\r\ncGET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 1\r\n\r\nx';
    for (let size = 1; size <= text.length; size++) {
      const counter = new RequestCounter();
      for (let at = 0; at < text.length; at += size) counter.push(Buffer.from(text.slice(at, at + size)));
      expect([size, counter.begun, counter.complete]).toEqual([size, 3, 3]);
    }
  });
});
