/** A replay that dies anywhere, or runs beside another: each delivery is moved once, and none is lost. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ReplayDeps } from '../../lambdas/replay/types.ts';
import { ReplayHarness, wrapped } from '../support/replay-harness.ts';
import { bodyOf } from '../support/builders.ts';

const count = 4;

class Died extends Error {}

/** Dies at its n-th call, before or after it is performed: from then on nothing of it is performed any more. */
function dyingAt(deps: ReplayDeps, nth: number, when: 'before' | 'after'): { deps: ReplayDeps; calls: () => number } {
  let calls = 0;
  const around = async <T>(call: () => Promise<T>): Promise<T> => {
    calls++;
    if (calls > nth || (calls === nth && when === 'before')) throw new Died();
    const answer = await call();
    if (calls >= nth) throw new Died();
    return answer;
  };
  return { deps: wrapped(deps, around), calls: () => calls };
}

/** All of them are held, each once, with their bodies, and the lane knows of it. */
async function expectMovedOnce(h: ReplayHarness): Promise<void> {
  for (let i = 0; i < count; i++) expect(h.record(`evt_${i}`)).toMatchObject({ state: 'waiting', home: 'held', generation: 1, attempt: 0 });
  const { found } = await h.store.payloads.read(h.store.held());
  expect([...found.values()].sort()).toEqual(Array.from({ length: count }, (_, i) => bodyOf({ eventId: `evt_${i}` })));
  const lane = await h.store.lane('acme');
  expect(lane?.holding?.count).toBe(count);
  expect(lane?.holding?.wakeAtEpochMs).toBeLessThanOrEqual(h.clock.nowEpochMs());
}

describe('a replay that dies', () => {
  const seeded = async (): Promise<ReplayHarness> => {
    const h = new ReplayHarness();
    await h.die(count);
    return h;
  };

  it('at any of its calls, before or after it, is finished by the next', async () => {
    const whole = await seeded();
    const { deps, calls } = dyingAt(whole.deps, Number.MAX_SAFE_INTEGER, 'before');
    await whole.run({ perSecond: 2 }, deps);
    // Index, records, endpoint; then twice: bodies, two puts, the move, the wake-up, two removals.
    expect(calls()).toBe(3 + 2 * 7);
    for (const when of ['before', 'after'] as const) {
      for (let nth = 1; nth <= calls(); nth++) {
        const h = await seeded();
        await h.run({ perSecond: 2 }, dyingAt(h.deps, nth, when).deps).catch((error: unknown) => {
          if (!(error instanceof Died)) throw error;
        });
        const moved = h.store.held().length;
        expect((await h.store.lane('acme'))?.holding?.count ?? 0, `${when} ${nth}`).toBe(moved);
        expect(await h.run(), `${when} ${nth}`).toMatchObject({ replayed: count - moved, noPayload: 0, busy: 0 });
        await expectMovedOnce(h);
      }
    }
  });
});

describe('two replays at once', () => {
  it('move each delivery once between them, however their calls interleave', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), async (s) => {
        const h = new ReplayHarness();
        await h.die(count);
        const around = <T>(call: () => Promise<T>): Promise<T> => s.schedule(Promise.resolve()).then(call);
        const deps = wrapped(h.deps, around);
        const both = Promise.all([h.run({ perSecond: 3 }, deps), h.run({ perSecond: 4 }, deps)]);
        const answers = await s.waitFor(both);
        expect(answers.reduce((sum, { replayed }) => sum + replayed, 0)).toBe(count);
        for (const answer of answers) {
          expect(answer).toMatchObject({ noPayload: 0, busy: 0 });
          expect(answer.replayed + answer.gone).toBe(answer.selected);
        }
        await expectMovedOnce(h);
      }),
      { numRuns: 200 },
    );
  });
});
