import path from 'node:path';
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Effect, PolicyDocument, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, Runtime } from 'aws-cdk-lib/aws-lambda';
import { LogLevel, NodejsFunction, type NodejsFunctionProps, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { FieldIndexPolicy, LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { indexedFields } from '../lambdas/shared/limits/log-queries.ts';
import { env } from '../lambdas/shared/limits/names.ts';
import { logs } from '../lambdas/shared/limits/numbers.ts';

/** Found from this file, so that an app elsewhere can use the construct. */
const projectRoot = path.join(import.meta.dirname, '..');

/** Dependencies still written as CommonJS call `require`, which an ES module does not have. The alias cannot collide with their own import. */
const requireBanner = "import{createRequire as createBundleRequire}from'node:module';const require=createBundleRequire(import.meta.url);";

/** What one function has of its own. */
export interface FunctionParts {
  readonly name: string;
  /** Its handler, from the project's root. */
  readonly entry: string;
  readonly description: string;
  readonly timeoutS: number;
  readonly memoryMb: number;
  readonly environment: Readonly<Record<string, string>>;
  /** Of the installation: what is published elsewhere, no alarm sees. */
  readonly metricNamespace: string;
  /** Beside those for its log. */
  readonly statements: readonly PolicyStatement[];
  /** Its log goes with the stack. */
  readonly isDisposable: boolean;
  readonly settings?: Pick<NodejsFunctionProps, 'recursiveLoop' | 'retryAttempts' | 'reservedConcurrentExecutions'>;
}

/** A function with its role and log group, all in `scope`. */
export function newFunction(scope: Construct, parts: FunctionParts): NodejsFunction {
  // An explicit group, not the retention property: that one brings a custom resource and a function of its own.
  const logGroup = new LogGroup(scope, 'Logs', {
    retention: logs.retentionDays,
    fieldIndexPolicies: [new FieldIndexPolicy({ fields: [...indexedFields] })],
    removalPolicy: parts.isDisposable ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
  });
  return new NodejsFunction(scope, 'Function', {
    description: parts.description,
    entry: path.join(projectRoot, parts.entry),
    projectRoot,
    depsLockFilePath: path.join(projectRoot, 'package-lock.json'),
    handler: 'handler',
    runtime: Runtime.NODEJS_24_X,
    architecture: Architecture.ARM_64,
    timeout: Duration.seconds(parts.timeoutS),
    memorySize: parts.memoryMb,
    role: roleOf(scope, parts, logGroup),
    logGroup,
    environment: { NODE_OPTIONS: '--enable-source-maps', [env.metricNamespace]: parts.metricNamespace, ...parts.environment },
    awsSdkConnectionReuse: false,
    bundling: {
      format: OutputFormat.ESM,
      // The SDK goes into the bundle: the version that was tested is the version that runs. Left out is what the sketches' wire
      // format alone would load, which nothing here writes.
      externalModules: ['protobufjs/minimal'],
      mainFields: ['module', 'main'],
      sourceMap: true,
      sourcesContent: false,
      minify: false,
      banner: requireBanner,
      logLevel: LogLevel.WARNING,
    },
    ...parts.settings,
  });
}

/** Inline policies instead of a policy resource: an event source's first poll cannot overtake them. */
function roleOf(scope: Construct, { name, statements }: FunctionParts, logGroup: LogGroup): Role {
  // The ARN of a log group ends in `:*`, which stands for its streams: Lambda names those.
  const all = [...statements, allow(['logs:CreateLogStream', 'logs:PutLogEvents'], logGroup.logGroupArn)];
  return new Role(scope, 'Role', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    inlinePolicies: { [name]: new PolicyDocument({ statements: all }) },
  });
}

/** Exact actions on one exact ARN. */
export function allow(actions: string[], resource: string): PolicyStatement {
  return new PolicyStatement({ effect: Effect.ALLOW, actions, resources: [resource] });
}
