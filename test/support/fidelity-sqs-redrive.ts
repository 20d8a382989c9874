/** Dead-letter queues and the tasks that move messages out of them. */
import * as Q from '@aws-sdk/client-sqs';
import { describe, expect, it } from 'vitest';
import { type Queues, said } from './fidelity-sqs-queues.ts';
import { type Subject, isAws, itEmulated, refusal, until } from './fidelity-subject.ts';

export function describeMoveTasks(subject: () => Subject, queuesOf: () => Queues): void {
  const make = async (attributes: Record<string, string> = {}) => {
    const queues = queuesOf();
    const dead = await queues.make();
    const source = await queues.make({ ...attributes, ...(await queues.redrivePolicy(dead, 2)) });
    return { queues, dead, source, deadArn: await queues.arn(dead), sourceArn: await queues.arn(source) };
  };
  const start = (request: Q.StartMessageMoveTaskCommandInput) => queuesOf().client.send(new Q.StartMessageMoveTaskCommand(request));
  const list = async (SourceArn: string) =>
    (await queuesOf().client.send(new Q.ListMessageMoveTasksCommand({ SourceArn, MaxResults: 10 }))).Results ?? [];
  const ended = (SourceArn: string) =>
    until(async () => {
      const [task] = await list(SourceArn);
      return task && task.Status !== 'RUNNING' ? task : undefined;
    });

  describe('a redrive policy', () => {
    it('moves a message after its receives, with its id, and says where from', async () => {
      const { queues, dead, source, sourceArn } = await make({ VisibilityTimeout: '0' });
      const { MessageId } = await queues.send(source, 'x');
      await queues.receiveOne(source);
      await queues.receiveOne(source);
      const message = await until(async () => {
        await queues.receive(source);
        return (await queues.receive(dead))[0];
      });
      expect(message.MessageId).toBe(MessageId);
      expect(message.Attributes?.['DeadLetterQueueSourceArn']).toBe(sourceArn);
    });

    it('tells which queues use a dead-letter queue', async () => {
      const { queues, dead, source } = await make();
      const command = new Q.ListDeadLetterSourceQueuesCommand({ QueueUrl: dead });
      await until(async () => (await queues.client.send(command)).queueUrls?.includes(source));
    });
  });

  describe('a move task', () => {
    it('moves what a redrive policy moved back to where it came from', async () => {
      const { queues, dead, source, deadArn } = await make({ VisibilityTimeout: '0' });
      await queues.send(source, 'x');
      await queues.receiveOne(source);
      await queues.receiveOne(source);
      await until(async () => {
        await queues.receive(source);
        return (await queues.counts(dead))[0] === 1;
      });
      await start({ SourceArn: deadArn });
      expect(await ended(deadArn)).toMatchObject({ Status: 'COMPLETED', ApproximateNumberOfMessagesMoved: 1 });
      expect((await queues.receiveOne(source)).Body).toBe('x');
    });

    it('to a destination keeps body, attributes and group, under a new id and a new count', async () => {
      const { queues, dead, deadArn } = await make();
      const destination = await queues.make();
      const MessageAttributes = { why: { DataType: 'String', StringValue: 'refused' } };
      const sent = await queues.send(dead, 'x', { MessageAttributes, MessageGroupId: 'endpoint-a' });
      const { ReceiptHandle } = await queues.receiveOne(dead);
      await queues.hide(dead, ReceiptHandle, 0);
      await start({ SourceArn: deadArn, DestinationArn: await queues.arn(destination) });
      expect(await ended(deadArn)).toMatchObject({ Status: 'COMPLETED' });
      const moved = await queues.receiveOne(destination);
      expect(moved).toMatchObject({ Body: 'x', MessageAttributes, Attributes: { ApproximateReceiveCount: '1', MessageGroupId: 'endpoint-a' } });
      expect(moved.MessageId).not.toBe(sent.MessageId);
      expect(Number(moved.Attributes?.['SentTimestamp'])).toBeGreaterThan(0);
    });

    it('without a destination fails on a message that was sent to the dead-letter queue', async () => {
      const { queues, dead, deadArn } = await make();
      await queues.send(dead, 'x');
      await until(async () => (await queues.counts(dead))[0] === 1);
      await start({ SourceArn: deadArn });
      expect(await ended(deadArn)).toMatchObject({ Status: 'FAILED', FailureReason: 'CouldNotDetermineMessageSource' });
      expect((await queues.receiveOne(dead)).Body).toBe('x');
    });

    it('is refused unless some redrive policy names the source', async () => {
      const queues = queuesOf();
      const SourceArn = await queues.arn(await queues.make());
      const DestinationArn = await queues.arn(await queues.make());
      expect(said(await refusal(start({ SourceArn, DestinationArn })))).toMatch(/InvalidParameterValue.*must be configured as a Dead Letter Queue/);
    });

    it('is refused for queues that do not exist', async () => {
      const { deadArn } = await make();
      const missing = deadArn.replace(/[^:]+$/, 'sluice-no-such-queue');
      expect(said(await refusal(start({ SourceArn: missing })))).toMatch(/ResourceNotFound.*SourceArn/);
      expect(said(await refusal(start({ SourceArn: deadArn, DestinationArn: missing })))).toMatch(/ResourceNotFound.*DestinationArn/);
    });

    itEmulated('leaves a message that is too large for its destination', async () => {
      const { queues, dead, deadArn } = await make();
      const small = await queues.make({ MaximumMessageSize: '1024' });
      await queues.send(dead, 'x'.repeat(1_025));
      await start({ SourceArn: deadArn, DestinationArn: await queues.arn(small) });
      expect(await ended(deadArn)).toMatchObject({ Status: 'FAILED', ApproximateNumberOfMessagesMoved: 0 });
      expect(await queues.counts(dead)).toEqual([1, 0, 0]);
    });

    it('runs alone on its source, at the pace asked for, until it is cancelled', async () => {
      const { queues, dead, deadArn } = await make();
      const DestinationArn = await queues.arn(await queues.make());
      for (let i = 0; i < 10; i++) await queues.send(dead, `m${i}`);
      const { TaskHandle } = await start({ SourceArn: deadArn, DestinationArn, MaxNumberOfMessagesPerSecond: 1 });
      expect(said(await refusal(start({ SourceArn: deadArn, DestinationArn })))).toMatch(/InvalidParameterValue.*already a task running/);
      expect((await list(deadArn))[0]).toMatchObject({ Status: 'RUNNING', MaxNumberOfMessagesPerSecond: 1, SourceArn: deadArn, DestinationArn });
      await queues.client.send(new Q.CancelMessageMoveTaskCommand({ TaskHandle }));
      const task = await until(async () => (await list(deadArn)).find(({ Status }) => Status === 'CANCELLED'));
      expect(task.ApproximateNumberOfMessagesMoved).toBeLessThan(10);
      if (!isAws) expect((await queues.counts(dead))[0]).toBeGreaterThan(0);
    });

    it('is not cancelled by a handle that is none', async () => {
      const cancel = (TaskHandle: string) => queuesOf().client.send(new Q.CancelMessageMoveTaskCommand({ TaskHandle }));
      expect(said(await refusal(cancel('nonsense')))).toMatch(/InvalidParameterValue.*TaskHandle/);
      const { deadArn } = await make();
      const unknown = Buffer.from(JSON.stringify({ taskId: 'none', sourceArn: deadArn })).toString('base64');
      expect(said(await refusal(cancel(unknown)))).toMatch(/ResourceNotFound/);
    });

    itEmulated('starts the retention of a message anew', async () => {
      const { queues, dead, deadArn } = await make();
      const destination = await queues.make({ MessageRetentionPeriod: '600' });
      await queues.send(dead, 'old');
      await subject().pass(3_600_000);
      await start({ SourceArn: deadArn, DestinationArn: await queues.arn(destination) });
      await ended(deadArn);
      await subject().pass(500_000);
      expect((await queues.receiveOne(destination)).Body).toBe('old');
    });
  });
}
