import { readFileSync } from 'node:fs';
import path from 'node:path';
import { CloudFormationClient, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { EgressRules } from '../../lambdas/shared/limits/egress.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { awsCalls, records, replay } from '../../lambdas/shared/limits/numbers.ts';
import type { FunctionLimits } from '../../lambdas/shared/limits/relations.ts';
import { failure, usageError } from './output.ts';

/** The installation that a command works on. */
export interface Target {
  /** As shown before each write. */
  readonly name: string;
  readonly db: DynamoDBClient;
  readonly sqs: SQSClient;
  readonly lambda: LambdaClient;
  readonly endpointsTable: string;
  readonly deliveriesTable: string;
  readonly deliveryQueueUrl: string;
  readonly deadLetterQueueUrl: string;
  readonly payloadsTable: string;
  readonly statisticsTable: string | undefined;
  readonly drainQueueUrl: string;
  /** Slots that all its senders have together; undefined where it is older and does not say. */
  readonly fleetSlots: number | undefined;
  /** Where consumers ask how they stand. */
  readonly statusUrl: string | undefined;
  /** Name of the function that moves dead deliveries. */
  readonly replayFunction: string;
  /** What its functions have logged; undefined where it is older than this program and does not say. */
  readonly logs: LogSource | undefined;
  /** What an endpoint's budgets must fit. */
  readonly deliverLimits: FunctionLimits;
  /** What an endpoint's URL must keep to. */
  readonly egress: EgressRules;
  /** Newest version of records that its functions read. */
  readonly recordVersion: number;
}

/** Files of a local installation, or log groups. */
export type LogSource = { readonly kind: 'files'; readonly files: readonly string[] } | { readonly kind: 'groups'; readonly client: CloudWatchLogsClient; readonly groups: readonly string[] };

/** What a running local installation writes down, so that any SDK can drive it. */
export interface LocalFile {
  readonly v: 1;
  readonly pid: number;
  readonly region: string;
  readonly endpoint: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly outputs: Readonly<Record<string, string>>;
  readonly functions: Readonly<Record<string, string>>;
  readonly caFile: string;
  /** Where each function's log is, as `FUNCTION.log`; one that was started by an older version does not say. */
  readonly logsDir?: string;
}

export const localFilePath = process.env['SLUICE_LOCAL_FILE'] ?? path.resolve(import.meta.dirname, '../../.sluice/local.json');

/** `--stack`, else `$SLUICE_STACK`, else the local installation that is running. */
export async function resolveTarget(options: { stack?: string; local?: boolean }): Promise<Target> {
  if (options.stack !== undefined && options.local === true) throw usageError('Give --stack or --local, not both.');
  const stack = options.local === true ? undefined : (options.stack ?? process.env['SLUICE_STACK']);
  return stack === undefined || stack === '' ? localTarget() : stackTarget(stack);
}

function localTarget(): Target {
  const file = readLocalFile();
  if (file === undefined) {
    throw failure('No local Sluice is running. Start one with `npm start`, or name a deployed stack with --stack NAME.');
  }
  const settings = { endpoint: file.endpoint, region: file.region, credentials: file.credentials };
  return targetOf('local', settings, file.outputs, filesOf(file));
}

/** The file of a local installation that is alive, if there is one. */
export function readLocalFile(): LocalFile | undefined {
  try {
    const file = JSON.parse(readFileSync(localFilePath, 'utf8')) as LocalFile;
    process.kill(file.pid, 0);
    return file;
  } catch {
    return undefined;
  }
}

async function stackTarget(stack: string): Promise<Target> {
  const answer = await new CloudFormationClient({}).send(new DescribeStacksCommand({ StackName: stack })).catch((error: unknown) => {
    throw failure(`Stack ${stack} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  });
  const list = answer.Stacks?.[0]?.Outputs ?? [];
  const found = Object.fromEntries(list.flatMap((o) => (o.OutputKey === undefined ? [] : [[o.OutputKey, o.OutputValue ?? '']])));
  return targetOf(`stack ${stack}`, {}, found, groupsOf(found));
}

function filesOf({ logsDir, outputs: found }: LocalFile): LogSource | undefined {
  if (logsDir === undefined) return undefined;
  const names = [outputs.deliverFunction, outputs.drainFunction, outputs.sweepFunction, outputs.replayFunction].map((key) => found[key] ?? key);
  return { kind: 'files', files: names.map((name) => path.join(logsDir, `${name}.log`)) };
}

/** All or none: a search of some of them would look like the whole story. */
function groupsOf(found: Readonly<Record<string, string>>): LogSource | undefined {
  const groups = [outputs.deliverLogGroup, outputs.drainLogGroup, outputs.sweepLogGroup, outputs.replayLogGroup].map((key) => found[key]);
  return groups.every((group) => group !== undefined) ? { kind: 'groups', client: new CloudWatchLogsClient({}), groups } : undefined;
}

/** `settings`: none where region and credentials are those of the shell. */
function targetOf(name: string, settings: Partial<Pick<LocalFile, 'endpoint' | 'region' | 'credentials'>>, found: Readonly<Record<string, string>>, logs: LogSource | undefined): Target {
  const value = (key: string) => {
    const output = found[key];
    if (output === undefined) throw failure(`${name} has no output ${key}: is it a Sluice stack?`);
    return output;
  };
  return {
    name,
    db: new DynamoDBClient(settings),
    sqs: new SQSClient(settings),
    // An answer comes when the function's work is done.
    lambda: new LambdaClient({ ...settings, requestHandler: { requestTimeout: replay.timeoutS * 1_000 + awsCalls.requestMs } }),
    endpointsTable: value(outputs.endpointsTable),
    deliveriesTable: value(outputs.deliveriesTable),
    deliveryQueueUrl: value(outputs.deliveryQueueUrl),
    deadLetterQueueUrl: value(outputs.deadLetterQueueUrl),
    payloadsTable: value(outputs.payloadsTable),
    // An older installation measures nothing.
    statisticsTable: found[outputs.statisticsTable],
    drainQueueUrl: value(outputs.drainQueueUrl),
    fleetSlots: found[outputs.fleetSlots] === undefined ? undefined : Number(found[outputs.fleetSlots]),
    statusUrl: found[outputs.statusUrl] === 'none' ? undefined : found[outputs.statusUrl],
    replayFunction: value(outputs.replayFunction),
    logs,
    deliverLimits: JSON.parse(value(outputs.deliverLimits)) as FunctionLimits,
    egress: JSON.parse(value(outputs.egress)) as EgressRules,
    // One that says nothing is older than the first that does.
    recordVersion: Number(found[outputs.recordVersion] ?? records.droppedVersion),
  };
}

/** Whether an installation knows deliveries that are unknown: an older one would take an endpoint with a look-up for one that it cannot use. */
export function knowsUnknown({ recordVersion }: Target): boolean {
  return recordVersion >= records.unknownVersion;
}
