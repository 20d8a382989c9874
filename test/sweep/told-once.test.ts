/** That nothing is told without end, and nothing that is not so (R12: every step notifies once). */
import { beforeEach, describe, expect, it } from 'vitest';
import { escalation as limits } from '../../lambdas/shared/limits/numbers.ts';
import type { EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { endpointOf } from '../support/builders.ts';
import { dayMs, EscalateHarness, hourMs, minuteMs } from '../support/escalate-harness.ts';

let e: EscalateHarness;
beforeEach(async () => void (e = await EscalateHarness.create()));

/** Answers nothing well for a day, and is disabled. */
async function disabled(): Promise<void> {
  await e.attempts(1, 400);
  e.h.clock.advance(limits.disableAfterMs);
  await e.attempts(limits.disableFrom - 1, 400);
  await e.run();
}

/** Answers nothing for a week, and would be paused by the next run. */
async function unanswered(): Promise<void> {
  for (let day = 0; day < 7; day++, e.h.clock.advance(dayMs)) await e.attempts(2, 'silent');
  await e.attempts(1, 'silent');
}

/** As an operator's command writes it. */
async function put(status: EndpointConfig['status'], version: string): Promise<void> {
  await e.h.store.put(endpointOf({ tenantId: 'shop', status }, version));
}

describe('one that is flagged', () => {
  it('is told once a day where it refuses one kind of event and takes the others', async () => {
    for (let minute = 0; minute < 24 * 60; minute += 30) {
      await e.attempts(1, 200);
      await e.next();
      await e.attempts(1, 404);
      await e.next();
      e.h.clock.advance(28 * minuteMs);
    }
    expect(e.steps()).toEqual(['refusing']);
    await e.attempts(1, 200);
    await e.next();
    await e.attempts(1, 404);
    await e.next();
    expect(e.steps()).toEqual(['refusing', 'refusing']);
  });

  it('is told once of each where it refuses in two ways by turns', async () => {
    for (let i = 0; i < 9; i++) {
      await e.attempts(1, i % 2 === 0 ? 404 : 401);
      await e.next();
    }
    expect(e.fake.notices.map(({ text }) => /as (\S+):/.exec(text)?.[1])).toEqual(['not-found', 'unauthorized']);
  });

  it('is not told again while it stays so', async () => {
    await e.attempts(1, 404);
    for (let day = 0; day < 10; day++, e.h.clock.advance(dayMs)) await e.next();
    expect(e.steps()).toEqual(['refusing']);
  });
});

describe('one that fails by turns', () => {
  it('is told once an hour', async () => {
    for (let minute = 0; minute < 180; minute += 2) {
      await e.attempts(10, 503);
      await e.next();
      await e.attempts(1, 200);
      await e.next();
    }
    expect(e.steps()).toEqual(['warn', 'recovered', 'warn', 'recovered', 'warn', 'recovered']);
  });

  it('is told once an hour also where it fails whenever the sweep looks', async () => {
    for (let minute = 0; minute < 120; minute++) {
      await e.attempts(1, 200);
      await e.attempts(10, 503);
      await e.next();
    }
    expect(e.steps()).toEqual(['warn', 'warn']);
  });

  it('is warned of after that hour, if it fails still', async () => {
    await e.attempts(10, 503);
    await e.run();
    await e.attempts(1, 200);
    await e.next();
    await e.attempts(50, 503);
    for (let minute = 0; minute < 59; minute++) await e.next();
    expect(e.steps()).toEqual(['warn', 'recovered']);
    await e.next();
    await e.next();
    expect(e.steps()).toEqual(['warn', 'recovered', 'alert']);
  });

  it('is disabled and paused at any time', async () => {
    await unanswered();
    await e.h.store.lanes.moveTold('acme', 'row', undefined, { what: 'recovered@1', atEpochMs: e.h.clock.nowEpochMs(), isTold: true });
    await e.run();
    expect(e.steps()).toEqual(['pause']);
  });

  it('is told well only where somebody was told that it was not', async () => {
    await e.attempts(10, 503);
    await e.run({ notices: { publish: () => Promise.reject(new Error('away')) } });
    await e.attempts(1, 200);
    await e.next();
    await e.next();
    expect(e.steps()).toEqual([]);
  });
});

it.each([['well', [[10, 503], [1, 200]]], ['not flagged', [[1, 404], [1, 200]]]] as const)('the lane of one that is %s again has no mark left after a day', async (_what, attempts) => {
  for (const [n, ending] of attempts) {
    await e.attempts(n, ending);
    await e.next();
  }
  expect((await e.h.lane()).told.size).toBe(1);
  e.h.clock.advance(dayMs);
  await e.next();
  expect((await e.h.lane()).told).toEqual(new Map());
});

describe('one that succeeds while its status is changed', () => {
  it('stays disabled, and nobody is told that it is well', async () => {
    await e.attempts(1, 400);
    e.h.clock.advance(limits.disableAfterMs);
    await e.attempts(limits.disableFrom - 1, 400);
    const late = await e.begun(200);
    await e.run();
    await late.end();
    for (let i = 0; i < 3; i++) await e.next();
    expect([e.steps(), (await e.config())?.status, (await e.h.lane()).told.get('row')]).toMatchObject([['disable'], 'disabled', { isTold: true }]);
  });

  it('is sent to again where it was paused for it did not answer', async () => {
    await unanswered();
    const late = await e.begun(200);
    await e.run();
    expect((await e.config())?.status).toBe('paused');
    await late.end();
    for (let i = 0; i < 3; i++) await e.next();
    const { status, pauses } = (await e.config()) ?? {};
    expect([e.steps(), status, pauses]).toEqual([['pause', 'recovered'], 'enabled', [{ fromEpochMs: expect.any(Number) as number, toEpochMs: expect.any(Number) as number }]]);
  });

  it('is sent to again by the next run where the one that was at it died', async () => {
    await unanswered();
    const late = await e.begun(200);
    await e.run();
    await late.end();
    await e.next({ changeStatus: () => Promise.resolve('busy') });
    expect([e.steps(), (await e.config())?.status]).toEqual([['pause'], 'paused']);
    await e.next();
    expect([e.steps(), (await e.config())?.status]).toEqual([['pause', 'recovered'], 'enabled']);
  });

  it('is left to a ping that asks it again, until that has had its time', async () => {
    await unanswered();
    await e.run();
    // As sluice endpoint ping writes it.
    const { version } = (await e.h.store.endpoints.read('acme')) ?? {};
    const note = { what: (await e.h.lane()).told.get('row')?.what ?? '', atEpochMs: e.h.clock.nowEpochMs() + 10 * minuteMs, isTold: false };
    await e.h.store.changeStatus({ endpointId: 'acme', version: version ?? '' }, { fields: { status: 'enabled' }, atEpochMs: 1, told: { subject: 'row', note } });
    for (let minute = 0; minute < 10; minute++) await e.next();
    expect((await e.config())?.status).toBe('enabled');
    await e.next();
    expect([(await e.config())?.status, e.steps()]).toEqual(['paused', ['pause', 'pause']]);
  });

  it('stays paused by an operator', async () => {
    await e.attempts(20, 503);
    const late = await e.begun(200);
    await put('paused', 'V2');
    await e.h.store.lanes.moveTold('acme', 'row', undefined, { what: 'warn@1', atEpochMs: 1, isTold: true });
    await late.end();
    await e.next();
    await e.next();
    expect([e.steps(), (await e.config())?.status]).toEqual([[], 'paused']);
  });
});

describe('the endpoint itself', () => {
  const readsOf = async (runs: number) => {
    let reads = 0;
    for (let i = 0; i < runs; i++) await e.next({ endpoints: { read: (id) => (reads++, e.h.store.endpoints.read(id)) } });
    return reads;
  };

  it('is not read again once it is disabled, however long ago it answered', async () => {
    await disabled();
    e.h.clock.advance(8 * dayMs);
    expect([await readsOf(5), e.steps()]).toEqual([0, ['disable']]);
  });

  it('is not read again once it is disabled, also where a late answer was a success', async () => {
    await e.attempts(1, 400);
    e.h.clock.advance(limits.disableAfterMs);
    await e.attempts(limits.disableFrom - 1, 400);
    const late = await e.begun(200);
    await e.run();
    await late.end();
    expect(await readsOf(5)).toBe(0);
  });

  it('is not read again once it is gone, whatever it failed before', async () => {
    await e.attempts(1, 400);
    e.h.clock.advance(limits.disableAfterMs);
    await e.attempts(limits.disableFrom - 1, 400);
    await e.attempts(1, 410);
    await e.next();
    await e.next();
    expect([await readsOf(5), e.steps()]).toEqual([0, ['alert', 'gone']]);
  });

  it('is not read again once it is paused', async () => {
    await unanswered();
    await e.run();
    e.h.clock.advance(hourMs);
    expect([await readsOf(5), e.steps()]).toEqual([0, ['pause']]);
  });
});
