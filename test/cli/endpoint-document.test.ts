import { describe, expect, it } from 'vitest';
import { parseConfig, withSettings } from '../../bin/cli/endpoint-document.ts';
import { deliver } from '../../lambdas/shared/limits/numbers.ts';

const document = { endpointId: 'acme', url: 'https://acme.example/hooks' };
const within = (timeoutS: number) => ({ ...deliver, timeoutS });

describe('parseConfig', () => {
  it('completes a document with the defaults', () => {
    expect(parseConfig(document, within(30))).toMatchObject({ maxInFlight: 8, budgetsMs: { total: 15_000 }, retry: { attempts: 12 } });
  });

  it('refuses budgets that do not fit the timeout of this very stack, and shows the sum (T3)', () => {
    expect(() => parseConfig(document, within(20))).toThrow(/setup 3000.*write 5000.*read 10000.*20000/);
    expect(parseConfig(withSettings(document, ['budgetsMs={"setup":1000,"write":1000,"read":3000,"total":5000}']), within(20)).budgetsMs.total).toBe(5_000);
  });

  it('names every fault at once', () => {
    const faulty = withSettings(document, ['maxInFlight=0', 'retry.attempts=99', 'colour=blue', 'url=ftp://x']);
    expect(() => parseConfig(faulty, within(30))).toThrow(/url: must be https.*\n.*maxInFlight.*\n.*retry\.attempts.*\n.*colour: unknown key/);
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
