import { awsCallLimits } from '../shared/core/budgets.ts';
import type { Lane } from '../shared/core/lane.ts';
import { awsCalls } from '../shared/limits/numbers.ts';
import type { MoveAnswer } from '../shared/ports/index.ts';
import type { DeliverDeps, Invocation } from './types.ts';

/**
 * Compare-and-swap on a part of a lane, anew on what others left. `write` is given the lane as it was found last, and answers
 * undefined where nothing is to be written. Ends in time for what must follow it in the invocation.
 * @returns `lost` where it was overtaken each time, or there was no time
 */
export async function swapped<To>(
  deps: Pick<DeliverDeps, 'limits'>,
  invocation: Invocation,
  mostSwaps: number,
  write: (found: Lane | undefined) => { to: To; answer: Promise<MoveAnswer> } | undefined,
): Promise<{ kind: 'moved'; to: To } | { kind: 'nothing' | 'lost' | 'unsure' }> {
  const spareMs = awsCalls.spareRequests * awsCallLimits(deps.limits).requestMs;
  let found: Lane | undefined;
  for (let swap = 0; swap < mostSwaps && invocation.remainingMs() > spareMs; swap++) {
    const tried = write(found);
    if (tried === undefined) return { kind: 'nothing' };
    const answer = await tried.answer;
    if (answer.kind === 'moved') return { kind: 'moved', to: tried.to };
    if (answer.kind === 'unsure') return answer;
    if (answer.lane === undefined) return { kind: 'lost' };
    found = answer.lane;
  }
  return { kind: 'lost' };
}
