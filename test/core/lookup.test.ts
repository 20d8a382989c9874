/** What a look may ask, and what its answer proves (U5). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { atPath, isSameJson, parseExactJson, shownJson, type ExactJson } from '../../lambdas/shared/core/exact-json.ts';
import { judge, lookUrl, referenceFrom, type Answered } from '../../lambdas/shared/core/lookup.ts';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import { endpointSchema } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { parseJsonPath } from '../../lambdas/shared/limits/json-path.ts';
import { formatProblem, problemsOf } from '../../lambdas/shared/limits/problems.ts';
import { timed } from '../support/builders.ts';

const exact = (text: string): ExactJson => {
  const parsed = parseExactJson(text);
  if (parsed === undefined) throw new Error('no JSON');
  return parsed.value;
};
const isSame = (one: string, other: string) => isSameJson(exact(one), exact(other));

describe('a path', () => {
  it.each([
    ['$', []],
    ['$.a', ['a']],
    ['$.a.b_c-d', ['a', 'b_c-d']],
    ['$.a[0][12]', ['a', 0, 12]],
    ["$['unit price']['']", ['unit price', '']],
    ["$['a.b'].c", ['a.b', 'c']],
    ['$.__proto__', ['__proto__']],
  ])('%s leads to one place', (text, path) => expect(parseJsonPath(text)).toEqual(path));
  it.each(['', 'a', '.a', '$a', '$.', '$..a', '$.*', '$[*]', '$[-1]', '$[01]', '$[1:2]', '$["a"]', "$['a'", '$.a b', '$[?@.a]', '$.0', "$['a\\'b']", '$[1e3]', '$[99999999999]', '$.a\n'])(
    '%j is none', (text) => expect(parseJsonPath(text)).toBeUndefined(),
  );
  it('leads to what is there, and to nothing else', () => {
    const value = exact('{"a":[{"b":1}],"":2,"__proto__":{"x":3},"n":null}');
    const at = (text: string) => shownJson(atPath(value, parseJsonPath(text) ?? []), 60);
    expect(['$.a[0].b', "$['']", '$.__proto__.x', '$.n'].map(at)).toEqual(['1', '2', '3', 'null']);
    expect(['$.a.b', '$.a[1]', '$.length', '$.a.length', '$.constructor', '$.toString', '$.n.x', '$.a[0].b.source', '$[0]'].map(at)).toEqual(Array(9).fill('nothing'));
  });
});

describe('exact JSON', () => {
  it.each([
    ['7615917337495251231', '7615917337495251231', true],
    ['7615917337495251231', '7615917337495251232', false],
    ['1', '1.0', true],
    ['10', '1e1', true],
    ['100', '0.1E+3', true],
    ['0.1', '0.10000000000000000001', false],
    ['0', '-0.000', true],
    ['0e99', '0', true],
    ['-1', '1', false],
    ['1e400', '1e401', false],
    ['1e400', '10e399', true],
    ['1', '"1"', false],
    ['true', '"true"', false],
    ['null', '0', false],
    ['"a"', '"\\u0061"', true],
    ['{"a":1,"b":[1,2]}', '{"b":[1.0,2],"a":1}', true],
    ['{"a":1}', '{"a":1,"b":null}', false],
    ['[1,2]', '[2,1]', false],
    ['[]', '{}', false],
    ['{"text":"1e0"}', '1', false],
    ['{"toString":1}', '{"a":1}', false],
  ])('%s and %s: same %s', (one, other, same) => {
    expect(isSame(one, other)).toBe(same);
    expect(isSame(other, one)).toBe(same);
  });
  it('says of any value that it is itself, however its numbers are written', () => {
    fc.assert(fc.property(fc.json(), (text) => isSame(text, JSON.stringify(JSON.parse(text)))));
  });
  it('takes no longer than its length, whatever a number is', () => {
    const zeros = '0'.repeat(100_000);
    const startedMs = performance.now();
    expect(isSame(`1${zeros}1`, `1${zeros}1.000`)).toBe(true);
    expect(isSame(`1${zeros}1`, `1${zeros}2`)).toBe(false);
    expect(isSame(`1e${zeros}1`, `1e${zeros}1`)).toBe(true);
    // A pattern that tries each zero anew takes minutes.
    expect(performance.now() - startedMs).toBeLessThan(10_000);
  });

  it('is had whatever its texts hold', () => {
    for (const text of ['{"a":"b\\":\\"c"}', '{"a\\\\":":","b":"\\\\"}', '["a:",":b",{":":":"}]', '{"a" : {"a" : "a"}}', '"a:"', '{"__proto__":1,"x":[]}', '{"":{"":""}}']) expect(parseExactJson(text)).toBeDefined();
    fc.assert(fc.property(fc.json(), (text) => parseExactJson(JSON.stringify(JSON.parse(text))) !== undefined));
  });

  it('is not had of text that is none, or too deep', () => {
    for (const text of ['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '[{"a":{"b":1,"b":1}}]', '{"":1,"":2}', '', '{', 'nope', '1 2', '\u0000', `${'['.repeat(1e5)}${']'.repeat(1e5)}`]) expect(parseExactJson(text)).toBeUndefined();
  });
});

const lookupOf = (overrides: object = {}) => {
  const { lookup } = endpointSchema.parse({ endpointId: 'acme', url: 'https://a.example/', lookup: { url: 'https://b.example/e/{eventId}', match: { '$.id': 'eventId' }, ...overrides } });
  if (lookup === null) throw new Error('no look-up');
  return lookup;
};

describe('the address of a look', () => {
  const urlOf = (template: string, reference?: string) => {
    const answer = lookUrl(lookupOf({ url: template, referenceHeader: 'x-id' }), 'evt_1', reference);
    return answer.ok ? answer.url.href : answer.problem;
  };
  it.each([
    ['https://b.example/e/{eventId}', undefined, 'https://b.example/e/evt_1'],
    ['https://b.example/e?id={eventId}&x={eventId}', undefined, 'https://b.example/e?id=evt_1&x=evt_1'],
    ['https://b.example/{reference}', 'a/../b?c#d&e=%2e', 'https://b.example/a%2F..%2Fb%3Fc%23d%26e%3D%252e'],
    ['https://b.example/{reference}', '{eventId}', 'https://b.example/%7BeventId%7D'],
    ['https://b.example./{eventId}', undefined, 'https://b.example/evt_1'],
    ['https://b.example/{reference}', undefined, 'the look-up needs the id that the consumer returns, and none was returned'],
  ])('%s with %s', (template, reference, expected) => expect(urlOf(template, reference)).toBe(expected));
  it('leads to the host of its template, whatever the consumer returns', () => {
    fc.assert(fc.property(fc.string(), (text) => {
      const reference = referenceFrom(text);
      if (reference === undefined) return;
      const url = new URL(urlOf('https://b.example/a/{reference}/c', reference));
      expect([url.host, url.pathname.split('/').length, url.search, url.hash]).toEqual(['b.example', 4, '', '']);
    }), { numRuns: 2_000 });
  });
  it.each(['', '.', '..', 'a b', 'é', 'a\r\nb', 'x'.repeat(201)])('%j is no id that a consumer returns', (text) => expect(referenceFrom(text)).toBeUndefined());
});

describe('the answer to a look', () => {
  const message = (payload: string, more = '') => {
    const parsed = parseMessage(`{"endpointId":"acme","eventId":"evt_1"${more},"payload":${payload}}`);
    if (!parsed.ok) throw new Error(parsed.detail);
    return parsed.message;
  };
  const answer = (body: string | Buffer | undefined, more: Partial<Answered> = {}): Answered =>
    ({ kind: 'answered', status: 200, bodyExcerpt: '', ...(body === undefined ? {} : { body: Buffer.from(body) }), ...timed(5), ...more });
  const event = message('{"amount":7615917337495251231,"lines":[{"sku":"a"}]}', ',"eventType":"invoice.paid"');
  const match = { '$.id': 'eventId', '$.type': 'eventType', '$.data.amount': '$.amount', '$.data.sku': '$.lines[0].sku' };
  const same = '{"id":"evt_1","type":"invoice.paid","ref":"r-1","data":{"amount":7615917337495251231,"sku":"a"}}';

  it.each([
    ['all that is compared is the same', answer(same), { kind: 'matches', reference: 'r-1' }],
    ['a number differs in its last digit', answer(same.replace('1231', '1232')), { kind: 'differs', detail: 'different: $.data.amount is 7615917337495251232, must be 7615917337495251231' }],
    ['another event', answer(same.replace('evt_1', 'evt_2')), { kind: 'differs', detail: 'different: $.id is "evt_2", must be "evt_1"' }],
    ['a value is missing', answer('{"id":"evt_1","type":"invoice.paid","data":{"sku":"a"}}'), { kind: 'differs', detail: 'different: $.data.amount is nothing, must be 7615917337495251231' }],
    ['a list of them', answer(`[${same}]`), { kind: 'differs' }],
    ['a value that stands there twice', answer(`{"id":"evt_2",${same.slice(1)}`), { kind: 'failed', detail: 'look failed: 200, and the answer is no JSON' }],
    ['null', answer('null'), { kind: 'differs' }],
    ['a status that means absent', answer('', { status: 404 }), { kind: 'absent', detail: 'absent: 404' }],
    ['a status that means nothing', answer(same, { status: 202 }), { kind: 'failed', detail: 'look failed: status 202' }],
    ['an error', answer(same, { status: 500 }), { kind: 'failed', detail: 'look failed: status 500' }],
    ['a redirect', answer(same, { status: 302, redirectsTo: 'https://evil.example' }), { kind: 'failed', detail: 'look failed: status 302 to https://evil.example' }],
    ['no JSON', answer('<html>'), { kind: 'failed', detail: 'look failed: 200, and the answer is no JSON' }],
    ['nothing', answer(''), { kind: 'failed' }],
    ['no body that was kept', answer(undefined), { kind: 'failed' }],
    ['bytes that are no text', answer(Buffer.from([0x7b, 0xff, 0x7d])), { kind: 'failed' }],
    ['an answer that was cut short, though what came is the same', answer(same, { cut: 'body more than 16384 bytes' }), { kind: 'failed', detail: 'look failed: 200, then body more than 16384 bytes' }],
    ['an absence that was cut short', answer('', { status: 404, cut: 'headers timeout' }), { kind: 'failed', detail: 'look failed: 404, then headers timeout' }],
    ['JSON without end in depth', answer('['.repeat(16_000)), { kind: 'failed' }],
  ])('%s', (_why, answered, expected) => {
    expect(judge(lookupOf({ match, reference: '$.ref' }), answered, event)).toMatchObject(expected);
  });

  it('is not compared with what the event does not say', () => {
    const judged = (payload: string, field: string) => judge(lookupOf({ match: { '$.id': field } }), answer('{"id":1}'), message(payload));
    expect(judged('"text"', '$.amount')).toEqual({ kind: 'impossible', stuck: 'invalid-lookup', detail: 'match $.id: the event\'s payload is no JSON' });
    expect(judged('{"b":1}', '$.amount')).toEqual({ kind: 'impossible', stuck: 'invalid-lookup', detail: 'match $.id: the event\'s payload has no $.amount' });
    expect(judged('{"b":1}', 'occurredAt')).toEqual({ kind: 'impossible', stuck: 'invalid-lookup', detail: 'match $.id: the event has no occurredAt' });
  });

  it('is shown to a person bounded, whatever it holds', () => {
    const found = judge(lookupOf(), answer(JSON.stringify({ id: '💥'.repeat(5_000) })), event);
    expect(found.detail.length).toBeLessThan(200);
    expect(found.detail.isWellFormed()).toBe(true);
    const many = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`$['${'x'.repeat(150)}${i}']`, 'eventId']));
    expect(judge(lookupOf({ match: many }), answer('{}'), event).detail.length).toBeLessThanOrEqual(300);
  });

  it.each([
    ['{"id":"evt_1","ref":12345678901234567890}', '12345678901234567890'],
    ['{"id":"evt_1","ref":null}', undefined],
    ['{"id":"evt_1","ref":true}', undefined],
    ['{"id":"evt_1","ref":{}}', undefined],
    ['{"id":"evt_1","ref":["a"]}', undefined],
    ['{"id":"evt_1","ref":".."}', undefined],
    ['{"id":"evt_1"}', undefined],
  ])('%s returns the id %s', (body, reference) => {
    expect(judge(lookupOf({ reference: '$.ref' }), answer(body), event)).toMatchObject({ kind: 'matches', reference });
  });
});

describe('a look-up that is refused where it is written', () => {
  const base = { url: 'https://b.example/e/{eventId}', match: { '$.id': 'eventId' } };
  const problems = (lookup: object, more: object = {}) => {
    const document = { endpointId: 'acme', url: 'https://a.example/', lookup, ...more };
    const parsed = endpointSchema.safeParse(document);
    return parsed.success ? '' : problemsOf(parsed.error.issues, document).map(formatProblem).join('\n');
  };
  it.each([
    [{ ...base, url: 'https://b.example/e' }, 'lookup.url: must hold {eventId} or {reference}'],
    [{ ...base, url: 'https://{eventId}.example/' }, 'lookup.url: must be a URL whose host is fixed'],
    [{ ...base, url: 'https://b.example{reference}/' }, 'lookup.url: must be a URL whose host is fixed'],
    [{ ...base, url: 'https://b.example:{eventId}/' }, 'lookup.url: must be a URL whose host is fixed'],
    [{ ...base, url: 'https://u:{eventId}@b.example/{eventId}' }, 'lookup.url: must be a URL whose host is fixed'],
    [{ ...base, url: 'https://u:p@b.example/{eventId}' }, 'lookup.url: must not carry a user name or password'],
    [{ ...base, url: '{eventId}' }, 'lookup.url: must be a URL'],
    [{ ...base, url: 'ftp://b.example/{eventId}' }, 'lookup.url: must be a URL'],
    [{ ...base, url: 'https://b.example/{eventId}#x' }, 'lookup.url: must be a URL'],
    [{ ...base, url: 'https://b.example/{eventId}/{payload}' }, 'lookup.url: may hold {eventId} and {reference}, and no other braces'],
    [{ ...base, url: 'https://b.example/{{eventId}}' }, 'lookup.url: may hold'],
    [{ ...base, url: ' https://b.example/{eventId}' }, 'lookup.url: must be a URL'],
    [{ ...base, url: 'https://b.example:0/{eventId}' }, 'lookup.url: must not name port 0'],
    [{ ...base, url: `https://b.example/${'x'.repeat(2_048)}{eventId}` }, 'lookup.url'],
    [{ ...base, url: 'https://b.example/e/{eventId}/../latest' }, 'lookup.url: must keep the placeholder'],
    [{ ...base, url: 'https://b.example/e/x{eventId}/%2e%2e/' }, 'lookup.url: must keep the placeholder'],
    [{ ...base, url: 'https://b.example/{reference}' }, 'lookup.referenceHeader: must name the header'],
    [{ ...base, referenceHeader: 'a b' }, 'lookup.referenceHeader: is not a header name'],
    [{ ...base, match: {} }, 'lookup.match: must compare at least one value'],
    [{ url: base.url }, 'lookup.match'],
    [{ ...base, match: { id: 'eventId' } }, 'is not a path to one place'],
    [{ ...base, match: { '$.id': 'payload' } }, 'must be eventId, endpointId'],
    [{ ...base, match: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`$.a${i}`, 'eventId'])) }, 'lookup.match: at most 10'],
    [{ ...base, present: [] }, 'lookup.present: must hold at least one status'],
    [{ ...base, present: [404] }, 'lookup.absent: each status once: 404'],
    [{ ...base, present: [99] }, 'lookup.present.0'],
    [{ ...base, absent: [], absenceProvesAfterS: 60 }, 'lookup.absent: must hold a status'],
    ...[302, 401, 403, 407, 408, 425, 429, 500, 502, 503, 504].map((status) => [{ ...base, absent: [404, status] }, 'lookup.absent: may hold 2xx, 404, 410'] as [object, string]),
    [{ ...base, absenceProvesAfterS: 0 }, 'lookup.absenceProvesAfterS'],
    [{ ...base, absenceProvesAfterS: 604_801 }, 'lookup.absenceProvesAfterS'],
    [{ ...base, delaysS: [] }, 'lookup.delaysS'],
    [{ ...base, delaysS: [1] }, 'lookup.delaysS.0'],
    [{ ...base, delaysS: Array<number>(11).fill(60) }, 'lookup.delaysS'],
    [{ ...base, reference: '$..id' }, 'lookup.reference: is not a path to one place'],
    [{ ...base, retries: 3 }, 'lookup.retries: unknown key'],
  ])('%j', (lookup, problem) => expect(problems(lookup)).toContain(problem));
  it('accepts what it documents, and fills in the rest', () => {
    expect(problems(base)).toBe('');
    expect(lookupOf()).toEqual({ ...base, present: [200], absent: [404], reference: null, referenceHeader: null, absenceProvesAfterS: null, delaysS: [60, 300, 1_800, 7_200, 43_200] });
  });
  it('refuses a bound on doubts where the first is the last', () => {
    expect(problems(base, { onAmbiguous: 'reconcile', maxAmbiguous: 2 })).toContain('maxAmbiguous: is for onAmbiguous "retry"');
    expect(problems(base, { maxAmbiguous: 0 })).toContain('maxAmbiguous');
    expect(problems(base, { maxAmbiguous: 4, retry: { attempts: 3 } })).toContain('maxAmbiguous: must be at most retry.attempts, 3');
    expect(problems(base, { maxAmbiguous: 3, retry: { attempts: 3 } })).toBe('');
  });
});
