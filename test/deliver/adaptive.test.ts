/** Read budgets that follow what is measured (T5): which attempts get which, and what a cut-off says. */
import { beforeEach, describe, expect, it } from 'vitest';
import type { AttemptOutcome } from '../../lambdas/shared/core/outcome.ts';
import { binOf, emptyTally } from '../../lambdas/shared/core/statistics.ts';
import { bodyOf, openBreaker, receivedOf, timed } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered } from '../support/fakes.ts';

const adaptiveRead = { minMs: 3_000, maxMs: 15_000 };
const cutOff: AttemptOutcome = { kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timed(3_000) };

let h: Harness;
beforeEach(async () => {
  h = await Harness.create({ adaptiveRead });
});

/** The lane has counted so many answers of 200 ms, eight at once. */
const measured = (answers = 100) =>
  h.store.lanes.countOffers('acme', { tally: { ...emptyTally, attempts: answers, delivered: answers, inFlight: 8 * answers, answers: new Map([[binOf(200), answers]]) }, atEpochMs: h.clock.nowEpochMs() });
let events = 0;
const attempt = (eventId = `e${++events}`) => h.run([receivedOf(bodyOf({ eventId }), { sentEpochMs: h.clock.nowEpochMs() })]);
const budgets = () => h.http.requests.map(({ budgetsMs }) => budgetsMs.read);
const samples = async () => {
  const { breaker } = await h.lane();
  return breaker?.state === 'closed' ? breaker.failed.attempts : breaker?.state;
};

describe('a delivery', () => {
  it('waits three times as long as 99 of 100 answers take; the longest time before anything is known', async () => {
    await attempt();
    await measured();
    await attempt();
    expect(budgets()).toEqual([15_000, 3_000]);
  });

  it('that was cut off is tried again with the longest', async () => {
    await measured();
    h.http.script = (_request, nth) => (nth === 0 ? cutOff : answered(200));
    await attempt('slow');
    h.clock.advance(60_000);
    await attempt('slow');
    expect([budgets(), h.record({ eventId: 'slow' })?.state]).toEqual([[3_000, 15_000], 'delivered']);
  });

  it('of an endpoint without such a budget waits as long as that says', async () => {
    h = await Harness.create();
    await measured();
    await attempt();
    expect(budgets()).toEqual([10_000]);
  });
});

describe('a cut-off in haste', () => {
  it('says nothing of health, and after a few the endpoint has the longest time', async () => {
    await measured();
    h.http.script = () => cutOff;
    for (let i = 0; i < 3; i++) await attempt();
    expect([budgets(), await samples(), (await h.lane()).failures]).toEqual([[3_000, 3_000, 3_000], undefined, 0]);
    expect((await h.lane()).window).toMatchObject({ attempts: 103, cutOff: 3, delivered: 100 });
    await attempt();
    // What is cut off then does.
    expect([budgets().at(-1), await samples()]).toEqual([15_000, 1]);
    expect((await h.lane()).window).toMatchObject({ attempts: 104, cutOff: 3 });
  });

  it('is one of the answer alone: a reset within the time is a failure like any', async () => {
    await measured();
    h.http.script = () => ({ ...cutOff, cause: 'ECONNRESET' });
    await attempt();
    expect([await samples(), (await h.lane()).window?.cutOff]).toEqual([1, 0]);
  });
});

describe('with the longest time', () => {
  it('a canary is tried: its verdict counts, and the breaker closes or opens for longer', async () => {
    await measured(10_000);
    await h.store.lanes.moveBreaker('acme', undefined, openBreaker({ untilEpochMs: h.clock.nowEpochMs() }));
    h.http.script = () => ({ ...cutOff, ...timed(15_000) });
    await h.serve([receivedOf(bodyOf({ eventId: 'canary' }), { sentEpochMs: h.clock.nowEpochMs() })]);
    expect([budgets(), (await h.lane()).breaker]).toMatchObject([[15_000], { state: 'open', trips: 2, canary: undefined }]);
  });

  it('a last attempt is made', async () => {
    await measured();
    h.http.script = (_request, nth) => (nth < 2 ? answered(503) : answered(200));
    for (let i = 0; i < 3; i++) {
      await attempt('late');
      h.clock.advance(600_000);
    }
    expect([budgets(), h.record({ eventId: 'late' })?.state]).toEqual([[3_000, 15_000, 15_000], 'delivered']);
  });
});

it('what is in flight when a wave begins is counted with each of its attempts', async () => {
  await h.run(['a', 'b', 'c'].map((eventId) => receivedOf(bodyOf({ eventId }))));
  expect((await h.lane()).window).toMatchObject({ attempts: 3, inFlight: 9 });
});
