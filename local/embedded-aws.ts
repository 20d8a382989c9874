/** The embedded AWS: what `cdk deploy` would deploy, read from the synthesised template and run on this machine. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { LocalFile } from '../bin/cli/target.ts';
import { SteerableClock } from './clock.ts';
import { createResources, createSchedules } from './create-resources.ts';
import { type DynamoDb, startDynamoDb } from './dynamodb.ts';
import { type Emulator, region } from './emulator.ts';
import { type EventSourceMapping, startMappings } from './event-source-mapping.ts';
import { serveFunctionUrl } from './function-urls.ts';
import { FunctionLogs } from './function-logs.ts';
import { LambdaApi } from './lambda-api.ts';
import { LambdaHost } from './lambda-host.ts';
import { ScheduleTargets } from './schedule-targets.ts';
import { type Scheduler, startScheduler } from './scheduler.ts';
import { Sns } from './sns.ts';
import { type Sqs, startSqs } from './sqs.ts';
import { readTemplate, type FunctionSpec, type StackSpec, synthesize } from './template.ts';
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
  readonly sources: readonly EventSourceMapping[];
  readonly dynamodb: DynamoDb;
  readonly sqs: Sqs;
  readonly scheduler: Scheduler;
  readonly sns: Sns;
  readonly localFile: LocalFile;
  stop(): Promise<void>;
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
  // A schedule that was kept may be due already: it waits until what it delivers to is there.
  const ready = Promise.withResolvers<ScheduleTargets>();
  const scheduler = startScheduler({ ...storage, invoke: async (target, input) => (await ready.promise).invoke(target, input) });
  const lambda = new LambdaApi();
  const sns = new Sns();
  const wire = await startWire({ dynamodb, sqs, scheduler, lambda, sns, clock, ...(options.port === undefined ? {} : { port: options.port }) });

  const stack = readTemplate(outDir, stackName, { endpoint: wire.endpoint });
  await createResources(stack, wire.endpoint);
  const logsDir = path.join(stateDir, 'logs');
  const logs = new FunctionLogs(logsDir, wire, stack.functions);
  const hosts = new Map(stack.functions.map((fn) => [fn.name, hostOf(fn, { options, wire, clockFile, logs })]));
  for (const [name, host] of hosts) lambda.addFunction(name, host);
  for (const { name, hasUrl } of stack.functions) if (hasUrl) serveFunctionUrl(wire, name, hosts.get(name) as LambdaHost);
  const sources = await startMappings(stack, { wire, hosts, logs, concurrencyCap: options.concurrency });
  for (const source of sources) lambda.add(source);
  const targets = new ScheduleTargets({ wire, functions: stack.functions, hosts, onFailed: (name, message) => logs.write(name, message) });
  ready.resolve(targets);
  await createSchedules(stack.schedules, wire.endpoint);
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
    logsDir,
  };
  const localPath = path.join(stateDir, 'local.json');
  writeWhole(localPath, `${JSON.stringify(localFile, null, 2)}\n`);

  return {
    wire, clock, stack, hosts, sources, dynamodb, sqs, scheduler, sns, localFile,
    stop: async () => {
      clearInterval(sweeper);
      rmSync(localPath, { force: true });
      await stopAll({ sources, hosts, wire, emulators: [sqs, dynamodb], scheduler, logs });
      targets.destroy();
    },
  };
}

/** And then renames it: a reader never sees half of it. */
function writeWhole(file: string, text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
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

interface Running {
  readonly sources: readonly EventSourceMapping[];
  readonly hosts: ReadonlyMap<string, LambdaHost>;
  readonly wire: Wire;
  readonly emulators: readonly Emulator[];
  readonly scheduler: Scheduler;
  readonly logs: FunctionLogs;
}

/** In the order in which nothing waits for what is gone: pollers, functions with the schedules that run them, wire, emulators. */
async function stopAll(running: Running): Promise<void> {
  await Promise.all(running.sources.map((source) => source.stop()));
  await Promise.all([running.scheduler.close(), ...[...running.hosts.values()].map((host) => host.close())]);
  for (const source of running.sources) source.destroy();
  await running.wire.close();
  await Promise.all(running.emulators.map((emulator) => emulator.close()));
  running.logs.close();
}
