/** The part of Lambda's API by which functions are invoked, and event source mappings switched off and on. */
import { AwsError, type JsonObject, account, region } from './emulator.ts';
import type { EventSourceMapping } from './event-source-mapping.ts';
import { type LambdaHost, throttledType } from './lambda-host.ts';

const mappingPath = /^\/2015-03-31\/event-source-mappings\/([^/]+)\/?$/;
const functionPath = /^\/2015-03-31\/functions\/([^/]+)\/invocations$/;
const mappingOperations: Readonly<Record<string, string>> = { GET: 'GetEventSourceMapping', PUT: 'UpdateEventSourceMapping' };

export interface LambdaCall {
  readonly operation: string;
  /** Of a mapping, or the name of a function. */
  readonly id: string;
  /** What IAM checks; of an invocation it has another name than the operation. */
  readonly action: string;
  readonly resource: string;
}

/** Operation and access of a request for it; undefined for any other. */
export function lambdaAccess(method: string, url: URL): LambdaCall | undefined {
  const [, called] = functionPath.exec(url.pathname) ?? [];
  if (called !== undefined && method === 'POST') {
    const name = nameOf(decodeURIComponent(called));
    return { operation: 'Invoke', id: name, action: 'lambda:InvokeFunction', resource: `arn:aws:lambda:${region}:${account}:function:${name}` };
  }
  const [, id] = mappingPath.exec(url.pathname) ?? [];
  const operation = mappingOperations[method];
  if (id === undefined || operation === undefined) return undefined;
  return { operation, id, action: `lambda:${operation}`, resource: `arn:aws:lambda:${region}:${account}:event-source-mapping:${id}` };
}

/** Of a name or an ARN, without a version. */
function nameOf(called: string): string {
  const parts = called.split(':');
  return (parts[0] === 'arn' ? parts[6] : parts[0]) ?? called;
}

/** How an invocation was asked for, by its headers. */
export interface Invocation {
  readonly type: string;
}

export interface LambdaAnswer {
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export class LambdaApi {
  readonly #mappings = new Map<string, EventSourceMapping>();
  readonly #hosts = new Map<string, Pick<LambdaHost, 'invoke'>>();

  add(mapping: EventSourceMapping): void {
    this.#mappings.set(mapping.id, mapping);
  }

  addFunction(name: string, host: Pick<LambdaHost, 'invoke'>): void {
    this.#hosts.set(name, host);
  }

  /** @param body of an update: `Enabled`, and nothing else, for the rest comes from the template; of an invocation: the event. @throws AwsError */
  async call(operation: string, id: string, body: unknown, invocation: Invocation = { type: 'RequestResponse' }): Promise<LambdaAnswer> {
    if (operation === 'Invoke') return this.#invoke(id, body, invocation);
    const mapping = this.#mappings.get(id);
    if (mapping === undefined) throw new AwsError('ResourceNotFoundException', 'The resource you requested does not exist.', { status: 404 });
    if (operation === 'UpdateEventSourceMapping') await update(mapping, body as JsonObject);
    return { body: mapping.describe() };
  }

  /** An error of the function is an answer, marked by a header. */
  async #invoke(name: string, event: unknown, { type }: Invocation): Promise<LambdaAnswer> {
    const host = this.#hosts.get(name);
    if (host === undefined) throw new AwsError('ResourceNotFoundException', `Function not found: arn:aws:lambda:${region}:${account}:function:${name}`, { status: 404 });
    if (type !== 'RequestResponse') throw new AwsError('InvalidParameterValueException', `The embedded AWS invokes by RequestResponse only, not ${type}`);
    const result = await host.invoke(event);
    const headers = { 'x-amz-executed-version': '$LATEST' };
    if (result.kind === 'ok') return { body: result.payload, headers };
    const { errorType, errorMessage } = result;
    if (errorType === throttledType) throw new AwsError(throttledType, errorMessage, { status: 429 });
    return { body: { errorType, errorMessage }, headers: { ...headers, 'x-amz-function-error': 'Unhandled' } };
  }
}

async function update(mapping: EventSourceMapping, { Enabled: enabled, ...others }: JsonObject): Promise<void> {
  const [other] = Object.keys(others);
  if (other !== undefined) throw new AwsError('InvalidParameterValueException', `The embedded AWS changes Enabled only, not ${other}`);
  if (enabled === true) await mapping.enable();
  if (enabled === false) mapping.disable();
}
