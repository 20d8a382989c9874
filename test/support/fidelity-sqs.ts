/** What an emulator of SQS must do to be believed. */
import * as Q from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, isAws, itEmulated, refusal, until } from './fidelity-subject.ts';
import { describeMoveTasks } from './fidelity-sqs-redrive.ts';

/** Queues of one suite, deleted at its end: a real account should look as it did before. */
export class Queues {
  readonly client: Q.SQSClient;
  private readonly made: string[] = [];
  private readonly prefix = `sluice-fidelity-${Date.now()}`;

  constructor(subject: Subject) {
    this.client = new Q.SQSClient(subject.config());
  }

  async make(Attributes: Record<string, string> = {}, suffix = ''): Promise<string> {
    const QueueName = `${this.prefix}-${this.made.length}${suffix}`;
    const { QueueUrl = '' } = await this.client.send(new Q.CreateQueueCommand({ QueueName, Attributes }));
    this.made.push(QueueUrl);
    return QueueUrl;
  }

  async attributes(QueueUrl: string): Promise<Record<string, string>> {
    return (await this.client.send(new Q.GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }))).Attributes ?? {};
  }

  async arn(QueueUrl: string): Promise<string> {
    return (await this.attributes(QueueUrl))['QueueArn'] ?? '';
  }

  redrivePolicy = async (deadLetterUrl: string, maxReceiveCount = 1) => ({
    RedrivePolicy: JSON.stringify({ deadLetterTargetArn: await this.arn(deadLetterUrl), maxReceiveCount }),
  });

  send(QueueUrl: string, MessageBody: string, more: Partial<Q.SendMessageCommandInput> = {}): Promise<Q.SendMessageCommandOutput> {
    return this.client.send(new Q.SendMessageCommand({ QueueUrl, MessageBody, ...more }));
  }

  async receive(QueueUrl: string, more: Partial<Q.ReceiveMessageCommandInput> = {}): Promise<Q.Message[]> {
    const all = { MaxNumberOfMessages: 10, MessageSystemAttributeNames: ['All' as const], MessageAttributeNames: ['All'] };
    return (await this.client.send(new Q.ReceiveMessageCommand({ QueueUrl, ...all, ...more }))).Messages ?? [];
  }

  /** One message, waited for: a queue is spread over many servers, and a short poll asks only some of them. */
  async receiveOne(QueueUrl: string, more: Partial<Q.ReceiveMessageCommandInput> = {}): Promise<Q.Message & { ReceiptHandle: string }> {
    const wait = isAws ? { WaitTimeSeconds: 5 } : {};
    const message = await until(async () => (await this.receive(QueueUrl, { MaxNumberOfMessages: 1, ...wait, ...more }))[0]);
    return { ...message, ReceiptHandle: message.ReceiptHandle ?? '' };
  }

  hide(QueueUrl: string, ReceiptHandle: string, VisibilityTimeout: number): Promise<unknown> {
    return this.client.send(new Q.ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout }));
  }

  delete(QueueUrl: string, ReceiptHandle: string): Promise<unknown> {
    return this.client.send(new Q.DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
  }

  async counts(QueueUrl: string): Promise<[visible: number, hidden: number, delayed: number]> {
    const attributes = await this.attributes(QueueUrl);
    const count = (suffix: string) => Number(attributes[`ApproximateNumberOfMessages${suffix}`]);
    return [count(''), count('NotVisible'), count('Delayed')];
  }

  async close(): Promise<void> {
    for (const QueueUrl of this.made) await this.client.send(new Q.DeleteQueueCommand({ QueueUrl })).catch(() => undefined);
    this.client.destroy();
  }
}

/** Codes differ between protocols by namespace and an "Exception" at the end, so they are matched, with the text. */
const said = (error: Error) => `${error.name} ${error.message}`;

export function describeSqs(subject: () => Subject): void {
  let queues: Queues;
  beforeAll(() => void (queues = new Queues(subject())));
  afterAll(() => queues.close());

  describe('queues', () => {
    it('are found by name, listed, tagged and changed; creating one again gives the same URL', async () => {
      const url = await queues.make({ VisibilityTimeout: '5' });
      const QueueName = url.slice(url.lastIndexOf('/') + 1);
      expect((await queues.client.send(new Q.GetQueueUrlCommand({ QueueName }))).QueueUrl).toBe(url);
      expect((await queues.client.send(new Q.CreateQueueCommand({ QueueName }))).QueueUrl).toBe(url);
      await until(async () => (await queues.client.send(new Q.ListQueuesCommand({ QueueNamePrefix: QueueName }))).QueueUrls?.includes(url));
      await queues.client.send(new Q.TagQueueCommand({ QueueUrl: url, Tags: { team: 'hooks' } }));
      await until(async () => (await queues.client.send(new Q.ListQueueTagsCommand({ QueueUrl: url }))).Tags?.['team'] === 'hooks');
      await queues.client.send(new Q.SetQueueAttributesCommand({ QueueUrl: url, Attributes: { VisibilityTimeout: '7' } }));
      await until(async () => (await queues.attributes(url))['VisibilityTimeout'] === '7');
    });

    it('refuse another value for a name that is taken, and values out of range', async () => {
      const url = await queues.make({ VisibilityTimeout: '5' });
      const QueueName = url.slice(url.lastIndexOf('/') + 1);
      const again = queues.client.send(new Q.CreateQueueCommand({ QueueName, Attributes: { VisibilityTimeout: '6' } }));
      expect(said(await refusal(again))).toMatch(/QueueNameExists|QueueAlreadyExists/);
      expect(said(await refusal(queues.make({ MessageRetentionPeriod: '59' })))).toMatch(/InvalidAttributeValue/);
    });

    it('refuse a redrive policy whose target does not exist', async () => {
      const arn = (await queues.arn(await queues.make())).replace(/[^:]+$/, 'sluice-no-such-queue');
      const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: 3 });
      expect(said(await refusal(queues.make({ RedrivePolicy })))).toMatch(/InvalidParameterValue|NonExistentQueue|QueueDoesNotExist/);
    });

    it('that do not exist are said not to', async () => {
      const url = (await queues.make()).replace(/[^/]+$/, 'sluice-no-such-queue');
      const error = await refusal(queues.send(url, 'a'));
      expect(error).toBeInstanceOf(Q.QueueDoesNotExist);
    });

    it('are purged once a minute', async () => {
      const url = await queues.make();
      await queues.send(url, 'x');
      await queues.client.send(new Q.PurgeQueueCommand({ QueueUrl: url }));
      expect(said(await refusal(queues.client.send(new Q.PurgeQueueCommand({ QueueUrl: url }))))).toMatch(/PurgeQueueInProgress/);
      await until(async () => (await queues.counts(url))[0] === 0);
    });

    itEmulated('count what is visible, hidden and delayed', async () => {
      const url = await queues.make();
      for (const body of ['a', 'b', 'c']) await queues.send(url, body);
      await queues.send(url, 'd', { DelaySeconds: 60 });
      await queues.receive(url, { MaxNumberOfMessages: 1 });
      expect(await queues.counts(url)).toEqual([2, 1, 1]);
    });

    itEmulated('count truly after a visibility expired, although nobody received', async () => {
      const url = await queues.make({ VisibilityTimeout: '30' });
      await queues.send(url, 'x');
      await queues.receive(url);
      await subject().pass(30_001);
      expect(await queues.counts(url)).toEqual([1, 0, 0]);
    });

    itEmulated('delete what is older than their retention, received or not', async () => {
      const url = await queues.make({ MessageRetentionPeriod: '600' });
      await queues.send(url, 'visible');
      await queues.send(url, 'hidden');
      await queues.receive(url, { MaxNumberOfMessages: 1, VisibilityTimeout: 3_600 });
      await subject().pass(599_000);
      expect(await queues.counts(url)).toEqual([1, 1, 0]);
      await subject().pass(2_000);
      await until(async () => (await queues.counts(url)).every((count) => count === 0));
    });
  });

  describe('sending', () => {
    it('carries text, numbers, bytes and any characters of XML 1.0', async () => {
      const url = await queues.make();
      const body = 'hé \u{1f600} \t\n \ufffd';
      const MessageAttributes = {
        a: { DataType: 'String', StringValue: 'x' },
        n: { DataType: 'Number', StringValue: '1' },
        b: { DataType: 'Binary', BinaryValue: new Uint8Array([1, 2]) },
      };
      await queues.send(url, body, { MessageAttributes });
      const message = await queues.receiveOne(url);
      expect(message.Body).toBe(body);
      expect(message.MessageAttributes?.['b']?.BinaryValue).toEqual(new Uint8Array([1, 2]));
      expect(message.MD5OfMessageAttributes).toBeDefined();
      await queues.delete(url, message.ReceiptHandle);
    });

    it('returns attributes only to those who ask', async () => {
      const url = await queues.make({ VisibilityTimeout: '0' });
      await queues.send(url, 'x', { MessageAttributes: { a: { DataType: 'String', StringValue: 'x' }, b: { DataType: 'String', StringValue: 'y' } } });
      const nothing = await queues.receiveOne(url, { MessageSystemAttributeNames: [], MessageAttributeNames: [] });
      expect([nothing.Attributes, nothing.MessageAttributes]).toEqual([undefined, undefined]);
      const some = await queues.receiveOne(url, { MessageSystemAttributeNames: ['SentTimestamp'], MessageAttributeNames: ['a'] });
      expect([Object.keys(some.Attributes ?? {}), Object.keys(some.MessageAttributes ?? {})]).toEqual([['SentTimestamp'], ['a']]);
    });

    it.each([
      ['U+0001', 'a\u0001b'],
      ['U+0000', 'a\u0000b'],
      ['U+FFFF', 'a\uffffb'],
    ])('refuses %s', async (_name, body) => {
      expect(said(await refusal(queues.send(await queues.make(), body)))).toMatch(/InvalidMessageContents/);
    });

    itEmulated('refuses a lone surrogate', async () => {
      // The SDK replaces it before it sends, so the request is made by hand.
      const { endpoint = '' } = subject().config();
      const headers = { 'x-amz-target': 'AmazonSQS.SendMessage', 'content-type': 'application/x-amz-json-1.0' };
      const body = `{"QueueUrl":"${await queues.make()}","MessageBody":"a\\ud800b"}`;
      const response = await fetch(endpoint, { method: 'POST', headers, body });
      expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('InvalidMessageContents')]);
    });

    it('keeps the group of a message on a standard queue, and its trace header', async () => {
      const url = await queues.make();
      const header = 'Root=1-5759e988-bd862e3fe1be46a994272793';
      await queues.send(url, 'x', {
        MessageGroupId: 'endpoint-a', MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: header } },
      });
      const entry = { Id: 'one', MessageBody: 'y', MessageGroupId: 'endpoint-a' };
      await queues.client.send(new Q.SendMessageBatchCommand({ QueueUrl: url, Entries: [entry] }));
      const messages = [await queues.receiveOne(url), await queues.receiveOne(url)];
      expect(messages.map(({ Attributes }) => Attributes?.['MessageGroupId'])).toEqual(['endpoint-a', 'endpoint-a']);
      expect(messages.find(({ Body }) => Body === 'x')?.Attributes?.['AWSTraceHeader']).toBe(header);
    });

    it('takes ten message attributes, and not eleven', async () => {
      const url = await queues.make();
      const attributes = (count: number) =>
        Object.fromEntries(Array.from({ length: count }, (_, i) => [`a${i}`, { DataType: 'String', StringValue: 'x' }]));
      await queues.send(url, 'x', { MessageAttributes: attributes(10) });
      expect(said(await refusal(queues.send(url, 'x', { MessageAttributes: attributes(11) })))).toMatch(/InvalidParameterValue.*\[11\]/);
    });

    it('counts the names, types and values of attributes into the size', async () => {
      const url = await queues.make({ MaximumMessageSize: '1024' });
      const MessageAttributes = { name: { DataType: 'String', StringValue: 'value' } };
      const room = 1024 - 'name'.length - 'String'.length - 'value'.length;
      await queues.send(url, 'x'.repeat(room), { MessageAttributes });
      expect(said(await refusal(queues.send(url, 'x'.repeat(room + 1), { MessageAttributes })))).toMatch(/InvalidParameterValue.*shorter than 1024/);
      expect(said(await refusal(queues.send(url, 'é'.repeat(513))))).toMatch(/shorter than 1024/);
    });

    it('takes 1 MiB, and not a byte more', async () => {
      const url = await queues.make();
      await queues.send(url, 'x'.repeat(1_048_576));
      expect((await queues.receiveOne(url)).Body).toHaveLength(1_048_576);
      expect(said(await refusal(queues.send(url, 'x'.repeat(1_048_577))))).toMatch(/InvalidParameterValue.*shorter/);
    });

    it('refuses a delay above 15 minutes, alone and in a batch', async () => {
      const url = await queues.make();
      await queues.send(url, 'x', { DelaySeconds: 900 });
      expect(said(await refusal(queues.send(url, 'x', { DelaySeconds: 901 })))).toMatch(/InvalidParameterValue.*DelaySeconds/);
      const Entries = [{ Id: 'late', MessageBody: 'x', DelaySeconds: 901 }, { Id: 'good', MessageBody: 'y' }];
      const result = await queues.client.send(new Q.SendMessageBatchCommand({ QueueUrl: url, Entries }));
      expect(result.Failed).toMatchObject([{ Id: 'late', SenderFault: true, Code: expect.stringMatching(/InvalidParameterValue/) as string }]);
      expect(result.Successful?.map(({ Id }) => Id)).toEqual(['good']);
    });

    it('delays one message, and lets an explicit 0 override the delay of the queue', async () => {
      const url = await queues.make({ DelaySeconds: '5' });
      await queues.send(url, 'now', { DelaySeconds: 0 });
      await queues.send(url, 'later');
      const first = await queues.receiveOne(url);
      expect(first.Body).toBe('now');
      expect(await queues.receive(url)).toEqual([]);
      await subject().pass(5_001);
      expect((await queues.receiveOne(url)).Body).toBe('later');
    });

    it('takes batches of ten and of 1 MiB together, with distinct ids', async () => {
      const url = await queues.make();
      const batch = (count: number, body: string, id = (i: number) => `i${i}`) =>
        queues.client.send(new Q.SendMessageBatchCommand({
          QueueUrl: url, Entries: Array.from({ length: count }, (_, i) => ({ Id: id(i), MessageBody: body })),
        }));
      expect((await batch(10, 'b')).Successful).toHaveLength(10);
      expect(said(await refusal(batch(11, 'b')))).toMatch(/TooManyEntriesInBatchRequest/);
      expect(said(await refusal(batch(2, 'x'.repeat(600_000))))).toMatch(/BatchRequestTooLong/);
      expect(said(await refusal(batch(2, 'b', () => 'same')))).toMatch(/BatchEntryIdsNotDistinct/);
      expect(said(await refusal(batch(0, 'b')))).toMatch(/EmptyBatchRequest/);
    });

    it('bounds each entry of a batch by the size of the queue', async () => {
      const QueueUrl = await queues.make({ MaximumMessageSize: '1024' });
      const Entries = [{ Id: 'big', MessageBody: 'x'.repeat(1_025) }, { Id: 'good', MessageBody: 'x' }];
      const result = await queues.client.send(new Q.SendMessageBatchCommand({ QueueUrl, Entries }));
      expect([result.Failed?.[0]?.Id, result.Successful?.[0]?.Id]).toEqual(['big', 'good']);
    });
  });

  describe('visibility', () => {
    it('ends, and the message is received again with another handle and a higher count', async () => {
      const url = await queues.make({ VisibilityTimeout: '2' });
      await queues.send(url, 'v');
      const first = await queues.receiveOne(url);
      expect(first.Attributes).toMatchObject({ ApproximateReceiveCount: '1', SentTimestamp: expect.stringMatching(/^\d+$/) as string });
      await subject().pass(2_001);
      const second = await queues.receiveOne(url);
      expect(second.Attributes?.['ApproximateReceiveCount']).toBe('2');
      expect(second.Attributes?.['ApproximateFirstReceiveTimestamp']).toBe(first.Attributes?.['ApproximateFirstReceiveTimestamp']);
      expect(second.ReceiptHandle).not.toBe(first.ReceiptHandle);
    });

    it('0 shows the message at once, 1 a second later, in a batch too', async () => {
      const url = await queues.make({ VisibilityTimeout: '60' });
      await queues.send(url, 'v');
      await queues.hide(url, (await queues.receiveOne(url)).ReceiptHandle, 0);
      const second = await queues.receiveOne(url);
      const Entries = [{ Id: 'one', ReceiptHandle: second.ReceiptHandle, VisibilityTimeout: 1 }];
      const result = await queues.client.send(new Q.ChangeMessageVisibilityBatchCommand({ QueueUrl: url, Entries }));
      expect(result.Successful).toHaveLength(1);
      await subject().pass(1_001);
      expect((await queues.receiveOne(url)).Attributes?.['ApproximateReceiveCount']).toBe('3');
    });

    it('cannot be changed once it has expired', async () => {
      const url = await queues.make({ VisibilityTimeout: '1' });
      await queues.send(url, 'v');
      const { ReceiptHandle } = await queues.receiveOne(url);
      await subject().pass(1_500);
      const expected = /MessageNotInflight|InvalidParameterValue/;
      expect(said(await refusal(queues.hide(url, ReceiptHandle, 5)))).toMatch(expected);
      const Entries = [{ Id: 'one', ReceiptHandle, VisibilityTimeout: 5 }];
      const { Failed } = await queues.client.send(new Q.ChangeMessageVisibilityBatchCommand({ QueueUrl: url, Entries }));
      expect(Failed?.[0]?.Code).toMatch(expected);
    });

    it('cannot be changed of a deleted message, nor by something that is no handle', async () => {
      const url = await queues.make();
      await queues.send(url, 'v');
      const { ReceiptHandle } = await queues.receiveOne(url);
      await queues.delete(url, ReceiptHandle);
      expect(said(await refusal(queues.hide(url, ReceiptHandle, 5)))).toMatch(/InvalidParameterValue.*does not exist or is not available|NotInflight/);
      expect(said(await refusal(queues.hide(url, 'nonsense', 5)))).toMatch(/ReceiptHandleIsInvalid/);
      expect(said(await refusal(queues.delete(url, 'nonsense')))).toMatch(/ReceiptHandleIsInvalid/);
    });

    it('is at most twelve hours', async () => {
      const url = await queues.make();
      await queues.send(url, 'v');
      const { ReceiptHandle } = await queues.receiveOne(url);
      expect(said(await refusal(queues.hide(url, ReceiptHandle, 43_201)))).toMatch(/InvalidParameterValue/);
      await queues.hide(url, ReceiptHandle, 43_100);
    });

    itEmulated('is at most twelve hours counted from the receive, not from the call', async () => {
      const url = await queues.make();
      await queues.send(url, 'v');
      const first = await queues.receiveOne(url, { VisibilityTimeout: 40_000 });
      await subject().pass(20_000_000);
      expect(said(await refusal(queues.hide(url, first.ReceiptHandle, 23_300)))).toMatch(/InvalidParameterValue.*Total VisibilityTimeout/);
      const Entries = [{ Id: 'one', ReceiptHandle: first.ReceiptHandle, VisibilityTimeout: 23_300 }];
      const { Failed } = await queues.client.send(new Q.ChangeMessageVisibilityBatchCommand({ QueueUrl: url, Entries }));
      expect(Failed?.[0]).toMatchObject({ Code: 'InvalidParameterValue', SenderFault: true });
      await queues.hide(url, first.ReceiptHandle, 23_000);
      // A new receive starts the twelve hours again.
      await subject().pass(23_000_001);
      await queues.hide(url, (await queues.receiveOne(url)).ReceiptHandle, 43_000);
    });
  });

  describe('deleting', () => {
    it('works with a handle whose visibility expired, as long as nobody received the message since', async () => {
      const url = await queues.make({ VisibilityTimeout: '2' });
      await queues.send(url, 'v');
      const { ReceiptHandle } = await queues.receiveOne(url);
      await subject().pass(2_500);
      await queues.delete(url, ReceiptHandle);
      await until(async () => (await queues.counts(url)).every((count) => count === 0));
    });

    itEmulated('with an old handle is accepted and deletes nothing', async () => {
      const url = await queues.make({ VisibilityTimeout: '2' });
      await queues.send(url, 'v');
      const first = await queues.receiveOne(url);
      await subject().pass(2_001);
      const second = await queues.receiveOne(url);
      await queues.delete(url, first.ReceiptHandle);
      expect(await queues.counts(url)).toEqual([0, 1, 0]);
      await queues.delete(url, second.ReceiptHandle);
      await queues.delete(url, second.ReceiptHandle);
      expect(await queues.counts(url)).toEqual([0, 0, 0]);
    });
  });

  describe('polling', () => {
    it('waits for a message that comes, and no longer', async () => {
      const url = await queues.make();
      const startMs = performance.now();
      const received = queues.receive(url, { WaitTimeSeconds: 10 });
      await queues.send(url, 'lp');
      expect(await received).toHaveLength(1);
      expect(performance.now() - startMs).toBeLessThan(9_000);
    });

    it('ends empty when its time is up', async () => {
      const url = await queues.make();
      const startMs = performance.now();
      expect(await queues.receive(url, { WaitTimeSeconds: 1 })).toEqual([]);
      expect(performance.now() - startMs).toBeGreaterThan(900);
      expect(said(await refusal(queues.receive(url, { WaitTimeSeconds: 21 })))).toMatch(/InvalidParameterValue/);
    });

    itEmulated('wakes when a visibility or a delay ends', async () => {
      const url = await queues.make();
      await queues.send(url, 'hidden');
      await queues.receive(url, { VisibilityTimeout: 600 });
      await queues.send(url, 'delayed', { DelaySeconds: 900 });
      const waiting = queues.receive(url, { WaitTimeSeconds: 10 });
      await subject().pass(901_000);
      expect((await waiting).length).toBeGreaterThan(0);
    });

    itEmulated('takes nothing for a client that has gone', async () => {
      const url = await queues.make();
      const abort = new AbortController();
      const command = new Q.ReceiveMessageCommand({ QueueUrl: url, WaitTimeSeconds: 20 });
      const waiting = queues.client.send(command, { abortSignal: abort.signal });
      const before = (await subject().calls()).at(-1)?.seq ?? 0;
      setTimeout(() => abort.abort(), 100);
      expect((await refusal(waiting)).name).toBe('AbortError');
      await until(async () => (await subject().calls(before)).some(({ operation }) => operation === 'ReceiveMessage'));
      await queues.send(url, 'x');
      expect(await queues.counts(url)).toEqual([1, 0, 0]);
    });
  });

  describe('FIFO queues', () => {
    it('keep the order in a group, hold it while one is hidden, and drop duplicates', async () => {
      const url = await queues.make({ FifoQueue: 'true' }, '.fifo');
      for (const [body, group] of [['m1', 'a'], ['m2', 'a'], ['m3', 'b']] as const) {
        await queues.send(url, body, { MessageGroupId: group, MessageDeduplicationId: body });
      }
      await queues.send(url, 'again', { MessageGroupId: 'a', MessageDeduplicationId: 'm1' });
      expect((await queues.receiveOne(url)).Body).toBe('m1');
      expect((await queues.receive(url)).map(({ Body }) => Body)).toEqual(['m3']);
    });
  });

  describeMoveTasks(subject, () => queues);
}
