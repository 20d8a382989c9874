import fc from 'fast-check';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';
import { describe, expect, it } from 'vitest';
import { signStandard } from '../../lambdas/shared/core/sign.ts';
import { formatSecret, parseSecret } from '../../lambdas/shared/limits/secret.ts';

const known = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const keyOf = (bytes: number) => `whsec_${Buffer.alloc(bytes, 1).toString('base64')}`;

function signature(secrets: readonly string[], id: string, timestampEpochS: number, payload: Buffer): string {
  const signed = signStandard(secrets, id, timestampEpochS, payload);
  if (!signed.ok) throw new Error(signed.problem);
  return signed.signature;
}

describe('signStandard', () => {
  it('gives the known answer of Standard Webhooks', () => {
    const signed = signature([known], 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, Buffer.from('{"test": 2432232314}'));
    expect(signed).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  });

  const secretBytes = fc.uint8Array({ minLength: 24, maxLength: 64 });
  const text = fc.string({ unit: 'grapheme', maxLength: 200 });

  it('agrees with the libraries that receivers use, for any text', () => {
    fc.assert(
      fc.property(secretBytes, fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/), text, (bytes, id, payload) => {
        const secret = formatSecret(Buffer.from(bytes));
        const at = new Date(1_767_600_000_000);
        const ours = signature([secret], id, 1_767_600_000, Buffer.from(payload));
        expect(ours).toBe(new StandardWebhook(secret).sign(id, at, payload));
        expect(ours).toBe(new SvixWebhook(secret).sign(id, at, payload));
      }),
    );
  });

  it('is verified by those libraries, whichever of the secrets they know', () => {
    fc.assert(
      fc.property(secretBytes, secretBytes, text, (one, two, name) => {
        const secrets = [formatSecret(Buffer.from(one)), formatSecret(Buffer.from(two))];
        const nowEpochS = Math.floor(Date.now() / 1_000);
        const payload = Buffer.from(JSON.stringify({ name }));
        const headers = { 'webhook-id': 'evt_1', 'webhook-timestamp': String(nowEpochS), 'webhook-signature': signature(secrets, 'evt_1', nowEpochS, payload) };
        for (const secret of secrets) {
          // Both throw where the signature is not theirs.
          expect(new StandardWebhook(secret).verify(payload.toString(), headers)).toEqual({ name });
          new SvixWebhook(secret).verify(payload, headers);
        }
      }),
    );
  });

  it('signs bytes that are no text', () => {
    const binary = Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28]);
    expect(signature([known], 'a', 1, binary)).not.toBe(signature([known], 'a', 1, Buffer.from(binary.toString())));
  });

  it('gives one signature a secret, in their order', () => {
    const secrets = [keyOf(24), keyOf(32), keyOf(64)];
    const each = secrets.map((secret) => signature([secret], 'evt_1', 5, Buffer.from('x')));
    expect(signature(secrets, 'evt_1', 5, Buffer.from('x'))).toBe(each.join(' '));
  });

  it('changes with id, time and payload', () => {
    const all = [['a', 1, 'x'], ['b', 1, 'x'], ['a', 2, 'x'], ['a', 1, 'y']] as const;
    expect(new Set(all.map(([id, at, payload]) => signature([known], id, at, Buffer.from(payload)))).size).toBe(4);
  });

  it('says what is wrong with a secret, without quoting it', () => {
    expect(signStandard([], 'a', 1, Buffer.from(''))).toEqual({ ok: false, problem: 'no signing secret' });
    const bad = signStandard([known, 'whsec_topsecret'], 'a', 1, Buffer.from(''));
    expect(bad).toMatchObject({ ok: false });
    expect(JSON.stringify(bad)).not.toContain('topsecret');
  });
});

describe('parseSecret', () => {
  it.each([
    ['as it is', known],
    ['with white space around it', ` ${known}\r\n`],
    ['24 bytes', keyOf(24)],
    ['64 bytes', keyOf(64)],
  ])('takes a secret %s', (_why, text) => {
    const parsed = parseSecret(text);
    expect(parsed).toMatchObject({ ok: true, secret: text.trim() });
    if (parsed.ok) expect(parsed.key).toEqual(Buffer.from(text.trim().slice(6), 'base64'));
  });

  it.each([
    ['a version before the prefix', `v1,${known}`, 'must start with whsec_'],
    ['no prefix', known.slice(6), 'must start with whsec_'],
    ['another prefix', known.replace('whsec', 'whpk'), 'must start with whsec_'],
    ['an upper-case prefix', known.replace('whsec', 'WHSEC'), 'must start with whsec_'],
    ['nothing', '', 'must start with whsec_'],
    ['only the prefix', 'whsec_', 'holds 0 bytes; between 24 and 64 are allowed'],
    ['23 bytes', keyOf(23), 'holds 23 bytes'],
    ['65 bytes', keyOf(65), 'holds 65 bytes'],
    ['a newline within', `${known.slice(0, 20)}\n${known.slice(20)}`, 'canonical base64'],
    ['base64url', `whsec_${'-_'.repeat(16)}`, 'canonical base64'],
    ['missing padding', keyOf(25).replace(/=+$/, ''), 'canonical base64'],
    ['a quoted secret', `"${known}"`, 'must start with whsec_'],
  ])('refuses %s', (_why, text, problem) => {
    const parsed = parseSecret(text);
    expect(parsed).toMatchObject({ ok: false, problem: expect.stringContaining(problem) as string });
  });

  it('reads what formatSecret writes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 24, maxLength: 64 }), (bytes) => {
        expect(parseSecret(formatSecret(Buffer.from(bytes)))).toMatchObject({ ok: true, key: Buffer.from(bytes) });
      }),
    );
  });
});
