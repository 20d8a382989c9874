import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { describe, expect, it } from 'vitest';
import { itemSizeBytes, writeUnitsOf } from '../../bench/item-size.ts';

/** Of the value alone: the attribute's name takes one byte. */
const valueBytes = (value: AttributeValue) => itemSizeBytes({ a: value }) - 1;

describe('the size of a value', () => {
  it.each<[string, AttributeValue, number]>([
    ['an empty string', { S: '' }, 0],
    ['ASCII', { S: 'acme-prod' }, 9],
    ['UTF-8 beyond it', { S: 'José 東京🌊' }, 16],
    ['bytes', { B: new Uint8Array(5) }, 5],
    ['null', { NULL: true }, 1],
    ['true', { BOOL: true }, 1],
    ['false', { BOOL: false }, 1],
    ['an empty list', { L: [] }, 3],
    ['an empty map', { M: {} }, 3],
    ['a list: 3, and an element 1 and its own', { L: [{ S: 'abc' }, { N: '20' }] }, 3 + 1 + 3 + 1 + 2],
    ['a map: 3, and an element 1, its name and its own', { M: { ab: { S: 'c' } } }, 3 + 1 + 2 + 1],
    ['a list in a map', { M: { k: { L: [{ BOOL: true }] } } }, 3 + 1 + 1 + (3 + 1 + 1)],
  ])('%s', (_what, value, bytes) => {
    expect(valueBytes(value)).toBe(bytes);
  });

  it.each([
    ['0', 1],
    ['0.00', 1],
    ['-0', 1],
    ['7', 2],
    ['42', 2],
    ['100', 2],
    ['123', 3],
    ['-123', 4],
    ['0.0012', 2],
    ['00120', 2],
    ['1.50', 2],
    ['1e20', 2],
    ['-1.25E-7', 4],
    ['1764460000000', 4],
    ['1764460000123', 8],
    ['12345678901234567890123456789012345678', 20],
  ])('the number %s', (text, bytes) => {
    expect(valueBytes({ N: text })).toBe(bytes);
  });

  it('of a set is refused: its rule is not published', () => {
    expect(() => itemSizeBytes({ a: { SS: ['x'] } })).toThrow('no published rule for the size of a value of type SS');
  });
});

describe('the size of an item', () => {
  it('is that of its names and values, without the 100 bytes of indexing', () => {
    expect(itemSizeBytes(marshall({ pk: 'acme', sk: 'lane', slots: 8, 'größe': true }))).toBe(2 + 4 + 2 + 4 + 5 + 2 + 7 + 1);
  });

  it('of a lane by hand: one lease, one claim', () => {
    const lane = { pk: 'acme', leases: { abcdefghijk: [1, 1_764_460_000_123] }, claims: { '0123456789abcdef': ['abcdefghijk', '01234567'] } };
    const leases = 6 + 3 + (1 + 11 + (3 + 1 + 2 + 1 + 8));
    const claims = 6 + 3 + (1 + 16 + (3 + 1 + 11 + 1 + 8));
    expect(itemSizeBytes(marshall(lane))).toBe(2 + 4 + leases + claims);
  });
});

describe('write units', () => {
  it.each([
    [0, 1],
    [1, 1],
    [1_024, 1],
    [1_025, 2],
    [3_072, 3],
  ])('%i bytes take %i', (sizeBytes, units) => {
    expect(writeUnitsOf(sizeBytes)).toBe(units);
  });
});
