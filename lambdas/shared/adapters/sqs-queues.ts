import { GetQueueAttributesCommand, SendMessageCommand, type MessageAttributeValue, type SQSClient } from '@aws-sdk/client-sqs';
import type { DeadRecord } from '../core/record.ts';
import { messageAttributes as names } from '../limits/names.ts';
import { message } from '../limits/numbers.ts';
import type { Queues, ReceivedMessage, Telemetry } from '../ports/index.ts';
import { createVisibilityBatch } from './visibility-batch.ts';

/** The queue calls of the sender. */
export function createSqsQueues(sqs: SQSClient, urls: { delivery: string; deadLetter: string }, telemetry: Telemetry): Queues {
  const hide = createVisibilityBatch(sqs, urls.delivery, telemetry);
  return {
    delay: (received: ReceivedMessage, seconds: number) => hide(received.receiptHandle, seconds),

    async bury(body: string, record: DeadRecord): Promise<void> {
      await sqs.send(
        new SendMessageCommand({
          QueueUrl: urls.deadLetter,
          MessageBody: body,
          MessageAttributes: deadLetterAttributes(body, record),
          // Fair queues: one endpoint's dead letters do not hold up the reading of another's.
          ...(record.endpointId === '' ? {} : { MessageGroupId: record.endpointId }),
        }),
      );
    },

    async hidden(): Promise<number | undefined> {
      try {
        const answer = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: urls.delivery, AttributeNames: ['ApproximateNumberOfMessagesNotVisible'] }));
        return Number(answer.Attributes?.['ApproximateNumberOfMessagesNotVisible'] ?? Number.NaN);
      } catch (error) {
        telemetry.event('in-flight-unread', { cause: error instanceof Error ? error.name : typeof error });
        return undefined;
      }
    },
  };
}

/**
 * What a dead letter says of itself beside the untouched body. Everything but the generation is dropped where body and
 * attributes together would pass the delivery queue's limit, for a redrive sends both through it again.
 */
export function deadLetterAttributes(body: string, record: DeadRecord): Record<string, MessageAttributeValue> {
  const all: Record<string, MessageAttributeValue> = {
    [names.generation]: { DataType: 'Number', StringValue: String(record.generation) },
    [names.reason]: text(record.reason),
    [names.attempts]: { DataType: 'Number', StringValue: String(record.attempt) },
    [names.firstAt]: text(new Date(record.firstEpochMs).toISOString()),
    [names.lastAt]: text(new Date(record.lastEpochMs).toISOString()),
    [names.lastOutcome]: text(record.history.at(-1)?.detail ?? 'none'),
    ...(record.endpointId === '' ? {} : { [names.endpoint]: text(record.endpointId) }),
  };
  const bytes = Object.entries(all).reduce((sum, [name, a]) => sum + attributeBytes(name, a), Buffer.byteLength(body));
  if (bytes <= message.maxBytes) return all;
  return Object.fromEntries(Object.entries(all).filter(([name]) => name === names.generation));
}

const text = (value: string): MessageAttributeValue => ({ DataType: 'String', StringValue: value });

function attributeBytes(name: string, value: MessageAttributeValue): number {
  return Buffer.byteLength(name) + Buffer.byteLength(value.DataType ?? '') + Buffer.byteLength(value.StringValue ?? '');
}

/** Sends a dead letter's message again, as a redrive would. Rejects if it is not known to be sent. */
export async function sendAgain(sqs: SQSClient, deliveryQueueUrl: string, copy: { body: string; groupId: string | undefined; generation: number }): Promise<void> {
  await sqs.send(
    new SendMessageCommand({
      QueueUrl: deliveryQueueUrl,
      MessageBody: copy.body,
      MessageAttributes: { [names.generation]: { DataType: 'Number', StringValue: String(copy.generation) } },
      ...(copy.groupId === undefined ? {} : { MessageGroupId: copy.groupId }),
    }),
  );
}
