/**
 * The runtime inside a Lambda environment: asks the Runtime API for an invocation, calls the handler, posts what it returned.
 * Only what nodejs24.x still supports: async handlers, in ES modules or CommonJS. No callbacks.
 */
import { existsSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** Exit status that Lambda's own runtime uses when the code breaks outside of a handler. */
const brokenOutsideHandler = 129;
const [hostname, port] = variable('AWS_LAMBDA_RUNTIME_API').split(':');
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

process.on('uncaughtException', exitBroken);
process.on('unhandledRejection', exitBroken);

const handler = await loadOrExit();
for (;;) await serveOne();

async function loadOrExit() {
  try {
    return await loadHandler();
  } catch (error) {
    console.error(error);
    await post('/init/error', JSON.stringify(describe(error)), errorHeader(error));
    process.exit(1);
  }
}

async function loadHandler() {
  const setting = variable('_HANDLER');
  const dot = setting.lastIndexOf('.');
  if (dot <= 0) throw named('Runtime.MalformedHandlerName', `Bad handler ${setting}`);
  const base = path.join(variable('LAMBDA_TASK_ROOT'), setting.slice(0, dot));
  const file = ['.js', '.mjs', '.cjs'].map((extension) => base + extension).find((candidate) => existsSync(candidate));
  if (file === undefined) throw named('Runtime.ImportModuleError', `Cannot find module '${path.basename(base)}'`);
  const loaded = await import(pathToFileURL(file).href);
  const name = setting.slice(dot + 1);
  const found = loaded[name] ?? loaded.default?.[name];
  if (typeof found !== 'function') throw named('Runtime.HandlerNotFound', `${setting} is undefined or not exported`);
  return found;
}

async function serveOne() {
  const { headers, body } = await request('GET', '/invocation/next');
  const requestId = String(headers['lambda-runtime-aws-request-id']);
  process.env['_X_AMZN_TRACE_ID'] = String(headers['lambda-runtime-trace-id']);
  try {
    const result = await handler(JSON.parse(body), invocationContext(requestId, headers));
    // Lambda answers null for a handler that returns nothing.
    await post(`/invocation/${requestId}/response`, JSON.stringify(result) ?? 'null');
  } catch (error) {
    console.error(error);
    await post(`/invocation/${requestId}/error`, JSON.stringify(describe(error)), errorHeader(error));
  }
}

/** @param {string} requestId @param {http.IncomingHttpHeaders} headers */
function invocationContext(requestId, headers) {
  const deadlineEpochMs = Number(headers['lambda-runtime-deadline-ms']);
  return {
    callbackWaitsForEmptyEventLoop: true,
    functionName: variable('AWS_LAMBDA_FUNCTION_NAME'),
    functionVersion: variable('AWS_LAMBDA_FUNCTION_VERSION'),
    invokedFunctionArn: String(headers['lambda-runtime-invoked-function-arn']),
    memoryLimitInMB: variable('AWS_LAMBDA_FUNCTION_MEMORY_SIZE'),
    awsRequestId: requestId,
    logGroupName: variable('AWS_LAMBDA_LOG_GROUP_NAME'),
    logStreamName: variable('AWS_LAMBDA_LOG_STREAM_NAME'),
    // Read at each call: the clock may be steered while the handler runs.
    getRemainingTimeInMillis: () => Math.max(0, deadlineEpochMs - Date.now()),
  };
}

/** @param {string} urlPath @param {string} body @param {Record<string, string>} [headers] */
function post(urlPath, body, headers = {}) {
  return request('POST', urlPath, body, { ...headers, 'content-type': 'application/json' });
}

/**
 * @param {string} method @param {string} urlPath @param {string} [body] @param {Record<string, string>} [headers]
 * @returns {Promise<{ body: string, headers: http.IncomingHttpHeaders }>}
 */
function request(method, urlPath, body = '', headers = {}) {
  return new Promise((resolve, reject) => {
    const length = { 'content-length': String(Buffer.byteLength(body)) };
    const outgoing = http.request({ hostname, port, agent, method, path: `/2018-06-01/runtime${urlPath}`, headers: { ...headers, ...length } });
    outgoing.on('error', reject).on('response', (incoming) => {
      let text = '';
      incoming.setEncoding('utf8');
      incoming.on('error', reject);
      incoming.on('data', (/** @type {string} */ chunk) => (text += chunk));
      incoming.on('end', () => resolve({ body: text, headers: incoming.headers }));
    });
    outgoing.end(body);
  });
}

/** @param {unknown} error */
function describe(error) {
  if (!(error instanceof Error)) return { errorType: typeof error, errorMessage: String(error), trace: [] };
  return { errorType: error.name, errorMessage: error.message, trace: (error.stack ?? '').split('\n') };
}

/** @param {unknown} error */
function errorHeader(error) {
  return { 'lambda-runtime-function-error-type': describe(error).errorType };
}

/** @param {unknown} error */
function exitBroken(error) {
  console.error(error);
  process.exit(brokenOutsideHandler);
}

/** @param {string} name @param {string} text */
function named(name, text) {
  return Object.assign(new Error(text), { name });
}

/** @param {string} name */
function variable(name) {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}
