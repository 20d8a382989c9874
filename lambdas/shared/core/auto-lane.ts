import { autoLane as limits, lane as bounds } from '../limits/numbers.ts';
import { endOf } from './day.ts';
import type { Lane } from './lane.ts';
import { percentilesOf, type Window } from './statistics.ts';

/** What an endpoint's lane would be by what is measured (L2), and what that would give. */
export interface Suggestion {
  readonly slots: number;
  /** Slots ÷ p95. */
  readonly sustainablePerSecond: number;
  readonly why: 'offered' | 'slow' | 'failing' | 'ceiling' | 'short' | 'floor';
}

/** The most that one endpoint may have of the slots of all senders, so that no lane is as large as the fleet. */
export function laneCeiling(fleetSlots: number): number {
  return Math.max(bounds.minSlots, Math.min(bounds.maxSlots, Math.floor(limits.fleetShare * fleetSlots)));
}

/** What of a lane has a part in its size. */
export type SizedLane = Pick<Lane, 'slots' | 'pace' | 'holding' | 'nextAtEpochMs' | 'day' | 'pausedUntilEpochMs'>;

/**
 * Little's law: what is offered in a second, times how long 95 of 100 take. Slow ones get few slots whatever is offered; one that
 * had no room for what came, or holds what is due, gets twice as many. Undefined of a window that says too little.
 */
export function suggestedLane(window: Window | undefined, lane: SizedLane, ceiling: number, nowEpochMs: number): Suggestion | undefined {
  if (window === undefined || window.attempts < limits.minAttempts) return undefined;
  const p95 = percentilesOf(window)?.p95;
  if (p95 === undefined) return undefined;
  const { count, why } = slotsFor({ window, lane, p95, ceiling }, nowEpochMs);
  return { slots: count, sustainablePerSecond: (1_000 * count) / p95, why };
}

interface Measured {
  readonly window: Window;
  readonly lane: SizedLane;
  readonly p95: number;
  readonly ceiling: number;
}

function slotsFor(measured: Measured, nowEpochMs: number): { count: number; why: Suggestion['why'] } {
  const { window, lane: { slots }, ceiling } = measured;
  // By a half at most, as below: a narrower lane may be all that it needs to be quick.
  if (isSlow(measured)) return { count: Math.min(ceiling, Math.max(limits.slowSlots, Math.ceil(slots / 2))), why: 'slow' };
  // What fails says nothing of how many slots it needs.
  if (window.delivered < limits.healthyShare * window.attempts) return { count: Math.min(ceiling, slots), why: 'failing' };
  const seconds = Math.max(1, (nowEpochMs - window.sinceEpochMs) / 1_000);
  const byLaw = Math.ceil((window.offered / seconds) * (measured.p95 / 1_000));
  const isShort = lacksRoom(measured);
  // No fewer than a burst had in flight, of which half were there on average when one began, and no fall by more than a half.
  const least = Math.max(limits.leastSlots, Math.min(slots, Math.ceil((limits.burst * window.inFlight) / window.attempts)), isShort ? 2 * slots : Math.ceil(slots / 2));
  if (Math.max(byLaw, least) > ceiling) return { count: ceiling, why: 'ceiling' };
  return byLaw >= least ? { count: byLaw, why: 'offered' } : { count: least, why: isShort ? 'short' : 'floor' };
}

/** Slow once above the bound, and until well below it. */
function isSlow({ lane: { slots, pace }, p95 }: Measured): boolean {
  return pace?.isSlow === true || p95 > (slots <= limits.slowSlots ? limits.quickMs : limits.slowMs);
}

/** The law knows neither bursts nor a backlog. More slots are no help where its own rate, its day, or its wish, holds them up. */
function lacksRoom({ window, lane: { holding, nextAtEpochMs, day, pausedUntilEpochMs } }: Measured): boolean {
  const spentUntilEpochMs = day?.isSpent === true ? endOf(day) : 0;
  if (Math.max(nextAtEpochMs ?? 0, spentUntilEpochMs, pausedUntilEpochMs ?? 0) > window.sinceEpochMs) return false;
  return holding?.isReady === true || (window.offered > 0 && window.shed / window.offered > limits.shedShare);
}

/** True where a lane that sizes itself is to be changed: a slot more or less of many is not worth a new version of the endpoint. */
export function isWorthIt(slots: number, suggested: number): boolean {
  return suggested !== slots && Math.abs(suggested - slots) >= Math.max(1, limits.grain * slots);
}
