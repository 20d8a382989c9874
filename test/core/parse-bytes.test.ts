import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../lambdas/shared/core/keys.ts';
import { parseMessage, type Message } from '../../lambdas/shared/core/parse.ts';
import { jsonContainer, jsonSpace, jsonStringLiteral } from '../support/json-arbitraries.ts';

const ids = '"endpointId":"acme","eventId":"evt_1"';

function accepted(body: string): Message {
  const parsed = parseMessage(body);
  if (!parsed.ok) throw new Error(parsed.detail);
  return parsed.message;
}

const texts = [
  '{"p_id":7615917337495251231}',
  '{"10":1,"9":2,"b":3,"1":4}',
  '{"a":1,"a":2,"\\u0061":3}',
  '{"url":"https:\\/\\/x\\/y","name":"\\u00e9","emoji":"\\ud83d\\ude00"}',
  '{"name":"José 東京 😀"}',
  ' { "a" :\t[ 1 ,\r\n 2 ] } ',
  '[1.0,1e3,-0,1E+2,0.10,1e400]',
  '{"__proto__":{"a":1},"constructor":null}',
  '{"trap":"}],\\"\\\\","next":"{["}',
  '{}',
  '[]',
].map((text) => text.trim());

describe('the payload keeps its bytes', () => {
  it.each(texts)('as object or array: %s', (text) => {
    expect(accepted(`{${ids},"payload":${text}}`).payload.toString()).toBe(text);
    expect(accepted(`{"payload" : ${text} ,${ids}}`).payload.toString()).toBe(text);
  });

  it.each(texts)('as string: %s', (text) => {
    expect(accepted(`{${ids},"payload":${JSON.stringify(text)}}`).payload.toString()).toBe(text);
  });

  it.each(texts)('as base64: %s', (text) => {
    expect(accepted(`{${ids},"payloadBase64":"${Buffer.from(text).toString('base64')}"}`).payload.toString()).toBe(text);
  });

  it('as base64, where they are no text at all', () => {
    const bytes = Buffer.from([0xff, 0x00, 0xc3, 0x28, 0x0a]);
    expect(accepted(`{${ids},"payloadBase64":"${bytes.toString('base64')}"}`).payload).toEqual(bytes);
    expect(accepted(`{${ids},"payloadBase64":""}`).payload).toHaveLength(0);
  });

  it('with 50,000 levels of nesting', () => {
    const text = '['.repeat(50_000) + ']'.repeat(50_000);
    expect(accepted(`{${ids},"payload":${text}}`).payload.toString()).toBe(text);
  });

  it('an escaped lone surrogate inside an object is source text like any other', () => {
    expect(accepted(`{${ids},"payload":{"half":"\\ud83d"}}`).payload.toString()).toBe('{"half":"\\ud83d"}');
  });

  it('its name may be escaped', () => {
    expect(accepted(`{${ids},"\\u0070ayload":{"a":1}}`).payload.toString()).toBe('{"a":1}');
  });
});

describe('for any payload', () => {
  const others = [`"endpointId":"acme"`, `"eventId":"evt_1"`, `"eventType":"a.b"`, `"resend":3`, `"v":1`, `"occurredAt":"2026-01-05T10:00:00Z"`];
  const shuffled = fc.shuffledSubarray(others, { minLength: 2 }).filter((some) => some.includes(others[0] ?? '') && some.includes(others[1] ?? ''));

  it('the bytes are the exact slice of the source, wherever the member stands', () => {
    fc.assert(
      fc.property(jsonContainer, shuffled, fc.nat(6), fc.array(jsonSpace, { minLength: 14, maxLength: 14 }), (text, members, where, spaces) => {
        const sp = (i: number) => spaces[i] ?? '';
        const all = members.toSpliced(where % (members.length + 1), 0, `"payload"${sp(12)}:${sp(13)}${text}`);
        const body = `${sp(0)}{${all.map((member, i) => `${sp(i + 1)}${member}${sp(i + 5)}`).join(',')}}${sp(11)}`;
        const message = accepted(body);
        expect(message.payload.toString()).toBe(text);
        expect(message.payloadHash).toBe(hashOf(Buffer.from(text)));
      }),
      { numRuns: 400 },
    );
  });

  it('a string payload is its characters', () => {
    fc.assert(
      fc.property(jsonStringLiteral, (literal) => {
        const body = `{${ids},"payload":${literal}}`;
        const text = JSON.parse(literal) as string;
        expect(accepted(body).payload.toString()).toBe(text);
      }),
      { numRuns: 400 },
    );
  });
});

describe('the other fields', () => {
  it('arrive as they were written', () => {
    const body = `{"v":1,${ids},"eventType":"invoice.paid","occurredAt":"2026-01-05T10:00:00+02:00","resend":7,"payload":[]}`;
    expect(accepted(body)).toMatchObject({
      endpointId: 'acme', eventId: 'evt_1', eventType: 'invoice.paid', occurredAt: '2026-01-05T10:00:00+02:00', resend: 7,
    });
  });

  it('may be left out', () => {
    expect(accepted(`{${ids},"payload":[]}`)).toMatchObject({ eventType: undefined, occurredAt: undefined, resend: 0 });
  });

  it('take ids of 1 to 128 characters of the whole alphabet', () => {
    for (const id of ['a', 'A-Z_0', 'e'.repeat(128)]) {
      expect(accepted(`{"endpointId":"${id}","eventId":"${id}","payload":{}}`)).toMatchObject({ endpointId: id, eventId: id });
    }
  });
});
