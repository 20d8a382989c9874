import { describe, expect, it } from 'vitest';
import { endpointSchema, isReservedHeader, secretsSchema } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { formatProblem, problemsOf } from '../../lambdas/shared/limits/problems.ts';
import { secret } from '../support/builders.ts';

const minimal = { endpointId: 'acme', url: 'https://hooks.example.com/in' };

function problems(overrides: Record<string, unknown>): string[] {
  const document = { ...minimal, ...overrides };
  const parsed = endpointSchema.safeParse(document);
  return parsed.success ? [] : problemsOf(parsed.error.issues, document).map(formatProblem);
}

describe('endpointSchema', () => {
  it('needs only id and url, and fills in the documented defaults', () => {
    expect(endpointSchema.parse(minimal)).toEqual({
      ...minimal,
      tenantId: null, status: 'enabled', policy: 'default', body: 'raw', contentType: 'application/json', headers: {},
      signing: [{ scheme: 'standard' }], maxInFlight: 8, maxPerSecond: null,
      budgetsMs: { connection: 2_000, setup: 3_000, write: 5_000, read: 10_000, total: 15_000 },
      adaptiveRead: null,
      retry: { baseS: 5, factor: 4, capS: 86_400, attempts: 12, maxAgeS: 259_200, jitter: 'full' },
      onRejected: 'deadLetter', onAmbiguous: 'retry',
    });
  });

  it('reads what it has read before as the same', () => {
    const once = endpointSchema.parse({ ...minimal, headers: { 'X-Team': 'a b' }, retry: { delaysS: [1, 2] }, budgetsMs: { read: 500 } });
    expect(endpointSchema.parse(JSON.parse(JSON.stringify(once)))).toEqual(once);
  });

  it('normalises the url', () => {
    const urls = { 'https://EXAMPLE.com': 'https://example.com/', 'https://exämple.com/ü?q=1': 'https://xn--exmple-cua.com/%C3%BC?q=1', 'https://h:443/': 'https://h/' };
    for (const [written, stored] of Object.entries(urls)) expect(endpointSchema.parse({ ...minimal, url: written }).url).toBe(stored);
  });

  it.each<[string, Record<string, unknown>, string]>([
    ['http', { url: 'http://example.com/' }, 'url: must be https, not http'],
    ['another scheme', { url: 'ftp://example.com/' }, 'must be https, not ftp'],
    ['no url', { url: 'example.com' }, 'url: is not a URL'],
    ['credentials in the url', { url: 'https://u:p@example.com/' }, 'must not carry a user name'],
    ['a fragment', { url: 'https://example.com/#' }, 'must not carry a fragment'],
    ['a dot at the end of the host', { url: 'https://example.com./' }, 'must not end its host name in a dot'],
    ['white space around the url', { url: ' https://example.com/' }, 'white space'],
    ['a url of 2,049 characters', { url: `https://example.com/${'a'.repeat(2_029)}` }, 'url: '],
    ['an id with a dot', { endpointId: 'a.b' }, 'endpointId: must match'],
    ['an unknown key', { retries: 3 }, 'retries: unknown key (got 3)'],
    ['an unknown nested key', { retry: { max: 3 } }, 'retry.max: unknown key (got 3)'],
    ['paused', { status: 'paused' }, 'status: must be "enabled" or "disabled"'],
    ['a named policy', { policy: 'gold' }, 'policy: only "default" is supported'],
    ['another signature', { signing: [{ scheme: 'hub256' }] }, 'signing.0.scheme: only "standard"'],
    ['no signature', { signing: [] }, 'signing: '],
    ['a rate', { maxPerSecond: 5 }, 'maxPerSecond: only null is supported'],
    ['adaptive reads', { adaptiveRead: {} }, 'adaptiveRead: only null is supported'],
    ['reconciliation', { onAmbiguous: 'reconcile' }, 'onAmbiguous: only "retry"'],
    ['a lane of none', { maxInFlight: 0 }, 'maxInFlight: '],
    ['a lane of 33', { maxInFlight: 33 }, 'maxInFlight: '],
    ['half a slot', { maxInFlight: 1.5 }, 'maxInFlight: '],
    ['a total above the bound', { budgetsMs: { total: 20_001 } }, 'budgetsMs.total: '],
    ['a phase of 99 ms', { budgetsMs: { write: 99 } }, 'budgetsMs.write: '],
    ['a cap below the base', { retry: { baseS: 10, capS: 5 } }, 'retry.capS: must be at least baseS'],
    ['a factor that shrinks', { retry: { factor: 0.5 } }, 'retry.factor: '],
    ['26 attempts', { retry: { attempts: 26 } }, 'retry.attempts: '],
    ['no delays', { retry: { delaysS: [] } }, 'retry.delaysS: '],
    ['a delay of 0', { retry: { delaysS: [0] } }, 'retry.delaysS.0: '],
    ['an age of 8 days', { retry: { maxAgeS: 691_200 } }, 'retry.maxAgeS: '],
    ['text that is no media type', { contentType: 'json' }, 'contentType: is not a media type'],
    ['a media type with a line break', { contentType: 'a/b;\r\nx: 1' }, 'contentType: '],
  ])('refuses %s, with field, value and bound', (_why, overrides, problem) => {
    expect(problems(overrides).join('\n')).toContain(problem);
  });

  it.each<[string, Record<string, unknown>]>([
    ['a line break in a value', { 'x-team': 'a\r\nx-admin: 1' }],
    ['a number', { 'x-n': 5 }],
    ['a character that no header carries', { 'x-n': '苗' }],
    ['a space in a name', { 'x n': 'a' }],
    ['an empty name', { '': 'a' }],
    ['a colon in a name', { 'x:n': 'a' }],
    ['a name of 65 characters', { ['x'.repeat(65)]: 'a' }],
    ['a value of 1,025 characters', { x: 'a'.repeat(1_025) }],
    ['21 headers', Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`x-${i}`, 'a']))],
    ['the same name in two casings', { 'X-Team': 'a', 'x-team': 'b' }],
    ...['Webhook-Signature', 'WEBHOOK-TIMESTAMP', 'Content-Length', 'content-type', 'Host', 'Connection', 'Transfer-Encoding', 'Expect', 'TE', 'Upgrade', 'User-Agent', 'sluice-attempt']
      .map((name): [string, Record<string, unknown>] => [`the reserved ${name}`, { [name]: 'x' }]),
  ])('refuses headers with %s', (_why, headers) => {
    expect(problems({ headers }).join('\n')).toContain('headers');
  });

  it('says of a reserved header that it is reserved', () => {
    expect(problems({ headers: { 'Webhook-Id': 'x' } })).toEqual(['headers.Webhook-Id: is reserved: Sluice sets it itself']);
  });

  it('takes 20 headers of any visible ASCII', () => {
    const headers = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`X-${i}`, ' ~!"']));
    expect(endpointSchema.parse({ ...minimal, headers }).headers).toEqual(headers);
  });
});

describe('isReservedHeader', () => {
  it('judges by whole names and prefixes, in any casing', () => {
    expect(['WEBHOOK-ID', 'webhook-custom', 'ContenT-MD5', 'hOsT', 'Sluice-X', 'proxy-authorization', ':path'].map(isReservedHeader)).toEqual(Array(7).fill(true));
    expect(['authorization', 'x-webhook-id', 'hosted', 'x-content-type'].map(isReservedHeader)).toEqual(Array(4).fill(false));
  });
});

describe('secretsSchema', () => {
  it('trims, and takes one to four', () => {
    expect(secretsSchema.parse([` ${secret}\n`])).toEqual([secret]);
    expect(secretsSchema.safeParse([]).success).toBe(false);
    expect(secretsSchema.safeParse(Array(5).fill(secret)).success).toBe(false);
  });

  it('says what is wrong without quoting the secret', () => {
    const parsed = secretsSchema.safeParse(['v1,whsec_topsecret']);
    expect(parsed.error?.issues[0]?.message).toContain('must start with whsec_');
    expect(JSON.stringify(parsed.error?.issues)).not.toContain('topsecret');
  });
});
