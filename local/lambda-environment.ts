/**
 * One Lambda execution environment: a child process and the Runtime API it talks to.
 * Frozen (SIGSTOP) whenever it waits for an invocation, as Lambda does: timers, sockets and keep-alives stand still there.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';

/** What an environment needs to know of its function; FunctionSpec of template.ts has it. */
export interface HostedFunction {
  name: string;
  arn: string;
  handler: string;
  timeoutS: number;
  memoryMb: number;
  env: Record<string, string>;
  assetDir: string;
  roleName: string;
}

export interface EnvironmentOptions {
  region: string;
  /** AWS_ENDPOINT_URL of the child; default: not set. */
  endpointUrl?: string | undefined;
  /** PEM file of authorities that the child trusts beside the public ones; default: none. */
  extraCaCertsFile?: string | undefined;
  /** The steered clock of the child; default: its own. */
  clock?: { preloadFile: string; offsetFile: string } | undefined;
  /** Longest initialisation, real time; default 30 s, more than Lambda's 10 s, so that a busy machine does not look like a broken function. */
  initTimeoutMs?: number | undefined;
  /** Called with each line that the function writes to stdout or stderr. */
  onLog: (functionName: string, line: string) => void;
}

/** What an invocation came to. Errors carry Lambda's own types: Sandbox.Timedout, Runtime.ExitError, or the name of what was thrown. */
export type Outcome = { kind: 'ok'; payload: unknown } | { kind: 'error'; errorType: string; errorMessage: string };

interface Invocation {
  requestId: string;
  /** On the steered clock: an advance kills what is in flight, as the time itself would. */
  deadlineEpochMs: number;
  /** Real time, so that stepping the clock back prolongs nothing. */
  deadlineMonotonicMs: number;
  /** Set once the function has answered; the invocation still ends only when the environment is frozen or gone. */
  outcome: Outcome | undefined;
  finish: (outcome: Outcome) => void;
}

const defaultInitTimeoutMs = 30_000;
/** How often a running invocation's deadline is compared with the steered clock. */
const deadlinePollMs = 50;
const bootstrapFile = path.join(import.meta.dirname, 'lambda-bootstrap.mjs');

export class LambdaEnvironment {
  /** Its session token, by which the wire knows which process called. */
  readonly id = randomUUID();
  readonly #function: HostedFunction;
  readonly #options: EnvironmentOptions;
  readonly #server: http.Server;
  readonly #exited = Promise.withResolvers<void>();
  readonly #initialised = Promise.withResolvers<Outcome>();
  #child: ChildProcess | undefined;
  /** The held answer to the runtime's /next; present exactly while the environment is frozen. */
  #next: http.ServerResponse | undefined;
  #current: Invocation | undefined;
  #dead = false;

  constructor(fn: HostedFunction, options: EnvironmentOptions) {
    this.#function = fn;
    this.#options = options;
    this.#server = http.createServer((request, response) => this.#route(request, response));
    // The runtime keeps one connection for good, also across a freeze of days.
    this.#server.keepAliveTimeout = 0;
    this.#server.requestTimeout = 0;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** Starts the child and waits until it asks for its first invocation. An `error` outcome means that it is gone. */
  async start(): Promise<Outcome> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    if (this.#dead) {
      this.#server.close();
      return closedOutcome;
    }
    this.#spawn((this.#server.address() as AddressInfo).port);
    const initTimeoutMs = this.#options.initTimeoutMs ?? defaultInitTimeoutMs;
    const timer = setTimeout(() => {
      this.#initialised.resolve({ kind: 'error', errorType: 'Sandbox.Timedout', errorMessage: `Init took longer than ${initTimeoutMs} ms` });
    }, initTimeoutMs);
    const outcome = await this.#initialised.promise;
    clearTimeout(timer);
    if (outcome.kind === 'error') await this.close();
    return outcome;
  }

  /** Runs one invocation in an idle environment; resolves once the environment is frozen again, or dead. */
  async invoke(event: unknown): Promise<Outcome> {
    const next = this.#next;
    if (next === undefined || this.#dead) return { kind: 'error', errorType: 'Runtime.ExitError', errorMessage: 'The environment is gone' };
    const requestId = randomUUID();
    const timeoutMs = this.#function.timeoutS * 1_000;
    const deadlineEpochMs = Date.now() + timeoutMs;
    const deadlineMonotonicMs = performance.now() + timeoutMs;
    const finished = Promise.withResolvers<Outcome>();
    this.#current = { requestId, deadlineEpochMs, deadlineMonotonicMs, outcome: undefined, finish: finished.resolve };
    this.#next = undefined;
    this.#child?.kill('SIGCONT');
    next.writeHead(200, invocationHeaders(requestId, deadlineEpochMs, this.#function.arn)).end(JSON.stringify(event));
    const timer = setInterval(() => this.#killIfLate(), deadlinePollMs);
    const outcome = await finished.promise;
    clearInterval(timer);
    return outcome;
  }

  /** Kills the child, whatever it does; an invocation in flight ends as Runtime.ExitError. Resolves when it is gone. */
  async close(): Promise<void> {
    this.#dead = true;
    // Not spawned yet: start() sees the mark and goes no further.
    if (this.#child === undefined) return;
    this.#child.kill('SIGKILL');
    await this.#exited.promise;
  }

  #spawn(port: number): void {
    const { clock } = this.#options;
    const heapMb = Math.max(64, this.#function.memoryMb - 64);
    const node = [process.execPath, `--max-old-space-size=${heapMb}`, ...(clock ? ['--import', clock.preloadFile] : []), bootstrapFile];
    // The kernel kills the child when this process dies, even by SIGKILL: a stopped child would otherwise stay for good.
    const [command = '', ...args] = setprivFile === undefined ? node : [setprivFile, '--pdeathsig', 'KILL', ...node];
    const child = spawn(command, args, {
      cwd: this.#function.assetDir,
      env: childEnvironment(this.#function, this.#options, { port, sessionToken: this.id }),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => this.#options.onLog(this.#function.name, line));
    }
    child.once('error', (error) => this.#ended(error.message));
    child.once('exit', (code, signal) => this.#ended(signal === null ? `exit status ${code ?? 'unknown'}` : `signal: ${signal}`));
  }

  #ended(how: string): void {
    this.#dead = true;
    this.#next = undefined;
    this.#server.close();
    this.#server.closeAllConnections();
    const current = this.#current;
    this.#current = undefined;
    const errorMessage = `RequestId: ${current?.requestId ?? 'init'} Error: Runtime exited with error: ${how}`;
    const failure: Outcome = { kind: 'error', errorType: 'Runtime.ExitError', errorMessage };
    this.#initialised.resolve(failure);
    current?.finish(current.outcome ?? failure);
    this.#exited.resolve();
  }

  #killIfLate(): void {
    const current = this.#current;
    if (current === undefined) return;
    if (Date.now() < current.deadlineEpochMs && performance.now() < current.deadlineMonotonicMs) return;
    const seconds = this.#function.timeoutS.toFixed(2);
    current.outcome ??= {
      kind: 'error',
      errorType: 'Sandbox.Timedout',
      errorMessage: `RequestId: ${current.requestId} Error: Task timed out after ${seconds} seconds`,
    };
    this.#child?.kill('SIGKILL');
  }

  #route(request: http.IncomingMessage, response: http.ServerResponse): void {
    const url = request.url ?? '';
    if (url === '/2018-06-01/runtime/invocation/next') return this.#freeze(response);
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => (body += chunk));
    request.on('end', () => this.#posted(url, body, response));
  }

  #posted(url: string, body: string, response: http.ServerResponse): void {
    if (url === '/2018-06-01/runtime/init/error') {
      this.#initialised.resolve(thrown(body));
      return answer(response, 202);
    }
    const [, requestId, verdict] = /^\/2018-06-01\/runtime\/invocation\/([^/]+)\/(response|error)$/.exec(url) ?? [];
    const current = this.#current;
    if (current === undefined || current.requestId !== requestId || current.outcome !== undefined) return answer(response, 400);
    current.outcome = verdict === 'error' ? thrown(body) : answered(body);
    answer(response, 202);
  }

  /** Only here is it safe to stop the child: it has nothing to do but wait for this answer. */
  #freeze(response: http.ServerResponse): void {
    this.#child?.kill('SIGSTOP');
    this.#next = response;
    this.#initialised.resolve({ kind: 'ok', payload: null });
    const current = this.#current;
    this.#current = undefined;
    const silent: Outcome = { kind: 'error', errorType: 'Runtime.NoResponse', errorMessage: 'The runtime asked for the next invocation without an answer' };
    current?.finish(current.outcome ?? silent);
  }
}

const closedOutcome: Outcome = { kind: 'error', errorType: 'Runtime.ExitError', errorMessage: 'The host was closed' };

function answer(response: http.ServerResponse, status: 202 | 400): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(status === 202 ? '{"status":"OK"}' : '{"errorType":"InvalidRequestID"}');
}

function answered(body: string): Outcome {
  try {
    return { kind: 'ok', payload: JSON.parse(body) as unknown };
  } catch {
    return { kind: 'error', errorType: 'Runtime.InvalidResponse', errorMessage: `The response of ${body.length} characters is not JSON` };
  }
}

function thrown(body: string): Outcome {
  const failure = answered(body);
  const { errorType, errorMessage } = (failure.kind === 'ok' ? failure.payload : failure) as { errorType?: unknown; errorMessage?: unknown };
  return {
    kind: 'error',
    errorType: typeof errorType === 'string' ? errorType : 'Unhandled',
    errorMessage: typeof errorMessage === 'string' ? errorMessage : body,
  };
}

function invocationHeaders(requestId: string, deadlineEpochMs: number, arn: string): http.OutgoingHttpHeaders {
  const rootId = `1-${Math.floor(Date.now() / 1_000).toString(16)}-${randomUUID().replaceAll('-', '').slice(0, 24)}`;
  return {
    'content-type': 'application/json',
    'lambda-runtime-aws-request-id': requestId,
    'lambda-runtime-deadline-ms': String(deadlineEpochMs),
    'lambda-runtime-invoked-function-arn': arn,
    'lambda-runtime-trace-id': `Root=${rootId};Sampled=0`,
  };
}

/** Nothing is inherited: a handler that works here reads no variable that Lambda would not have. */
function childEnvironment(
  fn: HostedFunction,
  options: EnvironmentOptions,
  { port, sessionToken }: { port: number; sessionToken: string },
): Record<string, string> {
  return {
    ...fn.env,
    PATH: process.env['PATH'] ?? '',
    TZ: ':UTC',
    AWS_REGION: options.region,
    AWS_DEFAULT_REGION: options.region,
    // The access key names the role, so the call log at the wire knows who called.
    AWS_ACCESS_KEY_ID: fn.roleName,
    AWS_SECRET_ACCESS_KEY: 'local',
    AWS_SESSION_TOKEN: sessionToken,
    ...(options.endpointUrl === undefined ? {} : { AWS_ENDPOINT_URL: options.endpointUrl }),
    ...(options.extraCaCertsFile === undefined ? {} : { NODE_EXTRA_CA_CERTS: options.extraCaCertsFile }),
    ...(options.clock ? { SLUICE_CLOCK_FILE: options.clock.offsetFile } : {}),
    AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x',
    AWS_LAMBDA_FUNCTION_NAME: fn.name,
    AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(fn.memoryMb),
    AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
    AWS_LAMBDA_LOG_GROUP_NAME: `/aws/lambda/${fn.name}`,
    AWS_LAMBDA_LOG_STREAM_NAME: `[$LATEST]${randomUUID().replaceAll('-', '')}`,
    AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${port}`,
    LAMBDA_TASK_ROOT: fn.assetDir,
    _HANDLER: fn.handler,
  };
}

/** Absent on macOS: children are then spawned directly, and end with the host only if it is closed in order. */
const setprivFile = (process.env['PATH'] ?? '')
  .split(path.delimiter)
  .map((directory) => path.join(directory, 'setpriv'))
  .find(isExecutable);

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
