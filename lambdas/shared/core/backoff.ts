import type { RetryPolicy } from '../limits/endpoint-schema.ts';
import { retry as limits } from '../limits/numbers.ts';

/**
 * Wait before the attempt that follows attempt number `attempt` (1 = the first), in milliseconds (R2). Safe for any
 * attempt number: the exponent is capped before it is used, so the result is a finite integer between 0 and the cap.
 * `random` is in [0, 1).
 */
export function backoffMs(policy: RetryPolicy, attempt: number, random: number): number {
  const ceilingMs = 1_000 * ceilingS(policy, attempt);
  const waitMs = policy.jitter === 'full' ? random * ceilingMs : ceilingMs / 2 + random * (ceilingMs / 2);
  return Math.round(Math.min(ceilingMs, Math.max(limits.minWaitMs, waitMs)));
}

/** The longest wait after attempt number `attempt`, in seconds. */
export function ceilingS(policy: RetryPolicy, attempt: number): number {
  const nth = Number.isFinite(attempt) ? Math.max(1, Math.floor(attempt)) : Number.MAX_SAFE_INTEGER;
  if (policy.delaysS !== undefined) return policy.delaysS[Math.min(nth, policy.delaysS.length) - 1] ?? policy.capS;
  if (policy.factor === 1) return Math.min(policy.capS, policy.baseS);
  const stepsToCap = Math.log(policy.capS / policy.baseS) / Math.log(policy.factor);
  return nth - 1 >= stepsToCap ? policy.capS : Math.min(policy.capS, policy.baseS * policy.factor ** (nth - 1));
}
