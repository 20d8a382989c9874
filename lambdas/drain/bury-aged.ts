import { buryUnclaimed } from '../deliver/bury.ts';
import type { Invocation } from '../deliver/types.ts';
import type { Stop, Waves } from '../deliver/waves.ts';
import { ageMs } from '../shared/core/age.ts';
import type { HeldCopies } from './held-copies.ts';
import type { DrainDeps } from './types.ts';

/** What may stand in the way of everything for hours: a day is spent until midnight, and some ask to be left alone for as long. */
const isLong: ReadonlySet<Stop['kind']> = new Set(['open', 'paused', 'rate']);

/**
 * Where nothing can be sent for long, what is past its age is given up here, page by page; what was held first is due first, so it
 * ends with the first page that has none.
 * @returns how many were, and whether each of them is finished
 */
export async function buryAged(deps: DrainDeps, { stop, left, endpoint }: Waves, held: HeldCopies, invocation: Invocation): Promise<{ buried: number; isFinished: boolean }> {
  if (!isLong.has(stop.kind) || endpoint?.config === undefined) return { buried: 0, isFinished: true };
  const { config } = endpoint;
  let buried = 0;
  let asked = 0;
  for (let copies = left; copies.length > 0 && invocation.remainingMs() > deps.limits.settleMarginMs; copies = await held.next()) {
    const nowEpochMs = deps.clock.nowEpochMs();
    const aged = copies.filter(({ received }) => ageMs(received.sentEpochMs, config, nowEpochMs) > config.retry.maxAgeS * 1_000);
    if (aged.length === 0) break;
    const exits = await buryUnclaimed(deps, aged, endpoint, invocation);
    asked += aged.length;
    buried += [...exits.values()].filter(({ kind }) => kind === 'ack').length;
  }
  return { buried, isFinished: buried === asked };
}
