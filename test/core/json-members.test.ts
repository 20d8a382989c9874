import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonMembers } from '../../lambdas/shared/core/json-members.ts';
import { jsonContainer, jsonSpace, jsonStringLiteral, jsonValue } from '../support/json-arbitraries.ts';

const objectText = fc.array(fc.tuple(jsonSpace, jsonStringLiteral, jsonSpace, jsonSpace, jsonValue, jsonSpace), { maxLength: 5 });

describe('jsonMembers', () => {
  it('gives every member in order, with the exact source of its value', () => {
    fc.assert(
      fc.property(jsonSpace, objectText, (outer, members) => {
        const text = `${outer}{${members.map(([a, name, b, c, value, d]) => `${a}${name}${b}:${c}${value}${d}`).join(',')}}${outer}`;
        expect(jsonMembers(text)).toEqual(members.map(([, name, , , value]) => ({ name: JSON.parse(name) as string, source: value })));
      }),
      { numRuns: 400 },
    );
  });

  it('agrees with JSON.parse on names and values, the last of equal names winning', () => {
    fc.assert(
      fc.property(jsonContainer, (text) => {
        const parsed: unknown = JSON.parse(text);
        const members = jsonMembers(text);
        const entries = members?.map(({ name, source }): [string, unknown] => [name, JSON.parse(source)]);
        expect(entries === undefined ? undefined : Object.fromEntries(entries)).toEqual(Array.isArray(parsed) ? undefined : parsed);
      }),
      { numRuns: 400 },
    );
  });

  it.each(['[]', 'null', '"{}"', ' 7', 'true'])('knows no members of %s', (text) => {
    expect(jsonMembers(text)).toBeUndefined();
  });

  it.each([
    ['{}', []],
    [' { } ', []],
    ['{"":1}', [{ name: '', source: '1' }]],
    ['{"a":1}', [{ name: 'a', source: '1' }]],
    ['{"a":"}","b":"\\\\"}', [{ name: 'a', source: '"}"' }, { name: 'b', source: '"\\\\"' }]],
    ['{"a":[{"b":"]"}],"c":-1e3}', [{ name: 'a', source: '[{"b":"]"}]' }, { name: 'c', source: '-1e3' }]],
    ['{"a":1,"a":2}', [{ name: 'a', source: '1' }, { name: 'a', source: '2' }]],
  ])('%s', (text, members) => {
    expect(jsonMembers(text)).toEqual(members);
  });
});
