import { describe, expect, it } from 'vitest';
import { classifyStatus } from '../../lambdas/shared/core/classify.ts';

const retried = new Set([408, 425, 429]);
const named = new Map([[401, 'unauthorized'], [403, 'unauthorized'], [404, 'not-found'], [410, 'gone'], [413, 'payload-refused']]);

/** The matrix of requirement R4, written down once more. */
function expected(status: number) {
  const hundred = Math.floor(status / 100);
  if (hundred === 2) return { kind: 'delivered' };
  if (hundred === 3) return { kind: 'rejected', reason: 'redirected' };
  if (hundred !== 4 || retried.has(status)) return { kind: 'retry' };
  return { kind: 'rejected', reason: named.get(status) ?? 'rejected' };
}

describe('classifyStatus', () => {
  it('follows the matrix over all statuses from 100 to 599', () => {
    const statuses = Array.from({ length: 500 }, (_, i) => 100 + i);
    expect(statuses.map((status) => [status, classifyStatus(status)])).toEqual(statuses.map((status) => [status, expected(status)]));
  });

  it.each([0, 99, 600, 999])('takes %d for the server\'s trouble', (status) => {
    expect(classifyStatus(status)).toEqual({ kind: 'retry' });
  });
});
