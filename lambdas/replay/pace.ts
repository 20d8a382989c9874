import type { ReplayDeps } from './types.ts';

/** How fast one call goes, and when it is over. */
export interface Pace {
  isOver(): boolean;
  /** Waits until so many more may go. False, without a wait, where that would be after the end of the call. */
  admits(count: number): Promise<boolean>;
}

/**
 * What goes has waited for its own share of the rate first, so that calls one after the other keep to it together. One that took
 * longer makes up for it by at most one batch. The first is always admitted: a call gets on, however long it has read.
 */
export function createPace({ clock, pause }: Pick<ReplayDeps, 'clock' | 'pause'>, { perSecond, forMs }: { perSecond: number; forMs: number }): Pace {
  const beganMs = clock.monotonicMs();
  const endsMs = beganMs + forMs;
  let lastMs = beganMs;
  let hasBegun = false;
  return {
    isOver: () => clock.monotonicMs() >= endsMs,
    async admits(count) {
      const nowMs = clock.monotonicMs();
      const costMs = (count * 1_000) / perSecond;
      const atMs = Math.max(lastMs, nowMs - costMs) + costMs;
      if (hasBegun && atMs > endsMs) return false;
      hasBegun = true;
      lastMs = atMs;
      if (atMs > nowMs) await pause(atMs - nowMs);
      return true;
    },
  };
}
