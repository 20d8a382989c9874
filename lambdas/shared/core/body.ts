import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import type { Message } from './parse.ts';

export type Body = { ok: true; bytes: Buffer } | { ok: false; problem: string };

/**
 * The bytes that are sent and signed: the payload as it came, or the envelope with the payload spliced in as it came.
 * The same for every attempt: nothing in it depends on the time or the copy that is sent.
 */
export function bodyOf(config: Pick<EndpointConfig, 'body'>, message: Message): Body {
  if (config.body === 'raw') return { ok: true, bytes: message.payload };
  if (!isJson(message.payload)) return { ok: false, problem: 'body "envelope" needs a payload that is JSON' };
  const head = JSON.stringify({ id: message.eventId, type: message.eventType, timestamp: message.occurredAt });
  return {
    ok: true,
    bytes: Buffer.concat([Buffer.from(`${head.slice(0, -1)},"data":`), message.payload, Buffer.from('}')]),
  };
}

function isJson(payload: Buffer): boolean {
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload));
    return true;
  } catch {
    return false;
  }
}
