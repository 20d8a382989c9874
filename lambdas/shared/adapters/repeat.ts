import { setTimeout as sleep } from 'node:timers/promises';
import { awsCalls } from '../limits/numbers.ts';

/** How long to wait before a write is repeated. */
export type Pause = () => Promise<unknown>;

export const pauseBriefly: Pause = () => sleep(awsCalls.repeatMs * (1 + Math.random()));

/**
 * Repeats a conditional write that was certainly not applied (a throttle, a conflict with a transaction): a verdict that
 * is not written costs the consumer a repeat of what it already has. Within the settle margin; the last answer counts.
 */
export async function whileNotApplied<Answer extends string>(
  write: () => Promise<Answer>,
  notApplied: NoInfer<Answer>,
  pause: Pause = pauseBriefly,
): Promise<Answer> {
  for (let repeats = 0; ; repeats++) {
    const answer = await write();
    if (answer !== notApplied || repeats >= awsCalls.repeats) return answer;
    await pause();
  }
}
