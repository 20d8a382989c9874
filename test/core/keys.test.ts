import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { claimKeyOf, hashOf, noEndpoint, recordKeyOf, shortHash, syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';
import { idPattern } from '../../lambdas/shared/limits/message-schema.ts';

const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,128}$/);

describe('keys', () => {
  it('hash bytes, not text', () => {
    expect(hashOf(Buffer.from(''))).toBe('47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU');
    expect(hashOf(Buffer.from([0xff]))).not.toBe(hashOf(Buffer.from([0xfe])));
    expect(shortHash(hashOf(Buffer.from('')))).toBe('47DEQpj8');
  });

  it('a claim key is 16 characters of base64url, the same for the same id', () => {
    fc.assert(
      fc.property(id, id, (one, two) => {
        expect(claimKeyOf(one)).toMatch(/^[A-Za-z0-9_-]{16}$/);
        expect(claimKeyOf(one) === claimKeyOf(two)).toBe(one === two);
      }),
    );
  });

  it('record keys of two endpoints or events never collide', () => {
    fc.assert(
      fc.property(id, id, id, id, (endpoint, event, otherEndpoint, otherEvent) => {
        const same = endpoint === otherEndpoint && event === otherEvent;
        expect(recordKeyOf(endpoint, claimKeyOf(event)) === recordKeyOf(otherEndpoint, claimKeyOf(otherEvent))).toBe(same);
      }),
    );
  });

  it('a synthetic key is no delivery\'s key, and the same body finds it again', () => {
    const key = syntheticKeyOf('acme', 'malformed', 'x');
    expect(key).toBe(syntheticKeyOf('acme', 'malformed', 'x'));
    expect(new Set([key, syntheticKeyOf('acme', 'conflict', 'x'), syntheticKeyOf('acme', 'malformed', 'y'), syntheticKeyOf('other', 'malformed', 'x')]).size).toBe(4);
    expect(key.split('#')[1]).not.toMatch(idPattern);
    expect(syntheticKeyOf(undefined, 'malformed', 'x')).toMatch(/^\?#!malformed!/);
    expect(noEndpoint).not.toMatch(idPattern);
  });
});

describe('ulid', () => {
  const random = fc.uint8Array({ minLength: 10, maxLength: 10 });

  it('is 26 characters of Crockford base32, as the specification has it', () => {
    expect(ulid(1_469_918_176_385, new Uint8Array(10))).toBe('01ARYZ6S410000000000000000');
    expect(ulid(0, new Uint8Array(10).fill(255))).toBe('0000000000ZZZZZZZZZZZZZZZZ');
    expect(ulid(2 ** 48 - 1, new Uint8Array(10).fill(255))).toBe('7ZZZZZZZZZZZZZZZZZZZZZZZZZ');
  });

  it('sorts by time, whatever the chance', () => {
    fc.assert(
      fc.property(fc.nat(2 ** 31), fc.nat(1_000), random, random, (epochMs, laterMs, one, two) => {
        const [before, after] = [ulid(epochMs, one), ulid(epochMs + laterMs, two)];
        if (laterMs > 0) expect(before < after).toBe(true);
        else expect(before === after).toBe(Buffer.from(one).equals(Buffer.from(two)));
      }),
    );
  });
});
