import { emptyTally } from '../shared/core/statistics.ts';
import type { Stop } from './waves.ts';
import type { Copy, DeliverDeps } from './types.ts';

/** True of a delivery that comes for the first time: what the load of its endpoint is measured by (L6). */
export function isOffer({ serves }: Pick<DeliverDeps, 'serves'>, { received }: Copy): boolean {
  return serves === 'queue' && received.receiveCount === 1 && received.deadLetterGeneration === undefined;
}

/** Why a delivery that came was not taken: for want of room, or because nothing is to be sent now. */
const isWantOfRoom: Readonly<Record<Stop['kind'], boolean>> = { done: true, full: true, slow: true, rate: true, open: false, paused: false, unknown: false };

/** Counts the deliveries that came for the first time and were not tried. Never rejects: it is measured, and nothing follows from it. */
export async function reportOffers(deps: DeliverDeps, endpointId: string, left: readonly Copy[], stop: Stop): Promise<void> {
  const offered = left.filter((copy) => isOffer(deps, copy)).length;
  if (offered === 0) return;
  const tally = { ...emptyTally, offered, shed: isWantOfRoom[stop.kind] ? offered : 0 };
  try {
    await deps.lanes.countOffers(endpointId, { tally, atEpochMs: deps.clock.nowEpochMs() });
  } catch (error) {
    deps.telemetry.fault('offers-uncounted', error, { endpointId });
  }
}
