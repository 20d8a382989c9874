/** Random bytes as responses: never a crash, never past the deadline, never a success that no status line states. */
import type { Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createUndiciHttp } from '../../lambdas/shared/adapters/undici-http.ts';
import type { AttemptOutcome } from '../../lambdas/shared/core/outcome.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { startHostile, type HostileServer } from '../support/hostile-server.ts';
import { repeating, seededRuns } from '../support/seeds.ts';

const budgetsMs = { connection: 2_000, setup: 2_000, write: 300, read: 300, total: 500 };

interface Response {
  /** Written one after the other, each when the one before has left. */
  readonly pieces: readonly Buffer[];
  readonly end: 'close' | 'reset' | 'stay';
}

const line = fc.constantFrom(
  'HTTP/1.1 200 OK\r\n', 'HTTP/1.1 204 No Content\r\n', 'HTTP/1.0 200 OK\r\n', 'HTTP/1.1 503 Busy\r\n', 'HTTP/1.1 302 Found\r\n', 'HTTP/1.1 100 Continue\r\n',
  'HTTP/1.1 103 Early Hints\r\n', 'HTTP/1.1 101 Switching Protocols\r\n', 'HTTP/1.1 200 OK\n', 'HTTP/1.1 200', 'HTTP/1.1 2', 'HTTP/2 200\r\n', 'HTTP/1.1 20 OK\r\n', 'HTTP/1.1 999 X\r\n', 'ICY 200 OK\r\n',
);
const header = fc.constantFrom(
  'Content-Length: 2\r\n', 'Content-Length: 0\r\n', 'Content-Length: 99999999999\r\n', 'Content-Length: -1\r\n', 'Transfer-Encoding: chunked\r\n', 'Connection: close\r\n', 'Connection: upgrade\r\n',
  'Upgrade: h2c\r\n', 'Keep-Alive: timeout=0\r\n', 'Keep-Alive: timeout=99999\r\n', 'Content-Encoding: gzip\r\n', 'Trailer: x\r\n', ': no name\r\n', 'X: a\r\n b\r\n', 'X\0: 1\r\n', `X: ${'y'.repeat(20_000)}\r\n`,
);
const body = fc.constantFrom('hi', '2\r\nhi\r\n', '0\r\n\r\n', '0\r\nX: 1\r\n\r\n', 'fffffffff\r\n', '1;e=1\r\nx\r\n', 'zz\r\n', '\r\n', `${'b'.repeat(70_000)}`);
const shaped = fc
  .tuple(fc.array(fc.oneof(line, header, fc.constant('\r\n')), { maxLength: 6 }), line, fc.array(header, { maxLength: 4 }), fc.constantFrom('\r\n', '\n', ''), fc.array(body, { maxLength: 4 }))
  .map(([before, first, headers, blank, bodies]) => Buffer.from([...(before.length > 3 ? [] : before), first, ...headers, blank, ...bodies].join(''), 'latin1'));
const damaged = fc.tuple(shaped, fc.array(fc.tuple(fc.nat(400), fc.nat(255), fc.constantFrom('set', 'cut', 'insert')), { maxLength: 4 })).map(([bytes, damages]) =>
  damages.reduce((b, [at, byte, how]) => Buffer.concat([b.subarray(0, at), Buffer.from(how === 'cut' ? [] : [byte]), b.subarray(how === 'insert' ? at : at + 1)]), bytes),
);
const bytes = fc.oneof(shaped, damaged, fc.uint8Array({ maxLength: 300 }).map((b) => Buffer.from(b)));
const response: fc.Arbitrary<Response> = fc
  .record({ whole: bytes, cuts: fc.array(fc.nat(300), { maxLength: 3 }), end: fc.constantFrom('close' as const, 'close' as const, 'reset' as const, 'stay' as const) })
  .map(({ whole, cuts, end }) => {
    const at = [0, ...cuts.filter((cut) => cut < whole.length).sort((a, b) => a - b), whole.length];
    return { pieces: at.slice(1).map((to, i) => whole.subarray(at[i], to)), end };
  });

/** From the whole bytes, line by line: the first status line that is not interim. */
function statusIn(text: string): number | undefined {
  const lines = text.split('\n');
  // What follows the last line feed is no whole line.
  lines.pop();
  while (lines.length > 0) {
    while (lines[0]?.replaceAll('\r', '') === '') lines.shift();
    const [, status] = /^\r*HTTP\/1\.[01] ([1-9]\d\d)(?: [^\r\0]*)?\r?$/.exec(lines.shift() ?? '') ?? [];
    if (status === undefined || status === '101') return undefined;
    if (status >= '200') return Number(status);
    while (lines.length > 0 && !['', '\r'].includes(lines[0] ?? '')) {
      // An interim head without its end: nothing behind it can be told apart from a body.
      if (lines.shift()?.startsWith('HTTP/1.') === true) return undefined;
    }
  }
  return undefined;
}

let server: HostileServer;
/** By the number of the connection. */
const scripts = new Map<string, Response>();
const http = createUndiciHttp({ egress: { ...defaultEgress, allow: ['127.0.0.0/8'], http: true }, nowEpochMs: () => Date.now(), ceilings: { total: 100, perHost: 100, maxWaiting: 100 } });
beforeAll(async () => {
  server = await startHostile((socket, nth) => {
    const id = /x-run: (\S+)/.exec(server.received[nth]?.toString('latin1') ?? '')?.[1] ?? '';
    play(socket, scripts.get(id) ?? { pieces: [], end: 'close' });
  });
});
afterAll(async () => {
  http.close();
  await server.close();
});

function play(socket: Socket, { pieces, end }: Response, nth = 0): void {
  const piece = pieces[nth];
  if (piece !== undefined) socket.write(piece, () => setImmediate(() => play(socket, { pieces, end }, nth + 1)));
  else if (end === 'close') socket.end();
  else if (end === 'reset') socket.resetAndDestroy();
}

let posts = 0;
async function outcomeOf(script: Response, budgets = budgetsMs): Promise<AttemptOutcome> {
  const id = `r${posts++}`;
  scripts.set(id, script);
  const outcome = await http.post({
    url: new URL(`http://127.0.0.1:${server.port}/`), headers: { 'x-run': id }, body: Buffer.from('x'), budgetsMs: budgets,
    // Each on a socket of its own: what is left over of one is another test's subject.
    endpointId: id, version: 'V1', remainingMs: () => Infinity, freshTry: true,
  });
  scripts.delete(id);
  return outcome;
}

/** As `outcomeOf`; a status that did not come in time on a busy machine comes in more of it. */
async function patientOutcomeOf(script: Response): Promise<AttemptOutcome> {
  const outcome = await outcomeOf(script);
  const isSlow = outcome.kind === 'ambiguous' && outcome.cause === 'timeout' && statusIn(Buffer.concat(script.pieces).toString('latin1')) !== undefined;
  return isSlow ? outcomeOf(script, { ...budgetsMs, read: 20_000, total: 20_000 }) : outcome;
}

function check(script: Response, outcome: AttemptOutcome): void {
  const text = Buffer.concat(script.pieces).toString('latin1');
  const status = statusIn(text);
  const what = `${script.end} after ${JSON.stringify(text.slice(0, 2_000))}: ${JSON.stringify(outcome)}`;
  if (outcome.kind === 'answered') {
    expect(outcome.status, what).toBe(status);
    if (outcome.status < 300) expect(text).toMatch(/HTTP\/1\.[01] 2\d\d/);
  } else {
    // A reset may take bytes with it that had arrived.
    if (script.end !== 'reset') expect(status, what).toBeUndefined();
    expect(outcome, what).toMatchObject({ kind: 'ambiguous', phase: 'headers' });
  }
  // Generous: it is about answers that never come, not about a slow machine.
  expect('durationMs' in outcome && outcome.durationMs).toBeLessThan(20_000);
}

describe('any bytes as a response', () => {
  it.each(seededRuns('FUZZ', [], 60))('give one outcome, by what they say, in time: seed $seed', async ({ seed, runs }) => {
    console.log(`repeat it: ${repeating('FUZZ', { seed, runs })} npx vitest run test/adapters/response-fuzz.test.ts`);
    await fc.assert(
      fc.asyncProperty(fc.array(response, { minLength: 20, maxLength: 40 }), async (responses) => {
        const outcomes = await Promise.all(responses.map((script) => patientOutcomeOf(script)));
        responses.forEach((script, i) => check(script, outcomes[i] as AttemptOutcome));
        expect(http.sockets().inUse).toBe(0);
      }),
      { seed, numRuns: runs, endOnFailure: true },
    );
    // Nothing was sent twice, whatever came back.
    const requests = server.received.map((b) => b.toString('latin1').split('POST / HTTP/1.1').length - 1);
    expect(Math.max(...requests)).toBe(1);
    expect(requests.filter((n) => n === 1)).toHaveLength(posts);
  });
});
