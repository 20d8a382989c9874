import { createDynamoDb } from '../shared/adapters/aws-clients.ts';
import { createEndedWindows } from '../shared/adapters/dynamodb-ended-windows.ts';
import { createStandings } from '../shared/adapters/dynamodb-status-tokens.ts';
import { createPowertoolsTelemetry } from '../shared/adapters/powertools-telemetry.ts';
import { env } from '../shared/limits/names.ts';
import { awsCalls } from '../shared/limits/numbers.ts';
import type { StatusDeps } from './answer.ts';

export type RunningStatusDeps = StatusDeps & { readonly telemetry: ReturnType<typeof createPowertoolsTelemetry> };

/** Builds the real dependencies from the environment. Throws at init, naming the variable, where one is missing. */
export function createDeps(environment: NodeJS.ProcessEnv = process.env): RunningStatusDeps {
  const required = (name: string): string => {
    const value = environment[name];
    if (value === undefined || value === '') throw new Error(`environment variable ${name} is missing`);
    return value;
  };
  const tables = { endpoints: required(env.endpointsTable), statistics: required(env.statisticsTable) };
  const db = createDynamoDb(awsCalls);
  const telemetry = createPowertoolsTelemetry('status', required(env.metricNamespace));
  telemetry.started({ tables, awsCalls });
  return {
    clock: { nowEpochMs: () => Date.now(), monotonicMs: () => performance.now() },
    telemetry,
    standings: createStandings(db, tables.endpoints),
    windows: createEndedWindows(db, tables.statistics),
  };
}
