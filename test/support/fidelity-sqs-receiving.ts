/** Visibility, receipts, polls and FIFO order. */
import * as Q from '@aws-sdk/client-sqs';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Queues, said } from './fidelity-sqs-queues.ts';
import { type Subject, itEmulated, refusal, until } from './fidelity-subject.ts';

export function describeReceiving(subject: () => Subject, queuesOf: () => Queues): void {
  let queues: Queues;
  beforeAll(() => void (queues = queuesOf()));

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
}
