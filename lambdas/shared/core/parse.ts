import { message as limits, records } from '../limits/numbers.ts';
import { idPattern, messageFieldsSchema, type MessageFields } from '../limits/message-schema.ts';
import { jsonMembers } from './json-members.ts';
import { claimKeyOf, hashOf } from './keys.ts';

/** A well-formed event: `payload` is the very bytes that are hashed, signed, sent and compared. */
export interface Message {
  readonly endpointId: string;
  readonly eventId: string;
  readonly eventType: string | undefined;
  readonly occurredAt: string | undefined;
  /** Asks for a delivered event again, when larger than the record's. 0 where the message asks for nothing. */
  readonly resend: number;
  readonly payload: Buffer;
  readonly payloadHash: string;
  /** Names the delivery within its endpoint. */
  readonly claimKey: string;
}

export type Parsed =
  | { ok: true; message: Message }
  /** `endpointId` and `eventId` only where they were legible, so that the dead letter is found under its endpoint. */
  | { ok: false; detail: string; endpointId: string | undefined; eventId: string | undefined };

/** Reads the body of a message. Never throws: a bad body is an answer, with field, value and bound in `detail`. */
export function parseMessage(body: string): Parsed {
  const bytes = Buffer.byteLength(body);
  if (bytes > limits.maxBytes) return refuse(`body is ${bytes} bytes; at most ${limits.maxBytes} are accepted`);
  if (!body.isWellFormed()) return refuse('body holds a lone surrogate: it is not well-formed text');
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return refuse('body is not JSON');
  }
  const members = jsonMembers(body);
  if (members === undefined) return refuse('body must be a JSON object');
  const ids = legibleIds(value as Record<string, unknown>);
  const seen = new Set<string>();
  const twice = members.find(({ name }) => seen.has(name) || !seen.add(name))?.name;
  if (twice !== undefined) return refuse(`field ${quote(twice)} stands twice`, ids);

  const fields = messageFieldsSchema.safeParse(value);
  if (!fields.success) return refuse(firstProblem(fields.error.issues, value), ids);
  const payload = payloadBytes(fields.data, members.find((m) => m.name === 'payload')?.source);
  if (typeof payload === 'string') return refuse(payload, ids);
  return { ok: true, message: toMessage(fields.data, payload) };
}

function toMessage(fields: MessageFields, payload: Buffer): Message {
  return {
    endpointId: fields.endpointId,
    eventId: fields.eventId,
    eventType: fields.eventType,
    occurredAt: fields.occurredAt,
    resend: fields.resend ?? 0,
    payload,
    payloadHash: hashOf(payload),
    claimKey: claimKeyOf(fields.eventId),
  };
}

/** The payload's bytes, or what is wrong with it. */
function payloadBytes(fields: MessageFields, source: string | undefined): Buffer | string {
  if (fields.payloadBase64 !== undefined) {
    const bytes = Buffer.from(fields.payloadBase64, 'base64');
    return bytes.toString('base64') === fields.payloadBase64 ? bytes : 'payloadBase64 is not canonical base64';
  }
  if (typeof fields.payload === 'string') {
    // Buffer.from would replace a lone surrogate by U+FFFD: bytes that nobody sent.
    return fields.payload.isWellFormed() ? Buffer.from(fields.payload) : 'payload holds a lone surrogate: it has no UTF-8 form';
  }
  return Buffer.from(source ?? '');
}

function refuse(detail: string, ids: { endpointId?: string; eventId?: string } = {}): Parsed {
  return { ok: false, detail, endpointId: ids.endpointId, eventId: ids.eventId };
}

function legibleIds(value: Record<string, unknown>): { endpointId?: string; eventId?: string } {
  const legible = (id: unknown): id is string => typeof id === 'string' && idPattern.test(id);
  return {
    ...(legible(value['endpointId']) ? { endpointId: value['endpointId'] } : {}),
    ...(legible(value['eventId']) ? { eventId: value['eventId'] } : {}),
  };
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

function firstProblem(issues: readonly Issue[], value: unknown): string {
  const issue = issues[0];
  if (issue === undefined) return 'not a message';
  const name = issue.path.map(String).join('.');
  const got = (value as Record<string, unknown>)[String(issue.path[0])];
  // The payload is never quoted: it must not reach records or logs by way of an error.
  const shown = issue.path.length === 0 || name.startsWith('payload') || got === undefined ? '' : ` (got ${quote(got)})`;
  return `${name === '' ? 'message' : name}: ${issue.message}${shown}`.slice(0, records.maxDetailLength).toWellFormed();
}

function quote(value: unknown): string {
  // Of arrays and objects only the kind: JSON.stringify recurses, and a deep one would overflow the stack.
  const text = typeof value === 'object' && value !== null ? (Array.isArray(value) ? 'an array' : 'an object') : (JSON.stringify(value) ?? typeof value);
  return text.length <= 60 ? text : `${text.slice(0, 57).toWellFormed()}...`;
}
