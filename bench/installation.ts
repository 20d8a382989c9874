/** An installation for one benchmark: the embedded AWS in this process, a consumer on loopback, and clients for both sides. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { createDynamoDbLanes } from '../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbRegistry, type Registry } from '../lambdas/shared/adapters/dynamodb-registry.ts';
import { ulid } from '../lambdas/shared/core/version.ts';
import { endpointSchema } from '../lambdas/shared/limits/endpoint-schema.ts';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { formatSecret } from '../lambdas/shared/limits/secret.ts';
import type { Lanes } from '../lambdas/shared/ports/index.ts';
import { createAuthority } from '../local/authority.ts';
import type { CallLog } from '../local/call-log.ts';
import { type Behaviour, type Consumer, healthy, startConsumer } from '../local/consumers.ts';
import { startEmbeddedAws } from '../local/embedded-aws.ts';
import type { EventSourceMapping } from '../local/event-source-mapping.ts';
import { type Defect, spoil } from './defects.ts';

export interface InstallationOptions {
  /** Environments of a function at once, and with them Lambda's pollers. */
  readonly concurrency: number;
  /** Overrides of the stage, as `cdk deploy -c stageConfig=` takes them; default: none. */
  readonly stageConfig?: Record<string, unknown>;
  /** Put into the functions before the first of them starts; default: none, they are as they would be deployed. */
  readonly defects?: readonly Defect[];
}

export interface Installation {
  /** Every call of the installation, as metered at the wire. */
  readonly calls: CallLog;
  /** Verifies signatures and answers 200 at once. */
  readonly consumer: Consumer;
  /** Another consumer, which verifies signatures too; closed with the installation. Its `url` is a setting for `register`. */
  readonly consumerOf: (behaviour: Behaviour) => Promise<Consumer>;
  /** Sends under `callers.producer`. */
  readonly producer: SQSClient;
  /** Whose calls belong to no event: who sets up and watches, and the sweep, which runs each minute whether or not anything is sent. */
  readonly bystanders: ReadonlySet<string>;
  /** These call under `callers.operator`. */
  readonly operator: { readonly sqs: SQSClient; readonly db: DynamoDBClient; readonly lanes: Lanes; readonly registry: Registry };
  /** The delivery queue's poller: switched off, what is sent stays in the queue. */
  readonly source: EventSourceMapping;
  /** Messages that the delivery queue has handed out, ever. */
  readonly receives: () => number;
  /** Output of the stack, by its name in limits/names.ts. @throws Error if the stack has none of this name. */
  readonly output: (key: string) => string;
  /** Registers an endpoint at the consumer, under a version of its own unless one is given. @returns the version that its lane serves. */
  readonly register: (endpointId: string, settings?: Record<string, unknown>, version?: string) => Promise<string>;
}

/** Names under which a benchmark calls; `cloudformation` is the embedded AWS creating its resources. */
export const callers = { producer: 'producer', operator: 'operator', deployment: 'cloudformation' } as const;

/** Starts an installation, fresh and in the system's temporary folder, and takes it away again however the work ends. */
export async function withInstallation<T>(options: InstallationOptions, work: (installation: Installation) => Promise<T>): Promise<T> {
  const stateDir = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'));
  const removeStateDir = () => rmSync(stateDir, { recursive: true, force: true });
  // Ctrl-C leaves no folder behind either; the functions' processes end with this one.
  process.once('exit', removeStateDir);
  try {
    return await run(stateDir, options, work);
  } finally {
    process.off('exit', removeStateDir);
    removeStateDir();
  }
}

async function run<T>(stateDir: string, options: InstallationOptions, work: (installation: Installation) => Promise<T>): Promise<T> {
  const authority = await createAuthority(path.join(stateDir, 'ca.pem'));
  const embedded = await startEmbeddedAws({ stateDir, caFile: authority.caFile, concurrency: options.concurrency, stageConfig: options.stageConfig });
  const secret = formatSecret(randomBytes(32));
  const consumers: Consumer[] = [];
  const consumerOf = async (behaviour: Behaviour) => {
    const started = await startConsumer(authority, behaviour);
    // One secret for all endpoints: those that share a consumer have only one that it knows.
    started.trust(secret);
    consumers.push(started);
    return started;
  };
  const consumer = await consumerOf(healthy);
  const { endpoint, region, outputs: values } = embedded.localFile;
  const as = (accessKeyId: string) => ({ endpoint, region, credentials: { accessKeyId, secretAccessKey: 'local' } });
  const producer = new SQSClient(as(callers.producer));
  const sqs = new SQSClient(as(callers.operator));
  const db = new DynamoDBClient(as(callers.operator));
  const output = (key: string): string => {
    const value = values[key];
    if (value === undefined) throw new Error(`the stack has no output ${key}`);
    return value;
  };
  const tables = { endpoints: output(outputs.endpointsTable), deliveries: output(outputs.deliveriesTable) };
  const registry = createDynamoDbRegistry(db, tables.endpoints);
  const source = embedded.sources.find(({ id }) => id === output(outputs.deliverSource));
  if (source === undefined) throw new Error('the stack has no event source for the delivery queue');
  try {
    // Nothing has been sent, so neither deliver nor drain has started yet.
    spoil(embedded.stack.functions, options.defects ?? []);
    return await work({
      calls: embedded.wire.calls,
      consumer,
      consumerOf,
      producer,
      bystanders: new Set([callers.operator, callers.deployment, ...embedded.stack.roles.map(({ name }) => name).filter((name) => name.includes('Sweep'))]),
      operator: { sqs, db, lanes: createDynamoDbLanes(db, tables), registry },
      source,
      receives: () => embedded.wire.handedTo(source.roleName),
      output,
      register: registration(registry, consumer.url, secret),
    });
  } finally {
    for (const client of [producer, sqs, db]) client.destroy();
    await Promise.all(consumers.map((one) => one.close()));
    await embedded.stop();
  }
}

function registration(registry: Registry, url: string, secret: string): Installation['register'] {
  return async (endpointId, settings = {}, version = ulid(Date.now(), randomBytes(10))) => {
    const config = endpointSchema.parse({ endpointId, url, ...settings });
    const answer = await registry.put({ config, version, secrets: [secret], bodySecret: undefined });
    if (answer !== 'written') throw new Error(`endpoint ${endpointId}: ${answer}`);
    return version;
  };
}
