import { setTimeout as sleep } from 'node:timers/promises';
import { createSender, type RunningDeps } from '../deliver/deps.ts';
import { createDynamoDbPayloads } from '../shared/adapters/dynamodb-payloads.ts';
import { createHeldIndex } from '../shared/adapters/dynamodb-held-index.ts';
import { drain as limits } from '../shared/limits/numbers.ts';
import type { DrainDeps } from './types.ts';

export type RunningDrainDeps = DrainDeps & Pick<RunningDeps, 'telemetry'>;

/** Builds the real dependencies from the environment. Throws at init, naming the variable, where one is missing. */
export function createDeps(environment: NodeJS.ProcessEnv = process.env): RunningDrainDeps {
  const { deps, tables, db } = createSender('drain', 'held', environment, limits.socketsPerHost);
  return {
    ...deps,
    serves: 'held',
    // What is held stays where it is: there is no message to hide.
    queues: { ...deps.queues, delay: () => Promise.resolve() },
    payloads: createDynamoDbPayloads(db, tables.payloads),
    held: createHeldIndex(db, tables.deliveries),
    pause: (ms) => sleep(ms),
  };
}
