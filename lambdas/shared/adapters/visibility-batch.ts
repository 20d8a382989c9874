import { ChangeMessageVisibilityBatchCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { aws } from '../limits/numbers.ts';
import type { Telemetry } from '../ports/index.ts';

interface Wanted {
  readonly receiptHandle: string;
  readonly seconds: number;
  readonly done: () => void;
}

/**
 * Hides messages for a while, those that are put back in one turn of the event loop by one request: a batch of ten that finds its
 * lane full costs one. Never rejects: a message that is not hidden returns at the queue's own timeout, later than wanted, never lost.
 */
export function createVisibilityBatch(sqs: SQSClient, queueUrl: string, telemetry: Pick<Telemetry, 'event'>) {
  let waiting: Wanted[] = [];

  const send = async (entries: readonly Wanted[]): Promise<void> => {
    const Entries = entries.map(({ receiptHandle, seconds }, i) => ({ Id: String(i), ReceiptHandle: receiptHandle, VisibilityTimeout: seconds }));
    try {
      const { Failed = [] } = await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries }));
      for (const { Code } of Failed) telemetry.event('delay-failed', { cause: Code ?? 'unknown' });
    } catch (error) {
      telemetry.event('delay-failed', { cause: error instanceof Error ? error.name : typeof error });
    }
    for (const { done } of entries) done();
  };

  const flush = (): void => {
    const all = waiting;
    waiting = [];
    for (const entries of batches(all)) void send(entries);
  };

  return (receiptHandle: string, seconds: number): Promise<void> =>
    new Promise((done) => {
      if (waiting.length === 0) setImmediate(flush);
      waiting.push({ receiptHandle, seconds, done });
    });
}

/** As SQS takes them: so many, and so many bytes, in one request. */
function batches(all: readonly Wanted[]): Wanted[][] {
  const found: Wanted[][] = [];
  let bytes = 0;
  for (const one of all) {
    const size = Buffer.byteLength(one.receiptHandle) + aws.sqsEntryOverheadBytes;
    const last = found.at(-1);
    if (last === undefined || last.length === aws.sqsBatchEntries || bytes + size > aws.sqsMaxRequestBytes) {
      found.push([one]);
      bytes = size;
    } else {
      last.push(one);
      bytes += size;
    }
  }
  return found;
}
