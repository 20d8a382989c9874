/** The explorer over every world. Seconds for most; the ones that are large by what may go wrong in them take half a minute. */
import { describe, expect, it } from 'vitest';
import { catchers, nameOf } from './catchers.ts';
import { explore } from './explore.ts';
import { worldNames, worldOf } from './worlds.ts';

const known = new Set(catchers.map(nameOf));

describe('every state of the world', () => {
  it.each(worldNames)('%s holds what must hold', { timeout: 240_000 }, async (name) => {
    const { broken, complete, states, clauses } = await explore(worldOf(name));
    expect(broken).toBeUndefined();
    expect(complete).toBe(true);
    // A world in which nothing can happen would also hold.
    expect(states).toBeGreaterThan(100);
    // A clause that is new needs a world in which its absence shows.
    expect(clauses.map(nameOf).filter((clause) => !known.has(clause))).toEqual([]);
  });
});
