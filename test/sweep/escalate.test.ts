/** Who is told of an endpoint that fails, when, and how often (R12, R4). */
import { beforeEach, describe, expect, it } from 'vitest';
import { escalate, type EscalateDeps } from '../../lambdas/sweep/escalate.ts';
import { stepOf } from '../../lambdas/shared/core/escalation.ts';
import { escalation as limits } from '../../lambdas/shared/limits/numbers.ts';
import { bodyOf, endpointOf, receivedOf, t0EpochMs, timed } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { fakeAttention, type FakeAttention } from '../support/fake-attention.ts';

let h: Harness;
let fake: FakeAttention;
beforeEach(async () => {
  h = await Harness.create({ tenantId: 'shop', maxInFlight: 32, breaker: { connectFailures: 100, minAttempts: 1_000 } });
  fake = fakeAttention(h);
});

const minuteMs = 60_000;
const dayMs = 86_400_000;
const depsOf = (more: Partial<EscalateDeps> = {}): EscalateDeps => ({ clock: h.clock, telemetry: h.telemetry, lanes: h.store.lanes, ...fake.deps, ...more });
const run = async (more: Partial<EscalateDeps> = {}, endpointId = 'acme') => escalate(depsOf(more), [{ endpointId, lane: (await h.store.lane(endpointId)) as never }]);
/** One minute later, as the sweep comes. */
const next = async (more: Partial<EscalateDeps> = {}) => {
  h.clock.advance(minuteMs);
  await run(more);
};
const steps = () => fake.notices.map(({ step }) => step);

let events = 0;
async function attempts(n: number, status: number | 'silent'): Promise<void> {
  h.http.script = () => (status === 'silent' ? { kind: 'unsent', phase: 'connect', cause: 'timeout', ...timed(3_000) } : { kind: 'answered', status, bodyExcerpt: '', ...timed(50) });
  for (let i = 0; i < n; i++) await h.run([receivedOf(bodyOf({ eventId: `e${++events}` }), { sentEpochMs: h.clock.nowEpochMs() })]);
}

describe('an endpoint that fails', () => {
  it('is warned of at the tenth attempt in a row, alerted at the fiftieth, once each, and told well with its first success', async () => {
    await attempts(9, 503);
    await run();
    expect(steps()).toEqual([]);
    await attempts(1, 503);
    await run();
    await next();
    await next();
    expect(steps()).toEqual(['warn']);
    expect(fake.notices[0]).toMatchObject({
      v: 1, endpointId: 'acme', tenantId: 'shop', text: 'acme: 10 attempts in a row failed in 1 min (last: 503). 0 waiting, none lost. Next: sluice status acme',
      evidence: { slots: 32, window: { attempts: 10, failed: 10 }, says: expect.stringContaining('95 of 100') as string },
    });
    await attempts(40, 503);
    await next();
    await next();
    expect(steps()).toEqual(['warn', 'alert']);
    await attempts(1, 200);
    await next();
    await next();
    expect(steps()).toEqual(['warn', 'alert', 'recovered']);
    // The next row begins anew.
    await attempts(10, 503);
    await next();
    expect(steps()).toEqual(['warn', 'alert', 'recovered', 'warn']);
  });

  it('is told once by ten who see it at the same time', async () => {
    await attempts(10, 503);
    const lane = await h.lane();
    await Promise.all([...Array(10).keys()].map(() => escalate(depsOf(), [{ endpointId: 'acme', lane }])));
    expect(steps()).toEqual(['warn']);
  });

  it.each([
    ['the topic does not answer', { notices: { publish: () => Promise.reject(new Error('away')) } }, 'notice-failed'],
    ['its endpoint cannot be read', { endpoints: { read: () => Promise.reject(new Error('away')) } }, 'notice-failed'],
  ])('is told by the next run where %s', async (_what, more, fault) => {
    await attempts(10, 503);
    await run(more);
    expect([steps(), h.telemetry.faults.map(({ name }) => name)]).toEqual([[], [fault]]);
    await next();
    expect(steps()).toEqual(['warn']);
  });

  it('is told at least once where who claimed it died: before it was told, or before that was noted', async () => {
    await attempts(10, 503);
    // Killed right after the claim: nothing more is done, and nothing is thrown.
    const dead = new Promise<never>(() => undefined);
    void run({ notices: { publish: () => dead } });
    await expect.poll(async () => (await h.lane()).told.get('row')).toMatchObject({ isTold: false });
    // Somebody may be at it.
    await run();
    expect(steps()).toEqual([]);
    await next();
    expect(steps()).toEqual(['warn']);

    // Killed after it was told: once more.
    await attempts(40, 503);
    h.clock.advance(minuteMs);
    void run({ lanes: { moveTold: (endpointId, subject, from, to) => (to?.isTold === true ? dead : h.store.lanes.moveTold(endpointId, subject, from, to)) } });
    await expect.poll(steps).toEqual(['warn', 'alert']);
    await next();
    await next();
    expect(steps()).toEqual(['warn', 'alert', 'alert']);
  });
});

describe('one that answers, and never well', () => {
  const failing = async (n: number, spanMs: number) => {
    await attempts(1, 400);
    h.clock.advance(spanMs);
    await attempts(n - 1, 400);
  };

  it('is disabled after a hundred in a row over a day; what comes then is dead at once; put again it begins anew', async () => {
    await failing(limits.disableFrom, limits.disableAfterMs);
    await run();
    expect(steps()).toEqual(['disable']);
    expect((await h.store.endpoints.read('acme'))?.config).toMatchObject({ status: 'disabled', disabledFor: { why: 'failing' } });
    await next();
    await next();
    expect(steps()).toEqual(['disable']);
    await attempts(1, 200);
    expect(h.record({ eventId: `e${events}` })).toMatchObject({ state: 'dead', reason: 'disabled' });
    await h.store.put(endpointOf({}, 'V9'));
    await next();
    expect([(await h.lane()).failures, steps()]).toEqual([0, ['disable']]);
  });

  it.each([
    ['fewer', limits.disableFrom - 1, limits.disableAfterMs],
    ['sooner', limits.disableFrom, limits.disableAfterMs - 1],
  ])('is not disabled where there are %s', async (_what, n, spanMs) => {
    await failing(n, spanMs);
    await run();
    expect([steps(), (await h.store.endpoints.read('acme'))?.config?.status]).toEqual([['alert'], 'enabled']);
  });

  it('stays as it is where it was put or has succeeded meanwhile: that decides', async () => {
    await failing(limits.disableFrom, limits.disableAfterMs);
    const stale = await h.lane();
    await attempts(1, 200);
    await escalate(depsOf(), [{ endpointId: 'acme', lane: stale }]);
    expect([steps(), (await h.store.endpoints.read('acme'))?.config?.status]).toEqual([[], 'enabled']);
    expect((await h.lane()).told).toEqual(new Map());
  });

  it('is disabled once, and told, where who disabled it died before it told', async () => {
    await failing(limits.disableFrom, limits.disableAfterMs);
    await run({ notices: { publish: () => Promise.reject(new Error('killed')) } });
    expect([steps(), (await h.store.endpoints.read('acme'))?.config?.status]).toEqual([[], 'disabled']);
    const { version } = (await h.store.endpoints.read('acme')) ?? {};
    await next();
    expect([steps(), (await h.store.endpoints.read('acme'))?.version]).toEqual([['disable'], version]);
  });
});

describe('one that does not answer', () => {
  it('is paused after a week, whatever it failed before, and what comes is held', async () => {
    await attempts(3, 503);
    h.clock.advance(dayMs);
    await attempts(60, 'silent');
    await run();
    h.clock.advance(limits.pauseAfterMs - dayMs - minuteMs);
    await run();
    expect(steps()).toEqual(['alert']);
    await next();
    expect(steps()).toEqual(['alert', 'pause']);
    const { config } = (await h.store.endpoints.read('acme')) ?? {};
    expect(config).toMatchObject({ status: 'paused', pauses: [{ fromEpochMs: h.clock.nowEpochMs(), toEpochMs: null }] });
    await next();
    expect(steps()).toEqual(['alert', 'pause']);
  });

  it.each([[1, 0], [9, 0], [10, 1]])('of %d silent attempts is told %d times before', async (n, told) => {
    await attempts(n, 'silent');
    await run();
    expect(steps()).toHaveLength(told);
  });
});

describe('one that refuses', () => {
  it('is told once: flagged as unauthorized or not found', async () => {
    await attempts(1, 404);
    await run();
    await next();
    expect(fake.notices.map(({ step, text }) => [step, text])).toEqual([['refusing', 'acme: refuses deliveries as not-found: its URL or its credentials have changed. They go to the dead-letter queue. Next: ask its owner; sluice dlq ls --endpoint acme']]);
    await attempts(1, 200);
    await next();
    await attempts(1, 403);
    await next();
    expect(steps()).toEqual(['refusing', 'refusing']);
  });

  it('is told once: gone, and disabled by who heard it', async () => {
    await attempts(1, 410);
    await run();
    await next();
    expect(fake.notices.map(({ step, text }) => [step, text.slice(0, 45)])).toEqual([['gone', 'acme: disabled, for it answered 410: it is go']]);
  });
});

it('tells so many a run, and the rest in the next', async () => {
  const names = [...Array(limits.maxNotices + 5).keys()].map((i) => `e${i}`);
  const seen = async () => Promise.all(names.map(async (endpointId) => ({ endpointId, lane: (await h.store.lane(endpointId)) as never })));
  for (const endpointId of names) {
    await h.store.put(endpointOf({ endpointId }));
    await h.store.lanes.flag(endpointId, { why: 'not-found', sinceEpochMs: 1 });
  }
  await escalate(depsOf(), await seen());
  expect(fake.notices).toHaveLength(limits.maxNotices);
  await escalate(depsOf(), await seen());
  expect(new Set(fake.notices.map(({ endpointId }) => endpointId)).size).toBe(names.length);
});

it.each([
  [9, 0, 0, undefined], [10, 0, 0, 'warn'], [49, 49, 0, 'warn'], [50, 50, 0, 'alert'], [100, 100, limits.disableAfterMs, 'disable'], [100, 99, limits.disableAfterMs, 'alert'], [1, 0, limits.pauseAfterMs, 'pause'],
] as const)('%d failures in a row, %d of them answered, over %d ms, come to %s', (failures, answered, spanMs, step) => {
  const row = { sinceEpochMs: t0EpochMs, answered, answeredEpochMs: answered > 0 ? t0EpochMs + spanMs : undefined };
  expect(stepOf(row, failures, 'enabled', t0EpochMs + spanMs)).toBe(step);
  expect(stepOf(row, failures, 'paused', t0EpochMs + spanMs)).toBe(failures >= 50 ? 'alert' : failures >= 10 ? 'warn' : undefined);
});
