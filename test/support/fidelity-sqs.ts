/** What an emulator of SQS must do to be believed. */
import * as Q from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Queues, said } from './fidelity-sqs-queues.ts';
import { describeReceiving } from './fidelity-sqs-receiving.ts';
import { describeMoveTasks } from './fidelity-sqs-redrive.ts';
import { describeSending } from './fidelity-sqs-sending.ts';
import { type Subject, itEmulated, refusal, until } from './fidelity-subject.ts';

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

  describeSending(subject, () => queues);
  describeReceiving(subject, () => queues);
  describeMoveTasks(subject, () => queues);
}
