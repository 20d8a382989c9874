import { replay as limits } from '../shared/limits/numbers.ts';
import type { ReplayDeps } from './types.ts';

/** Before the `tries`-th repeat of what was throttled or in conflict: jittered, and up to twice as long each time. */
export function pauseBetweenTries({ pause, random }: Pick<ReplayDeps, 'pause' | 'random'>, tries: number): Promise<unknown> {
  return pause(limits.pauseMs * 2 ** (tries - 1) * (0.5 + random.number()));
}
