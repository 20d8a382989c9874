/** What SQS accepts, keeps and refuses of a message. */
import * as Q from '@aws-sdk/client-sqs';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Queues, said } from './fidelity-sqs-queues.ts';
import { type Subject, itEmulated, refusal } from './fidelity-subject.ts';

export function describeSending(subject: () => Subject, queuesOf: () => Queues): void {
  let queues: Queues;
  beforeAll(() => void (queues = queuesOf()));

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
}
