import middy from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { generationFrom } from '../shared/core/dead-letter.ts';
import { messageAttributes } from '../shared/limits/names.ts';
import type { ReceivedMessage } from '../shared/ports/index.ts';
import { deliverBatch } from './deliver-batch.ts';
import { createDeps } from './deps.ts';
import { invocationOf } from './invocation.ts';

const deps = createDeps();

/**
 * SQS hands over a batch; the answer lists the messages that stay in the queue. middy's early timeout is off: it would
 * answer while requests are under way, and a frozen environment would finish them after their lease.
 */
export const handler = middy<SQSEvent, SQSBatchResponse>({ timeoutEarlyInMillis: 0 })
  .use({ after: () => deps.telemetry.flush(), onError: () => deps.telemetry.flush() })
  .handler(async (event: SQSEvent, context: Context): Promise<SQSBatchResponse> => {
    const { retained } = await deliverBatch(deps, event.Records.map(toMessage), invocationOf(deps, context));
    return { batchItemFailures: retained.map((itemIdentifier) => ({ itemIdentifier })) };
  });

function toMessage(record: SQSRecord): ReceivedMessage {
  return {
    messageId: record.messageId,
    receiptHandle: record.receiptHandle,
    body: record.body,
    receiveCount: Number(record.attributes.ApproximateReceiveCount),
    sentEpochMs: Number(record.attributes.SentTimestamp),
    deadLetterGeneration: generationFrom(record.messageAttributes[messageAttributes.generation]?.stringValue),
  };
}
