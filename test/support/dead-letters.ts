/** Dead letters of an installation, written by the product's own adapters: record, body beside it, copy in the dead-letter queue. */
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import { createSqsQueues } from '../../lambdas/shared/adapters/sqs-queues.ts';
import { dead } from '../../lambdas/shared/core/decide.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import type { ReplayAnswer, ReplayAsk } from '../../lambdas/shared/limits/replay-request.ts';
import { bodyOf, waitingOf } from './builders.ts';
import type { Embedded } from './embedded.ts';
import { FakeTelemetry } from './fake-telemetry.ts';

export interface DeadLetter {
  readonly endpointId: string;
  readonly eventId: string;
  readonly lastEpochMs: number;
}

export interface Buried {
  readonly record: DeadRecord;
  readonly body: string;
}

/** Side by side, as much as one process of emulators takes. */
const workers = 32;

export async function seedDead(embedded: Embedded, letters: readonly DeadLetter[]): Promise<Buried[]> {
  const { db, sqs } = embedded;
  const output = (key: string) => embedded.output(key);
  const tables = { endpoints: output(outputs.endpointsTable), deliveries: output(outputs.deliveriesTable) };
  const records = createDynamoDbRecords(db, tables);
  const payloads = createDynamoDbPayloads(db, output(outputs.payloadsTable));
  const queues = createSqsQueues(sqs, { delivery: output(outputs.deliveryQueueUrl), deadLetter: output(outputs.deadLetterQueueUrl) }, new FakeTelemetry());
  const seeded: Buried[] = [];
  const queue = letters.values();
  const work = async () => {
    for (const { endpointId, eventId, lastEpochMs } of queue) {
      const record: DeadRecord = { ...dead(waitingOf({ attempt: 3, firstEpochMs: lastEpochMs - 1_000, lastEpochMs }, { endpointId, eventId }), 'exhausted', '3 attempts'), phase: 'buried' };
      const body = bodyOf({ endpointId, eventId });
      const [put, written] = await Promise.all([payloads.put(record, body, lastEpochMs), records.write(undefined, record), queues.bury(body, record)]);
      if (put !== 'written' || written !== 'written') throw new Error(`${eventId}: ${put}, ${written}`);
      seeded.push({ record, body });
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  return seeded;
}

/** The body beside a dead record, as each burial leaves it. */
export async function keepBody(embedded: Embedded, record: DeadRecord, body: string): Promise<void> {
  const answer = await createDynamoDbPayloads(embedded.db, embedded.output(outputs.payloadsTable)).put(record, body, record.lastEpochMs);
  if (answer !== 'written') throw new Error(`the body of ${record.recordKey}: ${answer}`);
}

/** One call of the replay function. Rejects with what the function said. */
export async function callReplay(embedded: Embedded, ask: ReplayAsk): Promise<ReplayAnswer> {
  const { local } = embedded;
  const lambda = new LambdaClient({ endpoint: local.endpoint, region: local.region, credentials: local.credentials });
  try {
    const { FunctionError, Payload } = await lambda.send(new InvokeCommand({ FunctionName: embedded.output(outputs.replayFunction), Payload: JSON.stringify(ask) }));
    const text = Buffer.from(Payload ?? []).toString();
    if (FunctionError !== undefined) throw new Error(text);
    return JSON.parse(text) as ReplayAnswer;
  } finally {
    lambda.destroy();
  }
}
