import { z } from 'zod';
import { idSchema } from './message-schema.ts';
import { budgets, endpoint, lane, retry } from './numbers.ts';
import { parseSecret } from './secret.ts';

/**
 * The endpoint document that operators write: only `endpointId` and `url` are required. The whole shape is known from
 * the first version; a key whose behaviour is not built yet takes its default only, and says so, for a setting that is
 * accepted and ignored would be worse than one that is refused.
 */

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
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'is not a header name (RFC 9110 token)')
  .refine((name) => !isReservedHeader(name), { error: 'is reserved: Sluice sets it itself' });
const headerValue = z
  .string()
  .max(endpoint.maxHeaderValueLength)
  .regex(/^[\x20-\x7e]*$/, 'may hold visible ASCII and spaces only');

const headersSchema = z
  .record(headerName, headerValue)
  .refine((headers) => Object.keys(headers).length <= endpoint.maxHeaders, { error: `at most ${endpoint.maxHeaders} headers` })
  .refine((headers) => new Set(Object.keys(headers).map((name) => name.toLowerCase())).size === Object.keys(headers).length, {
    error: 'the same header twice in different casing',
  });

const urlSchema = z
  .string()
  .max(endpoint.maxUrlLength)
  .transform((text, context) => {
    const problem = urlProblem(text);
    if (problem === undefined) return new URL(text).href;
    context.addIssue({ code: 'custom', message: problem });
    return z.NEVER;
  });

function urlProblem(text: string): string | undefined {
  if (text !== text.trim()) return 'has white space around it';
  if (!URL.canParse(text)) return 'is not a URL';
  const url = new URL(text);
  if (url.protocol !== 'https:') return `must be https, not ${url.protocol.slice(0, -1)}`;
  if (url.username !== '' || url.password !== '') return 'must not carry a user name or password: use headers';
  if (text.includes('#')) return 'must not carry a fragment: it would never be sent';
  if (url.port === '0') return 'must not name port 0';
  if (url.hostname.endsWith('.')) return 'must not end its host name in a dot';
  return undefined;
}

/** A key that is known but whose behaviour this version does not have: only its default is accepted. */
function notYet<T extends z.ZodType>(schema: T, fallback: z.infer<T>) {
  return schema.default(fallback as never);
}
const only = <T extends string | null>(value: T, what: string) =>
  z.literal(value, { error: `only ${JSON.stringify(value)} is supported in this version: ${what}` });

const ms = (min: number, max: number) => z.int().min(min).max(max);

const budgetsSchema = z.strictObject({
  connection: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.connectionMs),
  setup: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.setupMs),
  write: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.writeMs),
  read: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.readMs),
  total: ms(budgets.minPhaseMs, budgets.maxTotalMs).default(budgets.totalMs),
});

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

export const endpointSchema = z.strictObject({
  endpointId: idSchema,
  url: urlSchema,
  tenantId: idSchema.nullable().default(null),
  status: z
    .enum(['enabled', 'disabled'], { error: 'must be "enabled" or "disabled" ("paused" needs held deliveries, which this version does not have)' })
    .default('enabled'),
  policy: notYet(only('default', 'named policies'), 'default'),
  body: z.enum(['raw', 'envelope']).default('raw'),
  contentType: headerValue.regex(/^[\w.+-]+\/[\w.+-]+(;.*)?$/, 'is not a media type').default('application/json'),
  headers: headersSchema.default({}),
  signing: z
    .array(z.strictObject({ scheme: only('standard', 'other signature schemes') }))
    .length(1)
    .default([{ scheme: 'standard' }]),
  maxInFlight: z.int().min(lane.minSlots).max(lane.maxSlots).default(lane.defaultSlots),
  maxPerSecond: notYet(z.null({ error: 'only null is supported in this version: a rate beside the lane' }), null),
  budgetsMs: budgetsSchema.prefault({}),
  adaptiveRead: notYet(z.null({ error: 'only null is supported in this version: adaptive read budgets' }), null),
  retry: retrySchema.prefault({}),
  onRejected: z.enum(['deadLetter', 'retry']).default('deadLetter'),
  onAmbiguous: notYet(only('retry', 'reconciliation'), 'retry'),
  breaker: z.never({ error: 'is not supported in this version: circuit breakers' }).optional(),
});

export type EndpointConfig = z.infer<typeof endpointSchema>;
export type RetryPolicy = EndpointConfig['retry'];
export type BudgetsMs = EndpointConfig['budgetsMs'];

/** Signing secrets, newest first; more than one only while rotating. */
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
