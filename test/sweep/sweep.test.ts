/** The sweep on fakes: what lost its wake-up, and what its lane does not know of. */
import { beforeEach, describe, expect, it } from 'vitest';
import { sweep, type SweepDeps } from '../../lambdas/sweep/sweep.ts';
import { awsCalls, sweep as limits } from '../../lambdas/shared/limits/numbers.ts';
import { endpointOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { fakeAttention } from '../support/fake-attention.ts';

let h: Harness;
let woken: string[];
let held: Set<string>;
let parts: number[];
beforeEach(async () => {
  h = await Harness.create();
  [woken, held, parts] = [[], new Set(), []];
});

function depsOf(more: Partial<SweepDeps> = {}): SweepDeps {
  return {
    clock: h.clock,
    telemetry: h.telemetry,
    lanes: h.store.lanes,
    holding: {
      overdue: async (beforeEpochMs) => {
        const found = await Promise.all(['acme', 'other'].map(async (endpointId) => ({ endpointId, wakeAtEpochMs: (await h.store.lane(endpointId))?.holding?.wakeAtEpochMs ?? Infinity })));
        return found.filter(({ wakeAtEpochMs }) => wakeAtEpochMs < beforeEpochMs);
      },
      withHeld: (part) => Promise.resolve((parts.push(part), held)),
      isKnown: async (endpointId) => (await h.store.lane(endpointId))?.holding !== undefined,
    },
    wake: (endpointId) => Promise.resolve(void woken.push(endpointId)),
    ...fakeAttention(h).deps,
    deadLetters: { ready: () => Promise.resolve(0), tidy: () => Promise.reject(new Error('there is nothing to tidy')) },
    ...more,
  };
}
const hold = (wakeAtEpochMs: number, endpointId = 'acme') => h.store.lanes.hold(endpointId, { count: 1, nowEpochMs: t0EpochMs, wakeAtEpochMs, isReady: true });

describe('the sweep', () => {
  it('wakes what is overdue, and leaves it its time before it wakes it again', async () => {
    await hold(t0EpochMs);
    h.clock.advance(limits.graceMs);
    await sweep(depsOf());
    expect(woken).toEqual([]);
    h.clock.advance(1);
    await sweep(depsOf());
    await sweep(depsOf());
    expect(woken).toEqual(['acme']);
    h.clock.advance(limits.periodS * 1_000);
    await sweep(depsOf());
    expect([woken, h.telemetry.count('wake-up-lost')]).toEqual([['acme', 'acme'], 2]);
  });

  it('leaves alone what is not due, and a run that has begun meanwhile', async () => {
    await hold(t0EpochMs + 600_000);
    h.clock.advance(120_000);
    await sweep(depsOf());
    await hold(t0EpochMs, 'acme');
    const moveWakeUp: SweepDeps['lanes']['moveWakeUp'] = async (endpointId, from, to) => {
      await h.store.lanes.beginDrain(endpointId, { leaseId: 'run', expiresEpochMs: h.clock.nowEpochMs() + 100_000 }, h.clock.nowEpochMs());
      return h.store.lanes.moveWakeUp(endpointId, from, to);
    };
    h.clock.advance(600_000);
    await sweep(depsOf({ lanes: { ...h.store.lanes, moveWakeUp } }));
    expect(woken).toEqual([]);
  });

  it('finds what is held without its lane\'s word, one part of the index a run', async () => {
    h.store.seed(waitingOf({ home: 'held' }));
    held.add('acme');
    await sweep(depsOf());
    expect([woken, (await h.lane()).holding]).toMatchObject([['acme'], { wakeAtEpochMs: t0EpochMs }]);
    for (let i = 1; i < limits.parts; i++) {
      h.clock.advance(limits.periodS * 1_000);
      await sweep(depsOf());
    }
    expect([...new Set(parts)].toSorted((a, b) => a - b)).toEqual(Array.from({ length: limits.parts }, (_, i) => i));
  });

  it('goes on with the others where one cannot be woken', async () => {
    await h.store.put(endpointOf({ endpointId: 'other' }));
    await hold(t0EpochMs);
    await hold(t0EpochMs, 'other');
    h.clock.advance(limits.graceMs + 1);
    await sweep(depsOf({ wake: (endpointId) => (endpointId === 'acme' ? Promise.reject(new Error('SQS is away')) : Promise.resolve(void woken.push(endpointId))) }));
    expect([woken, h.telemetry.faults.map(({ name }) => name)]).toEqual([['other'], ['wake-failed']]);
  });
});

describe('a notice', () => {
  beforeEach(() => h.store.lanes.flag('acme', { why: 'not-found', sinceEpochMs: 1 }));

  it('is told after all that was seen is said, so that a topic that hangs keeps nobody from it', async () => {
    const said: unknown[] = [];
    const publish = () => {
      said.push([h.telemetry.count('swept'), [...h.telemetry.flushed.gauges.keys()]]);
      return Promise.reject(new Error('no answer'));
    };
    await sweep(depsOf({ notices: { publish } }));
    expect(said).toEqual([[1, expect.arrayContaining(['held_deliveries', 'endpoints_sick']) as string[]]]);
  });

  it('is told also where the attention to the endpoints failed', async () => {
    const fake = fakeAttention(h);
    await sweep(depsOf({ ...fake.deps, attention: { ...fake.deps.attention, heldSince: () => Promise.resolve(undefined), remembered: () => Promise.reject(new Error('away')) } }));
    expect([fake.notices.map(({ step }) => step), h.telemetry.faults.map(({ name }) => name)]).toEqual([['refusing'], ['attention-forgotten']]);
  });
});

describe('the dead-letter queue', () => {
  const none = { looked: 0, stale: 0, deleted: 0, kept: 0, unknown: 0, stop: 'bound' };
  /** Walks as long as it may, `pageMs` a page. */
  const walkOf = (pageMs: number, oldestSentEpochMs?: number) => {
    let pages = 0;
    const tidy: SweepDeps['deadLetters']['tidy'] = (mayGoOn) => {
      for (; mayGoOn(); pages++) h.clock.advance(pageMs);
      return Promise.resolve({ ...none, looked: pages, kept: pages, oldestSentEpochMs });
    };
    return { deadLetters: { ready: () => Promise.resolve(3), tidy }, pages: () => pages };
  };

  it('is not walked while it is empty', async () => {
    await sweep(depsOf());
    expect([h.telemetry.count('tidied'), h.telemetry.faults]).toEqual([0, []]);
  });

  it('is walked for so many pages, and what was found is logged', async () => {
    const walk = walkOf(1);
    await sweep(depsOf(walk));
    expect(walk.pages()).toBe(limits.tidyReceives);
    expect(h.telemetry.events.at(-1)).toEqual({ name: 'tidied', fields: { ...none, looked: limits.tidyReceives, kept: limits.tidyReceives } });
  });

  it('is walked for so long', async () => {
    const walk = walkOf(limits.tidyMs / 4);
    await sweep(depsOf(walk));
    expect(walk.pages()).toBe(4);
  });

  it.each([
    ['of the oldest that was seen and left', t0EpochMs - 864_001_000, 864_001],
    ['which nothing has that was left', undefined, 0],
    ['which is never negative', t0EpochMs + 60_000, 0],
  ])('has an age: %s', async (_, oldestSentEpochMs, ageS) => {
    await sweep(depsOf(walkOf(0, oldestSentEpochMs)));
    expect(h.telemetry.gauges.get('oldest_dead_letter_age')).toBe(ageS);
  });

  it('has the age 0 while it is empty, and none where a run could not look', async () => {
    await sweep(depsOf());
    expect(h.telemetry.gauges.get('oldest_dead_letter_age')).toBe(0);
    h.telemetry.gauges.clear();
    const { deadLetters } = walkOf(1);
    for (const failing of [{ ready: () => Promise.reject(new Error('SQS is away')) }, { tidy: () => Promise.reject(new Error('SQS is away')) }, { tidy: () => Promise.resolve({ ...none, stop: 'moving', oldestSentEpochMs: undefined }) }]) {
      await sweep(depsOf({ deadLetters: { ...deadLetters, ...failing } }));
    }
    expect(h.telemetry.gauges.has('oldest_dead_letter_age')).toBe(false);
  });

  it('is not begun where the run has taken its time already', async () => {
    const walk = walkOf(1);
    const holding = { ...depsOf().holding, withHeld: () => (h.clock.advance(limits.tidyUntilMs), Promise.resolve(new Set<string>())) };
    await sweep(depsOf({ ...walk, holding }));
    expect(walk.pages()).toBe(0);
  });

  it('leaves a page that has begun its time, and what a run hides is there for the next', () => {
    // Move tasks, receive, read, deletion, and what is put back: with all attempts of each.
    const pageMs = 5 * awsCalls.maxAttempts * awsCalls.requestMs;
    expect(limits.tidyUntilMs + pageMs).toBeLessThan(limits.timeoutS * 1_000);
    expect(limits.tidyLookS).toBeLessThanOrEqual(limits.periodS);
    expect(limits.tidyLookS * 1_000).toBeGreaterThan(limits.tidyMs + pageMs);
  });

  it.each(['ready', 'tidy'] as const)('costs the rest of the run nothing where it does not answer (%s)', async (method) => {
    await hold(t0EpochMs);
    h.clock.advance(limits.graceMs + 1);
    await sweep(depsOf({ deadLetters: { ...walkOf(1).deadLetters, [method]: () => Promise.reject(new Error('SQS is away')) } }));
    expect([woken, h.telemetry.count('swept'), h.telemetry.faults.map(({ name }) => name)]).toEqual([['acme'], 1, ['tidy-failed']]);
  });
});
