import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ListMessageMoveTasksCommand,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { generationFrom } from '../core/dead-letter.ts';
import { messageAttributes as names } from '../limits/names.ts';
import { aws, dlqWalk } from '../limits/numbers.ts';
import type { DeadLetterQueue } from '../ports/index.ts';

/** @param look seconds for which a received copy is hidden, and for which a receive waits for one */
export function createSqsDeadLetters(sqs: SQSClient, url: string, look: { readonly lookS: number; readonly waitS: number }): DeadLetterQueue {
  let arn: string | undefined;
  const attributes = async () => {
    const { Attributes = {} } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['QueueArn', 'ApproximateNumberOfMessages'] }));
    arn = Attributes['QueueArn'];
    return Attributes;
  };

  return {
    async ready() {
      return Number((await attributes())['ApproximateNumberOfMessages']);
    },

    async isMoving() {
      const SourceArn = arn ?? (await attributes())['QueueArn'];
      const { Results = [] } = await sqs.send(new ListMessageMoveTasksCommand({ SourceArn, MaxResults: dlqWalk.moveTasks }));
      return Results.some(({ Status }) => Status === 'RUNNING' || Status === 'CANCELLING');
    },

    async receive() {
      const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({
        QueueUrl: url, MaxNumberOfMessages: aws.sqsBatchEntries, WaitTimeSeconds: look.waitS, VisibilityTimeout: look.lookS,
        MessageAttributeNames: [names.generation], MessageSystemAttributeNames: ['SentTimestamp'],
      }));
      return Messages.map(({ MessageId = '', ReceiptHandle = '', Body = '', MessageAttributes = {}, Attributes = {} }) => ({
        messageId: MessageId, receiptHandle: ReceiptHandle, body: Body, generation: generationFrom(MessageAttributes[names.generation]?.StringValue),
        sentEpochMs: Number(Attributes.SentTimestamp),
      }));
    },

    async remove(copies) {
      if (copies.length === 0) return [];
      const Entries = copies.map(({ receiptHandle }, i) => ({ Id: String(i), ReceiptHandle: receiptHandle }));
      const { Successful = [] } = await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: url, Entries }));
      const gone = new Set(Successful.map(({ Id }) => Number(Id)));
      return copies.filter((_, i) => !gone.has(i));
    },

    async putBack(receiptHandles) {
      let left = 0;
      const all = batchesOf(receiptHandles);
      // Some at a time: of a queue that does not answer all must have been tried before the caller's time is over.
      for (let from = 0; from < all.length; from += dlqWalk.putBacks) {
        const failed = await Promise.all(all.slice(from, from + dlqWalk.putBacks).map((batch) => putBack1(sqs, url, batch)));
        left += failed.reduce((sum, n) => sum + n, 0);
      }
      return left;
    },
  };
}

function batchesOf(receiptHandles: readonly string[]): string[][] {
  const batches: string[][] = [];
  for (let from = 0; from < receiptHandles.length; from += aws.sqsBatchEntries) batches.push(receiptHandles.slice(from, from + aws.sqsBatchEntries));
  return batches;
}

/** How many of one batch failed. */
async function putBack1(sqs: SQSClient, url: string, batch: readonly string[]): Promise<number> {
  try {
    const Entries = batch.map((ReceiptHandle, i) => ({ Id: String(i), ReceiptHandle, VisibilityTimeout: 0 }));
    const { Successful = [] } = await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: url, Entries }));
    return batch.length - Successful.length;
  } catch {
    return batch.length;
  }
}
