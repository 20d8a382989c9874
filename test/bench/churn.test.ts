import { expect, it } from 'vitest';
import { churnOf } from '../../bench/churn.ts';

it('the benchmark of churn counts the receives of a backlog', async () => {
  const { rows, ceilings } = await churnOf({ backlogs: [40] }).run(() => undefined);
  const number = expect.any(Number) as number;
  expect(rows).toEqual([
    { table: expect.any(String) as string, backlog: 40, requests: 40, receives: number, receivesAMessage: number, held: number, seconds: number, boundSeconds: 15.65, overIdeal: number },
  ]);
  const [receives, , flat] = ceilings;
  expect(receives).toMatchObject({ max: 3, ok: true });
  expect(receives?.value).toBeGreaterThanOrEqual(1);
  expect(flat).toMatchObject({ value: 1, max: 1.5 });
});
