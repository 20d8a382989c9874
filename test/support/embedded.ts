import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { GetQueueAttributesCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { LocalFile } from '../../bin/cli/target.ts';
import { createDynamoDbRegistry, type Registry } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { readRecord } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { claimKeyOf, recordKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { endpointSchema } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import type { Authority } from '../../local/authority.ts';
import { createAuthority } from '../../local/authority.ts';
import type { CallEntry } from '../../local/call-log.ts';
import type { CountedCall } from '../../local/interference.ts';
import type { Measured } from '../../local/measured.ts';
import type { Skipped, SkipOptions } from '../../local/skip.ts';
import type { Published } from '../../local/sns.ts';
import type { StackSpec } from '../../local/template.ts';

const root = path.join(import.meta.dirname, '../..');

/** A whole installation in processes of its own, driven from outside like a user's. */
export interface Embedded {
  readonly local: LocalFile;
  readonly localFile: string;
  readonly authority: Authority;
  readonly sqs: SQSClient;
  readonly db: DynamoDBClient;
  readonly registry: Registry;
  readonly child: ChildProcess;
  /** Output of the stack, by its name in limits/names.ts. */
  output(key: string): string;
  /** Sends a body as it is. */
  send(body: string, attributes?: { generation?: number }): Promise<void>;
  /** Registers an endpoint with the test's secret; settings as in the endpoint document. */
  register(endpointId: string, url: string, settings?: Record<string, unknown>, bodySecret?: string): Promise<void>;
  record(endpointId: string, eventId: string): Promise<DeliveryRecord | undefined>;
  advance(ms: number): Promise<void>;
  /**
   * Moves the clock to when the next hidden message becomes visible or the next wake-up is due, unless something is under way.
   * Waits a little that it ends.
   */
  skip(options?: SkipOptions): Promise<Skipped>;
  /** As `skip`, without moving anything. */
  look(): Promise<Skipped>;
  /** Passes time until the delivery queue and the drain queue are empty, nothing is under way, and no wake-up is to come. */
  drainQueue(limitMs?: number, options?: DrainOptions): Promise<void>;
  /** Waits until the delivery waits after `attempt` attempts, then moves the clock to its due time. */
  passDue(endpointId: string, eventId: string, attempt: number): Promise<void>;
  calls(since?: number): Promise<CallEntry[]>;
  stack(): Promise<StackSpec>;
  /** What was published at topics, the oldest first. */
  published(): Promise<Published[]>;
  environments(fn?: FunctionName): Promise<{ pid: number; busy: boolean }[]>;
  kill(pid: number, fn?: FunctionName): Promise<void>;
  /** Stops the function (default: deliver) at its `call`-th call from now on, or call of an operation; see local/README.md. A call of 0 only counts. */
  stopAt(call: number, when: 'before' | 'after', fn?: FunctionName, operation?: string): Promise<void>;
  disarmStop(): Promise<void>;
  stopState(): Promise<StopState>;
  /** Has every such call refused, until `heal`. */
  refuse(fault: { service: string; code: string; operation?: string; resource?: string; function?: string }): Promise<void>;
  heal(): Promise<void>;
  /** Has all invocations of a function refused, or none any more. */
  throttle(fn: FunctionName, throttled: boolean): Promise<void>;
  /** What AWS itself would measure of queues and functions now. */
  measured(): Promise<Measured>;
  /** Lines that the deliver function has logged. */
  logs(): string;
  logsOf(fn: FunctionName): string;
  stop(): Promise<number | null>;
}

export const functionNames = ['deliver', 'drain', 'sweep', 'replay', 'status'] as const;
export type FunctionName = (typeof functionNames)[number];

export interface DrainOptions {
  /** Does not wait for schedules that are to fire later, such as those of an endpoint that stays paused. */
  readonly ignoreWakeUps?: boolean;
}

const functionOutputs: Readonly<Record<FunctionName, string>> = {
  deliver: outputs.deliverFunction,
  drain: outputs.drainFunction,
  sweep: outputs.sweepFunction,
  replay: outputs.replayFunction,
  status: outputs.statusFunction,
};

export interface StopState {
  readonly counted: readonly CountedCall[];
  readonly stopped?: CountedCall;
}

export const testSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

export interface StartOptions {
  readonly args?: readonly string[];
  readonly concurrency?: number;
  /** Of an installation before, for a consumer that outlives it. */
  readonly authority?: Authority;
}

export async function startEmbedded(options: StartOptions = {}): Promise<Embedded> {
  const dir = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
  const authority = options.authority ?? (await createAuthority(path.join(mkdtempSync(path.join(tmpdir(), 'sluice-ca-')), 'ca.pem')));
  const args = ['--no-demo', '--state-dir', dir, '--trust-ca', authority.caFile, '--concurrency', String(options.concurrency ?? 4), ...(options.args ?? [])];
  const child = spawn(process.execPath, ['--import', './local/clock-preload.mjs', 'local/main.ts', ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  await readyLine(child);
  const localFile = path.join(dir, 'local.json');
  const local = JSON.parse(readFileSync(localFile, 'utf8')) as LocalFile;
  const settings = { endpoint: local.endpoint, region: local.region, credentials: local.credentials };
  const sqs = new SQSClient(settings);
  const db = new DynamoDBClient(settings);
  const output = (key: string) => local.outputs[key] ?? '';
  const registry = createDynamoDbRegistry(db, output(outputs.endpointsTable));
  const get = async <T>(url: string): Promise<T> => (await (await fetch(local.endpoint + url)).json()) as T;
  const post = async <T = unknown>(url: string, body: object, method = 'POST'): Promise<T> => {
    const answer = await fetch(local.endpoint + url, { method, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  };
  const skip = (options: SkipOptions = {}) => post<Skipped>('/_sluice/skip', { waitMs: 500, ...options });
  const logsOf = (fn: FunctionName) => readFileSync(path.join(dir, 'logs', `${output(functionOutputs[fn])}.log`), 'utf8');
  let version = 0;
  const record: Embedded['record'] = (endpointId, eventId) =>
    readRecord(db, output(outputs.deliveriesTable), recordKeyOf(endpointId, claimKeyOf(eventId)));

  return {
    local, localFile, authority, sqs, db, registry, child, output,
    async send(body, attributes = {}) {
      const generation = attributes.generation;
      await sqs.send(
        new SendMessageCommand({
          QueueUrl: output(outputs.deliveryQueueUrl),
          MessageBody: body,
          ...(generation === undefined ? {} : { MessageAttributes: { 'sluice-gen': { DataType: 'Number', StringValue: String(generation) } } }),
        }),
      );
    },
    async register(endpointId, url, settings = {}, bodySecret) {
      const config = endpointSchema.parse({ endpointId, url, ...settings });
      const answer = await registry.put({ config, version: `v${++version}-${endpointId}`, secrets: [testSecret], bodySecret });
      if (answer !== 'written') throw new Error(`endpoint ${endpointId}: ${answer}`);
    },
    record,
    skip,
    look: () => skip({ limitMs: 0 }),
    drainQueue: async (limitMs, { ignoreWakeUps = false } = {}) => {
      await until('the queues are empty', async () => {
        // Some seconds beyond, so that many do not come back one by one.
        const { idle, ready, hidden, wakeUps } = await skip({ beyondMs: 20_000, toWakeUps: !ignoreWakeUps });
        return idle && ready + hidden === 0 && (ignoreWakeUps || wakeUps === 0);
      }, limitMs);
    },
    async passDue(endpointId, eventId, attempt) {
      const dueEpochMs = await until(`${endpointId} ${eventId} waits after attempt ${attempt}`, async () => {
        const found = await record(endpointId, eventId);
        return found?.state === 'waiting' && found.attempt === attempt ? found.dueEpochMs : undefined;
      });
      const { nowEpochMs } = await get<{ nowEpochMs: number }>('/_sluice/clock');
      // The message's visibility is in whole seconds, rounded up.
      await post('/_sluice/clock', { advanceMs: Math.max(0, dueEpochMs - nowEpochMs) + 1_000 });
    },
    advance: async (ms) => void (await post('/_sluice/clock', { advanceMs: ms })),
    calls: (since = 0) => get(`/_sluice/calls?since=${since}`),
    stack: () => get('/_sluice/stack'),
    published: () => get('/_sluice/published'),
    environments: (fn = 'deliver') => get(`/_sluice/environments?function=${fn}`),
    kill: async (pid, fn = 'deliver') => void (await post('/_sluice/kill', { function: fn, pid })),
    stopAt: async (call, when, fn = 'deliver', operation = undefined) => void (await post('/_sluice/stop-at', { function: fn, call, when, operation })),
    throttle: async (fn, throttled) => void (await post('/_sluice/throttle', { function: fn, throttled })),
    measured: () => get('/_sluice/measured'),
    disarmStop: async () => void (await post('/_sluice/stop-at', {}, 'DELETE')),
    stopState: () => get('/_sluice/stop-at'),
    refuse: async (fault) => void (await post('/_sluice/faults', fault)),
    heal: async () => void (await post('/_sluice/faults', {}, 'DELETE')),
    logs: () => logsOf('deliver'),
    logsOf,
    async stop() {
      sqs.destroy();
      db.destroy();
      const exited = child.exitCode !== null ? Promise.resolve(child.exitCode) : new Promise<number | null>((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      const code = await exited;
      rmSync(dir, { recursive: true, force: true });
      return code;
    },
  };
}

/** Messages of a queue that could be received now, and those that are in flight or wait. */
export async function depth(sqs: SQSClient, QueueUrl: string): Promise<{ ready: number; hidden: number }> {
  const { Attributes = {} } = await sqs.send(
    new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] }),
  );
  return { ready: Number(Attributes['ApproximateNumberOfMessages']), hidden: Number(Attributes['ApproximateNumberOfMessagesNotVisible']) };
}

/** Copies in the dead-letter queue, at a moment in which no sweep or command looks at any: what is looked at is hidden for a while. */
export async function deadLettersOf(embedded: Embedded): Promise<number> {
  const count = await until('no dead letter is looked at', async () => {
    const { ready, hidden } = await depth(embedded.sqs, embedded.output(outputs.deadLetterQueueUrl));
    return hidden === 0 && { ready };
  });
  return count.ready;
}

async function readyLine(child: ChildProcess): Promise<void> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('the installation has no output');
  let errors = '';
  stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const ready = Promise.withResolvers<void>();
  createInterface({ input: stdout }).on('line', (line) => {
    if (line.includes('"ready":true')) ready.resolve();
  });
  child.once('exit', (code) => ready.reject(new Error(`the installation ended with ${code}:\n${errors}`)));
  await ready.promise;
}

/** Waits for a condition, never for luck; the limit only ends a test that would hang. */
export async function until<T>(what: string, look: () => Promise<T | undefined | false> | T | undefined | false, limitMs = 40_000): Promise<T> {
  const endsMs = performance.now() + limitMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > endsMs) throw new Error(`not within ${limitMs} ms: ${what}`);
    await sleep(25);
  }
}

/** A message's body; `payload` is source text. */
export function messageBody(endpointId: string, eventId: string, payload = '{"n":1}', more: Record<string, unknown> = {}): string {
  return `${JSON.stringify({ v: 1, endpointId, eventId, ...more }).slice(0, -1)},"payload":${payload}}`;
}
