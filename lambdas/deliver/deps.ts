import { randomBytes } from 'node:crypto';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { createDynamoDb, createScheduler, createSqs } from '../shared/adapters/aws-clients.ts';
import { createDisableEndpoint } from '../shared/adapters/dynamodb-status.ts';
import { createDynamoDbEndpoints } from '../shared/adapters/dynamodb-endpoints.ts';
import { createFleetReader } from '../shared/adapters/dynamodb-fleet.ts';
import { createDynamoDbLanes } from '../shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbPayloads } from '../shared/adapters/dynamodb-payloads.ts';
import { createDynamoDbRecords } from '../shared/adapters/dynamodb-records.ts';
import { createPowertoolsTelemetry } from '../shared/adapters/powertools-telemetry.ts';
import { createSqsQueues } from '../shared/adapters/sqs-queues.ts';
import { createUndiciHttp } from '../shared/adapters/undici-http.ts';
import { createWakeUps } from '../shared/adapters/wake-ups.ts';
import type { CopyHome } from '../shared/core/receive.ts';
import type { EgressRules } from '../shared/limits/egress.ts';
import { env } from '../shared/limits/names.ts';
import * as numbers from '../shared/limits/numbers.ts';
import type { FunctionLimits } from '../shared/limits/relations.ts';
import { awsCallLimits } from '../shared/core/budgets.ts';
import { createEndpointCache } from './endpoint-cache.ts';
import { underSwitch } from './fleet-view.ts';
import { createInFlightGuard } from './in-flight-guard.ts';
import type { DeliverDeps } from './types.ts';

export type RunningDeps = DeliverDeps & { readonly telemetry: ReturnType<typeof createPowertoolsTelemetry> };

/** What the senders have in common, and the clients that a function may want for more. */
export interface SenderParts {
  readonly deps: RunningDeps;
  readonly tables: { readonly endpoints: string; readonly deliveries: string; readonly payloads: string };
  readonly db: DynamoDBClient;
}

/** Builds the real dependencies from the environment. Throws at init, naming the variable, where one is missing. */
export function createDeps(environment: NodeJS.ProcessEnv = process.env): RunningDeps {
  return createSender('deliver', 'queue', environment).deps;
}

/**
 * @param service its name in the logs
 * @param perHost sockets to one host
 */
export function createSender(service: string, serves: CopyHome, environment: NodeJS.ProcessEnv, perHost: number = numbers.sockets.perHost): SenderParts {
  const required = (name: string) => requiredIn(environment, name);
  const tables = { endpoints: required(env.endpointsTable), deliveries: required(env.deliveriesTable), payloads: required(env.payloadsTable) };
  const urls = { delivery: required(env.deliveryQueueUrl), deadLetter: required(env.deadLetterQueueUrl) };
  const wakeUps = {
    drainQueueUrl: required(env.drainQueueUrl), drainQueueArn: required(env.drainQueueArn),
    group: required(env.wakeUpGroup), roleArn: required(env.wakeUpRoleArn),
  };
  const egress = JSON.parse(required(env.egress)) as EgressRules;
  const limits = JSON.parse(required(env.functionLimits)) as FunctionLimits;
  const clock = { nowEpochMs: () => Date.now(), monotonicMs: () => performance.now() };
  const telemetry = createPowertoolsTelemetry(service, required(env.metricNamespace));
  const calls = awsCallLimits(limits);
  const [db, sqs] = [createDynamoDb(calls), createSqs(calls)];
  const ceilings = { ...numbers.sockets, perHost };
  const http = createUndiciHttp({ egress, nowEpochMs: clock.nowEpochMs, ceilings, onStaleSocket: (host) => telemetry.event('stale-socket', { host }) });
  telemetry.watchSockets(() => http.takeSocketCounts());
  const queues = createSqsQueues(sqs, urls, telemetry);
  telemetry.started({ tables, urls, wakeUps, limits, budgets: numbers.budgets, http: http.settings, awsCalls: { ...numbers.awsCalls, ...calls } });
  const deps: RunningDeps = {
    serves,
    clock,
    random: { number: () => Math.random(), leaseId: () => randomBytes(8).toString('base64url') },
    endpoints: underSwitch(
      createEndpointCache(createDynamoDbEndpoints(db, tables.endpoints), numbers.endpoint.maxCached),
      createFleetReader(db, tables.endpoints), clock, telemetry,
    ),
    disableEndpoint: createDisableEndpoint(db, tables.endpoints),
    lanes: createDynamoDbLanes(db, tables),
    records: createDynamoDbRecords(db, tables),
    queues,
    payloads: createDynamoDbPayloads(db, tables.payloads),
    wakeUps: createWakeUps(sqs, createScheduler(calls), wakeUps),
    inFlight: createInFlightGuard(queues, clock),
    http,
    telemetry,
    limits,
  };
  return { deps, tables, db };
}

function requiredIn(environment: NodeJS.ProcessEnv, name: string): string {
  const value = environment[name];
  if (value === undefined || value === '') throw new Error(`environment variable ${name} is missing`);
  return value;
}
