/** The demo: three customers, events through the ordinary SQS client, a table from the records, a replay by the CLI. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { GetQueueAttributesCommand, SendMessageBatchCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { createDynamoDbRegistry, type Registry } from '../lambdas/shared/adapters/dynamodb-registry.ts';
import { ulid } from '../lambdas/shared/core/version.ts';
import { endpointSchema } from '../lambdas/shared/limits/endpoint-schema.ts';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { formatSecret } from '../lambdas/shared/limits/secret.ts';
import type { Authority } from './authority.ts';
import { type Behaviour, type Consumer, flaky, healthy, rejecting, startConsumer } from './consumers.ts';
import type { EmbeddedAws } from './embedded-aws.ts';
import { LiveTable, readOverview, type Overview } from './live-table.ts';

export interface Demo {
  /** True once everything ended as promised; resolves only with `once`. */
  readonly finished: Promise<boolean>;
  stop(): Promise<void>;
}

interface Customer {
  readonly endpointId: string;
  readonly behaviour: Behaviour;
  /** Events of the first burst. */
  readonly events: number;
  /** Requests that each event must have caused by the end. */
  readonly requestsPerEvent: number;
  consumer: Consumer;
}

/** Short backoff, so that a person sees a retry happen. */
const demoRetry = { baseS: 2, factor: 2, capS: 8, attempts: 6, maxAgeS: 600 };
const trickleMs = 2_000;
const onceLimitMs = 90_000;

export async function startDemo(embedded: EmbeddedAws, authority: Authority, options: { once: boolean; stateDir: string }): Promise<Demo> {
  const customers: Customer[] = [];
  for (const [endpointId, behaviour, events, requestsPerEvent] of [
    ['healthy', healthy, 40, 1],
    ['flaky', flaky, 10, 3],
    ['reject', rejecting, 5, 2],
  ] as const) {
    customers.push({ endpointId, behaviour, events, requestsPerEvent, consumer: await startConsumer(authority, behaviour) });
  }
  const play = new Play(embedded, customers, options);
  await play.begin();
  return {
    finished: options.once ? play.toTheEnd() : new Promise(() => undefined),
    stop: async () => {
      play.stop();
      await Promise.all(customers.map((c) => c.consumer.close()));
    },
  };
}

class Play {
  readonly #embedded: EmbeddedAws;
  readonly #customers: readonly Customer[];
  readonly #options: { once: boolean; stateDir: string };
  readonly #sqs: SQSClient;
  readonly #db: DynamoDBClient;
  readonly #registry: Registry;
  readonly #table = new LiveTable();
  readonly #timers: NodeJS.Timeout[] = [];

  constructor(embedded: EmbeddedAws, customers: readonly Customer[], options: { once: boolean; stateDir: string }) {
    const { endpoint, region, credentials } = embedded.localFile;
    this.#embedded = embedded;
    this.#customers = customers;
    this.#options = options;
    this.#sqs = new SQSClient({ endpoint, region, credentials: { ...credentials, accessKeyId: 'producer' } });
    this.#db = new DynamoDBClient({ endpoint, region, credentials });
    this.#registry = createDynamoDbRegistry(this.#db, this.#output(outputs.endpointsTable));
  }

  /** Registers the customers and sends the first events. */
  async begin(): Promise<void> {
    for (const customer of this.#customers) await this.#register(customer);
    await Promise.all(this.#customers.map((customer) => this.#burst(customer)));
    this.#every(500, async () => this.#table.show(await this.#overview(), !this.#options.once));
    if (!this.#options.once) this.#every(trickleMs, () => this.#send('healthy', `evt_${ulid(Date.now(), randomBytes(10))}`));
  }

  /** Waits for the first verdicts, repairs the rejecting customer, replays its dead letters, and checks all counts. */
  async toTheEnd(): Promise<boolean> {
    const first = await this.#until((o) => this.#settled(o, { reject: 'dead' }));
    this.#pause();
    this.#table.settle(await this.#overview());
    console.log(first ? '\nEvery event has its verdict. The rejecting customer is repaired; its dead letters are replayed:' : '\nNot all events were settled in time.');
    this.#customers.find((c) => c.endpointId === 'reject')?.consumer.become(healthy);
    const replayed = await this.#cli('dlq', 'replay', '--endpoint', 'reject', '--yes');
    const second = await this.#until((o) => this.#settled(o, {}));
    this.#table.settle(await this.#overview());
    return this.#report(first && replayed === 0 && second);
  }

  stop(): void {
    this.#pause();
    this.#sqs.destroy();
    this.#db.destroy();
  }

  #pause(): void {
    this.#timers.splice(0).forEach((timer) => clearInterval(timer));
  }

  async #register({ endpointId, consumer }: Customer): Promise<void> {
    const known = await this.#registry.get(endpointId);
    const secrets = known?.endpoint.secrets ?? [formatSecret(randomBytes(32))];
    const config = endpointSchema.parse({ endpointId, url: consumer.url, retry: demoRetry });
    await this.#registry.put({ config, version: ulid(Date.now(), randomBytes(10)), secrets });
    consumer.trust(secrets[0] ?? '');
  }

  async #burst({ endpointId, events }: Customer): Promise<void> {
    for (let from = 0; from < events; from += 10) {
      const ids = Array.from({ length: Math.min(10, events - from) }, () => `evt_${ulid(Date.now(), randomBytes(10))}`);
      const Entries = ids.map((eventId, i) => ({ Id: String(i), MessageBody: demoMessage(endpointId, eventId), MessageGroupId: endpointId }));
      await this.#sqs.send(new SendMessageBatchCommand({ QueueUrl: this.#output(outputs.deliveryQueueUrl), Entries }));
    }
  }

  async #send(endpointId: string, eventId: string): Promise<void> {
    const QueueUrl = this.#output(outputs.deliveryQueueUrl);
    await this.#sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: demoMessage(endpointId, eventId), MessageGroupId: endpointId }));
  }

  #overview(): Promise<Overview[]> {
    return readOverview(this.#db, this.#registry, this.#output(outputs.deliveriesTable));
  }

  #settled(overview: readonly Overview[], expected: Readonly<Record<string, 'dead'>>): boolean {
    return this.#customers.every(({ endpointId, events }) => {
      const row = overview.find((o) => o.endpointId === endpointId);
      return (expected[endpointId] === 'dead' ? row?.dead : row?.delivered) === events;
    });
  }

  async #until(holds: (overview: Overview[]) => boolean): Promise<boolean> {
    for (const endsMs = performance.now() + onceLimitMs; performance.now() < endsMs; await sleep(250)) {
      if (holds(await this.#overview())) return true;
    }
    return false;
  }

  async #report(settled: boolean): Promise<boolean> {
    const lines: [boolean, string][] = [[settled, 'every event ended delivered, the rejected ones after their replay']];
    for (const { endpointId, events, requestsPerEvent, consumer } of this.#customers) {
      const requests = [...consumer.seen.values()].reduce((sum, n) => sum + n, 0);
      lines.push([requests === events * requestsPerEvent, `${endpointId}: ${events} events, ${requests} verified requests (${events * requestsPerEvent} promised)`]);
      lines.push([consumer.rejectedSignatures() === 0, `${endpointId}: every signature verified with an independent library`]);
    }
    const left = await this.#depths();
    lines.push([left === 0, `messages left in any queue: ${left}`]);
    console.log(`\n${lines.map(([ok, text]) => `${ok ? 'ok    ' : 'FAILED'} ${text}`).join('\n')}`);
    return lines.every(([ok]) => ok);
  }

  /** An acknowledgement follows the record by a moment, so the queues are looked at until they are empty. */
  async #depths(): Promise<number> {
    const names = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible', 'ApproximateNumberOfMessagesDelayed'] as const;
    const depth = async () => {
      const answers = await Promise.all(
        [outputs.deliveryQueueUrl, outputs.deadLetterQueueUrl, outputs.faultQueueUrl].map((key) =>
          this.#sqs.send(new GetQueueAttributesCommand({ QueueUrl: this.#output(key), AttributeNames: [...names] })),
        ),
      );
      return answers.flatMap((a) => names.map((n) => Number(a.Attributes?.[n] ?? 0))).reduce((sum, n) => sum + n, 0);
    };
    let left = await depth();
    for (let tries = 0; left > 0 && tries < 40; tries++) {
      await sleep(250);
      left = await depth();
    }
    return left;
  }

  #cli(...args: string[]): Promise<number> {
    const file = path.join(import.meta.dirname, '../bin/sluice.ts');
    const env = { ...process.env, SLUICE_LOCAL_FILE: path.join(this.#options.stateDir, 'local.json') };
    console.log(`  $ npx sluice ${args.join(' ')}`);
    const child = spawn(process.execPath, [file, '--local', ...args], { env, stdio: ['ignore', 'inherit', 'inherit'] });
    return new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)));
  }

  #every(intervalMs: number, work: () => Promise<void>): void {
    let busy = false;
    const timer = setInterval(() => {
      if (busy) return;
      busy = true;
      work()
        // At the end the wire closes under the last look.
        .catch(() => undefined)
        .finally(() => (busy = false));
    }, intervalMs);
    this.#timers.push(timer);
  }

  #output(key: string): string {
    const value = this.#embedded.localFile.outputs[key];
    if (value === undefined) throw new Error(`the stack has no output ${key}`);
    return value;
  }
}

function demoMessage(endpointId: string, eventId: string): string {
  return JSON.stringify({ v: 1, endpointId, eventId, eventType: 'demo.hello', payload: { hello: 'wörld 🌊', n: 1 } });
}
