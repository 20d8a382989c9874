/**
 * An SQS event source mapping as Lambda runs it: polls, batches, invokes, and deletes what the function did not report as failed.
 * What is not deleted comes back after its visibility timeout; nothing here makes a message visible again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import type { SQSMessageAttributes, SQSRecord, SQSRecordAttributes } from 'aws-lambda';
import type { InvokeResult } from './lambda-host.ts';

/** What a mapping needs of its queue. */
export interface SourceQueue {
  /** Lambda reads the attributes once when a mapping is enabled; a role that may not is refused here. */
  describe(): Promise<void>;
  /** Resolves with an empty list when nothing came in `waitS`; rejects when `signal` aborts. */
  receive(maxMessages: number, waitS: number, signal: AbortSignal): Promise<Message[]>;
  /** At most ten handles. @returns the handles that SQS refused. */
  deleteBatch(receiptHandles: string[]): Promise<string[]>;
}

export interface EventSourceOptions {
  queue: SourceQueue;
  queueArn: string;
  region: string;
  batchSize: number;
  windowS: number;
  /** Undefined: bounded by `concurrencyCap` alone. */
  maxConcurrency?: number | undefined;
  /** What this machine bears, whatever the stage says. */
  concurrencyCap: number;
  reportBatchItemFailures: boolean;
  invoke: (event: { Records: SQSRecord[] }) => Promise<InvokeResult>;
  /** Told of failed polls and deletes; both mean a redelivery, never a loss. */
  onError: (error: Error) => void;
}

/** Lambda starts five pollers on a standard queue. */
const pollers = 5;
const longPollS = 20;
const sqsBatch = 10;
const afterFailedPollMs = 1_000;

export class EventSource {
  readonly #options: EventSourceOptions;
  readonly #concurrency: number;
  readonly #stopping = new AbortController();
  readonly #inFlight = new Set<Promise<void>>();
  #loops: Promise<void>[] = [];
  #polling = 0;
  #begun = 0;
  #abandoned = false;
  #roomMade = Promise.withResolvers<void>();

  constructor(options: EventSourceOptions) {
    this.#options = options;
    this.#concurrency = Math.min(options.maxConcurrency ?? Infinity, options.concurrencyCap);
  }

  /** @throws what `describe` throws: a mapping on a queue that its role cannot read does not start. */
  async start(): Promise<void> {
    await this.#options.queue.describe();
    this.#loops = Array.from({ length: Math.min(pollers, this.#concurrency) }, () => this.#poll());
  }

  /**
   * Stops polling and waits for the invocations in flight.
   * @param now do not wait for them and delete nothing more: their messages come back.
   */
  async stop({ now = false }: { now?: boolean } = {}): Promise<void> {
    this.#abandoned ||= now;
    this.#stopping.abort();
    this.#signalRoom();
    await Promise.all(this.#loops);
    if (!now) await Promise.all(this.#inFlight);
  }

  /** Messages of all batches so far, those in flight included. */
  get begun(): number {
    return this.#begun;
  }

  /** Batches that are being served: invoked, or their messages deleted. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  async #poll(): Promise<void> {
    while (await this.#takeRoom()) {
      const batch = await this.#receiveBatch();
      this.#polling -= 1;
      if (batch.length > 0) this.#begin(batch);
      this.#signalRoom();
    }
  }

  /** A poll takes the room of the invocation that it may lead to, so no message is received that cannot be served at once. */
  async #takeRoom(): Promise<boolean> {
    while (!this.#stopping.signal.aborted) {
      if (this.#polling + this.#inFlight.size < this.#concurrency) {
        this.#polling += 1;
        return true;
      }
      await this.#roomMade.promise;
    }
    return false;
  }

  #signalRoom(): void {
    this.#roomMade.resolve();
    this.#roomMade = Promise.withResolvers<void>();
  }

  /** One long poll, then, with a window, more of them until the batch is full or the window over. */
  async #receiveBatch(): Promise<Message[]> {
    const { batchSize, windowS } = this.#options;
    const batch = await this.#receive(batchSize, longPollS);
    const windowEndEpochMs = Date.now() + windowS * 1_000;
    while (batch.length > 0 && batch.length < batchSize && !this.#stopping.signal.aborted) {
      const leftS = Math.ceil((windowEndEpochMs - Date.now()) / 1_000);
      if (leftS <= 0) break;
      batch.push(...(await this.#receive(batchSize - batch.length, Math.min(leftS, longPollS))));
    }
    return batch;
  }

  async #receive(maxMessages: number, waitS: number): Promise<Message[]> {
    const { signal } = this.#stopping;
    try {
      return await this.#options.queue.receive(Math.min(sqsBatch, maxMessages), waitS, signal);
    } catch (error) {
      if (signal.aborted) return [];
      this.#options.onError(asError(error));
      await delay(afterFailedPollMs, undefined, { signal }).catch(() => undefined);
      return [];
    }
  }

  #begin(batch: Message[]): void {
    this.#begun += batch.length;
    const done = this.#serve(batch)
      .catch((error: unknown) => this.#options.onError(asError(error)))
      .finally(() => {
        this.#inFlight.delete(done);
        this.#signalRoom();
      });
    this.#inFlight.add(done);
  }

  async #serve(batch: Message[]): Promise<void> {
    const { invoke, queueArn, region, reportBatchItemFailures, queue } = this.#options;
    const result = await invoke({ Records: batch.map((message) => toRecord(message, queueArn, region)) });
    if (this.#abandoned) return;
    const succeeded = succeededMessages(batch, result, reportBatchItemFailures);
    for (let from = 0; from < succeeded.length; from += sqsBatch) {
      const handles = succeeded.slice(from, from + sqsBatch).flatMap(({ ReceiptHandle }) => ReceiptHandle ?? []);
      const refused = await queue.deleteBatch(handles);
      if (refused.length > 0) this.#options.onError(new Error(`SQS refused to delete ${refused.length} of ${handles.length} messages`));
    }
  }
}

/**
 * Which messages of a batch Lambda deletes. Exactly its rules: an error, a malformed answer, or an identifier that is empty, missing
 * or not of this batch fails the whole batch; no answer, or no list, or an empty list is a complete success.
 * Source: Lambda developer guide, "Handling errors for an SQS event source".
 */
export function succeededMessages(batch: Message[], result: InvokeResult, reportBatchItemFailures: boolean): Message[] {
  if (result.kind === 'error') return [];
  if (!reportBatchItemFailures) return batch;
  const failed = failedIds(result.payload);
  if (failed === 'malformed') return [];
  const known = new Set(batch.map((message) => message.MessageId));
  if (failed.some((id) => !known.has(id))) return [];
  return batch.filter(({ MessageId }) => MessageId === undefined || !failed.includes(MessageId));
}

function failedIds(payload: unknown): string[] | 'malformed' {
  if (payload === null) return [];
  if (typeof payload !== 'object' || Array.isArray(payload)) return 'malformed';
  const list: unknown = 'batchItemFailures' in payload ? payload.batchItemFailures : null;
  if (list === null) return [];
  if (!Array.isArray(list)) return 'malformed';
  const ids = list.map((item: unknown) => (typeof item === 'object' && item !== null && 'itemIdentifier' in item ? item.itemIdentifier : undefined));
  return ids.every((id) => typeof id === 'string' && id !== '') ? (ids as string[]) : 'malformed';
}

/** One message in the shape in which Lambda hands it to a function. */
export function toRecord(message: Message, queueArn: string, region: string): SQSRecord {
  return {
    messageId: message.MessageId ?? '',
    receiptHandle: message.ReceiptHandle ?? '',
    body: message.Body ?? '',
    // SQS promises the four attributes that the type demands for MessageSystemAttributeNames "All".
    attributes: (message.Attributes ?? {}) as unknown as SQSRecordAttributes,
    messageAttributes: toRecordAttributes(message.MessageAttributes ?? {}),
    md5OfBody: message.MD5OfBody ?? '',
    ...(message.MD5OfMessageAttributes === undefined ? {} : { md5OfMessageAttributes: message.MD5OfMessageAttributes }),
    eventSource: 'aws:sqs',
    eventSourceARN: queueArn,
    awsRegion: region,
  };
}

function toRecordAttributes(attributes: Record<string, MessageAttributeValue>): SQSMessageAttributes {
  const entries = Object.entries(attributes).map(([name, { DataType, StringValue, BinaryValue }]) => {
    const value = {
      ...(StringValue === undefined ? {} : { stringValue: StringValue }),
      ...(BinaryValue === undefined ? {} : { binaryValue: Buffer.from(BinaryValue).toString('base64') }),
      stringListValues: [] as never[],
      binaryListValues: [] as never[],
      dataType: DataType ?? 'String',
    };
    return [name, value] as const;
  });
  return Object.fromEntries(entries);
}

/** The queue over the SDK, called under the function's role as Lambda's pollers do: the access key names it in the call log. */
export function sqsSourceQueue(options: { endpoint: string; region: string; queueUrl: string; roleName: string }): SourceQueue & { destroy(): void } {
  const QueueUrl = options.queueUrl;
  const client = new SQSClient({
    endpoint: options.endpoint,
    region: options.region,
    credentials: { accessKeyId: options.roleName, secretAccessKey: 'local' },
  });
  return {
    describe: async () => {
      await client.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }));
    },
    receive: async (MaxNumberOfMessages, WaitTimeSeconds, abortSignal) => {
      const all = { MessageSystemAttributeNames: ['All' as const], MessageAttributeNames: ['All'] };
      const received = await client.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages, WaitTimeSeconds, ...all }), { abortSignal });
      return received.Messages ?? [];
    },
    deleteBatch: async (receiptHandles) => {
      const Entries = receiptHandles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
      const deleted = await client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
      return (deleted.Failed ?? []).map(({ Id }) => receiptHandles[Number(Id)] ?? '');
    },
    destroy: () => client.destroy(),
  };
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
