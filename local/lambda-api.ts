/** The part of Lambda's API by which event source mappings are switched off and on. */
import { AwsError, type JsonObject, account, region } from './emulator.ts';
import type { EventSourceMapping } from './event-source-mapping.ts';

const path = /^\/2015-03-31\/event-source-mappings\/([^/]+)\/?$/;
const operations: Readonly<Record<string, string>> = { GET: 'GetEventSourceMapping', PUT: 'UpdateEventSourceMapping' };

/** Operation and access of a request for it; undefined for any other. */
export function lambdaAccess(method: string, url: URL): { operation: string; id: string; resource: string } | undefined {
  const [, id] = path.exec(url.pathname) ?? [];
  const operation = operations[method];
  if (id === undefined || operation === undefined) return undefined;
  return { operation, id, resource: `arn:aws:lambda:${region}:${account}:event-source-mapping:${id}` };
}

export class LambdaApi {
  readonly #mappings = new Map<string, EventSourceMapping>();

  add(mapping: EventSourceMapping): void {
    this.#mappings.set(mapping.id, mapping);
  }

  /** @param body of an update: `Enabled`, and nothing else, for the rest comes from the template. @throws AwsError */
  async call(operation: string, id: string, body: JsonObject): Promise<JsonObject> {
    const mapping = this.#mappings.get(id);
    if (mapping === undefined) throw new AwsError('ResourceNotFoundException', 'The resource you requested does not exist.', { status: 404 });
    if (operation === 'UpdateEventSourceMapping') await update(mapping, body);
    return mapping.describe();
  }
}

async function update(mapping: EventSourceMapping, { Enabled: enabled, ...others }: JsonObject): Promise<void> {
  const [other] = Object.keys(others);
  if (other !== undefined) throw new AwsError('InvalidParameterValueException', `The embedded AWS changes Enabled only, not ${other}`);
  if (enabled === true) await mapping.enable();
  if (enabled === false) mapping.disable();
}
