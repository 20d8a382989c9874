/** Every hostile server of the kit, over http and https: the exact outcome, and each phase within its budget (T2, T6–T10). */
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createEgress } from '../../lambdas/shared/adapters/egress.ts';
import { createUndiciHttp, type UndiciHttp } from '../../lambdas/shared/adapters/undici-http.ts';
import type { AttemptOutcome, Phase, Timing } from '../../lambdas/shared/core/outcome.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { sockets } from '../../lambdas/shared/limits/numbers.ts';
import type { HttpRequest } from '../../lambdas/shared/ports/index.ts';
import { createIssuer, type Issuer } from '../../local/authority.ts';
import { owedBy, type HostileBehaviour, type Scheme } from '../../local/hostile/behaviour.ts';
import { hostileBehaviours } from '../../local/hostile/behaviours.ts';
import { createCertificates, type Certificates } from '../../local/hostile/certificates.ts';
import { startHostile, type HostileServer } from '../../local/hostile/hostile-server.ts';
import { outcomeText, type Outcome } from '../../local/hostile/outcomes.ts';
import type { Peer } from '../../local/hostile/peer.ts';
import { startScripted } from '../../local/hostile/scripted-server.ts';
import { ok } from '../../local/hostile/writing.ts';
import { withStalls } from '../support/stalls.ts';

const budgetsMs = { connection: 500, setup: 700, write: 1_200, read: 500, total: 2_200 };
const slackMs = 150;
const original = getCACertificates('default');
let issuer: Issuer;
let certificates: Certificates;
let http: UndiciHttp;
let stale: string[] = [];
beforeAll(async () => {
  issuer = await createIssuer();
  certificates = createCertificates(issuer);
  setDefaultCACertificates([...original, issuer.ca]);
});
afterAll(() => setDefaultCACertificates(original));
beforeEach(() => {
  stale = [];
  http = createUndiciHttp({ egress: { ...defaultEgress, allow: ['127.0.0.0/8'], http: true }, nowEpochMs: () => Date.now(), onStaleSocket: (host) => void stale.push(host) });
});
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  http.close();
  await Promise.all(open.splice(0).map((server) => server.close()));
});

function post(url: string, more: Partial<HttpRequest> = {}): Promise<AttemptOutcome> {
  return http.post({ url: new URL(url), headers: {}, body: Buffer.from('{"a":1}'), budgetsMs, endpointId: 'acme', version: 'V1', remainingMs: () => Infinity, freshTry: true, ...more });
}

/** An attempt's outcome in the kit's terms. */
function asOwed(outcome: AttemptOutcome): Outcome | { group: string } {
  switch (outcome.kind) {
    case 'answered':
      return { group: outcome.status < 300 ? 'delivered' : 'answered', status: outcome.status };
    case 'ambiguous':
    case 'unsent':
      return { group: outcome.kind, phase: outcome.phase };
    default:
      return { group: outcome.kind };
  }
}

/** Each budget, and the phases that share it. */
const spent: readonly [keyof typeof budgetsMs, readonly Phase[]][] = [
  ['connection', ['connection']],
  ['setup', ['dns', 'connect', 'tls']],
  ['write', ['write']],
  ['read', ['headers', 'body']],
  ['total', ['dns', 'connect', 'tls', 'write', 'headers', 'body']],
];

function checkTime({ phasesMs, durationMs }: Timing, stalledMs: number): void {
  const within = (ms: number, budgetMs: number, what: string) => expect(ms, what).toBeLessThanOrEqual(budgetMs + Math.max(budgetMs / 10, slackMs) + stalledMs);
  for (const [budget, phases] of spent) within(phases.reduce((sum, phase) => sum + (phasesMs[phase] ?? 0), 0), budgetsMs[budget], `${budget} of ${JSON.stringify(phasesMs)}`);
  within(durationMs, budgetsMs.connection + budgetsMs.total, 'the whole attempt');
}

const cases = hostileBehaviours.flatMap((behaviour) => (behaviour.scheme === 'both' ? (['http', 'https'] as const) : [behaviour.scheme]).map((scheme): [string, Scheme, HostileBehaviour] => [behaviour.name, scheme, behaviour]));

describe('a consumer that is', () => {
  it.each(cases)('%s over %s ends each of three attempts as it should', async (_name, scheme, behaviour) => {
    const server = await startHostile(behaviour, { scheme, certificates });
    open.push(server);
    const body = Buffer.alloc(behaviour.bodyBytes ?? 7, 'x');
    for (const nth of [0, 1, 2]) {
      const { result: outcome, stalledMs } = await withStalls(() => post(server.url, { body }));
      const owed = owedBy(behaviour, { scheme, bodyBytes: body.length, nth });
      expect(owed, `attempt ${nth + 1}: ${JSON.stringify(outcome)}, owed ${outcomeText(...owed)}`).toContainEqual(asOwed(outcome));
      if ('durationMs' in outcome) checkTime(outcome, stalledMs);
    }
    expect(server.followed()).toBe(false);
    // Never more requests than attempts, whatever was tried inside.
    expect(requestsAt(server)).toBeLessThanOrEqual(3);
    expect(http.sockets()).toMatchObject({ inUse: 0, waiting: 0 });
  });

  it('not reachable was sent nothing', async () => {
    const unreachable = cases.filter(([, , { expected, listener }]) => listener === undefined && expected.every(({ group }) => group === 'unsent'));
    for (const [, scheme, behaviour] of unreachable) {
      const server = await startHostile(behaviour, { scheme, certificates });
      open.push(server);
      await post(server.url, { endpointId: behaviour.name });
      expect(server.received().map(({ bytes }) => bytes).filter((bytes) => bytes > 0), behaviour.name).toEqual([]);
    }
    expect(unreachable.length).toBeGreaterThan(5);
  });
});

/** Of what arrived whole enough to be seen in the first 64 KiB of each connection. */
function requestsAt(server: HostileServer): number {
  return server.received().reduce((sum, { prefix }) => sum + prefix.toString('latin1').split('POST /in HTTP/1.1').length - 1, 0);
}

describe('what ended an answer early is noted, and nothing else changes', () => {
  it.each([
    ['drip-headers', 'headers timeout'],
    ['drip-body', 'body timeout'],
    ['close-in-headers', /^headers (UND_ERR_SOCKET|HTTPParserError)$/],
    ['close-in-body', /^body (UND_ERR_SOCKET|HTTPParserError|UND_ERR_RES_CONTENT_LENGTH_MISMATCH)$/],
    ['rst-after-head', /^(body|headers) ECONNRESET$/],
    ['body-100-mb', `body more than ${sockets.maxResponseBytes} bytes`],
    ['gzip-bomb', `body more than ${sockets.maxResponseBytes} bytes`],
    ['head-1-mb', /^headers (UND_ERR_HEADERS_OVERFLOW|more than 65536 bytes on the wire)$/],
    ['chunk-extension-endless', /^body (HPE_INVALID|HTTPParserError|more than 65536 bytes on the wire)/],
    ['status-200-empty', undefined],
  ])('%s: %s', async (name, cut) => {
    const server = await startHostile(name, { scheme: 'https', certificates });
    open.push(server);
    const outcome = await post(server.url);
    expect(outcome).toMatchObject({ kind: 'answered', bodyExcerpt: '' });
    if (cut === undefined) expect(outcome).not.toHaveProperty('cut');
    else expect((outcome as { cut?: string }).cut).toMatch(cut);
  });
});

/** Called from the loop's phase of timers: after the last look at the socket, so that it is the kernel that refuses the write. */
function resetAtTheWrite(peer: Peer | undefined): void {
  setImmediate(() => setImmediate(() => peer?.reset()));
}

describe.each(['http', 'https'] as const)('a socket that was used before, over %s', (scheme) => {
  /** A good consumer, whose connections the test can reach. */
  async function good(): Promise<{ url: string; peers: readonly Peer[] }> {
    const tls = scheme === 'https' ? { tls: await certificates('good') } : {};
    const server = await startScripted({ onRequest: ({ socket }) => void socket.write(ok) }, { host: '127.0.0.1', ...tls });
    open.push(server);
    return { url: `${scheme}://127.0.0.1:${server.port}/in`, peers: server.peers };
  }

  it.each<[string, (peer: Peer) => void]>([
    ['is found reset before the next request is written', (peer) => peer.reset()],
    ['is found closed before the next request is written', (peer) => void peer.socket.destroy()],
    ['is reset as the next request is written', (peer) => void resetAtTheWrite(peer)],
  ])('%s: one fresh try, no failure, no second request', async (_how, end) => {
    const { url, peers } = await good();
    expect(await post(url)).toMatchObject({ kind: 'answered', status: 200, reused: false });
    // From the loop's phase of timers on: it looks at the sockets once more before what is written now is written.
    await delay(1);
    const [first] = peers;
    if (first !== undefined) end(first);
    expect(await post(url)).toMatchObject({ kind: 'answered', status: 200, reused: false });
    expect(peers.map(({ begun }) => begun)).toEqual([1, 1]);
    expect(stale).toEqual([new URL(url).host]);
  });

  it('is reset as the next request is written: under reconciliation not even that is tried again', async () => {
    const { url, peers } = await good();
    await post(url);
    await delay(1);
    resetAtTheWrite(peers[0]);
    expect(await post(url, { freshTry: false })).toEqual({ kind: 'notStarted', why: 'stale-socket' });
    expect(peers).toHaveLength(1);
    expect(http.sockets()).toMatchObject({ inUse: 0, idle: 0 });
  });

  it('dies after the request was written: that may have arrived, so nothing is tried again', async () => {
    const server = await startHostile('keep-alive-resets-next', { scheme, certificates });
    open.push(server);
    await post(server.url);
    expect(await post(server.url)).toMatchObject({ kind: 'ambiguous', reused: true });
    expect([server.connections(), stale]).toEqual([1, []]);
  });

  it('is closed by the peer while idle: the next attempt just opens another', async () => {
    const server = await startHostile('keep-alive-closes-idle', { scheme, certificates });
    open.push(server);
    await post(server.url);
    await expect.poll(() => http.sockets().idle).toBe(0);
    expect(await post(server.url)).toMatchObject({ kind: 'answered', status: 200, reused: false });
    expect([server.connections(), stale]).toEqual([2, []]);
  });
});

describe('the peer\'s Keep-Alive header', () => {
  it.each([
    [undefined, sockets.idleMs],
    ['timeout=5', 4_000],
    ['timeout=60, max=100', sockets.maxIdleMs],
    ['max=100, timeout=3', 2_000],
    ['timeout=99999999999999999999', sockets.maxIdleMs],
    ['timeout=-5', sockets.idleMs],
    ['timeout=soon', sockets.idleMs],
    ['xtimeout=2', sockets.idleMs],
  ])('%j allows %d ms', async (header, idleMs) => {
    const more = header === undefined ? '' : `Keep-Alive: ${header}\r\n`;
    const server = await startScripted({ onRequest: ({ socket }) => void socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${more}\r\n`) }, { host: '127.0.0.1' });
    open.push(server);
    let nowEpochMs = 0;
    http = createUndiciHttp({ egress: { ...defaultEgress, allow: ['127.0.0.0/8'], http: true }, nowEpochMs: () => nowEpochMs });
    const reusedAfter = async (ms: number) => {
      nowEpochMs += ms;
      return ((await post(`http://127.0.0.1:${server.port}/`)) as { reused?: boolean }).reused;
    };
    expect([await reusedAfter(0), await reusedAfter(idleMs), await reusedAfter(idleMs + 1)]).toEqual([false, true, false]);
  });

  it('of no time at all, like Connection: close, leaves no socket', async () => {
    for (const header of ['Keep-Alive: timeout=1', 'Keep-Alive: timeout=0', 'Connection: close']) {
      const server = await startScripted({ onRequest: ({ socket }) => void socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${header}\r\n\r\n`) }, { host: '127.0.0.1' });
      open.push(server);
      await post(`http://127.0.0.1:${server.port}/`, { endpointId: `e${server.port}` });
      expect(http.sockets(), header).toMatchObject({ inUse: 0, idle: 0, pools: 0 });
    }
  });
});

describe.each(['http', 'https'] as const)('an answer that came before its request, over %s, answers nothing:', (scheme) => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';
  const early: readonly (readonly [string, string, string])[] = [
    ['a whole one', head, ''],
    ['one of which the status line was still open', 'HTTP/1.1 200 OK', '\r\nContent-Length: 0\r\n\r\n'],
    ['an interim one, the rest after the request', 'HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n', head],
    ['an interim one and a part', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 O', 'K\r\nContent-Length: 0\r\n\r\n'],
    ['a letter', 'H', head.slice(1)],
  ];
  /** Where in a turn of the loop an attempt may begin: behind a timer, or behind the answer to an AWS call. */
  const phases = { 'from a timer': () => delay(1), 'from the answer to a call': () => stat('.') };

  it.each(Object.entries(phases).flatMap(([when, reach]) => early.map(([what, ...parts]) => [what, when, reach, ...parts] as const)))('%s, %s', async (_what, _when, reach, first, rest) => {
    const answers = ['HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n', 'HTTP/1.1 404 Fresh\r\nContent-Length: 0\r\n\r\n'];
    const tls = scheme === 'https' ? { tls: await certificates('good') } : {};
    const server = await startScripted({ onRequest: (peer, nth) => void (nth === 0 && peer.socket.write(answers[peer.nth] ?? '')) }, { host: '127.0.0.1', ...tls });
    open.push(server);
    const url = `${scheme}://127.0.0.1:${server.port}/in`;
    expect(await post(url)).toMatchObject({ status: 500 });
    await reach();
    const peer = server.peers[0];
    // In the kernel before the attempt begins, and completed after its request could have been written.
    peer?.socket.write(first);
    const sent = post(url);
    setTimeout(() => rest !== '' && peer?.socket.destroyed === false && peer.socket.write(rest), 30);
    expect(await sent).toMatchObject({ kind: 'answered', status: 404, reused: false });
    expect([server.peers.map(({ begun }) => begun), stale]).toEqual([[1, 1], [new URL(url).host]]);
  });
});

describe('what no request asked for, on an idle socket', () => {
  async function idle(text: string): Promise<{ peer: Peer | undefined; url: string }> {
    const server = await startScripted({ onRequest: ({ socket }) => void socket.write(`${ok}`) }, { host: '127.0.0.1' });
    open.push(server);
    const url = `http://127.0.0.1:${server.port}/in`;
    await post(url);
    server.peers[0]?.socket.write(text);
    return { peer: server.peers[0], url };
  }

  it.each([['line ends without end', '\r\n\r\n'], ['a response', ok], ['anything', 'x']])('%s: the socket is closed', async (_what, text) => {
    const { peer } = await idle(text);
    await expect.poll(() => http.sockets().idle).toBe(0);
    await expect.poll(() => peer?.socket.destroyed).toBe(true);
  });

  it('one line end too many: the socket is used again', async () => {
    const { url, peer } = await idle('\r\n');
    // It is in the kernel; the loop looks there once a turn.
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
    expect(peer?.socket.writableLength).toBe(0);
    expect(await post(url)).toMatchObject({ kind: 'answered', status: 200, reused: true });
  });
});

describe('TLS that is used for anything but a response', () => {
  it('is not renegotiated: the attempt ends, in whatever state it is', async () => {
    let renegotiations = 0;
    const refused = Promise.withResolvers<void>();
    const server = await startScripted(
      {
        onRequest: ({ socket }) => {
          const again = () => (socket as TLSSocket).renegotiate({}, (error) => {
            if (error !== null) return refused.resolve();
            renegotiations++;
            again();
          });
          again();
          socket.once('close', () => refused.resolve());
        },
      },
      { host: '127.0.0.1', tls: { ...(await certificates('good')), maxVersion: 'TLSv1.2' } },
    );
    open.push(server);
    const outcome = await post(`https://127.0.0.1:${server.port}/in`);
    await refused.promise;
    expect([outcome.kind, renegotiations]).toEqual(['ambiguous', 0]);
  });

  it('may bring some session tickets, not any number', async () => {
    const server = await startHostile('status-200-empty', { scheme: 'https', certificates });
    open.push(server);
    const socket = await createEgress({ rules: { ...defaultEgress, allow: ['127.0.0.0/8'] } })(new URL(server.url), 1_000, () => undefined, () => undefined);
    for (let i = 0; i < sockets.maxTlsTickets; i++) socket.emit('session', Buffer.alloc(8));
    expect(socket.destroyed).toBe(false);
    for (let i = 0; i < 2; i++) socket.emit('session', Buffer.alloc(8));
    expect(socket.destroyed).toBe(true);
  });
});
