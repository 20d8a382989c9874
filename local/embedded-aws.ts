/** The embedded AWS: what `cdk deploy` would deploy, read from the synthesised template and run on this machine. */
import { createWriteStream, mkdirSync, renameSync, rmSync, type WriteStream, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CreateTableCommand, DescribeTimeToLiveCommand, DynamoDBClient, ListTablesCommand, UpdateTimeToLiveCommand } from '@aws-sdk/client-dynamodb';
import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { LocalFile } from '../bin/cli/target.ts';
import { SteerableClock } from './clock.ts';
import { type DynamoDb, startDynamoDb } from './dynamodb.ts';
import { type Emulator, region } from './emulator.ts';
import { EventSource, sqsSourceQueue } from './event-source.ts';
import { LambdaHost } from './lambda-host.ts';
import { type Scheduler, startScheduler } from './scheduler.ts';
import { type Sqs, startSqs } from './sqs.ts';
import { readTemplate, type FunctionSpec, type StackSpec, type TableSpec, synthesize } from './template.ts';
import { startWire, type Wire } from './wire.ts';

export interface EmbeddedOptions {
  /** Where logs, the synthesised app, the clock and local.json go. */
  readonly stateDir: string;
  /** Keeps queues, tables and the clock over restarts; without it every start is fresh. */
  readonly dataDir?: string | undefined;
  readonly port?: number | undefined;
  /** Authority that the functions trust beside the public ones. */
  readonly caFile: string;
  /** Environments of one function at once; two cores do not carry what a stage allows. */
  readonly concurrency: number;
  /** Overrides of the stage, as `cdk deploy -c stageConfig=` takes them. */
  readonly stageConfig?: Record<string, unknown> | undefined;
}

export interface EmbeddedAws {
  readonly wire: Wire;
  readonly clock: SteerableClock;
  readonly stack: StackSpec;
  readonly hosts: ReadonlyMap<string, LambdaHost>;
  readonly sources: readonly RunningSource[];
  readonly dynamodb: DynamoDb;
  readonly sqs: Sqs;
  readonly localFile: LocalFile;
  stop(): Promise<void>;
}

/** An event source mapping at work. */
export interface RunningSource {
  readonly source: EventSource;
  readonly queueName: string;
  /** Under which it polls. */
  readonly roleName: string;
  destroy(): void;
}

/** Name of the local stack. */
export const stackName = 'SluiceLocal';
const operator = { accessKeyId: 'operator', secretAccessKey: 'local' };
/** How often expired items are swept, real time; AWS promises days. */
const ttlSweepMs = 5_000;

export async function startEmbeddedAws(options: EmbeddedOptions): Promise<EmbeddedAws> {
  const { stateDir, dataDir } = options;
  mkdirSync(stateDir, { recursive: true });
  const clockFile = path.join(dataDir ?? stateDir, 'clock');
  if (dataDir === undefined) rmSync(clockFile, { force: true });
  const clock = SteerableClock.open(clockFile);
  const storage = dataDir === undefined ? {} : { dataDir };

  const outDir = path.join(stateDir, 'cdk.out');
  const egress = { allow: ['127.0.0.0/8', '::1/128'], ...(options.stageConfig?.['egress'] as object | undefined) };
  const context = { stage: 'local', stageConfig: { ...options.stageConfig, egress } };
  const [dynamodb] = await Promise.all([startDynamoDb(storage), synthesize(outDir, { stackName, context })]);
  const sqs = startSqs(storage);
  // No schedule has a target yet: the drain, which will, comes with held deliveries.
  const scheduler = startScheduler({ ...storage, invoke: (target) => Promise.reject(new Error(`no target ${target.Arn}`)) });
  const wire = await startWire({ dynamodb, sqs, scheduler, clock, ...(options.port === undefined ? {} : { port: options.port }) });

  const stack = readTemplate(outDir, stackName, { endpoint: wire.endpoint });
  await createResources(stack, wire.endpoint);
  const logs = new FunctionLogs(path.join(stateDir, 'logs'), wire, stack.functions);
  const hosts = new Map(stack.functions.map((fn) => [fn.name, hostOf(fn, { options, wire, clockFile, logs })]));
  const sources = await startSources(stack, wire, hosts, options.concurrency, logs);
  const sweeper = setInterval(() => void dynamodb.sweepTtl().catch(() => undefined), ttlSweepMs);

  const localFile: LocalFile = {
    v: 1,
    pid: process.pid,
    region,
    endpoint: wire.endpoint,
    credentials: operator,
    outputs: stack.outputs,
    functions: Object.fromEntries(stack.functions.map((fn) => [fn.logicalId, fn.name])),
    caFile: options.caFile,
  };
  const localPath = path.join(stateDir, 'local.json');
  // Written whole and then renamed: a reader never sees half of it.
  writeFileSync(`${localPath}.new`, `${JSON.stringify(localFile, null, 2)}\n`);
  renameSync(`${localPath}.new`, localPath);

  return {
    wire, clock, stack, hosts, sources, dynamodb, sqs, localFile,
    stop: async () => {
      clearInterval(sweeper);
      rmSync(localPath, { force: true });
      await stopAll({ sources, hosts, wire, emulators: [sqs, dynamodb], scheduler, logs });
    },
  };
}

async function createResources(stack: StackSpec, endpoint: string): Promise<void> {
  const settings = { endpoint, region, credentials: { accessKeyId: 'cloudformation', secretAccessKey: 'local' } };
  const sqs = new SQSClient(settings);
  const db = new DynamoDBClient(settings);
  for (const queue of stack.queues) await sqs.send(new CreateQueueCommand({ QueueName: queue.name, Attributes: queue.attributes }));
  const { TableNames: existing = [] } = await db.send(new ListTablesCommand({}));
  for (const table of stack.tables) {
    if (!existing.includes(table.name)) await db.send(new CreateTableCommand(table.createTable));
    await enableTtl(db, table);
  }
  sqs.destroy();
  db.destroy();
}

/** Of an existing table too: a start that was cut short may have left it without. */
async function enableTtl(db: DynamoDBClient, table: TableSpec): Promise<void> {
  if (table.ttlAttribute === undefined) return;
  const { TimeToLiveDescription: now } = await db.send(new DescribeTimeToLiveCommand({ TableName: table.name }));
  if (now?.TimeToLiveStatus === 'ENABLED') return;
  const TimeToLiveSpecification = { AttributeName: table.ttlAttribute, Enabled: true };
  await db.send(new UpdateTimeToLiveCommand({ TableName: table.name, TimeToLiveSpecification }));
}

interface HostParts {
  readonly options: EmbeddedOptions;
  readonly wire: Wire;
  readonly clockFile: string;
  readonly logs: FunctionLogs;
}

function hostOf(fn: FunctionSpec, { options, wire, clockFile, logs }: HostParts): LambdaHost {
  return new LambdaHost(fn, {
    region,
    endpointUrl: wire.endpoint,
    extraCaCertsFile: options.caFile,
    clock: { preloadFile: path.join(import.meta.dirname, 'clock-preload.mjs'), offsetFile: clockFile },
    maxEnvironments: options.concurrency,
    onLog: (name, line) => logs.write(name, line),
  });
}

async function startSources(
  stack: StackSpec,
  wire: Wire,
  hosts: ReadonlyMap<string, LambdaHost>,
  concurrencyCap: number,
  logs: FunctionLogs,
): Promise<RunningSource[]> {
  return Promise.all(
    stack.eventSources.filter((spec) => spec.enabled).map(async (spec) => {
      const fn = stack.functions.find((f) => f.name === spec.functionName);
      const queueSpec = stack.queues.find((q) => q.arn === spec.queueArn);
      const host = hosts.get(spec.functionName);
      if (fn === undefined || queueSpec === undefined || host === undefined) throw new Error(`Event source ${spec.logicalId} names nothing that is in the template`);
      const queue = sqsSourceQueue({ endpoint: wire.endpoint, region, queueUrl: queueSpec.url, roleName: fn.roleName });
      const source = new EventSource({
        ...spec,
        queue,
        region,
        concurrencyCap,
        invoke: async (event) => {
          const result = await host.invoke(event);
          if (result.kind === 'error') logs.write(fn.name, `invocation failed: ${result.errorType} ${result.errorMessage}`);
          return result;
        },
        onError: (error) => logs.write(fn.name, `event source: ${error.message}`),
      });
      await source.start();
      return { source, queueName: queueSpec.name, roleName: fn.roleName, destroy: () => queue.destroy() };
    }),
  );
}

/** Stands in for CloudWatch Logs: one file a function, and the calls that Lambda would make under the function's role. */
class FunctionLogs {
  readonly #files = new Map<string, WriteStream>();

  constructor(dir: string, wire: Wire, functions: readonly FunctionSpec[]) {
    mkdirSync(dir, { recursive: true });
    for (const fn of functions) {
      this.#files.set(fn.name, createWriteStream(path.join(dir, `${fn.name}.log`)));
      if (fn.logGroupArn === undefined) continue;
      const call = { atMs: Date.now(), caller: fn.roleName, service: 'logs', resource: `${fn.logGroupArn}:log-stream:local`, outcome: 'ok', durationMs: 0, requestBytes: 0 };
      wire.calls.record({ ...call, action: 'logs:CreateLogStream', operation: 'CreateLogStream' });
      wire.calls.record({ ...call, action: 'logs:PutLogEvents', operation: 'PutLogEvents' });
    }
  }

  write(functionName: string, line: string): void {
    this.#files.get(functionName)?.write(`${line}\n`);
  }

  close(): void {
    for (const file of this.#files.values()) file.end();
  }
}

interface Running {
  readonly sources: readonly RunningSource[];
  readonly hosts: ReadonlyMap<string, LambdaHost>;
  readonly wire: Wire;
  readonly emulators: readonly Emulator[];
  readonly scheduler: Scheduler;
  readonly logs: FunctionLogs;
}

/** In the order in which nothing waits for what is gone: pollers, functions, wire, emulators. */
async function stopAll(running: Running): Promise<void> {
  await Promise.all(running.sources.map(({ source }) => source.stop({ now: true })));
  await Promise.all([...running.hosts.values()].map((host) => host.close()));
  for (const source of running.sources) source.destroy();
  await running.wire.close();
  await Promise.all([...running.emulators.map((emulator) => emulator.close()), running.scheduler.close()]);
  running.logs.close();
}
