import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Stopwatch } from '../../lambdas/shared/adapters/stopwatch.ts';

let nowMs = 0;
beforeEach(() => {
  nowMs = 5_000;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
});
afterEach(() => void vi.restoreAllMocks());

/** Begins each phase and lets it last, in their order. */
function watched(...phases: [Parameters<Stopwatch['begin']>[0], number][]): Stopwatch {
  const watch = new Stopwatch();
  for (const [phase, ms] of phases) {
    watch.begin(phase);
    nowMs += ms;
  }
  return watch;
}

describe('Stopwatch', () => {
  it('gives each phase its time, the one under way too, and all of them together', () => {
    const watch = watched(['connection', 100], ['dns', 20], ['connect', 3]);
    expect(watch.elapsedMs()).toBe(123);
    expect(watch.timing(false)).toEqual({ durationMs: 123, phasesMs: { connection: 100, dns: 20, connect: 3 }, reused: false });
  });

  it('adds up a phase that is come to twice, after a socket that was dead', () => {
    const watch = watched(['write', 100], ['connect', 20], ['write', 3]);
    expect(watch.timing(true)).toEqual({ durationMs: 123, phasesMs: { write: 103, connect: 20 }, reused: true });
  });

  it('counts what was before the first phase in the whole only', () => {
    const watch = new Stopwatch();
    nowMs += 7;
    watch.begin('connection');
    nowMs += 5;
    expect(watch.timing(false)).toEqual({ durationMs: 12, phasesMs: { connection: 5 }, reused: false });
  });

  it('rounds to milliseconds', () => {
    expect(watched(['write', 1.4], ['headers', 1.6]).timing(false)).toEqual({ durationMs: 3, phasesMs: { write: 1, headers: 2 }, reused: false });
  });
});
