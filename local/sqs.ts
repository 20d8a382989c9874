import { aws } from '../lambdas/shared/limits/numbers.ts';
import { AwsError, type Emulator, type JsonObject, queueArn, queueNameOf, region } from './emulator.ts';
import { SqsStore, handlers, toAwsError } from './fauxqs.ts';
import { Messages, send, sendBatch } from './sqs-messages.ts';
import { MoveTasks, sourceQueuesOf } from './sqs-move-tasks.ts';
import { SqsPersistence } from './sqs-persistence.ts';
import { checkMessage, invalidValue, limits, queueMissing, sqsError } from './sqs-strict.ts';
import type { Message, Queue, Store } from './types/fauxqs.d.ts';

/** Visibility and delays end in the background, so that the queue's counts are true although nobody receives. */
const timersMs = 200;
const retentionMs = 1_000;

export interface SqsOptions {
  /** Queues and messages outlive the process here; without it they are in memory. */
  dataDir?: string;
  /** Hidden messages that a standard queue allows; SQS allows about 120,000. */
  maxInFlight?: number;
}

/** What is in a queue now. */
export interface QueueState {
  /** Could be received now. */
  ready: number;
  /** Received and not deleted, or delayed. */
  hidden: number;
  /** Of these, received and not deleted. */
  inFlight: number;
  /** When the first of the hidden ones becomes visible. */
  nextVisibleEpochMs: number | undefined;
  /** Highest receive count of a message. */
  mostReceives: number;
  /** When the oldest message was sent that SQS counts for its age. */
  oldestSentEpochMs: number | undefined;
}

export interface Sqs extends Emulator {
  /** Exact, and without a receive. What has become visible by now is handed to those who wait. */
  stateOf(queueName: string): QueueState;
}

/** Queue URLs in answers have no host; the wire puts its own in front. */
const hostless = (queue: Queue) => ({ QueueUrl: `/${queueNameOf(queue.url)}` });

function checkRedrivePolicy(store: Store, input: JsonObject): void {
  const text = (input['Attributes'] as Record<string, string> | undefined)?.['RedrivePolicy'];
  if (!text) return;
  const refuse = (reason: string) => invalidValue(`Value ${text} for parameter RedrivePolicy is invalid. Reason: ${reason}`);
  let policy: { deadLetterTargetArn?: unknown; maxReceiveCount?: unknown };
  try {
    policy = JSON.parse(text) as typeof policy;
  } catch {
    throw refuse('Redrive policy is not a valid JSON map.');
  }
  const count = Number(policy.maxReceiveCount);
  if (!Number.isInteger(count) || count < 1 || count > 1_000) {
    throw refuse('Invalid value for maxReceiveCount: valid values are from 1 to 1000 both inclusive.');
  }
  if (typeof policy.deadLetterTargetArn !== 'string' || !store.getQueueByArn(policy.deadLetterTargetArn)) {
    throw refuse('Dead letter target does not exist.');
  }
}

function checkQueueName(input: JsonObject): void {
  if (!/^[A-Za-z0-9_-]{1,80}$/.test(String(input['QueueName']).replace(/\.fifo$/, ''))) {
    throw invalidValue('Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length');
  }
}

/** The operations on one queue, given the queue that the request names. */
function queueOperations(store: Store, messages: Messages): Record<string, (queue: Queue, input: JsonObject) => JsonObject> {
  const purgedMs = new Map<string, number>();
  const delegate = (operation: string, input: JsonObject) => {
    const handler = handlers.get(operation);
    if (!handler) throw sqsError('InvalidAction', `The action ${operation} is not valid for this endpoint.`);
    return (handler(input, store, { headers: {} }) ?? {}) as JsonObject;
  };
  const sendOne = (queue: Queue, input: JsonObject) => {
    const checked = checkMessage(queue, input);
    return queue.isFifo() ? delegate('SendMessage', { ...input, QueueUrl: queue.url }) : send(queue, checked);
  };
  return {
    SendMessage: sendOne,
    SendMessageBatch: (queue, input) => sendBatch(input, (entry) => sendOne(queue, entry)),
    DeleteMessage: (queue, input) => messages.delete(queue, input),
    DeleteMessageBatch: (queue, input) => messages.deleteBatch(queue, input),
    ChangeMessageVisibility: (queue, input) => messages.changeVisibility(queue, input),
    ChangeMessageVisibilityBatch: (queue, input) => messages.changeVisibilityBatch(queue, input),
    GetQueueAttributes: (queue, input) => {
      queue.processTimers();
      return delegate('GetQueueAttributes', input);
    },
    SetQueueAttributes: (_queue, input) => {
      checkRedrivePolicy(store, input);
      return delegate('SetQueueAttributes', input);
    },
    PurgeQueue: (queue, input) => {
      const nowMs = Date.now();
      if (Math.abs(nowMs - (purgedMs.get(queue.name) ?? -Infinity)) < limits.purgeIntervalMs) {
        const message = `Only one PurgeQueue operation on ${queue.name} is allowed every 60 seconds.`;
        throw sqsError('PurgeQueueInProgress', message, 403);
      }
      purgedMs.set(queue.name, nowMs);
      messages.receiptsOf(queue).clear();
      return delegate('PurgeQueue', input);
    },
    ListDeadLetterSourceQueues: (queue) => ({
      queueUrls: sourceQueuesOf(store, queue.arn).map((source) => hostless(source).QueueUrl),
    }),
    DeleteQueue: (_queue, input) => delegate('DeleteQueue', input),
    TagQueue: (_queue, input) => delegate('TagQueue', input),
    UntagQueue: (_queue, input) => delegate('UntagQueue', input),
    ListQueueTags: (_queue, input) => delegate('ListQueueTags', input),
  };
}

/** Operations that name no queue by URL. */
function accountOperations(store: Store, tasks: MoveTasks): Record<string, (input: JsonObject) => JsonObject> {
  return {
    CreateQueue: (input) => {
      checkQueueName(input);
      checkRedrivePolicy(store, input);
      handlers.get('CreateQueue')?.(input, store, { headers: {} });
      const queue = store.getQueueByArn(queueArn(String(input['QueueName'])));
      return queue ? hostless(queue) : {};
    },
    GetQueueUrl: (input) => {
      const queue = store.getQueueByName(String(input['QueueName']));
      if (!queue) throw queueMissing();
      return hostless(queue);
    },
    ListQueues: (input) => {
      const answer = handlers.get('ListQueues')?.(input, store, { headers: {} }) as { QueueUrls?: string[]; NextToken?: string };
      const QueueUrls = (answer.QueueUrls ?? []).map((url) => `/${queueNameOf(url)}`);
      return { ...answer, ...(QueueUrls.length > 0 ? { QueueUrls } : {}) };
    },
    StartMessageMoveTask: (input) => tasks.start(input),
    ListMessageMoveTasks: (input) => tasks.list(input),
    CancelMessageMoveTask: (input) => tasks.cancel(input),
  };
}

function stateOf(queue: Queue): QueueState {
  queue.processTimers();
  const inFlight = [...queue.inflightMessages.values()];
  const visible = [...inFlight.map((one) => one.visibilityDeadline), ...queue.delayedMessages.map((one) => one.delayUntil ?? 0)];
  const messages = [...queue.messages, ...queue.delayedMessages, ...inFlight.map((one) => one.message)];
  return {
    ready: queue.messages.length,
    hidden: visible.length,
    inFlight: inFlight.length,
    nextVisibleEpochMs: visible.length === 0 ? undefined : visible.reduce((first, one) => Math.min(first, one)),
    mostReceives: messages.reduce((most, one) => Math.max(most, one.approximateReceiveCount), 0),
    oldestSentEpochMs: oldestSentOf([...queue.messages, ...inFlight.map((one) => one.message)]),
  };
}

/** Of what SQS takes for its age of the oldest message, which leaves out what was received again and again. */
function oldestSentOf(messages: readonly Message[]): number | undefined {
  const counted = messages.filter((one) => one.approximateReceiveCount < aws.sqsAgeReceives);
  return counted.length === 0 ? undefined : counted.reduce((first, one) => Math.min(first, one.sentTimestamp), Infinity);
}

/** Starts SQS in this process: fauxqs's queues behind checks that make them as strict as the service. */
export function startSqs(options: SqsOptions = {}): Sqs {
  const store = new SqsStore();
  store.region = region;
  const persistence = options.dataDir ? new SqsPersistence(options.dataDir) : undefined;
  const transaction = <T>(work: () => T): T => (persistence ? persistence.transaction(work) : work());
  const messages = new Messages(store, options.maxInFlight ?? limits.maxInFlight, transaction);
  persistence?.load(store, (queue, message, handle) => messages.remember(queue, message, handle));
  const tasks = new MoveTasks(store, transaction, (queue, message) => messages.forget(queue, message));

  const onQueue = queueOperations(store, messages);
  const onAccount = accountOperations(store, tasks);
  const timers = [
    setInterval(() => store.processAllTimers(), timersMs).unref(),
    setInterval(() => transaction(() => [...store.allQueues()].forEach((queue) => messages.expire(queue))), retentionMs).unref(),
  ];
  const closing = new AbortController();

  const queueOf = (input: JsonObject): Queue => {
    if (typeof input['QueueUrl'] !== 'string') throw sqsError('MissingParameter', 'The request must contain the parameter QueueUrl.');
    const queue = store.getQueueByName(queueNameOf(input['QueueUrl']));
    if (!queue) throw queueMissing();
    return queue;
  };

  const dispatch = (operation: string, input: JsonObject, signal: AbortSignal | undefined): JsonObject | Promise<JsonObject> => {
    if (operation === 'ReceiveMessage') {
      const ends = signal ? AbortSignal.any([signal, closing.signal]) : closing.signal;
      return messages.receive(queueOf(input), input, { signal: ends });
    }
    const account = onAccount[operation];
    if (account) return transaction(() => account(input));
    const work = onQueue[operation];
    if (!work) throw new AwsError('InvalidAction', `The action ${operation} is not valid for this endpoint.`);
    const queue = queueOf(input);
    return transaction(() => work(queue, { ...input, QueueUrl: queue.url }));
  };

  return {
    stateOf: (queueName) => stateOf(queueOf({ QueueUrl: queueName })),
    call: async (operation, input, { signal } = {}) => {
      try {
        return await dispatch(operation, input, signal);
      } catch (error) {
        throw toAwsError(error);
      }
    },
    close: () => {
      closing.abort();
      timers.forEach(clearInterval);
      tasks.close();
      store.shutdown();
      persistence?.close();
      return Promise.resolve();
    },
  };
}
