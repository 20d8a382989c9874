import { z } from 'zod';
import { parseJsonPath } from './json-path.ts';
import { headerNamePattern, headerValuePattern } from './header.ts';
import { idSchema } from './message-schema.ts';
import { headers as names } from './names.ts';
import { adaptive, breaker, budgets, endpoint, lane, lookup, rate, retry } from './numbers.ts';
import { parseSecret } from './secret.ts';

/** The endpoint document that operators write: only `endpointId` and `url` are required. */

/** Header names that only the sender may set, lower case (any casing is refused). */
export const reservedHeaders: ReadonlySet<string> = new Set([
  'host', 'connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'te', 'trailer', 'upgrade', 'expect',
  'user-agent', 'accept-encoding', 'cookie', 'date', 'http2-settings',
]);
const reservedPrefixes = ['webhook-', 'content-', 'sluice-', 'proxy-', ':'];

/** True where a customer's header would collide with one that the sender or HTTP itself sets. */
export function isReservedHeader(name: string): boolean {
  const lower = name.toLowerCase();
  return reservedHeaders.has(lower) || reservedPrefixes.some((prefix) => lower.startsWith(prefix));
}

const headerName = z
  .string()
  .max(endpoint.maxHeaderNameLength)
  .regex(headerNamePattern, 'is not a header name (RFC 9110 token)')
  .refine((name) => !isReservedHeader(name), { error: 'is reserved: Sluice sets it itself' });
const headerValue = z
  .string()
  .max(endpoint.maxHeaderValueLength)
  .regex(headerValuePattern, 'may hold visible ASCII and spaces only');

const headersSchema = z
  .record(headerName, headerValue)
  .refine((headers) => Object.keys(headers).length <= endpoint.maxHeaders, { error: `at most ${endpoint.maxHeaders} headers` })
  .refine((headers) => new Set(Object.keys(headers).map((name) => name.toLowerCase())).size === Object.keys(headers).length, {
    error: 'the same header twice in different casing',
  });

/** The HMAC-SHA256 of the body alone, as text in a header. */
export interface BodyScheme {
  readonly header: string;
  /** Stands before the signature in the header's value. */
  readonly prefix: string;
  readonly encoding: 'hex' | 'base64';
}

/** What receivers of GitHub's webhooks verify. */
const hub256: BodyScheme = { header: names.hubSignature, prefix: 'sha256=', encoding: 'hex' };

const schemeSchema = z.discriminatedUnion(
  'scheme',
  [
    z.strictObject({ scheme: z.literal('standard') }),
    z.strictObject({ scheme: z.literal('hub256') }),
    z.strictObject({
      scheme: z.literal('hmac-body'),
      header: headerName,
      prefix: z
        .string()
        .max(endpoint.maxSignaturePrefixLength)
        .regex(/^(?! )[\x20-\x7e]*$/, 'may hold visible ASCII and spaces only, and not start with a space')
        .default(''),
      encoding: z.enum(['hex', 'base64']).default('hex'),
    }),
  ],
  { error: 'must be an object with "scheme": "standard", "hub256" or "hmac-body"' },
);
type Scheme = z.infer<typeof schemeSchema>;

/** How a scheme signs the body, presets written out; undefined for `standard`, which signs id and time too. */
export function bodySchemeOf(scheme: Scheme): BodyScheme | undefined {
  switch (scheme.scheme) {
    case 'standard':
      return undefined;
    case 'hub256':
      return hub256;
    case 'hmac-body':
      return scheme;
  }
}

/** Of two values for one header the receiver would see either, or both joined: neither would verify. */
function refuseSharedHeaders(config: { headers: Record<string, string>; signing: Scheme[] }, context: z.RefinementCtx): void {
  const writers = new Map(Object.keys(config.headers).map((name) => [name.toLowerCase(), 'headers']));
  for (const [i, scheme] of config.signing.entries()) {
    const header = (bodySchemeOf(scheme)?.header ?? names.signature).toLowerCase();
    const other = writers.get(header);
    writers.set(header, `signing.${i}`);
    if (other === undefined) continue;
    const path = scheme.scheme === 'hmac-body' ? ['signing', i, 'header'] : ['signing', i];
    context.addIssue({ code: 'custom', path, message: `each header once, in any casing: ${header} is also written by ${other}` });
  }
}

const urlSchema = z
  .string()
  .max(endpoint.maxUrlLength)
  .transform((text, context) => {
    const problem = urlProblem(text);
    if (problem === undefined) return normalisedUrl(text).href;
    context.addIssue({ code: 'custom', message: problem });
    return z.NEVER;
  });

function urlProblem(text: string): string | undefined {
  if (text !== text.trim()) return 'has white space around it';
  if (!URL.canParse(text)) return 'is not a URL';
  const url = new URL(text);
  // Whether plain http is allowed is a matter of the stage, and asked at registration (limits/egress.ts).
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return `must be https, not ${url.protocol.slice(0, -1)}`;
  if (url.username !== '' || url.password !== '') return 'must not carry a user name or password: use headers';
  if (text.includes('#')) return 'must not carry a fragment: it would never be sent';
  if (url.port === '0') return 'must not name port 0';
  if (/^\.|\.\.|\.$/.test(normalisedUrl(text).hostname)) return 'has a host name with an empty label';
  return undefined;
}

/** The host once and for all as it is resolved, judged, named to the peer and compared: IDN as punycode, without a final dot. */
export function normalisedUrl(text: string): URL {
  const url = new URL(text);
  url.hostname = url.hostname.replace(/\.$/, '');
  return url;
}

const ms = (min: number, max: number) => z.int().min(min).max(max);

const budgetsSchema = z.strictObject({
  connection: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.connectionMs),
  setup: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.setupMs),
  write: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.writeMs),
  read: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.readMs),
  total: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.totalMs),
});

/** A read budget that follows what is measured (T5), between bounds. */
const adaptiveSchema = z
  .strictObject({ minMs: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(adaptive.minMs), maxMs: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(adaptive.maxMs) })
  .refine((a) => a.maxMs >= a.minMs, { error: 'must be at least minMs', path: ['maxMs'] });

const retrySchema = z
  .strictObject({
    baseS: z.number().min(1).max(retry.capS).default(retry.baseS),
    factor: z.number().min(1).max(10).default(retry.factor),
    capS: z.number().min(1).max(retry.capS).default(retry.capS),
    delaysS: z.array(z.number().min(1).max(retry.capS)).min(1).max(retry.maxAttempts).optional(),
    attempts: z.int().min(1).max(retry.maxAttempts).default(retry.attempts),
    maxAgeS: z.int().min(retry.minMaxAgeS).max(retry.maxMaxAgeS).default(retry.maxAgeS),
    jitter: z.enum(['full', 'equal']).default('full'),
  })
  .refine((r) => r.capS >= r.baseS, { error: 'must be at least baseS', path: ['capS'] });

const breakerSchema = z
  .strictObject({
    windowS: z.int().min(breaker.minWindowS).max(breaker.maxWindowS).default(breaker.windowS),
    minAttempts: z.int().min(1).max(breaker.maxMinAttempts).default(breaker.minAttempts),
    failureRatio: z.number().min(breaker.minFailureRatio).max(1).default(breaker.failureRatio),
    connectFailures: z.int().min(1).max(breaker.maxConnectFailures).default(breaker.connectFailures),
    slowP95Ms: z.int().min(breaker.minSlowMs).max(budgets.maxTotalMs).nullable().default(null),
    openS: z.int().min(breaker.minOpenS).max(breaker.maxMaxOpenS).default(breaker.openS),
    maxOpenS: z.int().min(breaker.minOpenS).max(breaker.maxMaxOpenS).default(breaker.maxOpenS),
  })
  .refine((b) => b.maxOpenS >= b.openS, { error: 'must be at least openS', path: ['maxOpenS'] });

/** A path to one place in the answer, or in the payload. */
const pathSchema = z
  .string()
  .max(lookup.maxPathLength)
  .refine((text) => parseJsonPath(text) !== undefined, { error: 'is not a path to one place, such as $.order.items[0].id' });

const eventFields = ['eventId', 'endpointId', 'eventType', 'occurredAt'] as const;
const fieldSchema = z
  .string()
  .max(lookup.maxPathLength)
  .refine((text) => eventFields.some((name) => name === text) || parseJsonPath(text) !== undefined, {
    error: `must be ${eventFields.join(', ')} or a path into the payload, such as $.amount`,
  });

const statuses = (fallback: readonly number[]) => z.array(z.int().min(200).max(599)).max(lookup.maxStatuses).default([...fallback]);

const saysAbsent = (status: number) => (status < 300 || status >= 400) && status < 500 && ![401, 403, 407, 408, 421, 425, 429].includes(status);

/** What a template may hold, and what it is tried with. */
const placeholders = { '{eventId}': 'evt', '{reference}': 'ref' } as const;

function templateProblem(text: string): string | undefined {
  const tried = Object.entries(placeholders).reduce((url, [name, value]) => url.replaceAll(name, value), text);
  if (tried === text) return `must hold ${Object.keys(placeholders).join(' or ')}: it would look for the same thing each time`;
  if (/[{}]/.test(tried)) return `may hold ${Object.keys(placeholders).join(' and ')}, and no other braces`;
  // A segment of dots may take the place of the id away.
  const [one, other] = ['evt_1', 'evt_2'].map((id) => Object.keys(placeholders).reduce((url, name) => url.replaceAll(name, id), text));
  if (one !== undefined && other !== undefined && URL.canParse(one) && URL.canParse(other) && new URL(one).href === new URL(other).href) return 'must keep the placeholder in its path or query: dots take it away, and it would look for the same thing each time';
  // In its path or query only: a consumer's answer must not decide which host is asked.
  if (!/^https?:\/\/[^/?#{}]+[/?][^#]*$/i.test(text)) return 'must be a URL whose host is fixed, with placeholders in its path or query';
  return urlProblem(tried);
}

const templateSchema = z
  .string()
  .max(endpoint.maxUrlLength)
  .superRefine((text, context) => {
    const problem = templateProblem(text);
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
  });

/** How the effect of an event is looked for where an attempt may have arrived (U5). */
const lookupSchema = z
  .strictObject({
    url: templateSchema,
    /** Statuses that mean that there is something, which is then compared; and that there is nothing. Any other proves nothing. */
    present: statuses([200]).refine((s) => s.length > 0, { error: 'must hold at least one status' }),
    absent: statuses([404]).refine((s) => s.every(saysAbsent), { error: 'may hold 2xx, 404, 410 and other 4xx: a redirect, a missing permission (401, 403, 407), a client that is asked to wait (408, 425, 429) or an outage (5xx) is no absence' }),
    /** Paths in the answer, each with the event's field, or the path into its payload, that it must equal. */
    match: z
      .record(pathSchema, fieldSchema)
      .refine((match) => Object.keys(match).length > 0, { error: 'must compare at least one value: that something is there does not say that it is this event\'s' })
      .refine((match) => Object.keys(match).length <= lookup.maxMatches, { error: `at most ${lookup.maxMatches} values` }),
    /** Path in the answer of the id that is kept in the record. */
    reference: pathSchema.nullable().default(null),
    /** Header in which an answer to a delivery returns an id, for `{reference}`. */
    referenceHeader: z.string().max(endpoint.maxHeaderNameLength).regex(headerNamePattern, 'is not a header name (RFC 9110 token)').nullable().default(null),
    /** Seconds that the consumer may take for an event: an absence after them proves that it did not arrive, and it is sent again. Null: an absence proves nothing. */
    absenceProvesAfterS: z.int().min(1).max(lookup.maxProcessingS).nullable().default(null),
    /** Waits before each look. */
    delaysS: z.array(z.number().min(lookup.minDelayS).max(lookup.maxDelayS)).min(1).max(lookup.maxLooks).default([...lookup.delaysS]),
  })
  .superRefine(({ url, present, absent, referenceHeader, absenceProvesAfterS }, context) => {
    const twice = present.find((status) => absent.includes(status));
    if (twice !== undefined) context.addIssue({ code: 'custom', path: ['absent'], message: `each status once: ${twice} also means present` });
    if (absenceProvesAfterS !== null && absent.length === 0) context.addIssue({ code: 'custom', path: ['absent'], message: 'must hold a status where an absence proves something' });
    if (url.includes('{reference}') && referenceHeader === null) context.addIssue({ code: 'custom', path: ['referenceHeader'], message: 'must name the header that returns what {reference} stands for' });
  });

/** Begin and end of each, the newest last; null while it lasts. */
export const pausesSchema = z.array(z.strictObject({ fromEpochMs: z.int().min(0), toEpochMs: z.int().min(0).nullable() })).max(retry.maxPauses).default([]);

export const endpointSchema = z.strictObject({
  endpointId: idSchema,
  url: urlSchema,
  tenantId: idSchema.nullable().default(null),
  status: z
    .enum(['enabled', 'paused', 'disabled'], { error: 'must be "enabled", "paused" (deliveries are kept) or "disabled" (they become dead letters)' })
    .default('enabled'),
  // Written by the command line when the status changes: the age of deliveries stands still meanwhile.
  pauses: pausesSchema,
  // Written by the sender that disabled it; gone when it is put with another status.
  disabledFor: z.strictObject({ why: z.enum(['gone', 'failing']), atEpochMs: z.int().min(0) }).nullable().default(null),
  // A name is kept beside the configuration: a function that reads it here refuses the endpoint.
  policy: z.literal('default', { error: 'only "default" is supported here: an endpoint gets its policy by sluice policy assign NAME ID' }).default('default'),
  body: z.enum(['raw', 'envelope']).default('raw'),
  contentType: headerValue.regex(/^[\w.+-]+\/[\w.+-]+(;.*)?$/, 'is not a media type').default('application/json'),
  headers: headersSchema.default({}),
  signing: z.array(schemeSchema).min(1).max(endpoint.maxSchemes).default([{ scheme: 'standard' }]),
  // "auto": as many as what is offered and how long it takes ask for.
  maxInFlight: z.union([z.int().min(lane.minSlots).max(lane.maxSlots), z.literal('auto')], { error: `must be "auto" or a whole number from ${lane.minSlots} to ${lane.maxSlots}` }).default(lane.defaultSlots),
  // Set by "auto", beside the size that the lane has now, which the sweep changes.
  autoLane: z.boolean().default(false),
  maxPerSecond: z.number().min(rate.minPerSecond).max(rate.maxPerSecond).nullable().default(null),
  // Attempts in a day of UTC, over the whole fleet: what an endpoint may cost, whatever it does.
  maxPerDay: z.int().min(1).max(rate.maxPerDay).nullable().default(null),
  budgetsMs: budgetsSchema.prefault({}),
  adaptiveRead: adaptiveSchema.nullable().default(null),
  retry: retrySchema.prefault({}),
  onRejected: z.enum(['deadLetter', 'retry']).default('deadLetter'),
  onAmbiguous: z.enum(['retry', 'reconcile'], { error: 'must be "retry" (send it again, with the same id) or "reconcile" (never send it again by itself)' }).default('retry'),
  // Under "retry": what may have arrived so often is sent no more.
  maxAmbiguous: z.int().min(1).max(retry.maxAttempts).nullable().default(null),
  lookup: lookupSchema.nullable().default(null),
  breaker: breakerSchema.prefault({}),
}).superRefine((config, context) => {
  refuseSharedHeaders(config, context);
  if (config.onAmbiguous === 'reconcile' && config.maxAmbiguous !== null) {
    context.addIssue({ code: 'custom', path: ['maxAmbiguous'], message: 'is for onAmbiguous "retry": under "reconcile" the first is the last' });
  }
  if (config.adaptiveRead !== null && config.adaptiveRead.maxMs > config.budgetsMs.total) {
    context.addIssue({ code: 'custom', path: ['adaptiveRead', 'maxMs'], message: `must be at most budgetsMs.total, ${config.budgetsMs.total}: the attempt ends with it` });
  }
  if (config.adaptiveRead !== null && (config.onAmbiguous === 'reconcile' || config.maxAmbiguous === 1)) {
    context.addIssue({ code: 'custom', path: ['adaptiveRead'], message: 'is for endpoints that may be sent to again: what it cuts off is tried once more with the longest budget, and here the first cut-off is the last' });
  }
  if (config.maxAmbiguous !== null && config.maxAmbiguous > config.retry.attempts) {
    context.addIssue({ code: 'custom', path: ['maxAmbiguous'], message: `must be at most retry.attempts, ${config.retry.attempts}: it would never be reached` });
  }
}).transform(({ maxInFlight, ...config }) => ({ ...config, maxInFlight: maxInFlight === 'auto' ? lane.defaultSlots : maxInFlight, autoLane: config.autoLane || maxInFlight === 'auto' }));

export type EndpointConfig = z.infer<typeof endpointSchema>;
export type RetryPolicy = EndpointConfig['retry'];
export type BreakerPolicy = EndpointConfig['breaker'];
export type BudgetsMs = EndpointConfig['budgetsMs'];

/** Secrets of the scheme `standard`, newest first; more than one only while rotating. */
export const secretsSchema = z
  .array(
    z.string().transform((text, context) => {
      const parsed = parseSecret(text);
      if (parsed.ok) return parsed.secret;
      context.addIssue({ code: 'custom', message: parsed.problem });
      return z.NEVER;
    }),
  )
  .min(1)
  .max(endpoint.maxSecrets);
