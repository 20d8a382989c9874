import { inFlight as limits } from '../shared/limits/numbers.ts';
import type { Clock, Queues } from '../shared/ports/index.ts';
import type { InFlightGuard } from './types.ts';

/** Looks at the delivery queue now and then: hidden messages are a budget of the whole fleet, beyond which it stands still. */
export function createInFlightGuard(queues: Pick<Queues, 'hidden'>, clock: Clock): InFlightGuard {
  let lookedMs = -Infinity;
  let last: Promise<boolean> = Promise.resolve(false);
  return {
    isCrowded() {
      const nowMs = clock.monotonicMs();
      if (nowMs - lookedMs < limits.lookMs) return last;
      lookedMs = nowMs;
      const before = last;
      // Where it cannot be read, what was last known holds.
      last = queues.hidden().then(async (hidden) => (hidden === undefined || Number.isNaN(hidden) ? before : hidden >= limits.crowdedFrom));
      return last;
    },
  };
}
