import { vi } from 'vitest';

/** Watches the timers that the program arms from now on, until mocks are restored. @returns the lengths, in ms, of those of at least `leastMs` that nobody has cleared. */
export function watchTimers(leastMs: number): () => number[] {
  const [armed, cleared] = [vi.spyOn(globalThis, 'setTimeout'), vi.spyOn(globalThis, 'clearTimeout')];
  return () => {
    const gone = new Set<unknown>(cleared.mock.calls.map(([timer]) => timer));
    return armed.mock.calls.flatMap(([, ms = 0], i) => (ms >= leastMs && !gone.has(armed.mock.results[i]?.value) ? [Math.round(ms)] : []));
  };
}
