/** `npm run bench -- throughput`: the whole attempt beside bare undici, against one consumer, at the same concurrency. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Pool, request } from 'undici';
import { attempt, type Due } from '../lambdas/deliver/attempt.ts';
import { createUndiciHttp } from '../lambdas/shared/adapters/undici-http.ts';
import { afterAttempt } from '../lambdas/shared/core/decide.ts';
import { claimKeyOf, hashOf, recordKeyOf, shortHash } from '../lambdas/shared/core/keys.ts';
import { blankRecord } from '../lambdas/shared/core/record.ts';
import { defaultEgress } from '../lambdas/shared/limits/egress.ts';
import { endpointSchema } from '../lambdas/shared/limits/endpoint-schema.ts';
import { deliver, sockets } from '../lambdas/shared/limits/numbers.ts';
import { formatSecret } from '../lambdas/shared/limits/secret.ts';
import { createAuthority } from '../local/authority.ts';
import { type Bench, type Ceiling, judge, type Report, type Row } from './bench.ts';
import { median } from './statistics.ts';

/** Requests under way at once: as many as one host may have sockets. */
const concurrency = sockets.perHost;
const floors = { https: 0.7, http: 0.6 } as const;
type Scheme = keyof typeof floors;

const payload = Buffer.from(JSON.stringify({ invoice: 'in_1042', amount: 1_999, currency: 'EUR', note: 'x'.repeat(900) }));
/** What a bare client must send to be comparable: headers of the same number and length. */
const bareHeaders = {
  'content-type': 'application/json',
  'webhook-id': 'evt_01J9',
  'webhook-timestamp': '1767607200',
  'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}`,
  'sluice-attempt': '1',
  'accept-encoding': 'identity',
  'user-agent': 'Sluice/1',
};

/** How much is measured. */
interface Size {
  readonly warmUpRequests: number;
  /** Of each side in each alternation. */
  readonly requests: number;
  readonly alternations: number;
}

const notes = ({ alternations, requests }: Size) => [
  `Each figure is the median of ${alternations} alternations in one run, ${requests} requests each, ${concurrency} under way at once on ${concurrency} kept-alive connections.`,
  'bare: undici.request on a pool, the body of the answer dumped. whole: budgets, body, signature, guard, socket lease, clocks, outcome, verdict.',
  'Requests a second depend on the machine and on what else it does; the ratio of two neighbours depends on it far less.',
];

export const bench: Bench = throughputOf({ warmUpRequests: 10_000, requests: 12_000, alternations: 9 });

export function throughputOf(size: Size): Bench {
  return { run: (progress) => compare(size, progress) };
}

async function compare(size: Size, progress: (line: string) => void): Promise<Report> {
  const dir = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'));
  const authority = await createAuthority(path.join(dir, 'ca.pem'));
  rmSync(dir, { recursive: true });
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, authority.ca]);
  const server = fork(path.join(import.meta.dirname, 'throughput-server.ts'));
  try {
    server.send({ key: authority.key, cert: authority.cert });
    const ended = once(server, 'exit').then(() => Promise.reject(new Error('the consumer ended before it listened')));
    const [ports] = (await Promise.race([once(server, 'message'), ended])) as [Record<Scheme, number>];
    const measured: Measured[] = [];
    for (const scheme of ['https', 'http'] as const) {
      progress(`${scheme}: ${size.alternations} alternations`);
      measured.push(await measure(size, scheme, ports[scheme], authority.ca));
    }
    return reportOf(size, measured);
  } finally {
    server.kill();
    setDefaultCACertificates(trusted);
  }
}

interface Measured {
  readonly scheme: Scheme;
  /** Requests a second of each alternation, bare and whole. */
  readonly pairs: readonly { readonly bare: number; readonly whole: number }[];
}

/** Sends one request to its end. */
type Send = () => Promise<void>;

async function measure({ warmUpRequests, requests, alternations }: Size, scheme: Scheme, port: number, ca: string): Promise<Measured> {
  const url = `${scheme}://localhost:${port}/hooks?tenant=7`;
  const [bare, whole] = [bareSender(url, ca), wholeSender(url)];
  try {
    await rateOf(bare.send, warmUpRequests);
    await rateOf(whole.send, warmUpRequests);
    const pairs: { bare: number; whole: number }[] = [];
    for (let i = 0; i < alternations; i++) {
      // Each goes first as often as the other.
      const first = i % 2 === 0 ? bare : whole;
      const one = await rateOf(first.send, requests);
      const other = await rateOf(first === bare ? whole.send : bare.send, requests);
      pairs.push(first === bare ? { bare: one, whole: other } : { bare: other, whole: one });
    }
    return { scheme, pairs };
  } finally {
    await Promise.all([bare.close(), whole.close()]);
  }
}

function bareSender(url: string, ca: string) {
  const pool = new Pool(new URL(url).origin, { connections: concurrency, pipelining: 1, allowH2: false, connect: { ca } });
  const send: Send = async () => {
    const { statusCode, body } = await request(url, { dispatcher: pool, method: 'POST', headers: bareHeaders, body: payload });
    await body.dump();
    if (statusCode !== 200) throw new Error(`status ${statusCode}`);
  };
  return { send, close: () => pool.close() };
}

/** What a delivery does between its read and its settle, by the product's own functions. */
function wholeSender(url: string) {
  const clock = { nowEpochMs: () => Date.now(), monotonicMs: () => performance.now() };
  const http = createUndiciHttp({ egress: { ...defaultEgress, allow: ['127.0.0.0/8', '::1/128'], http: true }, nowEpochMs: clock.nowEpochMs });
  const config = endpointSchema.parse({ endpointId: 'acme-prod', url });
  const endpoint = { config, version: 'V1', secrets: [formatSecret(Buffer.alloc(32, 7))], bodySecret: undefined };
  const deps = { clock, http, limits: deliver };
  const due = dueOf(endpoint);
  const verdict = { nowEpochMs: clock.nowEpochMs(), random: 0.5, leaseId: 'lease' };
  const send: Send = async () => {
    const outcome = await attempt(deps, due);
    if (outcome.kind !== 'answered') throw new Error(`an attempt ended as ${JSON.stringify(outcome)}`);
    const { state } = afterAttempt(due.record, outcome, config, verdict);
    if (state !== 'delivered') throw new Error(`a delivery ended as ${state}`);
  };
  return { send, close: () => Promise.resolve(http.close()) };
}

function dueOf(endpoint: Due['endpoint']): Due {
  const { endpointId } = endpoint.config;
  const eventId = 'evt_01J9';
  const claimKey = claimKeyOf(eventId);
  const payloadHash = hashOf(payload);
  const received = { messageId: 'm', receiptHandle: 'r', body: '', receiveCount: 1, sentEpochMs: Date.now(), deadLetterGeneration: undefined };
  const message = { endpointId, eventId, eventType: undefined, occurredAt: undefined, payload, payloadHash, claimKey, resend: 0 };
  const recordKey = recordKeyOf(endpointId, claimKey);
  return {
    endpoint,
    copy: { received, message, recordKey, claimKey, shortHash: shortHash(payloadHash) },
    record: blankRecord({ endpointId, recordKey, eventId, eventType: undefined, payloadHash }, received.sentEpochMs),
    invocation: { startedEpochMs: received.sentEpochMs, leaseExpiresEpochMs: Infinity, remainingMs: () => Infinity },
    readMs: endpoint.config.budgetsMs.read,
  };
}

/** Requests a second, with `concurrency` of them under way until none is left to begin. */
async function rateOf(send: Send, requests: number): Promise<number> {
  let left = requests;
  const startedMs = performance.now();
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (left-- > 0) await send();
    }),
  );
  return (requests / (performance.now() - startedMs)) * 1_000;
}

function reportOf(size: Size, measured: readonly Measured[]): Report {
  const rows: Row[] = [];
  const ceilings: Ceiling[] = [];
  for (const { scheme, pairs } of measured) {
    const ratios = pairs.map(({ bare, whole }) => whole / bare);
    const ratio = median(ratios);
    rows.push({
      table: 'requests a second, median',
      scheme,
      bare: Math.round(median(pairs.map(({ bare }) => bare))),
      whole: Math.round(median(pairs.map(({ whole }) => whole))),
      wholeOverBare: ratio,
      least: Math.min(...ratios),
      most: Math.max(...ratios),
    });
    ceilings.push(judge({ name: `${scheme}: whole attempt over bare undici`, source: 'docs/architecture.md', min: floors[scheme] }, ratio));
  }
  return { name: 'throughput', rows, ceilings, notes: notes(size) };
}
