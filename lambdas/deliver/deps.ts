import { randomBytes } from 'node:crypto';
import { createDynamoDb, createSqs } from '../shared/adapters/aws-clients.ts';
import { createDynamoDbEndpoints } from '../shared/adapters/dynamodb-endpoints.ts';
import { createDynamoDbLanes } from '../shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbRecords } from '../shared/adapters/dynamodb-records.ts';
import { createPowertoolsTelemetry } from '../shared/adapters/powertools-telemetry.ts';
import { createSqsQueues } from '../shared/adapters/sqs-queues.ts';
import { createUndiciHttp } from '../shared/adapters/undici-http.ts';
import type { EgressRules } from '../shared/limits/egress.ts';
import { env } from '../shared/limits/names.ts';
import * as numbers from '../shared/limits/numbers.ts';
import type { FunctionLimits } from '../shared/limits/relations.ts';
import { awsCallLimits } from '../shared/core/budgets.ts';
import { createEndpointCache } from './endpoint-cache.ts';
import type { DeliverDeps } from './types.ts';

export type RunningDeps = DeliverDeps & { readonly telemetry: ReturnType<typeof createPowertoolsTelemetry> };

/** Builds the real dependencies from the environment. Throws at init, naming the variable, where one is missing. */
export function createDeps(environment: NodeJS.ProcessEnv = process.env): RunningDeps {
  const tables = { endpoints: required(environment, env.endpointsTable), deliveries: required(environment, env.deliveriesTable) };
  const urls = { delivery: required(environment, env.deliveryQueueUrl), deadLetter: required(environment, env.deadLetterQueueUrl) };
  const egress = JSON.parse(required(environment, env.egress)) as EgressRules;
  const clock = { nowEpochMs: () => Date.now(), monotonicMs: () => performance.now() };
  const telemetry = createPowertoolsTelemetry('deliver');
  const limits = JSON.parse(required(environment, env.functionLimits)) as FunctionLimits;
  const calls = awsCallLimits(limits);
  const db = createDynamoDb(calls);
  const http = createUndiciHttp({ egress, nowEpochMs: clock.nowEpochMs, onStaleSocket: (host) => telemetry.event('stale-socket', { host }) });
  telemetry.started({ tables, urls, limits, budgets: numbers.budgets, http: http.settings, awsCalls: { ...numbers.awsCalls, ...calls } });
  return {
    clock,
    random: { number: () => Math.random(), leaseId: () => randomBytes(8).toString('base64url') },
    endpoints: createEndpointCache(createDynamoDbEndpoints(db, tables.endpoints), numbers.endpoint.maxCached),
    lanes: createDynamoDbLanes(db, tables),
    records: createDynamoDbRecords(db, tables),
    queues: createSqsQueues(createSqs(calls), urls, telemetry),
    http,
    telemetry,
    limits,
  };
}

function required(environment: NodeJS.ProcessEnv, name: string): string {
  const value = environment[name];
  if (value === undefined || value === '') throw new Error(`environment variable ${name} is missing`);
  return value;
}
