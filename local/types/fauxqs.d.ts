/** The parts of fauxqs 2.4.1 that we call; it exports only its server, so these files are reached by URL. */

export interface MessageAttribute {
  DataType: string;
  StringValue?: string;
  BinaryValue?: string;
}

/** A message in a queue. The members after the blank line are ours. */
export interface Message {
  messageId: string;
  body: string;
  md5OfBody: string;
  messageAttributes: Record<string, MessageAttribute>;
  md5OfMessageAttributes: string;
  sentTimestamp: number;
  approximateReceiveCount: number;
  approximateFirstReceiveTimestamp?: number | undefined;
  delayUntil?: number | undefined;
  messageGroupId?: string | undefined;
  messageDeduplicationId?: string | undefined;
  sequenceNumber?: string | undefined;

  traceHeader?: string;
  /** The queue whose redrive policy moved the message here. */
  sourceArn?: string;
  /** Time of the newest receive: the twelve hours of visibility count from it. */
  receivedMs?: number;
  /** Handle of the newest receive, known also after the message became visible again. */
  handle?: string;
}

export interface Received {
  MessageId: string;
  ReceiptHandle: string;
  MD5OfBody: string;
  Body: string;
  MD5OfMessageAttributes?: string;
  MessageAttributes?: Record<string, MessageAttribute>;
  Attributes?: Record<string, string>;
}

export interface InFlight {
  message: Message;
  receiptHandle: string;
  visibilityDeadline: number;
}

/** Written through by the queues at every change. */
export interface Persistence {
  insertQueue(queue: Queue): void;
  deleteQueue(name: string): void;
  updateQueueAttributes(name: string, attributes: Record<string, string>, lastModified: number): void;
  updateQueueSequenceCounter(name: string, counter: number): void;
  insertMessage(queue: string, message: Message): void;
  deleteMessage(messageId: string): void;
  updateMessageInflight(messageId: string, handle: string, visibleMs: number, receiveCount: number, firstReceiveMs?: number): void;
  updateMessageReady(messageId: string): void;
  deleteQueueMessages(queue: string): void;
}

export interface Queue {
  readonly name: string;
  readonly url: string;
  readonly arn: string;
  createdTimestamp: number;
  lastModifiedTimestamp: number;
  sequenceCounter: number;
  attributes: Record<string, string>;
  tags: Map<string, string>;
  messages: Message[];
  delayedMessages: Message[];
  inflightMessages: Map<string, InFlight>;
  fifoMessages: Map<string, Message[]>;
  persistence?: Persistence;
  isFifo(): boolean;
  enqueue(message: Message): void;
  dequeue(count: number, visibilityS: number | undefined, resolve: (arn: string) => { enqueue(message: Message): void } | undefined): Received[];
  deleteMessage(handle: string): boolean;
  changeVisibility(handle: string, timeoutS: number): void;
  processTimers(): void;
  waitForMessages(waitS: number): Promise<void>;
}

export interface Store {
  region?: string;
  host: string;
  persistence?: Persistence;
  createQueue(name: string, url: string, arn: string, attributes?: Record<string, string>, tags?: Record<string, string>): Queue;
  getQueueByName(name: string): Queue | undefined;
  getQueueByArn(arn: string): Queue | undefined;
  allQueues(): Iterable<Queue>;
  processAllTimers(): void;
  shutdown(): void;
}

export interface StoreClass {
  new (): Store;
  createMessage(
    body: string,
    attributes: Record<string, MessageAttribute>,
    delayS?: number,
    groupId?: string,
    deduplicationId?: string,
  ): Message;
}

/** A fauxqs action: throws an error with `code` and `queryCode` for what SQS would refuse. */
export type Handler = (body: Record<string, unknown>, store: Store, request: { headers: Record<string, string> }) => unknown;

export interface SqsErrorLike extends Error {
  code: string;
  queryCode: string;
  statusCode: number;
}
