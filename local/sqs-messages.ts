/** Sending, receiving, hiding and deleting messages, with the receipts that fauxqs forgets when a message becomes visible again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AwsError, type CallOptions, type JsonObject } from './emulator.ts';
import { SqsStore, md5OfMessageAttributes } from './fauxqs.ts';
import { type OutgoingMessage, batchEntries, boundedInteger, checkBatchBytes, invalidValue, limits, sqsError } from './sqs-strict.ts';
import type { Message, MessageAttribute, Queue, Received, Store } from './types/fauxqs.d.ts';

/** How often a long poll looks again while the queue is over its in-flight limit. */
const overLimitPollMs = 250;
const receiptHandle = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function send(queue: Queue, checked: OutgoingMessage): JsonObject {
  const delayS = checked.delayS > 0 ? checked.delayS : undefined;
  const message = SqsStore.createMessage(checked.body, checked.attributes, delayS, checked.groupId);
  if (checked.traceHeader) message.traceHeader = checked.traceHeader;
  queue.enqueue(message);
  const trace = checked.traceHeader && { AWSTraceHeader: { DataType: 'String', StringValue: checked.traceHeader } };
  return {
    MessageId: message.messageId,
    MD5OfMessageBody: message.md5OfBody,
    ...(message.md5OfMessageAttributes ? { MD5OfMessageAttributes: message.md5OfMessageAttributes } : {}),
    ...(trace ? { MD5OfMessageSystemAttributes: md5OfMessageAttributes(trace) } : {}),
  };
}

/** Runs each entry of a batch on its own, so that one that is refused does not stop the others. */
function eachEntry(entries: JsonObject[], work: (entry: JsonObject) => JsonObject): JsonObject {
  const Successful: JsonObject[] = [];
  const Failed: JsonObject[] = [];
  for (const entry of entries) {
    try {
      Successful.push({ Id: entry['Id'], ...work(entry) });
    } catch (error) {
      if (!(error instanceof AwsError)) throw error;
      Failed.push({ Id: entry['Id'], SenderFault: true, Code: error.code, Message: error.message });
    }
  }
  return { Successful, Failed };
}

export function sendBatch(input: JsonObject, sendOne: (entry: JsonObject) => JsonObject): JsonObject {
  const entries = batchEntries(input);
  checkBatchBytes(entries);
  return eachEntry(entries, sendOne);
}

export class Messages {
  private readonly receipts = new WeakMap<Queue, Map<string, Message>>();
  private readonly store: Store;
  private readonly maxInFlight: number;
  private readonly transaction: <T>(work: () => T) => T;

  constructor(store: Store, maxInFlight: number, transaction: <T>(work: () => T) => T) {
    this.store = store;
    this.maxInFlight = maxInFlight;
    this.transaction = transaction;
  }

  /** Receipts of the newest receive of each message; older handles of the same message no longer delete it, as on AWS. */
  receiptsOf(queue: Queue): Map<string, Message> {
    let receipts = this.receipts.get(queue);
    if (!receipts) this.receipts.set(queue, (receipts = new Map<string, Message>()));
    return receipts;
  }

  remember(queue: Queue, message: Message, handle: string): void {
    this.forget(queue, message);
    message.handle = handle;
    this.receiptsOf(queue).set(handle, message);
  }

  forget(queue: Queue, message: Message): void {
    if (message.handle) this.receiptsOf(queue).delete(message.handle);
  }

  async receive(queue: Queue, input: JsonObject, { signal }: CallOptions): Promise<JsonObject> {
    const count = boundedInteger(input, 'MaxNumberOfMessages', 1, 10) ?? 1;
    const visibilityS = boundedInteger(input, 'VisibilityTimeout', 0, limits.maxVisibilityS);
    const waitS = boundedInteger(input, 'WaitTimeSeconds', 0, limits.maxWaitS) ?? Number(queue.attributes['ReceiveMessageWaitTimeSeconds']);
    const endMs = performance.now() + waitS * 1000;
    for (;;) {
      if (signal?.aborted) return {};
      queue.processTimers();
      const room = queue.isFifo() ? count : this.maxInFlight - queue.inflightMessages.size;
      if (room <= 0 && waitS === 0) {
        throw sqsError('OverLimit', 'Too many messages in flight: delete messages or wait for their visibility timeouts.', 403);
      }
      const messages = room > 0 ? this.take(queue, Math.min(count, room), visibilityS, input) : [];
      if (messages.length > 0) return { Messages: messages };
      const leftMs = endMs - performance.now();
      if (leftMs <= 0) return {};
      await (room > 0 ? waitForMessages(queue, leftMs, signal) : pause(Math.min(leftMs, overLimitPollMs), signal));
    }
  }

  private take(queue: Queue, count: number, visibilityS: number | undefined, input: JsonObject): Received[] {
    const received = this.transaction(() => queue.dequeue(count, visibilityS, (arn) => this.deadLetters(queue, arn)));
    for (const one of received) {
      const message = queue.inflightMessages.get(one.ReceiptHandle)?.message;
      if (!message) continue;
      message.receivedMs = Date.now();
      this.remember(queue, message, one.ReceiptHandle);
      describe(one, message, input);
    }
    return received;
  }

  /** The target of a redrive policy, told where the message came from: a move task without a destination needs to know. */
  private deadLetters(queue: Queue, arn: string): { enqueue(message: Message): void } | undefined {
    const target = this.store.getQueueByArn(arn);
    return target && {
      enqueue: (message) => {
        // fauxqs counts the receive that only moved the message, and nobody saw.
        message.approximateReceiveCount -= 1;
        message.sourceArn = queue.arn;
        this.forget(queue, message);
        target.enqueue(message);
      },
    };
  }

  private find(queue: Queue, handle: unknown): { handle: string; message: Message | undefined } {
    if (typeof handle !== 'string' || handle === '') {
      throw sqsError('MissingParameter', 'The request must contain the parameter ReceiptHandle.');
    }
    if (!receiptHandle.test(handle)) throw sqsError('ReceiptHandleIsInvalid', `The input receipt handle "${handle}" is not a valid receipt handle.`);
    queue.processTimers();
    return { handle, message: this.receiptsOf(queue).get(handle) };
  }

  /** Deletes also a message whose visibility has expired; an old handle of one received again since deletes nothing. */
  delete(queue: Queue, input: JsonObject): JsonObject {
    const { handle, message } = this.find(queue, input['ReceiptHandle']);
    if (!message) return {};
    this.forget(queue, message);
    if (queue.inflightMessages.has(handle)) queue.deleteMessage(handle);
    else if (!queue.isFifo()) this.removeVisible(queue, message);
    return {};
  }

  private removeVisible(queue: Queue, message: Message): void {
    const at = queue.messages.indexOf(message);
    if (at < 0) return;
    queue.messages.splice(at, 1);
    queue.persistence?.deleteMessage(message.messageId);
  }

  changeVisibility(queue: Queue, input: JsonObject): JsonObject {
    const { handle, message } = this.find(queue, input['ReceiptHandle']);
    const timeoutS = boundedInteger(input, 'VisibilityTimeout', 0, limits.maxVisibilityS);
    if (timeoutS === undefined) throw sqsError('MissingParameter', 'The request must contain the parameter VisibilityTimeout.');
    if (!message) {
      const reason = 'Message does not exist or is not available for visibility timeout change';
      throw invalidValue(`Value ${handle} for parameter ReceiptHandle is invalid. Reason: ${reason}.`);
    }
    if (!queue.inflightMessages.has(handle)) throw sqsError('MessageNotInflight', "The specified message isn't in flight.");
    if (Date.now() + timeoutS * 1000 - (message.receivedMs ?? 0) > limits.maxVisibilityS * 1000) {
      const reason = `Total VisibilityTimeout for the message is beyond the limit [${limits.maxVisibilityS} seconds]`;
      throw invalidValue(`Value ${timeoutS} for parameter VisibilityTimeout is invalid. Reason: ${reason}`);
    }
    queue.changeVisibility(handle, timeoutS);
    return {};
  }

  deleteBatch(queue: Queue, input: JsonObject): JsonObject {
    return eachEntry(batchEntries(input), (entry) => this.delete(queue, entry));
  }

  changeVisibilityBatch(queue: Queue, input: JsonObject): JsonObject {
    return eachEntry(batchEntries(input), (entry) => this.changeVisibility(queue, entry));
  }

  /** Deletes what is older than the queue's retention, in flight or not; being received again does not make a message younger. */
  expire(queue: Queue): void {
    const oldestMs = Date.now() - Number(queue.attributes['MessageRetentionPeriod']) * 1000;
    const isExpired = (message: Message) => message.sentTimestamp < oldestMs;
    const drop = (message: Message) => {
      this.forget(queue, message);
      queue.persistence?.deleteMessage(message.messageId);
    };
    for (const [handle, { message }] of queue.inflightMessages) {
      if (!isExpired(message)) continue;
      queue.inflightMessages.delete(handle);
      drop(message);
    }
    for (const place of ['messages', 'delayedMessages'] as const) {
      if (!queue[place].some(isExpired)) continue;
      queue[place].filter(isExpired).forEach(drop);
      queue[place] = queue[place].filter((message) => !isExpired(message));
    }
  }
}

/** Adds the attributes that were asked for, and only those. */
function describe(received: Received, message: Message, input: JsonObject): void {
  const system = [...((input['AttributeNames'] ?? []) as string[]), ...((input['MessageSystemAttributeNames'] ?? []) as string[])];
  const values: Record<string, string | number | undefined> = {
    SenderId: '000000000000',
    SentTimestamp: message.sentTimestamp,
    ApproximateReceiveCount: message.approximateReceiveCount,
    ApproximateFirstReceiveTimestamp: message.approximateFirstReceiveTimestamp,
    MessageGroupId: message.messageGroupId,
    MessageDeduplicationId: message.messageDeduplicationId,
    SequenceNumber: message.sequenceNumber,
    AWSTraceHeader: message.traceHeader,
    DeadLetterQueueSourceArn: message.sourceArn,
  };
  const wanted = Object.entries(values).filter(([name, value]) => value !== undefined && (system.includes('All') || system.includes(name)));
  if (wanted.length > 0) received.Attributes = Object.fromEntries(wanted.map(([name, value]) => [name, String(value)]));

  const attributes = selectAttributes(message.messageAttributes, (input['MessageAttributeNames'] ?? []) as string[]);
  delete received.MessageAttributes;
  delete received.MD5OfMessageAttributes;
  if (Object.keys(attributes).length === 0) return;
  received.MessageAttributes = attributes;
  received.MD5OfMessageAttributes = md5OfMessageAttributes(attributes);
}

function selectAttributes(attributes: Record<string, MessageAttribute>, names: string[]): Record<string, MessageAttribute> {
  const isWanted = (attribute: string) =>
    names.some((name) => name === 'All' || name === attribute || (name.endsWith('.*') && attribute.startsWith(name.slice(0, -2))));
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => isWanted(name)));
}

const pause = (ms: number, signal: AbortSignal | undefined) => sleep(ms, undefined, { ...(signal ? { signal } : {}) }).catch(() => undefined);

/** Resolves when messages may have come, time is up, or the caller has gone. */
function waitForMessages(queue: Queue, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      signal?.removeEventListener('abort', done);
      resolve();
    };
    signal?.addEventListener('abort', done, { once: true });
    void queue.waitForMessages(ms / 1000).then(done);
  });
}
