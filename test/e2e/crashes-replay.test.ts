/** Crashes of what operators do with dead letters: of the replay function at each of its effects, and of the command that drops at each of its calls. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { cliProcess, runCli } from '../support/cli.ts';
import { generationOf, type CrashRun, type Scenario } from '../support/crash-run.ts';
import { describeCrashes } from '../support/crash-suite.ts';
import { callReplay, seedDead, type Buried } from '../support/dead-letters.ts';
import { depth, startEmbedded, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

/** Call after call, whatever becomes of one, until a whole one finds nothing that is dead. */
async function replayAll({ embedded, endpointId }: CrashRun): Promise<void> {
  for (let crashes = 0; ; ) {
    const answer = await callReplay(embedded, { select: { endpointId } }).catch((error: unknown) => {
      // One crash in a run.
      if (++crashes > 1) throw error;
      return undefined;
    });
    if (answer?.selected === 0 && answer.busy === 0) return;
  }
}

const scenarios: Scenario[] = [
  {
    name: 'a replay of a dead letter',
    fn: 'replay',
    requests: 2,
    prepare: async (run) => {
      await run.register();
      await run.send();
      await run.settle();
    },
    send: replayAll,
    reply: (_request, nth) => ({ status: nth === 1 ? 422 : 200 }),
  },
];

describeCrashes('a crash at every side effect of a replay (R10)', scenarios);

interface Kill {
  readonly nth: number;
  readonly when: 'before' | 'after';
}

/** Stands between a command and AWS: kills the command at its n-th call, before or after that is performed. */
class Between {
  readonly calls: string[] = [];
  #kill: Kill | undefined;
  #end: () => void = () => undefined;
  readonly #server: Server;

  private constructor(endpoint: string) {
    this.#server = createServer((request, response) => void this.#hand(endpoint, request, response));
  }

  async #hand(endpoint: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const sent = await buffer(request);
    const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers as Record<string, string>;
    this.calls.push(headers['x-amz-target']?.split('.').at(-1) ?? '');
    const isLast = this.calls.length === this.#kill?.nth;
    if (isLast && this.#kill?.when === 'before') return this.#end();
    const answer = await fetch(endpoint + (request.url ?? '/'), { method: 'POST', headers, body: sent });
    const body = Buffer.from(await answer.arrayBuffer());
    if (isLast) return this.#end();
    response.writeHead(answer.status, { ...Object.fromEntries(answer.headers), connection: 'close' }).end(body);
  }

  static async start(endpoint: string): Promise<Between> {
    const between = new Between(endpoint);
    await new Promise<void>((resolve) => between.#server.listen(0, '127.0.0.1', resolve));
    return between;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  arm(kill: Kill, end: () => void): void {
    this.calls.length = 0;
    [this.#kill, this.#end] = [kill, end];
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

describe('a crash of `dlq drop` at every call that it makes (R9)', () => {
  const endpointId = 'acme';
  /** More than it makes. */
  const most = 20;
  const dir = mkdtempSync(path.join(tmpdir(), 'sluice-between-'));
  let embedded: Embedded;
  let consumer: Recorder;
  let between: Between;
  let letters: Buried[];
  beforeAll(async () => {
    embedded = await startEmbedded();
    consumer = await startRecorder(embedded.authority);
    between = await Between.start(embedded.local.endpoint);
    await embedded.register(endpointId, consumer.url());
    const { nowEpochMs } = await embedded.look();
    letters = await seedDead(embedded, Array.from({ length: 2 * most }, (_, i) => ({ endpointId, eventId: `evt_${i}`, lastEpochMs: nowEpochMs - 60_000 + i })));
    writeFileSync(path.join(dir, 'local.json'), JSON.stringify({ ...embedded.local, endpoint: between.endpoint }));
  });
  afterAll(async () => {
    between.close();
    await consumer.close();
    await embedded.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const dropArgs = (eventId: string, by: string) => ['dlq', 'drop', '--endpoint', endpointId, '--event', eventId, '--why', `said by ${by}`, '--by', by, '--yes', '--json'];

  /** True where the command was killed. */
  async function dropKilled(eventId: string, kill: Kill): Promise<boolean> {
    const { file, args, env } = cliProcess(embedded.localFile, dropArgs(eventId, 'ada'));
    const child = spawn(file, args, { env: { ...env, SLUICE_LOCAL_FILE: path.join(dir, 'local.json') }, stdio: 'ignore' });
    between.arm(kill, () => child.kill('SIGKILL'));
    const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => child.once('exit', (...how) => resolve(how)));
    expect(signal === 'SIGKILL' ? null : 0, eventId).toBe(code);
    return signal === 'SIGKILL';
  }

  async function redriveAll(): Promise<number> {
    const QueueUrl = embedded.output(outputs.deadLetterQueueUrl);
    for (let redriven = 0; ; ) {
      const { Messages = [] } = await embedded.sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 600, MessageAttributeNames: ['All'] }));
      // More are hidden than were received here: the sweep looks at some just now.
      if (Messages.length === 0 && (await depth(embedded.sqs, QueueUrl)).hidden <= redriven) return redriven;
      redriven += Messages.length;
      for (const copy of Messages) await embedded.send(copy.Body ?? '', { generation: generationOf(copy) });
    }
  }

  it('is finished by a repeat: each is dropped once, by who did it, and no redrive sends it', { timeout: 120_000 }, async () => {
    const killed: { eventId: string; where: string }[] = [];
    for (let nth = 1, goesOn = true; goesOn; nth++) {
      for (const when of ['before', 'after'] as const) {
        const eventId = `evt_${killed.length}`;
        goesOn = await dropKilled(eventId, { nth, when });
        if (!goesOn) break;
        const where = `${when} ${nth} ${between.calls.at(-1) ?? ''}`;
        killed.push({ eventId, where });
        const left = await embedded.record(endpointId, eventId);
        const repeat = await runCli(embedded.localFile, dropArgs(eventId, 'bob'));
        // What the first has dropped is the repeat's no more: whose word it was stays.
        const [by, dropped] = left?.state === 'dropped' ? ['ada', 0] : ['bob', 1];
        expect([where, repeat.code, repeat.json<{ dropped: number }>().dropped]).toEqual([where, 0, dropped]);
        expect(await embedded.record(endpointId, eventId), where).toMatchObject({ state: 'dropped', by, why: `said by ${by}`, reason: 'exhausted', generation: 0 });
      }
    }
    console.log(`dlq drop: ${killed.length} crashes around ${between.calls.join(', ')}`);
    expect(between.calls).toEqual(expect.arrayContaining(['TransactWriteItems', 'DeleteItem']));
    expect(killed).toHaveLength(2 * between.calls.length);

    // Only who dies between the drop and its end leaves a body, which ends by itself.
    const dropped = letters.filter(({ record }) => killed.some(({ eventId }) => eventId === record.eventId));
    const { found } = await createDynamoDbPayloads(embedded.db, embedded.output(outputs.payloadsTable)).read(dropped.map(({ record }) => record));
    const withBody = killed.filter(({ eventId }) => dropped.some(({ record }) => record.eventId === eventId && found.has(record.recordKey))).map(({ where }) => where);
    expect(withBody).toEqual([expect.stringMatching(/^after \d+ TransactWriteItems$/), expect.stringMatching(/^before \d+ DeleteItem$/)]);

    consumer.reply(() => ({ status: 200 }));
    expect(await redriveAll()).toBeGreaterThanOrEqual(dropped.length);
    await embedded.drainQueue();
    const sent = new Set(consumer.requests.map(({ eventId }) => eventId));
    expect(killed.filter(({ eventId }) => sent.has(eventId))).toEqual([]);
    // The rest was redriven, and is what shows that a redrive sends.
    expect(sent.size).toBe(letters.length - killed.length - 1);
  });
});
