import { setTimeout as delay } from 'node:timers/promises';
import type { Message } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { afterEach, describe, expect, it } from 'vitest';
import { EventSource, type EventSourceOptions, type SourceQueue, succeededMessages, toRecord } from '../../local/event-source.ts';
import type { InvokeResult } from '../../local/lambda-host.ts';

const queueArn = 'arn:aws:sqs:eu-west-1:000000000000:Delivery';

function message(id: string): Message {
  return { MessageId: id, ReceiptHandle: `handle-${id}`, Body: `body-${id}`, MD5OfBody: 'md5', Attributes: { ApproximateReceiveCount: '1' } };
}

function ok(payload: unknown): InvokeResult {
  return { kind: 'ok', payload, durationMs: 1, cold: false };
}

const failed: InvokeResult = { kind: 'error', errorType: 'Sandbox.Timedout', errorMessage: 'late', durationMs: 1, cold: false };

/** A queue in memory: what was received is gone from it, whether deleted or not. */
class FakeQueue implements SourceQueue {
  visible: Message[] = [];
  deleted: string[] = [];
  describes = 0;
  polls: number[] = [];
  failNextPolls = 0;
  refuse: string[] = [];
  describeError: Error | undefined;

  describe(): Promise<void> {
    this.describes += 1;
    return this.describeError ? Promise.reject(this.describeError) : Promise.resolve();
  }

  async receive(maxMessages: number, waitS: number, signal: AbortSignal): Promise<Message[]> {
    this.polls.push(waitS);
    if (this.failNextPolls > 0) {
      this.failNextPolls -= 1;
      throw new Error('poll failed');
    }
    for (let waitedMs = 0; this.visible.length === 0 && waitedMs < waitS * 1_000; waitedMs += 5) await delay(5, undefined, { signal });
    return this.visible.splice(0, maxMessages);
  }

  deleteBatch(receiptHandles: string[]): Promise<string[]> {
    if (receiptHandles.length === 0 || receiptHandles.length > 10) return Promise.reject(new Error(`${receiptHandles.length} entries`));
    this.deleted.push(...receiptHandles);
    return Promise.resolve(this.refuse);
  }
}

const running: EventSource[] = [];
const errors: string[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((source) => source.stop({ now: true })));
  errors.length = 0;
});

async function startOn(queue: FakeQueue, invoke: (records: SQSRecord[]) => InvokeResult | Promise<InvokeResult>, settings: Partial<EventSourceOptions> = {}) {
  const source = new EventSource({
    queue,
    queueArn,
    region: 'eu-west-1',
    batchSize: 10,
    windowS: 0,
    maxConcurrency: 20,
    concurrencyCap: 4,
    reportBatchItemFailures: true,
    invoke: async ({ Records }) => invoke(Records),
    onError: (error) => errors.push(error.message),
    ...settings,
  });
  running.push(source);
  await source.start();
  return source;
}

async function until(condition: () => boolean): Promise<void> {
  for (const endMs = performance.now() + 5_000; !condition(); await delay(5)) {
    if (performance.now() > endMs) throw new Error('Waited in vain');
  }
}

describe('succeededMessages', () => {
  const batch = ['a', 'b', 'c'].map(message);

  it.each([
    ['null', null, 'abc'],
    ['an empty object', {}, 'abc'],
    ['an empty list', { batchItemFailures: [] }, 'abc'],
    ['a null list', { batchItemFailures: null }, 'abc'],
    ['one failure', { batchItemFailures: [{ itemIdentifier: 'b' }] }, 'ac'],
    ['one failure twice', { batchItemFailures: [{ itemIdentifier: 'b' }, { itemIdentifier: 'b' }] }, 'ac'],
    ['all failed', { batchItemFailures: ['a', 'b', 'c'].map((itemIdentifier) => ({ itemIdentifier })) }, ''],
    ['an unknown identifier', { batchItemFailures: [{ itemIdentifier: 'x' }] }, ''],
    ['a known and an unknown one', { batchItemFailures: [{ itemIdentifier: 'a' }, { itemIdentifier: 'x' }] }, ''],
    ['an empty identifier', { batchItemFailures: [{ itemIdentifier: '' }] }, ''],
    ['a null identifier', { batchItemFailures: [{ itemIdentifier: null }] }, ''],
    ['a number for identifier', { batchItemFailures: [{ itemIdentifier: 1 }] }, ''],
    ['a misspelt key', { batchItemFailures: [{ itemIdentifer: 'a' }] }, ''],
    ['bare identifiers', { batchItemFailures: ['a'] }, ''],
    ['a list that is none', { batchItemFailures: { itemIdentifier: 'a' } }, ''],
    ['text', 'fine', ''],
    ['a number', 1, ''],
    ['an array', [], ''],
  ])('for %s', (_, payload, deleted) => {
    expect(succeededMessages(batch, ok(payload), true).map(({ MessageId }) => MessageId).join('')).toBe(deleted);
  });

  it('is nothing after an error', () => {
    expect(succeededMessages(batch, failed, true)).toEqual([]);
    expect(succeededMessages(batch, failed, false)).toEqual([]);
  });

  it('is everything if failures are not reported singly', () => {
    expect(succeededMessages(batch, ok({ batchItemFailures: [{ itemIdentifier: 'a' }] }), false)).toEqual(batch);
  });

  it('leaves out both copies of a message that came twice', () => {
    const twice = [message('a'), { ...message('a'), ReceiptHandle: 'second' }, message('b')];
    expect(succeededMessages(twice, ok({ batchItemFailures: [{ itemIdentifier: 'a' }] }), true)).toEqual([message('b')]);
  });
});

describe('toRecord', () => {
  it('has the shape that Lambda gives', () => {
    const received: Message = {
      ...message('a'),
      MD5OfMessageAttributes: 'md5a',
      Attributes: { ApproximateReceiveCount: '3', SentTimestamp: '1', SenderId: 'x', ApproximateFirstReceiveTimestamp: '2', MessageGroupId: 'acme' },
      MessageAttributes: { text: { DataType: 'String', StringValue: 'v' }, bytes: { DataType: 'Binary', BinaryValue: Buffer.from('v') } },
    };
    expect(toRecord(received, queueArn, 'eu-west-1')).toEqual({
      messageId: 'a',
      receiptHandle: 'handle-a',
      body: 'body-a',
      attributes: received.Attributes,
      messageAttributes: {
        text: { stringValue: 'v', stringListValues: [], binaryListValues: [], dataType: 'String' },
        bytes: { binaryValue: 'dg==', stringListValues: [], binaryListValues: [], dataType: 'Binary' },
      },
      md5OfBody: 'md5',
      md5OfMessageAttributes: 'md5a',
      eventSource: 'aws:sqs',
      eventSourceARN: queueArn,
      awsRegion: 'eu-west-1',
    });
  });
});

describe('EventSource', () => {
  it('invokes in batches and deletes what was not reported', async () => {
    const queue = new FakeQueue();
    queue.visible = Array.from({ length: 12 }, (_, index) => message(`m${index}`));
    const sizes: number[] = [];
    await startOn(queue, (records) => {
      sizes.push(records.length);
      return ok({ batchItemFailures: records.filter(({ messageId }) => messageId === 'm3').map(({ messageId }) => ({ itemIdentifier: messageId })) });
    });
    await until(() => queue.deleted.length === 11);
    expect(sizes).toEqual([10, 2]);
    expect(queue.deleted).not.toContain('handle-m3');
    expect(queue.describes).toBe(1);
    expect(errors).toEqual([]);
  });

  it('does not start on a queue that it may not read', async () => {
    const queue = new FakeQueue();
    queue.describeError = new Error('AccessDenied');
    await expect(startOn(queue, () => ok(null))).rejects.toThrow('AccessDenied');
    expect(queue.polls).toEqual([]);
  });

  it.each([
    [2, 10, 2],
    [20, 3, 3],
    [undefined, 2, 2],
  ])('with maxConcurrency %s and a cap of %s runs %s at once', async (maxConcurrency, concurrencyCap, expected) => {
    const queue = new FakeQueue();
    queue.visible = Array.from({ length: 9 }, (_, index) => message(`m${index}`));
    let [atOnce, most] = [0, 0];
    const invoke = async () => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      await delay(50);
      atOnce -= 1;
      return ok(null);
    };
    await startOn(queue, invoke, { batchSize: 1, maxConcurrency, concurrencyCap });
    await until(() => queue.deleted.length === 9);
    expect(most).toBe(expected);
  });

  it('receives nothing that it has no room to serve', async () => {
    const queue = new FakeQueue();
    queue.visible = Array.from({ length: 6 }, (_, index) => message(`m${index}`));
    const gate = Promise.withResolvers<InvokeResult>();
    await startOn(queue, () => gate.promise, { batchSize: 1, concurrencyCap: 2 });
    await delay(50);
    expect(queue.visible).toHaveLength(4);
    gate.resolve(ok(null));
    await until(() => queue.deleted.length === 6);
  });

  it('fills a batch while its window is open', async () => {
    const queue = new FakeQueue();
    queue.visible = [message('a')];
    const sizes: number[] = [];
    const count = (records: SQSRecord[]) => {
      sizes.push(records.length);
      return ok(null);
    };
    await startOn(queue, count, { windowS: 5, batchSize: 3, concurrencyCap: 1 });
    await delay(50);
    expect(sizes).toEqual([]);
    queue.visible.push(message('b'), message('c'), message('d'));
    await until(() => sizes.length === 1);
    expect(sizes).toEqual([3]);
  });

  it('goes on after a failed poll and after a refused delete', async () => {
    const queue = new FakeQueue();
    queue.failNextPolls = 1;
    queue.refuse = ['handle-a'];
    queue.visible = [message('a')];
    await startOn(queue, () => ok(null), { concurrencyCap: 1 });
    await until(() => errors.length === 2);
    expect(errors).toEqual(['poll failed', 'SQS refused to delete 1 of 1 messages']);
  });

  it('stop() waits for what is in flight, and deletes it', async () => {
    const queue = new FakeQueue();
    queue.visible = [message('a')];
    const source = await startOn(queue, () => delay(100, ok(null)));
    await until(() => queue.visible.length === 0);
    await source.stop();
    expect(queue.deleted).toEqual(['handle-a']);
    queue.visible = [message('b')];
    await delay(50);
    expect(queue.visible).toHaveLength(1);
  });

  it('stop({ now: true }) neither waits nor deletes', async () => {
    const queue = new FakeQueue();
    queue.visible = [message('a')];
    const gate = Promise.withResolvers<InvokeResult>();
    const source = await startOn(queue, () => gate.promise);
    await until(() => queue.visible.length === 0);
    await source.stop({ now: true });
    gate.resolve(ok(null));
    await delay(20);
    expect(queue.deleted).toEqual([]);
  });
});
