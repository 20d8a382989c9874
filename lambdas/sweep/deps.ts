import { createDynamoDb, createSns, createSqs } from '../shared/adapters/aws-clients.ts';
import { tidyDeadLetters } from '../shared/adapters/dead-letter-walk.ts';
import { createAttention } from '../shared/adapters/dynamodb-attention.ts';
import { createDynamoDbEndpoints } from '../shared/adapters/dynamodb-endpoints.ts';
import { createEndedWindows } from '../shared/adapters/dynamodb-ended-windows.ts';
import { createHoldingIndex } from '../shared/adapters/dynamodb-holding-index.ts';
import { createDynamoDbLanes } from '../shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbRecords } from '../shared/adapters/dynamodb-records.ts';
import { createChangeStatus } from '../shared/adapters/dynamodb-status.ts';
import { createPowertoolsTelemetry } from '../shared/adapters/powertools-telemetry.ts';
import { createSnsNotices } from '../shared/adapters/sns-notices.ts';
import { createSqsDeadLetters } from '../shared/adapters/sqs-dead-letters.ts';
import { sendWakeUp } from '../shared/adapters/wake-ups.ts';
import { laneCeiling } from '../shared/core/auto-lane.ts';
import { env } from '../shared/limits/names.ts';
import { awsCalls, sweep as limits } from '../shared/limits/numbers.ts';
import type { SweepDeps } from './sweep.ts';

export type RunningDeps = SweepDeps & { readonly telemetry: ReturnType<typeof createPowertoolsTelemetry> };

/** Builds the real dependencies from the environment. Throws at init, naming the variable, where one is missing. */
export function createDeps(environment: NodeJS.ProcessEnv = process.env): RunningDeps {
  const required = (name: string): string => {
    const value = environment[name];
    if (value === undefined || value === '') throw new Error(`environment variable ${name} is missing`);
    return value;
  };
  const tables = { endpoints: required(env.endpointsTable), deliveries: required(env.deliveriesTable), statistics: required(env.statisticsTable) };
  const drainQueueUrl = required(env.drainQueueUrl);
  const deadLetterQueueUrl = required(env.deadLetterQueueUrl);
  const noticesTopicArn = required(env.noticesTopicArn);
  const fleetSlots = Number(required(env.fleetSlots));
  const db = createDynamoDb(awsCalls);
  const sqs = createSqs(awsCalls);
  const telemetry = createPowertoolsTelemetry('sweep', required(env.metricNamespace));
  telemetry.started({ tables, drainQueueUrl, deadLetterQueueUrl, noticesTopicArn, fleetSlots, awsCalls });
  // No waiting for copies: a request that waits is cut off by the client's own limit.
  const queue = createSqsDeadLetters(sqs, deadLetterQueueUrl, { lookS: limits.tidyLookS, waitS: 0 });
  const records = createDynamoDbRecords(db, tables);
  return {
    clock: { nowEpochMs: () => Date.now(), monotonicMs: () => performance.now() },
    telemetry,
    lanes: createDynamoDbLanes(db, tables),
    holding: createHoldingIndex(db, tables),
    wake: (endpointId) => sendWakeUp(sqs, drainQueueUrl, endpointId),
    attention: createAttention(db, tables),
    endpoints: createDynamoDbEndpoints(db, tables.endpoints),
    changeStatus: createChangeStatus(db, tables.endpoints),
    notices: createSnsNotices(createSns(awsCalls), noticesTopicArn),
    laneCeiling: laneCeiling(fleetSlots),
    windows: createEndedWindows(db, tables.statistics),
    deadLetters: { ready: () => queue.ready(), tidy: (mayGoOn) => tidyDeadLetters({ queue, records }, { mayGoOn }) },
  };
}
