import { drain as limits, hold as holdLimits, lease } from '../shared/limits/numbers.ts';
import type { DrainDeps } from './types.ts';

/** What a run knows at its end of when the next can do something. */
export type Next =
  /** The index shows nothing that is held. */
  | { readonly kind: 'empty' }
  /** The first that is held is due then, as far as the index knows. */
  | { readonly kind: 'due'; readonly fromEpochMs: number }
  /** Until then nothing can be sent, whatever is held. */
  | { readonly kind: 'blocked'; readonly untilEpochMs: number }
  /** The run should not have begun: what is ordered already comes then, and whether anything is due before is as it was. */
  | { readonly kind: 'ordered'; readonly forEpochMs: number; readonly isReady: boolean };

export interface Run {
  readonly endpointId: string;
  readonly leaseId: string;
  readonly expiresEpochMs: number;
  /** The newest hold that it knew of when it began to look, and when that was. */
  readonly seq: number;
  readonly heldAtEpochMs: number;
}

/** What a run has done. */
export interface Done {
  /** Deliveries that are held no more, less those that are again. */
  readonly taken: number;
  /** When it has moved some from what is held to what is unknown, or back, last: the next run must not take an index that shows neither for the truth. */
  readonly movedEpochMs?: number | undefined;
}

/**
 * Ends a run: nothing is held any more, or it orders its next wake-up. Something that was held meanwhile may not be in the index
 * yet, so such a hold makes it come again a little later; and whoever asked for it meanwhile has it come again at once.
 */
export async function endRun(deps: DrainDeps, run: Run, { taken, movedEpochMs }: Done, wanted: Next): Promise<void> {
  const { endpointId, leaseId } = run;
  let { seq } = run;
  // By the later clock: whoever held it may be behind.
  let heldAtEpochMs = run.heldAtEpochMs + lease.skewMs;
  let seenEpochMs = run.expiresEpochMs;
  let next = wanted;
  for (let tries = 0; tries < limits.endTries; tries++) {
    const nowEpochMs = deps.clock.nowEpochMs();
    const wakeAtEpochMs = wakeAtOf(next, heldAtEpochMs + holdLimits.indexLagMs, nowEpochMs);
    // What was held while it looked may be due now.
    const isReady = seq !== run.seq || mayBeDue(next, nowEpochMs);
    const answer = await deps.lanes.endDrain(endpointId, { leaseId, seq, seenEpochMs, taken, wakeAtEpochMs, movedEpochMs, isReady });
    if (answer.kind === 'moved') {
      if (wakeAtEpochMs === undefined) deps.telemetry.event('hold-ended', { endpointId });
      else if (next.kind !== 'ordered') await order(deps, endpointId, wakeAtEpochMs, nowEpochMs);
      return;
    }
    // Not known, or another run has begun: the lease's expiry is the wake-up.
    if (answer.kind === 'unsure' || answer.lane?.drain?.leaseId !== leaseId) return;
    const { holdSeq, holding } = answer.lane;
    // What was held meanwhile relied on this run: one that does nothing has another come at once.
    const isWanted = holdSeq !== seq && next.kind === 'ordered';
    const isAskedFor = holding !== undefined && holding.wakeAtEpochMs < run.expiresEpochMs;
    seq = holdSeq;
    seenEpochMs = holding?.wakeAtEpochMs ?? seenEpochMs;
    heldAtEpochMs = Math.max(holding?.heldAtEpochMs ?? 0, nowEpochMs);
    if (isWanted || isAskedFor) next = { kind: 'blocked', untilEpochMs: nowEpochMs };
  }
}

function wakeAtOf(next: Next, inIndexEpochMs: number, nowEpochMs: number): number | undefined {
  if (next.kind === 'ordered') return next.forEpochMs;
  if (next.kind === 'blocked') return next.untilEpochMs;
  if (inIndexEpochMs <= nowEpochMs) return next.kind === 'due' ? next.fromEpochMs : undefined;
  return next.kind === 'due' ? Math.min(next.fromEpochMs, inIndexEpochMs) : inIndexEpochMs;
}

/**
 * Whether any of what is held may be due before the next wake-up. Of a hold that the index does not show yet that is not known; it is
 * within the index's time, and until then live traffic has its slots back: or each delivery that comes to a lane of one meanwhile
 * would be held in its turn, and be the next that is not shown.
 */
function mayBeDue(next: Next, nowEpochMs: number): boolean {
  switch (next.kind) {
    case 'ordered':
      return next.isReady;
    case 'blocked':
      return true;
    case 'empty':
      return false;
    case 'due':
      return next.fromEpochMs <= nowEpochMs;
  }
}

async function order(deps: DrainDeps, endpointId: string, atEpochMs: number, nowEpochMs: number): Promise<void> {
  try {
    await deps.wakeUps.order(endpointId, atEpochMs, nowEpochMs);
  } catch (error) {
    // The lane says when somebody should have come: the sweep finds it.
    deps.telemetry.fault('wake-up-failed', error, { endpointId });
  }
}
