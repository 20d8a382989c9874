/**
 * What would be deployed, as plain data: synthesises the app and reads the resources that the embedded AWS runs out of its template.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { account, region } from './emulator.ts';
import { type AlarmSpec, readAlarms } from './template-alarms.ts';
import { type Resource, Resolver, templateSchema } from './template-resolver.ts';

const projectRoot = path.join(import.meta.dirname, '..');

/** Attributes are in the form of SQS CreateQueue. */
export interface QueueSpec {
  logicalId: string;
  name: string;
  arn: string;
  url: string;
  attributes: Record<string, string>;
}

interface Key {
  AttributeName: string;
  KeyType: 'HASH' | 'RANGE';
}

/** `createTable` is an input of DynamoDB CreateTable; time to live needs a call of its own there. */
export interface TableSpec {
  logicalId: string;
  name: string;
  arn: string;
  ttlAttribute: string | undefined;
  createTable: {
    TableName: string;
    AttributeDefinitions: { AttributeName: string; AttributeType: 'S' | 'N' | 'B' }[];
    KeySchema: Key[];
    BillingMode: 'PAY_PER_REQUEST';
    GlobalSecondaryIndexes?: { IndexName: string; KeySchema: Key[]; Projection: { ProjectionType: 'ALL' | 'KEYS_ONLY' | 'INCLUDE'; NonKeyAttributes?: string[] } }[];
  };
}

export interface FunctionSpec {
  logicalId: string;
  name: string;
  arn: string;
  handler: string;
  runtime: string;
  timeoutS: number;
  memoryMb: number;
  env: Record<string, string>;
  assetDir: string;
  roleName: string;
  logGroupArn: string | undefined;
  /** True where it has a URL of its own. */
  hasUrl: boolean;
}

export interface EventSourceSpec {
  logicalId: string;
  queueArn: string;
  functionName: string;
  batchSize: number;
  windowS: number;
  /** Undefined: only the account's concurrency bounds it. */
  maxConcurrency: number | undefined;
  reportBatchItemFailures: boolean;
  enabled: boolean;
}

export interface ScheduleGroupSpec {
  logicalId: string;
  name: string;
  arn: string;
}

/** `createSchedule` is an input of Scheduler CreateSchedule. */
export interface ScheduleSpec {
  logicalId: string;
  name: string;
  arn: string;
  createSchedule: {
    Name: string;
    GroupName?: string;
    Description?: string;
    ScheduleExpression: string;
    FlexibleTimeWindow: { Mode: 'OFF' | 'FLEXIBLE'; MaximumWindowInMinutes?: number };
    State?: 'ENABLED' | 'DISABLED';
    Target: {
      Arn: string;
      RoleArn: string;
      Input?: string;
      RetryPolicy?: { MaximumRetryAttempts?: number; MaximumEventAgeInSeconds?: number };
    };
  };
}

/** One statement of a role, with every ARN resolved. */
export interface PolicyStatementSpec {
  effect: 'Allow' | 'Deny';
  actions: string[];
  resources: string[];
}

export interface RoleSpec {
  logicalId: string;
  name: string;
  arn: string;
  statements: PolicyStatementSpec[];
}

export interface StackSpec {
  /** Ordered so that the target of a redrive policy comes before the queue that names it. */
  queues: QueueSpec[];
  tables: TableSpec[];
  functions: FunctionSpec[];
  eventSources: EventSourceSpec[];
  scheduleGroups: ScheduleGroupSpec[];
  schedules: ScheduleSpec[];
  roles: RoleSpec[];
  /** Recorded, not run. */
  alarms: AlarmSpec[];
  outputs: Record<string, string>;
}

/**
 * Synthesises the app into `outDir`, offline and without the CDK's CLI. Context of cdk.json applies; `context` wins over it.
 * @throws Error with the app's own message if it refuses the stage.
 */
export async function synthesize(outDir: string, options: { stackName: string; context?: Record<string, unknown> }): Promise<void> {
  const cdkJson = z.looseObject({ context: z.record(z.string(), z.unknown()).default({}) }).parse(readJson(path.join(projectRoot, 'cdk.json')));
  const context = { ...cdkJson.context, ...options.context, stackName: options.stackName };
  const env = { ...process.env, CDK_OUTDIR: outDir, CDK_CONTEXT_JSON: JSON.stringify(context) };
  const child = spawn(process.execPath, ['bin/app.ts'], { cwd: projectRoot, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const exitCode = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve));
  if (exitCode !== 0) throw new Error(`Synthesis failed:\n${stderr.trim()}`);
}

/**
 * Reads a synthesised stack.
 * @param options.endpoint base of queue URLs, for example `http://127.0.0.1:9324`.
 */
export function readTemplate(outDir: string, stackName: string, options: { endpoint: string }): StackSpec {
  const template = templateSchema.parse(readJson(path.join(outDir, `${stackName}.template.json`)));
  const assets = assetsSchema.parse(readJson(path.join(outDir, `${stackName}.assets.json`)));
  const resolver = new Resolver(template, stackName, options.endpoint);
  const assetDirs = new Map(Object.entries(assets.files).map(([hash, file]) => [hash, path.resolve(outDir, file.source.path)]));
  const urls = new Set(resolver.all('AWS::Lambda::Url').map(({ properties }) => z.string().parse(properties['TargetFunctionArn'])));
  return {
    queues: redriveTargetsFirst(resolver.all('AWS::SQS::Queue').map(readQueue)),
    tables: [...resolver.all('AWS::DynamoDB::GlobalTable'), ...resolver.all('AWS::DynamoDB::Table')].map(readTable),
    functions: resolver.all('AWS::Lambda::Function').map((resource) => ({ ...readFunction(resource, assetDirs), hasUrl: urls.has(resource.arn) })),
    eventSources: resolver.all('AWS::Lambda::EventSourceMapping').map(readEventSource),
    scheduleGroups: resolver.all('AWS::Scheduler::ScheduleGroup').map(({ logicalId, name, arn }) => ({ logicalId, name, arn })),
    schedules: resolver.all('AWS::Scheduler::Schedule').map(readSchedule),
    roles: readRoles(resolver),
    alarms: readAlarms(resolver),
    outputs: Object.fromEntries(Object.entries(template.Outputs).map(([key, output]) => [key, String(resolver.value(output.Value))])),
  };
}

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, 'utf8'));
}

const assetsSchema = z.looseObject({ files: z.record(z.string(), z.looseObject({ source: z.looseObject({ path: z.string() }) })) });

const queueAttributes = [
  'DelaySeconds',
  'MaximumMessageSize',
  'MessageRetentionPeriod',
  'ReceiveMessageWaitTimeSeconds',
  'VisibilityTimeout',
  'SqsManagedSseEnabled',
  'RedrivePolicy',
  'RedriveAllowPolicy',
];

function readQueue({ logicalId, name, arn, url, properties }: Resource): QueueSpec {
  const attributes = queueAttributes.flatMap((key) => {
    const value = properties[key];
    if (value === undefined) return [];
    return [[key, typeof value === 'string' ? value : JSON.stringify(value)]] as const;
  });
  return { logicalId, name, arn, url, attributes: Object.fromEntries(attributes) };
}

function redriveTargetsFirst(queues: QueueSpec[]): QueueSpec[] {
  const ordered: QueueSpec[] = [];
  const add = (queue: QueueSpec): void => {
    if (ordered.includes(queue)) return;
    const target = queues.find((other) => other !== queue && queue.attributes['RedrivePolicy']?.includes(`"${other.arn}"`));
    if (target) add(target);
    ordered.push(queue);
  };
  queues.forEach(add);
  return ordered;
}

const keySchema = z.array(z.object({ AttributeName: z.string(), KeyType: z.enum(['HASH', 'RANGE']) }));
const projectionType = z.enum(['ALL', 'KEYS_ONLY', 'INCLUDE']);
const tableProperties = z.looseObject({
  AttributeDefinitions: z.array(z.object({ AttributeName: z.string(), AttributeType: z.enum(['S', 'N', 'B']) })),
  KeySchema: keySchema,
  BillingMode: z.literal('PAY_PER_REQUEST'),
  TimeToLiveSpecification: z.looseObject({ AttributeName: z.string() }).optional(),
  GlobalSecondaryIndexes: z
    .array(
      z.looseObject({
        IndexName: z.string(),
        KeySchema: keySchema,
        Projection: z.looseObject({ ProjectionType: projectionType, NonKeyAttributes: z.array(z.string()).optional() }),
      }),
    )
    .default([]),
});

function readTable({ logicalId, name, arn, properties }: Resource): TableSpec {
  const table = tableProperties.parse(properties);
  const indexes = table.GlobalSecondaryIndexes.map(({ IndexName, KeySchema, Projection: { ProjectionType, NonKeyAttributes } }) => ({
    IndexName,
    KeySchema,
    Projection: { ProjectionType, ...(NonKeyAttributes ? { NonKeyAttributes } : {}) },
  }));
  return {
    logicalId,
    name,
    arn,
    ttlAttribute: table.TimeToLiveSpecification?.AttributeName,
    createTable: {
      TableName: name,
      AttributeDefinitions: table.AttributeDefinitions,
      KeySchema: table.KeySchema,
      BillingMode: table.BillingMode,
      // CreateTable refuses an empty list.
      ...(indexes.length > 0 ? { GlobalSecondaryIndexes: indexes } : {}),
    },
  };
}

/** Defaults are CloudFormation's. */
const functionProperties = z.looseObject({
  Handler: z.string(),
  Runtime: z.string(),
  Role: z.string(),
  Timeout: z.number().default(3),
  MemorySize: z.number().default(128),
  Code: z.looseObject({ S3Key: z.string() }),
  Environment: z.looseObject({ Variables: z.record(z.string(), z.string()).default({}) }).default({ Variables: {} }),
  LoggingConfig: z.looseObject({ LogGroup: z.string().optional() }).optional(),
});

function readFunction({ logicalId, name, arn, properties }: Resource, assetDirs: ReadonlyMap<string, string>): Omit<FunctionSpec, 'hasUrl'> {
  const lambda = functionProperties.parse(properties);
  const assetDir = assetDirs.get(path.parse(lambda.Code.S3Key).name);
  if (assetDir === undefined) throw new Error(`No asset for function ${name}: ${lambda.Code.S3Key}`);
  const logGroup = lambda.LoggingConfig?.LogGroup;
  return {
    logicalId,
    name,
    arn,
    handler: lambda.Handler,
    runtime: lambda.Runtime,
    timeoutS: lambda.Timeout,
    memoryMb: lambda.MemorySize,
    env: lambda.Environment.Variables,
    assetDir,
    roleName: lambda.Role.slice(lambda.Role.lastIndexOf('/') + 1),
    logGroupArn: logGroup === undefined ? undefined : `arn:aws:logs:${region}:${account}:log-group:${logGroup}`,
  };
}

const eventSourceProperties = z.looseObject({
  EventSourceArn: z.string(),
  FunctionName: z.string(),
  BatchSize: z.number().default(10),
  MaximumBatchingWindowInSeconds: z.number().default(0),
  ScalingConfig: z.looseObject({ MaximumConcurrency: z.number().optional() }).optional(),
  FunctionResponseTypes: z.array(z.string()).default([]),
  Enabled: z.boolean().default(true),
});

function readEventSource({ logicalId, properties }: Resource): EventSourceSpec {
  const source = eventSourceProperties.parse(properties);
  return {
    logicalId,
    queueArn: source.EventSourceArn,
    functionName: source.FunctionName,
    batchSize: source.BatchSize,
    windowS: source.MaximumBatchingWindowInSeconds,
    maxConcurrency: source.ScalingConfig?.MaximumConcurrency,
    reportBatchItemFailures: source.FunctionResponseTypes.includes('ReportBatchItemFailures'),
    enabled: source.Enabled,
  };
}

/** Strict: a property that is not handed on would be a schedule that fires otherwise than on AWS. */
const scheduleProperties = z.strictObject({
  Name: z.string().exactOptional(),
  GroupName: z.string().exactOptional(),
  Description: z.string().exactOptional(),
  ScheduleExpression: z.string(),
  FlexibleTimeWindow: z.strictObject({ Mode: z.enum(['OFF', 'FLEXIBLE']), MaximumWindowInMinutes: z.number().exactOptional() }),
  State: z.enum(['ENABLED', 'DISABLED']).exactOptional(),
  Target: z.strictObject({
    Arn: z.string(),
    RoleArn: z.string(),
    Input: z.string().exactOptional(),
    RetryPolicy: z
      .strictObject({ MaximumRetryAttempts: z.number().exactOptional(), MaximumEventAgeInSeconds: z.number().exactOptional() })
      .exactOptional(),
  }),
});

function readSchedule({ logicalId, name, arn, properties }: Resource): ScheduleSpec {
  return { logicalId, name, arn, createSchedule: { ...scheduleProperties.parse(properties), Name: name } };
}

const oneOrMore = z.union([z.string().transform((one) => [one]), z.array(z.string())]);
const policyDocument = z.looseObject({
  Statement: z.array(z.strictObject({ Sid: z.string().optional(), Effect: z.enum(['Allow', 'Deny']), Action: oneOrMore, Resource: oneOrMore })),
});
const inlinePolicies = z.array(z.looseObject({ PolicyDocument: policyDocument })).default([]);
const attachedPolicy = z.looseObject({ Roles: z.array(z.string()), PolicyDocument: policyDocument });

/** Strict on purpose: a statement with a condition or NotAction would be judged wrongly by what reads this, so it is refused. */
function readRoles(resolver: Resolver): RoleSpec[] {
  const attached = resolver.all('AWS::IAM::Policy').map(({ properties }) => attachedPolicy.parse(properties));
  return resolver.all('AWS::IAM::Role').map(({ logicalId, name, arn, properties }) => {
    if (properties['ManagedPolicyArns'] !== undefined) throw new Error(`Role ${name} has managed policies, which the embedded AWS does not read`);
    const inline = inlinePolicies.parse(properties['Policies']);
    const documents = [...inline, ...attached.filter((policy) => policy.Roles.includes(name))].map((policy) => policy.PolicyDocument);
    const statements = documents.flatMap((document) =>
      document.Statement.map(({ Effect, Action, Resource }) => ({ effect: Effect, actions: Action, resources: Resource })),
    );
    return { logicalId, name, arn, statements };
  });
}
