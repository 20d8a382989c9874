import {
  ChangeMessageVisibilityBatchCommand, DeleteMessageBatchCommand, GetQueueAttributesCommand, ListMessageMoveTasksCommand, ReceiveMessageCommand, SQSClient,
} from '@aws-sdk/client-sqs';
import { mockClient } from 'aws-sdk-client-mock';
import { afterEach, describe, expect, it } from 'vitest';
import { createSqsDeadLetters } from '../../lambdas/shared/adapters/sqs-dead-letters.ts';

const sqs = mockClient(SQSClient);
afterEach(() => sqs.reset());

const url = 'https://sqs/dead';
const arn = 'arn:aws:sqs:eu-west-1:000000000000:dead';
const queue = () => createSqsDeadLetters(new SQSClient({ region: 'eu-west-1' }), url, { lookS: 60, waitS: 0 });
const copyOf = (n: number) => ({ messageId: `m${n}`, receiptHandle: `r${n}`, body: 'x', generation: 0, sentEpochMs: 1_790_000_000_000 + n });

describe('isMoving', () => {
  it.each([
    [[], false], [['COMPLETED'], false], [['CANCELLED', 'FAILED'], false], [['RUNNING'], true], [['CANCELLING'], true], [['COMPLETED', 'RUNNING'], true], [['COMPLETED', 'CANCELLING'], true],
  ])('%s: %s', async (statuses, isMoving) => {
    sqs.on(GetQueueAttributesCommand).resolves({ Attributes: { QueueArn: arn, ApproximateNumberOfMessages: '3' } });
    sqs.on(ListMessageMoveTasksCommand).resolves({ Results: statuses.map((Status) => ({ Status })) });
    const one = queue();
    expect([await one.ready(), await one.isMoving()]).toEqual([3, isMoving]);
    expect(sqs.commandCalls(ListMessageMoveTasksCommand)[0]?.args[0].input).toEqual({ SourceArn: arn, MaxResults: 10 });
    // The queue's ARN is asked for once.
    expect(sqs.commandCalls(GetQueueAttributesCommand)).toHaveLength(1);
  });

  it('rejects where SQS does not say', async () => {
    sqs.on(GetQueueAttributesCommand).resolves({ Attributes: { QueueArn: arn } });
    sqs.on(ListMessageMoveTasksCommand).rejects(new Error('throttled'));
    await expect(queue().isMoving()).rejects.toThrow('throttled');
  });
});

describe('receive', () => {
  it('hides up to ten for its look, knows when they were sent, and takes no generation that is none', async () => {
    const message = (n: number, StringValue?: string) => ({ MessageId: `m${n}`, ReceiptHandle: `r${n}`, Body: 'x', Attributes: { SentTimestamp: String(1_790_000_000_000 + n) }, ...(StringValue === undefined ? {} : { MessageAttributes: { 'sluice-gen': { DataType: 'Number', StringValue } } }) });
    sqs.on(ReceiveMessageCommand).resolves({ Messages: [message(0, '7'), message(1, 'x'), message(2)] });
    expect(await queue().receive()).toEqual([{ ...copyOf(0), generation: 7 }, { ...copyOf(1), generation: undefined }, { ...copyOf(2), generation: undefined }]);
    expect(sqs.commandCalls(ReceiveMessageCommand)[0]?.args[0].input).toEqual({ QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 0, VisibilityTimeout: 60, MessageAttributeNames: ['sluice-gen'], MessageSystemAttributeNames: ['SentTimestamp'] });
  });
});

describe('remove', () => {
  it('gives back what failed by itself, and what has no answer', async () => {
    sqs.on(DeleteMessageBatchCommand).resolves({ Successful: [{ Id: '0' }], Failed: [{ Id: '1', Code: 'InternalError', SenderFault: false }] });
    expect(await queue().remove([copyOf(0), copyOf(1), copyOf(2)])).toEqual([copyOf(1), copyOf(2)]);
  });

  it('asks nothing for nothing', async () => {
    expect(await queue().remove([])).toEqual([]);
    expect(sqs.calls()).toEqual([]);
  });
});

describe('putBack', () => {
  it('goes on past a call that fails, and counts what is left', async () => {
    sqs.on(ChangeMessageVisibilityBatchCommand)
      .rejectsOnce(new Error('away'))
      .resolves({ Successful: Array.from({ length: 10 }, (_, i) => ({ Id: String(i) })), Failed: [] });
    expect(await queue().putBack(Array.from({ length: 130 }, (_, i) => `r${i}`))).toBe(10);
    const entries = sqs.commandCalls(ChangeMessageVisibilityBatchCommand).flatMap((call) => call.args[0].input.Entries ?? []);
    expect(entries.map(({ ReceiptHandle }) => ReceiptHandle)).toEqual(Array.from({ length: 130 }, (_, i) => `r${i}`));
    expect(entries.every(({ VisibilityTimeout }) => VisibilityTimeout === 0)).toBe(true);
  });
});
