/** What every play of `npm start` needs: the installation's operator and producer at once, through the ordinary clients. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { GetQueueAttributesCommand, SendMessageBatchCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { z } from 'zod';
import { createDynamoDbRegistry, type Registry } from '../lambdas/shared/adapters/dynamodb-registry.ts';
import type { Lane } from '../lambdas/shared/core/lane.ts';
import type { DeliveryRecord } from '../lambdas/shared/core/record.ts';
import { ulid } from '../lambdas/shared/core/version.ts';
import { endpointSchema } from '../lambdas/shared/limits/endpoint-schema.ts';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { formatSecret } from '../lambdas/shared/limits/secret.ts';
import type { Authority } from './authority.ts';
import type { EmbeddedAws } from './embedded-aws.ts';
import { type Overview, readOverview, scanRecords } from './live-table.ts';

/** A play that has begun. */
export interface Play {
  /** True once everything ended as promised; resolves only with `once`. */
  readonly finished: Promise<boolean>;
  stop(): Promise<void>;
}

export interface PlayOptions {
  /** Plays to an end, and checks it. */
  readonly once: boolean;
  readonly stateDir: string;
  /**
   * Stops every function and emulator, and starts them again with what the data directory holds; `stopped` is called in between.
   * What was made for the installation before, its clients too, is of no use any more.
   */
  restart(stopped: () => void): Promise<EmbeddedAws>;
}

export type StartPlay = (embedded: EmbeddedAws, authority: Authority, options: PlayOptions) => Promise<Play>;

/** A story that is told to its end: with `once` that is all, else it stays up until it is stopped. */
export function playOf(telling: Promise<boolean>, { once }: PlayOptions, { told, stop }: { told: () => void; stop: () => Promise<void> }): Play {
  let isStopping = false;
  if (!once) {
    telling.then(told, (error: unknown) => {
      // At the end the wire closes under the last look.
      if (!isStopping) console.error(error);
    });
  }
  return {
    finished: once ? telling : new Promise(() => undefined),
    stop: () => {
      isStopping = true;
      return stop();
    },
  };
}

export const newEventId = (): string => `evt_${ulid(Date.now(), randomBytes(10))}`;
const greeting = { hello: 'wörld 🌊', n: 1 };

export class Driver {
  readonly #outputs: Readonly<Record<string, string>>;
  readonly #sqs: SQSClient;
  readonly #db: DynamoDBClient;
  readonly #registry: Registry;
  readonly #timers: NodeJS.Timeout[] = [];

  constructor(embedded: EmbeddedAws) {
    const { endpoint, region, credentials, outputs: named } = embedded.localFile;
    this.#outputs = named;
    this.#sqs = new SQSClient({ endpoint, region, credentials: { ...credentials, accessKeyId: 'producer' } });
    this.#db = new DynamoDBClient({ endpoint, region, credentials });
    this.#registry = createDynamoDbRegistry(this.#db, this.#output(outputs.endpointsTable));
  }

  /** Registers an endpoint, or points a known one at the new URL. @returns the secret that its requests are signed with */
  async register(document: z.input<typeof endpointSchema>): Promise<string> {
    const config = endpointSchema.parse(document);
    const known = await this.#registry.get(config.endpointId);
    const secrets = known?.endpoint.secrets ?? [formatSecret(randomBytes(32))];
    await this.#registry.put({ config, version: ulid(Date.now(), randomBytes(10)), secrets, bodySecret: known?.endpoint.bodySecret });
    return secrets[0] ?? '';
  }

  async send(endpointId: string, eventId: string, payload: unknown = greeting): Promise<void> {
    const QueueUrl = this.#output(outputs.deliveryQueueUrl);
    await this.#sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: message(endpointId, eventId, payload), MessageGroupId: endpointId }));
  }

  /** Sends as many events as a producer in a hurry would: ten at a time. */
  async burst(endpointId: string, events: number): Promise<void> {
    for (let from = 0; from < events; from += 10) {
      const ids = Array.from({ length: Math.min(10, events - from) }, newEventId);
      const Entries = ids.map((eventId, i) => ({ Id: String(i), MessageBody: message(endpointId, eventId, greeting), MessageGroupId: endpointId }));
      await this.#sqs.send(new SendMessageBatchCommand({ QueueUrl: this.#output(outputs.deliveryQueueUrl), Entries }));
    }
  }

  overview(): Promise<Overview[]> {
    return readOverview(this.#db, this.#registry, this.#output(outputs.deliveriesTable));
  }

  /** The lane of an endpoint that there is. */
  async lane(endpointId: string): Promise<Lane> {
    const found = await this.#registry.get(endpointId);
    if (found === undefined) throw new Error(`no endpoint ${endpointId}`);
    return found.lane;
  }

  records(): Promise<DeliveryRecord[]> {
    return scanRecords(this.#db, this.#output(outputs.deliveriesTable));
  }

  /** An acknowledgement follows the record by a moment, so the queues are looked at until they are empty, for ten seconds. */
  async messagesLeft(): Promise<number> {
    let left = await this.#depth();
    for (let tries = 0; left > 0 && tries < 40; tries++) {
      await sleep(250);
      left = await this.#depth();
    }
    return left;
  }

  async #depth(): Promise<number> {
    const names = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible', 'ApproximateNumberOfMessagesDelayed'] as const;
    const answers = await Promise.all(
      [outputs.deliveryQueueUrl, outputs.deadLetterQueueUrl, outputs.faultQueueUrl].map((key) =>
        this.#sqs.send(new GetQueueAttributesCommand({ QueueUrl: this.#output(key), AttributeNames: [...names] })),
      ),
    );
    return answers.flatMap((a) => names.map((n) => Number(a.Attributes?.[n] ?? 0))).reduce((sum, n) => sum + n, 0);
  }

  /** Looks until it holds. @returns false if it did not within `limitMs` */
  async until(limitMs: number, holds: () => Promise<boolean>): Promise<boolean> {
    for (const endsMs = performance.now() + limitMs; performance.now() < endsMs; await sleep(250)) {
      if (await holds()) return true;
    }
    return false;
  }

  /** Repeats the work, never two at a time, until `pause`. */
  every(intervalMs: number, work: () => Promise<void>): void {
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

  pause(): void {
    this.#timers.splice(0).forEach((timer) => clearInterval(timer));
  }

  stop(): void {
    this.pause();
    this.#sqs.destroy();
    this.#db.destroy();
  }

  #output(key: string): string {
    const value = this.#outputs[key];
    if (value === undefined) throw new Error(`the stack has no output ${key}`);
    return value;
  }
}

/** Prints what was checked. @returns true if all of it is as promised */
export function report(lines: readonly (readonly [boolean, string])[]): boolean {
  console.log(`\n${lines.map(([ok, text]) => `${ok ? 'ok    ' : 'FAILED'} ${text}`).join('\n')}`);
  return lines.every(([ok]) => ok);
}

function message(endpointId: string, eventId: string, payload: unknown): string {
  return JSON.stringify({ v: 1, endpointId, eventId, eventType: 'demo.hello', payload });
}
