import { describe, expect, it } from 'vitest';
import { headersProblem } from '../../lambdas/shared/limits/header.ts';

describe('headersProblem', () => {
  it.each<[string, Record<string, string>]>([
    ['none', {}],
    ['every character that a value may have', { 'x-team': Array.from({ length: 95 }, (_, i) => String.fromCharCode(0x20 + i)).join('') }],
    ['an empty value', { 'x-team': '' }],
    ['every character that a name may have', { "!#$%&'*+-.^_`|~09azAZ": 'a' }],
  ])('lets %s through', (_what, headers) => {
    expect(headersProblem(headers)).toBeUndefined();
  });

  it.each(['', 'x team', 'x:team', 'x-t\u00e9am', 'x-team\r\nx-admin', 'x(team)', '"x"', 'x\t'])('refuses the name %j, wherever it stands', (name) => {
    expect(headersProblem({ [name]: 'a', 'x-other': 'b' })).toBe(`header ${JSON.stringify(name)}: is not a header name (RFC 9110 token)`);
    expect(headersProblem({ 'x-other': 'b', [name]: 'a' })).toBe(`header ${JSON.stringify(name)}: is not a header name (RFC 9110 token)`);
  });

  it.each(['topsecret\r\nx-admin: 1', 'topsecret\n', 'topsecret\r', 'topsecret\0', 'topsecret\t', 'topsecret\x7f', 'topsecret\u00e9', 'topsecret苗'])('refuses the value %j, wherever it stands, without quoting it', (value) => {
    expect(headersProblem({ authorization: value, 'x-other': 'b' })).toBe('header authorization: may hold visible ASCII and spaces only');
    expect(headersProblem({ 'x-other': 'b', authorization: value })).toBe('header authorization: may hold visible ASCII and spaces only');
  });
});
