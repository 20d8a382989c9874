import { expect, it } from 'vitest';
import { perObject } from '../../lambdas/shared/core/per-object.ts';

it('computes once for each object, whatever it looks like and however often it is asked', () => {
  const seen: unknown[] = [];
  const nthOf = perObject((list: readonly string[]) => seen.push(list));
  const [one, other] = [['a'], ['a']];
  expect([nthOf(one), nthOf(one), nthOf(other), nthOf(one)]).toEqual([1, 1, 2, 1]);
  expect(seen).toEqual([one, other]);
});
