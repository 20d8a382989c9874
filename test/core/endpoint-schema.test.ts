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
      tenantId: null, status: 'enabled', pauses: [], disabledFor: null, policy: 'default', body: 'raw', contentType: 'application/json', headers: {},
      signing: [{ scheme: 'standard' }], maxInFlight: 8, autoLane: false, maxPerSecond: null, maxPerDay: null,
      budgetsMs: { connection: 2_000, setup: 3_000, write: 5_000, read: 10_000, total: 15_000 },
      adaptiveRead: null,
      retry: { baseS: 5, factor: 4, capS: 86_400, attempts: 12, maxAgeS: 259_200, jitter: 'full' },
      onRejected: 'deadLetter', onAmbiguous: 'retry', maxAmbiguous: null, lookup: null,
      breaker: { windowS: 60, minAttempts: 20, failureRatio: 0.5, connectFailures: 5, slowP95Ms: null, openS: 30, maxOpenS: 900 },
    });
  });

  it('reads what it has read before as the same', () => {
    const once = endpointSchema.parse({ ...minimal, headers: { 'X-Team': 'a b' }, retry: { delaysS: [1, 2] }, budgetsMs: { read: 500 } });
    expect(endpointSchema.parse(JSON.parse(JSON.stringify(once)))).toEqual(once);
  });

  it('keeps of a lane that sizes itself that it does, and the size that it has', () => {
    const first = endpointSchema.parse({ ...minimal, maxInFlight: 'auto' });
    expect(first).toMatchObject({ maxInFlight: 8, autoLane: true });
    expect(endpointSchema.parse({ ...first, maxInFlight: 5 })).toMatchObject({ maxInFlight: 5, autoLane: true });
  });

  it('normalises the url', () => {
    const urls = { 'https://EXAMPLE.com': 'https://example.com/', 'https://exämple.com/ü?q=1': 'https://xn--exmple-cua.com/%C3%BC?q=1', 'https://h:443/': 'https://h/', 'https://Example.com.:8443/a': 'https://example.com:8443/a', 'https://b\u00fccher\u3002example.': 'https://xn--bcher-kva.example/' };
    for (const [written, stored] of Object.entries(urls)) expect(endpointSchema.parse({ ...minimal, url: written }).url).toBe(stored);
  });

  it.each<[string, Record<string, unknown>, string]>([
    ['another scheme', { url: 'ftp://example.com/' }, 'must be https, not ftp'],
    ['no url', { url: 'example.com' }, 'url: is not a URL'],
    ['credentials in the url', { url: 'https://u:p@example.com/' }, 'must not carry a user name'],
    ['a user name alone in the url', { url: 'https://u@example.com/' }, 'must not carry a user name'],
    ['a password alone in the url', { url: 'https://:p@example.com/' }, 'must not carry a user name or password'],
    ['a fragment', { url: 'https://example.com/#' }, 'must not carry a fragment'],
    ['a host with an empty label', { url: 'https://a..example.com/' }, 'has a host name with an empty label'],
    ['a host that begins with a dot', { url: 'https://.example.com/' }, 'has a host name with an empty label'],
    ['two dots at the end of the host', { url: 'https://example.com../' }, 'has a host name with an empty label'],
    ['a host of one dot', { url: 'https://./' }, 'has a host name with an empty label'],
    ['white space around the url', { url: ' https://example.com/' }, 'white space'],
    ['a url of 2,049 characters', { url: `https://example.com/${'a'.repeat(2_029)}` }, 'url: '],
    ['an id with a dot', { endpointId: 'a.b' }, 'endpointId: must match'],
    ['an unknown key', { retries: 3 }, 'retries: unknown key (got 3)'],
    ['an unknown nested key', { retry: { max: 3 } }, 'retry.max: unknown key (got 3)'],
    ['a status that there is not', { status: 'off' }, 'status: must be "enabled", "paused"'],
    ['a named policy', { policy: 'gold' }, 'policy: only "default" is supported'],
    ['no signature', { signing: [] }, 'signing: '],
    ['another word for a size', { maxInFlight: 'large' }, 'maxInFlight: must be "auto" or a whole number from 1 to 32'],
    ['no lane', { maxInFlight: 0 }, 'maxInFlight: Too small: expected number to be >=1'],
    ['a rate of nothing', { maxPerSecond: 0 }, 'maxPerSecond: '],
    ['a rate of 1,001 a second', { maxPerSecond: 1_001 }, 'maxPerSecond: '],
    ['nothing a day', { maxPerDay: 0 }, 'maxPerDay: '],
    ['a half of an attempt a day', { maxPerDay: 0.5 }, 'maxPerDay: '],
    ['more a day than the highest rate', { maxPerDay: 86_400_001 }, 'maxPerDay: '],
    ['adaptive reads with the longest below the shortest', { adaptiveRead: { minMs: 5_000, maxMs: 4_999 } }, 'adaptiveRead.maxMs: must be at least minMs'],
    ['adaptive reads beyond the attempt', { adaptiveRead: { maxMs: 15_001 } }, 'adaptiveRead.maxMs: must be at most budgetsMs.total, 15000'],
    ['adaptive reads below any phase', { adaptiveRead: { minMs: 99 } }, 'adaptiveRead.minMs: '],
    ['an unknown key of adaptive reads', { adaptiveRead: { factor: 2 } }, 'adaptiveRead.factor: unknown key'],
    ['adaptive reads where nothing is sent twice', { adaptiveRead: {}, onAmbiguous: 'reconcile', lookup: null }, 'adaptiveRead: is for endpoints that may be sent to again'],
    ['adaptive reads where the first doubt is the last', { adaptiveRead: {}, maxAmbiguous: 1 }, 'adaptiveRead: is for endpoints that may be sent to again'],
    ['another policy of what is uncertain', { onAmbiguous: 'hope' }, 'onAmbiguous: must be "retry"'],
    ['a ceiling of latency that no attempt could pass', { breaker: { slowP95Ms: 20_001 } }, 'breaker.slowP95Ms: '],
    ['a ceiling of latency of nothing', { breaker: { slowP95Ms: 0 } }, 'breaker.slowP95Ms: '],
    ['a breaker that never opens', { breaker: { failureRatio: 1.1 } }, 'breaker.failureRatio: '],
    ['a breaker that opens at once', { breaker: { connectFailures: 0 } }, 'breaker.connectFailures: '],
    ['a breaker that stays open for less than at first', { breaker: { openS: 60, maxOpenS: 30 } }, 'breaker.maxOpenS: must be at least openS (got 30)'],
    ['an unknown key of the breaker', { breaker: { threshold: 5 } }, 'breaker.threshold: unknown key (got 5)'],
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

  const hmac = (header: string, more: Record<string, unknown> = {}) => ({ scheme: 'hmac-body', header, ...more });
  const [standard, hub256] = [{ scheme: 'standard' }, { scheme: 'hub256' }];

  it('takes several signature schemes at once, and fills in what a body HMAC leaves out', () => {
    const signing = [hmac('X-Acme-Signature'), standard, hub256];
    const filled = endpointSchema.parse({ ...minimal, signing });
    expect(filled.signing).toEqual([hmac('X-Acme-Signature', { prefix: '', encoding: 'hex' }), standard, hub256]);
    expect(endpointSchema.parse(JSON.parse(JSON.stringify(filled)))).toEqual(filled);
    const spelled = [hmac('authorization', { prefix: 'HMAC key="a b" ', encoding: 'base64' }), hmac('x-hub-signature-256', { prefix: '~'.repeat(64) })];
    expect(endpointSchema.parse({ ...minimal, signing: spelled }).signing).toMatchObject(spelled);
  });

  it.each<[string, unknown[], string, Record<string, string>?]>([
    ['none', [], 'signing: '],
    ['four', [standard, hub256, hmac('x-a'), hmac('x-b')], 'signing: Too big: expected array to have <=3 items'],
    ['an unknown one', [{ scheme: 'ed25519' }], 'signing.0.scheme: must be an object with "scheme": "standard", "hub256" or "hmac-body" (got "ed25519")'],
    ['one that is no object', ['standard'], 'signing.0: must be an object with "scheme": "standard", "hub256" or "hmac-body" (got "standard")'],
    ['an unknown key', [{ scheme: 'hub256', header: 'x-a' }], 'signing.0.header: unknown key (got "x-a")'],
    ['standard twice', [standard, standard], 'signing.1: each header once, in any casing: webhook-signature is also written by signing.0 (got {"scheme":"standard"})'],
    ['hub256 twice', [hub256, hub256], 'signing.1: each header once, in any casing: x-hub-signature-256 is also written by signing.0'],
    ['no header', [{ scheme: 'hmac-body' }], 'signing.0.header: '],
    ['text that is no header', [standard, hmac('x a')], 'signing.1.header: is not a header name (RFC 9110 token) (got "x a")'],
    ['a header of 65 characters', [hmac('x'.repeat(65))], 'signing.0.header: '],
    ['a reserved header', [hmac('Webhook-Signature')], 'signing.0.header: is reserved: Sluice sets it itself (got "Webhook-Signature")'],
    ['a header twice', [hmac('x-sig'), hmac('X-Sig')], 'signing.1.header: each header once, in any casing: x-sig is also written by signing.0 (got "X-Sig")'],
    ['the header of hub256', [hub256, hmac('X-Hub-Signature-256')], 'signing.1.header: each header once, in any casing: x-hub-signature-256 is also written by signing.0 (got "X-Hub-Signature-256")'],
    ['the header of a later hub256', [hmac('X-Hub-Signature-256'), hub256], 'signing.1: each header once, in any casing: x-hub-signature-256 is also written by signing.0'],
    ['a custom header', [hmac('X-Sig')], 'signing.0.header: each header once, in any casing: x-sig is also written by headers (got "X-Sig")', { 'x-SIG': 'a' }],
    ['the header of hub256 as a custom one', [hub256], 'signing.0: each header once, in any casing: x-hub-signature-256 is also written by headers', { 'X-Hub-Signature-256': 'a' }],
    ['a space before the signature\'s prefix', [hmac('x-a', { prefix: ' v1=' })], 'signing.0.prefix: may hold visible ASCII and spaces only, and not start with a space (got " v1=")'],
    ['a line break in a prefix', [hmac('x-a', { prefix: 'v1=\r\nx: 1' })], 'signing.0.prefix: may hold'],
    ['a letter beyond ASCII in a prefix', [hmac('x-a', { prefix: 'é=' })], 'signing.0.prefix: may hold'],
    ['a prefix of 65 characters', [hmac('x-a', { prefix: 'a'.repeat(65) })], 'signing.0.prefix: Too big: expected string to have <=64 characters'],
    ['another encoding', [hmac('x-a', { encoding: 'base64url' })], 'signing.0.encoding: '],
  ])('refuses signing with %s, with field, value and bound', (_why, signing, problem, headers = {}) => {
    expect(problems({ signing, headers }).join('\n')).toContain(problem);
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
