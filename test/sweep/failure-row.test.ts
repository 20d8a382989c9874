/** What counts as a row of failures: attempts do, silence of the traffic and an operator's question do not (R12). */
import { beforeEach, expect, it, vi } from 'vitest';
import { toLane } from '../../lambdas/shared/adapters/dynamodb-lane-item.ts';
import { escalation as limits } from '../../lambdas/shared/limits/numbers.ts';
import { dayMs, EscalateHarness, minuteMs } from '../support/escalate-harness.ts';

let e: EscalateHarness;
beforeEach(async () => void (e = await EscalateHarness.create()));

it.each([400, 503, 'silent'] as const)('one failure (%s) and a week without traffic pause nobody', async (ending) => {
  await e.attempts(1, ending);
  e.h.clock.advance(limits.pauseAfterMs + minuteMs);
  await e.run();
  expect([e.steps(), (await e.config())?.status]).toEqual([[], 'enabled']);
});

it('an hour without an answer, and a week in which all sending is stopped, pause nobody', async () => {
  for (let i = 0; i < 60; i++) {
    await e.attempts(1, 'silent');
    e.h.clock.advance(minuteMs);
  }
  await e.run();
  e.h.clock.advance(limits.pauseAfterMs);
  await e.next();
  expect([e.steps(), (await e.config())?.status]).toEqual([['alert'], 'enabled']);
});

it('a burst of answered failures, and a day without traffic, disable nobody', async () => {
  await e.attempts(limits.disableFrom, 400);
  await e.run();
  e.h.clock.advance(limits.disableAfterMs);
  await e.run();
  expect([e.steps(), (await e.config())?.status]).toEqual([['alert'], 'enabled']);
  await e.attempts(1, 400);
  await e.run();
  expect(e.steps()).toEqual(['alert', 'disable']);
});

it('an answer in between begins the week anew', async () => {
  for (let day = 0; day < 6; day++, e.h.clock.advance(dayMs)) await e.attempts(2, 'silent');
  await e.attempts(1, 503);
  for (let day = 0; day < 7; day++, e.h.clock.advance(dayMs)) await e.attempts(2, 'silent');
  await e.run();
  expect(e.steps()).toEqual(['warn']);
  await e.attempts(1, 'silent');
  await e.next();
  expect(e.steps()).toEqual(['warn', 'pause']);
});

it('an operator\'s pings add nothing to a row, and one that is accepted ends it', async () => {
  await e.attempts(9, 'silent');
  const before = await e.h.lane();
  for (const ending of ['silent', 503, 404] as const) await e.ping(ending);
  const { failures, row } = await e.h.lane();
  expect([failures, row]).toEqual([before.failures, before.row]);
  await e.ping(200);
  expect(await e.h.lane()).toMatchObject({ failures: 0, row: undefined });
});

it('a give-back says whether the lane had a row when it was admitted', async () => {
  const giveBack = vi.spyOn(e.h.store.lanes, 'giveBack');
  await e.attempts(2, 503);
  await e.attempts(1, 'silent');
  expect(giveBack.mock.calls.map(([give]) => give.failed)).toMatchObject([{ answered: 1, isFirst: true }, { answered: 1, isFirst: false }, { answered: 0, isFirst: false }]);
});

it('what is left of a row whose end an older version of the program has written is no row', () => {
  const item = { slots: 8, avail: 8, cfg: 'V1', leases: {}, claims: {}, rs: 1, ra: 99, rl: 2, rt: 3, ru: 1 };
  expect(toLane({ ...item, failures: 0 }).row).toBeUndefined();
  expect(toLane({ ...item, failures: 3 }).row).toEqual({ sinceEpochMs: 1, answered: 99, answeredEpochMs: 2, lastEpochMs: 3, unansweredEpochMs: 1 });
});
