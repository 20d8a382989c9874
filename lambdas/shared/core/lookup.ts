import { normalisedUrl, type EndpointConfig } from '../limits/endpoint-schema.ts';
import { lookup as limits, records } from '../limits/numbers.ts';
import { atPath, idText, isSameJson, parseExactJson, shownJson, type ExactJson } from './exact-json.ts';
import { parseJsonPath } from '../limits/json-path.ts';
import type { AttemptOutcome } from './outcome.ts';
import type { Message } from './parse.ts';
import type { Found } from './reconcile.ts';

type Lookup = NonNullable<EndpointConfig['lookup']>;

export type LookUrl = { readonly ok: true; readonly url: URL } | { readonly ok: false; readonly problem: string };

/** The address of a look: the template with the event's id, or the one that the consumer has returned, in their places. */
export function lookUrl({ url: template }: Lookup, eventId: string, reference: string | undefined): LookUrl {
  if (template.includes('{reference}') && reference === undefined) return { ok: false, problem: 'the look-up needs the id that the consumer returns, and none was returned' };
  const text = template.replaceAll('{eventId}', encodeURIComponent(eventId)).replaceAll('{reference}', encodeURIComponent(reference ?? ''));
  return text.length > limits.maxUrlLength ? { ok: false, problem: `the look-up's URL would have ${text.length} characters; at most ${limits.maxUrlLength}` } : { ok: true, url: normalisedUrl(text) };
}

/** An id that a consumer has returned, if it can be one: it is put into URLs, where a segment of dots would lead elsewhere. */
export function referenceFrom(text: string | string[] | undefined): string | undefined {
  const id = typeof text === 'string' ? text.trim() : '';
  return id.length <= limits.maxReferenceLength && /^[\x21-\x7e]+$/.test(id) && !/^\.+$/.test(id) ? id : undefined;
}

export type Answered = Extract<AttemptOutcome, { kind: 'answered' }>;

/** What the answer to a look says of the event (U5): only an answer that is whole, and compared in full, proves anything. */
export function judge(lookup: Lookup, { status, cut, redirectsTo, body }: Answered, event: Pick<Message, 'endpointId' | 'eventId' | 'eventType' | 'occurredAt' | 'payload'>): Found {
  const said = redirectsTo === undefined ? String(status) : `${status} to ${redirectsTo}`;
  if (cut !== undefined) return failed(`${said}, then ${cut}`);
  if (lookup.absent.includes(status)) return { kind: 'absent', detail: `absent: ${status}` };
  if (!lookup.present.includes(status)) return failed(`status ${said}`);
  const answer = parseExactJson(textOf(body) ?? '');
  if (answer === undefined) return failed(`${said}, and the answer is no JSON`);
  const differences: string[] = [];
  let payload: { readonly value: ExactJson } | undefined;
  for (const [path, field] of Object.entries(lookup.match)) {
    let wanted: ExactJson | undefined = null;
    if (field.startsWith('$')) {
      payload ??= parseExactJson(textOf(event.payload) ?? '');
      if (payload === undefined) return { kind: 'impossible', stuck: 'invalid-lookup', detail: `match ${path}: the event's payload is no JSON` };
      wanted = atPath(payload.value, parseJsonPath(field) ?? []);
      if (wanted === undefined) return { kind: 'impossible', stuck: 'invalid-lookup', detail: `match ${path}: the event's payload has no ${field}` };
    } else {
      wanted = event[field as 'eventId'];
      if ((wanted as string | undefined) === undefined) return { kind: 'impossible', stuck: 'invalid-lookup', detail: `match ${path}: the event has no ${field}` };
    }
    const found = atPath(answer.value, parseJsonPath(path) ?? []);
    if (found === undefined || !isSame(found, wanted)) differences.push(`${path} is ${shown(found)}, must be ${shown(wanted)}`);
  }
  if (differences.length > 0) return { kind: 'differs', detail: bounded(`different: ${differences.join('; ')}`) };
  return { kind: 'matches', reference: returnedIn(lookup, answer.value), detail: `found: ${said}` };
}

/** Nested more deeply than the stack: nobody meant it, and it is not the same. */
function isSame(one: ExactJson, other: ExactJson): boolean {
  try {
    return isSameJson(one, other);
  } catch {
    return false;
  }
}

function returnedIn({ reference }: Lookup, answer: ExactJson): string | undefined {
  return reference === null ? undefined : referenceFrom(idText(atPath(answer, parseJsonPath(reference) ?? [])));
}

function textOf(bytes: Buffer | undefined): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function failed(why: string): Found {
  return { kind: 'failed', detail: bounded(`look failed: ${why}`) };
}

const shown = (value: ExactJson | undefined) => shownJson(value, limits.maxShownLength);
const bounded = (text: string) => text.slice(0, records.maxDetailLength).toWellFormed();
