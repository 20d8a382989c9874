import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import { message } from '../../lambdas/shared/limits/numbers.ts';

const ids = '"endpointId":"acme","eventId":"evt_1"';
const whole = (members: string) => `{${members}}`;
const withField = (member: string) => whole(`${ids},"payload":{},${member}`);
const id = (name: 'endpointId' | 'eventId', value: string) =>
  whole(`"${name === 'endpointId' ? 'eventId' : 'endpointId'}":"x","${name}":${JSON.stringify(value)},"payload":{}`);
const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

function refusal(body: string) {
  const parsed = parseMessage(body);
  if (parsed.ok) throw new Error('the body was accepted');
  return parsed;
}

const table: readonly (readonly [why: string, body: string, detail: string])[] = [
  ['empty', '', 'body is not JSON'],
  ['cut off', '{"endpointId":"acme"', 'body is not JSON'],
  ['single quotes', "{'v':1}", 'body is not JSON'],
  ['trailing comma', whole(`${ids},"payload":{},`), 'body is not JSON'],
  ['a byte order mark', `\ufeff${whole(`${ids},"payload":{}`)}`, 'body is not JSON'],
  ['raw control character in a string', whole(`${ids},"payload":"a\u0000b"`), 'body is not JSON'],
  ['array', `[${whole(ids)}]`, 'body must be a JSON object'],
  ['null', 'null', 'body must be a JSON object'],
  ['text', '"hello"', 'body must be a JSON object'],
  ['number', '7', 'body must be a JSON object'],
  ['no endpointId', whole('"eventId":"evt_1","payload":{}'), 'endpointId: '],
  ['no eventId', whole('"endpointId":"acme","payload":{}'), 'eventId: '],
  ['endpointId a number', whole('"endpointId":5,"eventId":"evt_1","payload":{}'), 'endpointId: '],
  ['eventId null', whole('"endpointId":"acme","eventId":null,"payload":{}'), 'eventId: '],
  ['id with a dot', id('eventId', 'evt.1'), 'eventId: must match [A-Za-z0-9_-]{1,128} (got "evt.1")'],
  ['id with a space', id('endpointId', 'acme prod'), 'endpointId: must match [A-Za-z0-9_-]{1,128} (got "acme prod")'],
  ['id with a separator', id('endpointId', 'acme#1'), 'endpointId: must match'],
  ['id with a newline at its end', id('eventId', 'evt_1\n'), 'eventId: must match'],
  ['empty id', id('eventId', ''), 'eventId: must match'],
  ['id of 129 characters', id('eventId', 'e'.repeat(129)), 'eventId: must match'],
  ['id with an umlaut', id('endpointId', 'müller'), 'endpointId: must match'],
  ['unknown key', withField('"priority":1'), 'Unrecognized key: "priority"'],
  ['unknown key that differs in case', withField('"Payload":{}'), 'Unrecognized key: "Payload"'],
  ['__proto__ as a key', withField('"__proto__":{"resend":1}'), '__proto__'],
  ['constructor as a key', withField('"constructor":{}'), 'constructor'],
  ['payload twice', whole(`${ids},"payload":{},"payload":{"a":1}`), 'field "payload" stands twice'],
  ['payload twice, once escaped', whole(`${ids},"payload":{},"\\u0070ayload":{"a":1}`), 'field "payload" stands twice'],
  ['eventId twice', whole(`${ids},"eventId":"evt_2","payload":{}`), 'field "eventId" stands twice'],
  ['no payload', whole(ids), 'needs exactly one of payload and payloadBase64'],
  ['payload a number', whole(`${ids},"payload":12`), 'payload: must be an object, an array or a string'],
  ['payload true', whole(`${ids},"payload":true`), 'payload: must be an object, an array or a string'],
  ['payload null', whole(`${ids},"payload":null`), 'payload: must be an object, an array or a string'],
  ['both payloads', whole(`${ids},"payload":{},"payloadBase64":"e30="`), 'needs exactly one of payload and payloadBase64'],
  ['payload null beside payloadBase64', whole(`${ids},"payload":null,"payloadBase64":"e30="`), 'payload: must be'],
  ['payloadBase64 a number', whole(`${ids},"payloadBase64":5`), 'payloadBase64: '],
  ['base64 without padding', whole(`${ids},"payloadBase64":"e30"`), 'payloadBase64 is not canonical base64'],
  ['base64 with a newline', whole(`${ids},"payloadBase64":"e30=\\n"`), 'payloadBase64 is not canonical base64'],
  ['base64url', whole(`${ids},"payloadBase64":"_-8="`), 'payloadBase64 is not canonical base64'],
  ['base64 with stray bits', whole(`${ids},"payloadBase64":"e31="`), 'payloadBase64 is not canonical base64'],
  ['raw lone surrogate', whole(`${ids},"payload":"\ud83d"`), 'body holds a lone surrogate'],
  ['escaped lone surrogate in a string payload', whole(`${ids},"payload":"\\ud83d"`), 'payload holds a lone surrogate'],
  ['v 2', withField('"v":2'), 'v: '],
  ['v as text', withField('"v":"1"'), 'v: '],
  ['resend 0', withField('"resend":0'), 'resend: '],
  ['resend -1', withField('"resend":-1'), 'resend: '],
  ['resend 1.5', withField('"resend":1.5'), 'resend: '],
  ['resend as text', withField('"resend":"1"'), 'resend: '],
  ['resend 1e400', withField('"resend":1e400'), 'resend: '],
  ['eventType with a space', withField('"eventType":"invoice paid"'), 'eventType: '],
  ['eventType empty', withField('"eventType":""'), 'eventType: '],
  ['eventType of 129 characters', withField(`"eventType":"${'a'.repeat(129)}"`), 'eventType: '],
  ['occurredAt without a zone', withField('"occurredAt":"2026-01-05T10:00:00"'), 'occurredAt: '],
  ['occurredAt a date', withField('"occurredAt":"2026-01-05"'), 'occurredAt: '],
  ['occurredAt that no calendar has', withField('"occurredAt":"2026-02-30T10:00:00Z"'), 'occurredAt: '],
];

describe('parseMessage refuses', () => {
  it.each(table)('%s', (_why, body, detail) => {
    expect(refusal(body).detail).toContain(detail);
  });

  it('a body of more than 256 KiB, counted in bytes', () => {
    const filled = (bytes: number) => {
      const head = `{${ids},"payload":"`;
      const room = bytes - head.length - 2;
      return `${head}${'é'.repeat(Math.floor(room / 2))}${'a'.repeat(room % 2)}"}`;
    };
    expect(Buffer.byteLength(filled(message.maxBytes))).toBe(message.maxBytes);
    expect(parseMessage(filled(message.maxBytes)).ok).toBe(true);
    expect(refusal(filled(message.maxBytes + 1)).detail).toBe('body is 262145 bytes; at most 262144 are accepted');
  });

  it.each(['endpointId', 'v', 'eventType', 'resend', 'payloadBase64'])('50,000 levels of nesting in %s, without throwing', (field) => {
    const members = { endpointId: '"acme"', eventId: '"evt_1"', payload: '{}', [field]: deep(50_000) };
    if (field === 'payloadBase64') Reflect.deleteProperty(members, 'payload');
    const body = `{${Object.entries(members).map(([name, source]) => `"${name}":${source}`).join(',')}}`;
    expect(refusal(body).detail).toContain(`${field}: `);
  });

  it('with a detail of bounded length, whatever the keys are called', () => {
    const many = Array.from({ length: 20_000 }, (_, i) => `"k${i}":1`).join(',');
    for (const body of [withField(`"${'k'.repeat(200_000)}":1`), withField(many)]) {
      expect(refusal(body).detail.length).toBeLessThan(1_000);
    }
  });
});

describe('a refusal', () => {
  it('names the ids that were legible, so that the dead letter is found under its endpoint', () => {
    expect(refusal(withField('"x":1'))).toMatchObject({ endpointId: 'acme', eventId: 'evt_1' });
    expect(refusal(id('eventId', 'evt.1'))).toMatchObject({ endpointId: 'x', eventId: undefined });
    expect(refusal('[]')).toMatchObject({ endpointId: undefined, eventId: undefined });
  });

  it.each([
    ['a number as payload', (text: string) => whole(`${ids},"payload":${text.replaceAll(/\D/g, '')}`)],
    ['a list as payloadBase64', (text: string) => whole(`${ids},"payloadBase64":["${text}"]`)],
    ['two payloads', (text: string) => whole(`${ids},"payload":${JSON.stringify({ [text]: text })},"payloadBase64":"e30="`)],
    ['bad base64', (text: string) => whole(`${ids},"payloadBase64":${JSON.stringify(text)}`)],
    ['an unknown key', (text: string) => whole(`${ids},"payload":${JSON.stringify({ text })},"other":1`)],
    ['a bad id', (text: string) => whole(`"endpointId":"a.b","eventId":"evt_1","payload":${JSON.stringify([text])}`)],
    ['a lone surrogate', (text: string) => whole(`${ids},"payload":"${text}\\ud83d"`)],
    ['another version', (text: string) => whole(`${ids},"v":2,"payload":${JSON.stringify(text)}`)],
    ['payload twice', (text: string) => whole(`${ids},"payload":${JSON.stringify(text)},"payload":{}`)],
  ])('never quotes the payload: %s', (_why, body) => {
    const text = 'card-4111-1111-1111-1111';
    expect(refusal(body(text)).detail).not.toContain('4111');
  });

  it('is an answer, never an exception, for any text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.json(), fc.json().map((json) => `{${ids},"payload":{},"v":${json}}`)), (body) => {
        const parsed = parseMessage(body);
        if (!parsed.ok) expect(parsed.detail).not.toBe('');
      }),
      { numRuns: 500 },
    );
  });
});
