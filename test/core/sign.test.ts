import { sign as signHub, verify as verifyHub } from '@octokit/webhooks-methods';
import fc from 'fast-check';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';
import { describe, expect, it } from 'vitest';
import { signatureHeaders, signStandard, type Signer } from '../../lambdas/shared/core/sign.ts';
import { formatBodySecret, formatSecret, parseBodySecret, parseSecret } from '../../lambdas/shared/limits/secret.ts';

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

const github = { secret: "It's a Secret to Everybody", payload: 'Hello, World!', hex: '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17' };

describe('signatureHeaders', () => {
  type Signing = Signer['signing'];
  const acme: Signing[number] = { scheme: 'hmac-body', header: 'X-Acme-Signature', prefix: '', encoding: 'base64' };
  const ofBody = (signing: Signing, bodySecret: string | undefined, body: Buffer) => signatureHeaders({ signing, secrets: [], bodySecret }, 'evt_1', 5, body);
  const idAndTime = { 'webhook-id': 'evt_1', 'webhook-timestamp': '5' };

  it('of hub256 is the known answer of GitHub', () => {
    const headers = { ...idAndTime, 'x-hub-signature-256': `sha256=${github.hex}` };
    expect(ofBody([{ scheme: 'hub256' }], github.secret, Buffer.from(github.payload))).toEqual({ ok: true, headers });
  });

  it.each<[string, Signing[number], Record<string, string>]>([
    ['hex', { ...acme, encoding: 'hex' }, { 'X-Acme-Signature': '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843' }],
    ['base64', acme, { 'X-Acme-Signature': 'W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=' }],
    ['a prefix', { ...acme, prefix: 'HMAC-SHA256 ' }, { 'X-Acme-Signature': 'HMAC-SHA256 W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=' }],
  ])('of hmac-body in %s are the known answer of RFC 4231 (case 2)', (_how, scheme, expected) => {
    expect(ofBody([scheme], 'Jefe', Buffer.from('what do ya want for nothing?'))).toEqual({ ok: true, headers: { ...idAndTime, ...expected } });
  });

  it('are there under any name that a header may have', () => {
    const signed = ofBody([{ ...acme, header: '__proto__' }], 'Jefe', Buffer.from('what do ya want for nothing?'));
    expect(Object.entries(signed.ok ? signed.headers : {})).toContainEqual(['__proto__', 'W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=']);
  });

  it('of several schemes are all there, each as it is alone', () => {
    const [standard, hub256]: Signing = [{ scheme: 'standard' }, { scheme: 'hub256' }] as const;
    const headersOf = (...signing: Signing) => {
      const signed = signatureHeaders({ signing, secrets: [known], bodySecret: github.secret }, 'evt_1', 5, Buffer.from(github.payload));
      return signed.ok ? signed.headers : signed;
    };
    const all = headersOf(acme, standard, hub256);
    expect(all).toEqual({ ...headersOf(acme), ...headersOf(standard), ...headersOf(hub256) });
    expect(all).toEqual({
      ...idAndTime,
      'webhook-signature': signature([known], 'evt_1', 5, Buffer.from(github.payload)),
      'x-hub-signature-256': `sha256=${github.hex}`,
      'X-Acme-Signature': 'dXEH6g6yUJ/CESIczphLijdXC211hsIsRvQ3nIsEPhc=',
    });
  });

  it('agree with the library that receivers of hub256 use, which verifies them, for any secret and text', async () => {
    const secrets = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((secret) => parseBodySecret(secret).ok);
    await fc.assert(
      fc.asyncProperty(secrets, fc.string({ unit: 'grapheme', minLength: 1, maxLength: 200 }), async (secret, payload) => {
        const signed = ofBody([{ scheme: 'hub256' }], secret, Buffer.from(payload));
        const ours = signed.ok ? (signed.headers['x-hub-signature-256'] ?? '') : '';
        expect(ours).toBe(await signHub(secret, payload));
        expect(await verifyHub(secret, payload, ours)).toBe(true);
        expect(await verifyHub(`${secret}x`, payload, ours)).toBe(false);
      }),
    );
  });

  it('of the body sign bytes that are no text, and nothing else', () => {
    const binary = Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28]);
    const valueOf = (body: Buffer, id = 'evt_1', timestampEpochS = 5) => {
      const signed = signatureHeaders({ signing: [acme], secrets: [], bodySecret: 'Jefe' }, id, timestampEpochS, body);
      return signed.ok ? signed.headers['X-Acme-Signature'] : signed.problem;
    };
    expect(valueOf(binary)).not.toBe(valueOf(Buffer.from(binary.toString())));
    expect(valueOf(binary, 'evt_2', 6)).toBe(valueOf(binary));
  });

  it.each<[string, Partial<Signer>, string]>([
    ['no signing secret', { signing: [{ scheme: 'standard' }], bodySecret: 'Jefe' }, 'no signing secret'],
    ['an odd signing secret', { signing: [{ scheme: 'standard' }], secrets: ['topsecret'] }, 'signing secret must start with whsec_'],
    ['no body secret', { signing: [{ scheme: 'hub256' }], secrets: [known] }, 'no body secret'],
    ['no body secret beside a standard one', { signing: [{ scheme: 'standard' }, acme], secrets: [known] }, 'no body secret'],
    ['an empty body secret', { signing: [acme], bodySecret: '' }, 'body secret holds 0 bytes; between 1 and 256 are allowed'],
    ['an odd body secret', { signing: [acme], bodySecret: 'topsecret\nline' }, 'body secret must not hold control characters'],
  ])('are not made with %s; the problem does not quote it', (_why, signer, problem) => {
    const signed = signatureHeaders({ signing: [], secrets: [], bodySecret: undefined, ...signer }, 'evt_1', 5, Buffer.from('x'));
    expect(signed).toMatchObject({ ok: false, problem: expect.stringContaining(problem) as string });
    expect(JSON.stringify(signed)).not.toContain('topsecret');
  });

  it('need no secret of a kind that no scheme uses', () => {
    expect(signatureHeaders({ signing: [{ scheme: 'standard' }], secrets: [known], bodySecret: '' }, 'evt_1', 5, Buffer.from('x'))).toMatchObject({ ok: true });
    expect(ofBody([acme], 'Jefe', Buffer.from('x'))).toMatchObject({ ok: true });
  });
});

describe('parseBodySecret', () => {
  it.each([
    ['as it is', github.secret, github.secret],
    ['of one character', 'x', 'x'],
    ['of 256 bytes', 'x'.repeat(256), 'x'.repeat(256)],
    ['beyond ASCII', 'pässwörd', 'pässwörd'],
    ['from a file', 'Jefe\n', 'Jefe'],
    ['from a file of Windows', 'Jefe\r\n', 'Jefe'],
    ['that names whsec_ elsewhere', 'x_whsec_', 'x_whsec_'],
  ])('takes a secret %s', (_why, text, secret) => {
    expect(parseBodySecret(text)).toEqual({ ok: true, secret, key: Buffer.from(secret) });
  });

  it.each([
    ['nothing', '', 'holds 0 bytes; between 1 and 256 are allowed'],
    ['an empty line', '\n', 'holds 0 bytes'],
    ['257 bytes', 'x'.repeat(257), 'holds 257 bytes'],
    ['129 characters of two bytes', 'é'.repeat(129), 'holds 258 bytes'],
    ['two lines', 'top\nsecret', 'must not hold control characters'],
    ['two line breaks at the end', 'topsecret\n\n', 'must not hold control characters'],
    ['a tab', 'top\tsecret', 'must not hold control characters'],
    ['a control character of Latin-1', 'top\u0085secret', 'must not hold control characters'],
    ['a space before it', ' topsecret', 'must not start or end with white space'],
    ['a space behind it', 'topsecret \n', 'must not start or end with white space'],
    ['a byte order mark', '\ufefftopsecret', 'must not start or end with white space'],
    ['a secret of the other kind', known, 'must not start with whsec_: such a secret belongs to the scheme "standard"'],
  ])('refuses %s, without quoting it', (_why, text, problem) => {
    const parsed = parseBodySecret(text);
    expect(parsed).toMatchObject({ ok: false, problem: expect.stringContaining(problem) as string });
    expect(JSON.stringify(parsed)).not.toMatch(/topsecret|MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw/);
  });

  it('reads what formatBodySecret writes', () => {
    const secret = formatBodySecret(Buffer.alloc(32, 0xab));
    expect(secret).toBe('ab'.repeat(32));
    expect(parseBodySecret(secret)).toMatchObject({ ok: true, secret });
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
