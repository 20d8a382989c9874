import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bodyOf } from '../../lambdas/shared/core/body.ts';
import { hashOf, claimKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { Message } from '../../lambdas/shared/core/parse.ts';
import { jsonValue } from '../support/json-arbitraries.ts';

function messageOf(payload: string | Buffer, more: Partial<Message> = {}): Message {
  const bytes = Buffer.from(payload);
  return {
    endpointId: 'acme', eventId: 'evt_1', eventType: undefined, occurredAt: undefined, resend: 0,
    payload: bytes, payloadHash: hashOf(bytes), claimKey: claimKeyOf('evt_1'), ...more,
  };
}

describe('bodyOf', () => {
  it('raw is the payload itself, the very buffer', () => {
    const message = messageOf(Buffer.from([0xff, 0]));
    const body = bodyOf({ body: 'raw' }, message);
    expect(body.ok && body.bytes === message.payload).toBe(true);
  });

  it('envelope splices the payload in as it came', () => {
    const message = messageOf('{"n": 1.0, "n":7615917337495251231}', { eventType: 'a.b', occurredAt: '2026-01-05T10:00:00Z' });
    const body = bodyOf({ body: 'envelope' }, message);
    expect(body.ok && body.bytes.toString()).toBe('{"id":"evt_1","type":"a.b","timestamp":"2026-01-05T10:00:00Z","data":{"n": 1.0, "n":7615917337495251231}}');
  });

  it('envelope leaves out what the message does not say', () => {
    const body = bodyOf({ body: 'envelope' }, messageOf('[]'));
    expect(body.ok && body.bytes.toString()).toBe('{"id":"evt_1","data":[]}');
  });

  it('envelope of any JSON is JSON with that value in it, and the same every time', () => {
    fc.assert(
      fc.property(jsonValue, (text) => {
        const [one, two] = [bodyOf({ body: 'envelope' }, messageOf(text)), bodyOf({ body: 'envelope' }, messageOf(text))];
        if (!one.ok) throw new Error(one.problem);
        expect((JSON.parse(one.bytes.toString()) as { data: unknown }).data).toEqual(JSON.parse(text));
        expect(one.bytes.toString()).toContain(`"data":${text}}`);
        expect(two).toEqual(one);
      }),
    );
  });

  it.each([
    ['text', 'hello'],
    ['nothing', ''],
    ['cut JSON', '{"a":'],
    ['JSON behind a byte order mark', '\ufeff{}'],
    ['a second member that ends the envelope', '{},"evil":{}'],
    ['bytes that are no UTF-8', Buffer.from([0x22, 0xc3, 0x28, 0x22])],
  ])('envelope refuses %s', (_why, payload) => {
    expect(bodyOf({ body: 'envelope' }, messageOf(payload))).toEqual({ ok: false, problem: 'body "envelope" needs a payload that is JSON' });
  });
});
