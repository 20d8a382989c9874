import { describe, expect, it } from 'vitest';
import { parseConfig, secretsFor, withSettings } from '../../bin/cli/endpoint-document.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { deliver } from '../../lambdas/shared/limits/numbers.ts';
import { parseBodySecret, parseSecret } from '../../lambdas/shared/limits/secret.ts';
import { secret } from '../support/builders.ts';

const document = { endpointId: 'acme', url: 'https://acme.example/hooks' };
const within = (timeoutS: number) => ({ deliverLimits: { ...deliver, timeoutS }, egress: defaultEgress });

describe('parseConfig', () => {
  it('completes a document with the defaults', () => {
    expect(parseConfig(document, within(30))).toMatchObject({ maxInFlight: 8, budgetsMs: { total: 15_000 }, retry: { attempts: 12 } });
  });

  it('refuses budgets that do not fit the timeout of this very stack, and shows the sum (T3)', () => {
    expect(() => parseConfig(document, within(20))).toThrow(/setup 3000.*write 5000.*read 10000.*20000/);
    expect(parseConfig(withSettings(document, ['budgetsMs={"setup":1000,"write":1000,"read":3000,"total":5000}']), within(20)).budgetsMs.total).toBe(5_000);
  });

  it('refuses a destination that this very stage does not let its senders reach (T8)', () => {
    const stage = (egress: object) => ({ ...within(30), egress: { ...defaultEgress, ...egress } });
    const to = (url: string) => withSettings(document, [`url=${url}`]);
    expect(() => parseConfig(to('http://acme.example/'), stage({}))).toThrow(/url: must be https, not http/);
    expect(parseConfig(to('http://acme.example/'), stage({ http: true })).url).toBe('http://acme.example/');
    expect(() => parseConfig(to('https://acme.example:8443/'), stage({ ports: [443] }))).toThrow(/url: must use port 443, not 8443/);
    expect(() => parseConfig(to('https://[fd00:ec2::254]/'), stage({}))).toThrow(/url: must not lead to fd00:ec2::254: uniqueLocal/);
    for (const [lookup, problem] of [
      ['https://10.0.0.1/{eventId}', /lookup\.url: .*10\.0\.0\.1: private/],
      ['https://169.254.169.254/{eventId}', /lookup\.url: .*169\.254/],
      ['https://[::1]/?id={eventId}', /lookup\.url: .*loopback/],
      ['http://api.example.com/{eventId}', /lookup\.url: /],
    ] as const) {
      expect(() => parseConfig(withSettings(to('https://8.8.8.8/'), [`lookup={"url":"${lookup}","match":{"$.id":"eventId"}}`]), stage({}))).toThrow(problem);
    }
    expect(() => parseConfig(withSettings(to('https://10.0.0.1/'), ['budgetsMs.read=19999']), stage({}))).toThrow(/10\.0\.0\.1: private.*\n.*read 19999/);
  });

  it('lets an endpoint be disabled that a narrowed stage would refuse, and not be enabled again', () => {
    const stage = { ...within(20), egress: { ...defaultEgress, deny: ['8.8.8.0/24'] } };
    const stored = withSettings(document, ['url=https://8.8.8.8/']);
    expect(parseConfig(withSettings(stored, ['status=disabled']), stage).status).toBe('disabled');
    expect(() => parseConfig(withSettings(stored, ['status=enabled']), stage)).toThrow(/url: must not lead to 8\.8\.8\.8.*\n.*20000/);
  });

  it('names every fault at once', () => {
    const faulty = withSettings(document, ['maxInFlight=0', 'retry.attempts=99', 'colour=blue', 'url=ftp://x']);
    expect(() => parseConfig(faulty, within(30))).toThrow(/url: must be https.*\n.*maxInFlight.*\n.*retry\.attempts.*\n.*colour: unknown key/);
  });
});

describe('secretsFor', () => {
  const [standard, hub256] = [{ scheme: 'standard' }, { scheme: 'hub256' }] as const;
  const hmac = { scheme: 'hmac-body', header: 'x-a', prefix: '', encoding: 'hex' } as const;
  const none = { secrets: [], bodySecret: undefined };
  const random = (bytes: number) => Buffer.alloc(bytes, 0xab);

  it('makes what a scheme needs and nothing has, and only that', () => {
    const one = secretsFor([standard], undefined, none, random);
    expect(one).toEqual({ secrets: [one.made.secret], bodySecret: undefined, made: { secret: one.made.secret } });
    expect(parseSecret(one.made.secret ?? '')).toMatchObject({ ok: true, key: random(32) });
    const other = secretsFor([hub256], undefined, none, random);
    expect(other).toEqual({ secrets: [], bodySecret: other.made.bodySecret, made: { bodySecret: other.made.bodySecret } });
    expect(parseBodySecret(other.made.bodySecret ?? '')).toMatchObject({ ok: true, secret: 'ab'.repeat(32) });
    expect(Object.keys(secretsFor([standard, hub256], undefined, none, random).made)).toEqual(['secret', 'bodySecret']);
  });

  it('keeps what is stored, also of a kind that no scheme needs now', () => {
    const stored = { secrets: [secret], bodySecret: 'Jefe' };
    for (const signing of [[standard], [hub256], [hmac], [standard, hmac]]) expect(secretsFor(signing, stored, none, random)).toEqual({ ...stored, made: {} });
    expect(secretsFor([standard], { secrets: [], bodySecret: 'Jefe' }, none, random)).toMatchObject({ bodySecret: 'Jefe', made: { secret: expect.any(String) as string } });
  });

  it('takes what is imported instead, each kind on its own', () => {
    const stored = { secrets: [secret], bodySecret: 'Jefe' };
    expect(secretsFor([hub256], stored, { secrets: [], bodySecret: 'other\n' }, random)).toEqual({ secrets: [secret], bodySecret: 'other', made: {} });
    const newer = `whsec_${Buffer.alloc(24).toString('base64')}`;
    expect(secretsFor([standard], stored, { secrets: [newer, secret], bodySecret: undefined }, random)).toEqual({ secrets: [newer, secret], bodySecret: 'Jefe', made: {} });
  });

  it('makes none for hmac-body: its receiver has one already', () => {
    for (const signing of [[hmac], [hub256, hmac]]) expect(() => secretsFor(signing, undefined, none, random)).toThrow(/bodySecret: .*--body-secret/);
  });

  it('refuses what is odd without quoting it', () => {
    const refusal = (imported: Parameters<typeof secretsFor>[2]) => {
      try {
        return JSON.stringify(secretsFor([hub256], undefined, imported, random));
      } catch (error) {
        return String(error);
      }
    };
    expect(refusal({ secrets: [], bodySecret: 'top\nsecret' })).toMatch(/bodySecret: must not hold control characters/);
    expect(refusal({ secrets: [], bodySecret: secret })).toMatch(/bodySecret: must not start with whsec_(?!.*Bwc)/);
    expect(refusal({ secrets: ['topsecret'], bodySecret: 'x' })).toMatch(/secret: must start with whsec_(?!.*topsecret)/);
  });
});

describe('withSettings', () => {
  it('reads JSON where it is JSON, text where it is not, and leaves the document alone', () => {
    expect(withSettings(document, ['a.b=1', 'a.c=x', 'd=null', 'e=[1]', 'f=a=b'])).toMatchObject({ a: { b: 1, c: 'x' }, d: null, e: [1], f: 'a=b' });
    expect(document).not.toHaveProperty('a');
  });

  it.each(['novalue', '=1', '__proto__.x=1', 'a.__proto__.x=1'])('refuses %s', (setting) => {
    expect(() => withSettings(document, [setting])).toThrow(/--set/);
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });
});
