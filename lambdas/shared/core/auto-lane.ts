import { autoLane as limits, lane } from '../limits/numbers.ts';
import { percentilesOf, type Window } from './statistics.ts';

/** What an endpoint's lane would be by what is measured (L2), and what that would give. */
export interface Suggestion {
  readonly slots: number;
  /** Slots ÷ p95. */
  readonly sustainablePerSecond: number;
  readonly why: 'offered' | 'slow' | 'ceiling' | 'shed' | 'floor';
}

/** The most that one endpoint may have of the slots of all senders, so that no lane is as large as the fleet. */
export function laneCeiling(fleetSlots: number): number {
  return Math.max(lane.minSlots, Math.min(lane.maxSlots, Math.floor(limits.fleetShare * fleetSlots)));
}

/**
 * Little's law: what is offered in a second, times how long 95 of 100 take. Slow ones get few slots whatever is offered; one that
 * had no room for what came in bursts gets twice as many. Undefined of a window that says too little.
 */
export function suggestedLane(window: Window | undefined, slots: number, ceiling: number, nowEpochMs: number): Suggestion | undefined {
  if (window === undefined || window.attempts < limits.minAttempts) return undefined;
  const p95 = percentilesOf(window)?.p95;
  if (p95 === undefined) return undefined;
  const { count, why } = slotsFor(window, { p95, slots, ceiling }, nowEpochMs);
  return { slots: count, sustainablePerSecond: (1_000 * count) / p95, why };
}

function slotsFor(window: Window, { p95, slots, ceiling }: { p95: number; slots: number; ceiling: number }, nowEpochMs: number): { count: number; why: Suggestion['why'] } {
  const seconds = Math.max(1, (nowEpochMs - window.sinceEpochMs) / 1_000);
  const byLaw = Math.ceil((window.offered / seconds) * (p95 / 1_000));
  const isSlow = p95 > limits.slowMs;
  const most = isSlow ? Math.min(ceiling, limits.slowSlots) : ceiling;
  // The law knows no bursts. What fails is not helped by more at once.
  const isShort = !isSlow && window.offered > 0 && window.shed / window.offered > limits.shedShare && window.delivered >= limits.healthyShare * window.attempts;
  const wanted = isShort ? Math.max(byLaw, 2 * slots) : byLaw;
  if (wanted > most) return { count: most, why: isSlow ? 'slow' : 'ceiling' };
  if (wanted < limits.leastSlots) return { count: Math.min(limits.leastSlots, most), why: 'floor' };
  return { count: wanted, why: isShort && wanted > byLaw ? 'shed' : 'offered' };
}

/** True where a lane that sizes itself is to be changed: a slot more or less of many is not worth a new version of the endpoint. */
export function isWorthIt(slots: number, suggested: number): boolean {
  return suggested !== slots && Math.abs(suggested - slots) >= Math.max(1, limits.grain * slots);
}
