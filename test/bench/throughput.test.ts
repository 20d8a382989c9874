import { expect, it } from 'vitest';
import { throughputOf } from '../../bench/throughput.ts';

it('the benchmark of throughput compares both sides over both schemes', async () => {
  const { rows, ceilings } = await throughputOf({ warmUpRequests: 20, requests: 40, alternations: 3 }).run(() => undefined);
  const rate = expect.any(Number) as number;
  const row = (scheme: string) => ({ table: expect.any(String) as string, scheme, bare: rate, whole: rate, wholeOverBare: rate, least: rate, most: rate });
  expect(rows).toEqual([row('https'), row('http')]);
  expect(ceilings).toMatchObject([{ min: 0.7, value: rate }, { min: 0.6, value: rate }]);
});
