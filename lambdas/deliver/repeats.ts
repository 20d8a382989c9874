import { decideReceive } from '../shared/core/receive.ts';
import type { DeliveryRecord } from '../shared/core/record.ts';
import type { Settled } from './deliver-one.ts';
import { putBack, putBackUntil } from './retain.ts';
import type { Copy, DeliverDeps, Exit, Invocation } from './types.ts';

/** Distinct keys first; a second copy of a key waits for the first one's settle. */
export function splitRepeats(copies: readonly Copy[]): { firsts: Copy[]; repeats: Copy[] } {
  const firsts = new Map<string, Copy>();
  for (const copy of copies) if (!firsts.has(copy.claimKey)) firsts.set(copy.claimKey, copy);
  const chosen = new Set(firsts.values());
  return { firsts: [...chosen], repeats: copies.filter((copy) => !chosen.has(copy)) };
}

/** What a repeat within the batch finds is what its first copy left, if that was tried; anything that needs a claim comes back on its own. */
export async function exitOfRepeat(
  deps: DeliverDeps,
  copy: Copy,
  settled: ReadonlyMap<Copy, Settled>,
  untried: (copy: Copy) => Promise<Exit>,
  invocation: Invocation,
): Promise<Exit> {
  const first = [...settled].find(([other]) => other.claimKey === copy.claimKey)?.[1];
  if (first === undefined) return untried(copy);
  if (first.record === undefined || first.exit.kind !== exitOf(first.record)) return putBack(deps, copy.received);
  const received = { ...copy.message, deadLetterGeneration: copy.received.deadLetterGeneration };
  const decision = decideReceive(received, first.record, deps.clock.nowEpochMs());
  if (decision.kind === 'done') return { kind: 'ack' };
  // A larger resend must be noted in the record first, which takes the claim.
  if (decision.kind === 'early' && copy.message.resend <= first.record.resend) return putBackUntil(deps, copy.received, decision.dueEpochMs, invocation);
  return putBack(deps, copy.received);
}

/** The exit that a first copy takes when all went well; another one means that its record may not be final. */
function exitOf(record: DeliveryRecord): Exit['kind'] {
  return record.state === 'waiting' ? 'retain' : 'ack';
}
