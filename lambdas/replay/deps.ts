import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDynamoDb, createSqs } from '../shared/adapters/aws-clients.ts';
import { createDeadIndex } from '../shared/adapters/dynamodb-dead-index.ts';
import { createDynamoDbEndpoints } from '../shared/adapters/dynamodb-endpoints.ts';
import { createDynamoDbLanes } from '../shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbPayloads } from '../shared/adapters/dynamodb-payloads.ts';
import { createDynamoDbRecords } from '../shared/adapters/dynamodb-records.ts';
import { createDynamoDbReplays } from '../shared/adapters/dynamodb-replays.ts';
import { createPowertoolsTelemetry } from '../shared/adapters/powertools-telemetry.ts';
import { sendAgain } from '../shared/adapters/sqs-queues.ts';
import { sendWakeUp } from '../shared/adapters/wake-ups.ts';
import { env } from '../shared/limits/names.ts';
import { awsCalls } from '../shared/limits/numbers.ts';
import type { ReplayDeps } from './types.ts';

export type RunningReplayDeps = ReplayDeps & { readonly telemetry: ReturnType<typeof createPowertoolsTelemetry> };

/** Builds the real dependencies from the environment. Throws at init, naming the variable, where one is missing. */
export function createDeps(environment: NodeJS.ProcessEnv = process.env): RunningReplayDeps {
  const required = (name: string): string => {
    const value = environment[name];
    if (value === undefined || value === '') throw new Error(`environment variable ${name} is missing`);
    return value;
  };
  const tables = { endpoints: required(env.endpointsTable), deliveries: required(env.deliveriesTable), payloads: required(env.payloadsTable) };
  const [drainQueueUrl, deliveryQueueUrl] = [required(env.drainQueueUrl), required(env.deliveryQueueUrl)];
  const db = createDynamoDb(awsCalls);
  const sqs = createSqs(awsCalls);
  const telemetry = createPowertoolsTelemetry('replay', required(env.metricNamespace));
  telemetry.started({ tables, drainQueueUrl, deliveryQueueUrl, awsCalls });
  return {
    clock: { nowEpochMs: () => Date.now(), monotonicMs: () => performance.now() },
    random: { number: () => Math.random(), leaseId: () => randomBytes(8).toString('base64url') },
    pause: (ms) => sleep(ms),
    telemetry,
    dead: createDeadIndex(db, tables.deliveries),
    records: createDynamoDbRecords(db, tables),
    payloads: createDynamoDbPayloads(db, tables.payloads),
    endpoints: createDynamoDbEndpoints(db, tables.endpoints),
    lanes: createDynamoDbLanes(db, tables),
    replays: createDynamoDbReplays(db, tables),
    wake: (endpointId) => sendWakeUp(sqs, drainQueueUrl, endpointId),
    sendAgain: (body, groupId, generation) => sendAgain(sqs, deliveryQueueUrl, { body, groupId, generation }),
  };
}
