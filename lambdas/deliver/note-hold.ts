import type { Lane } from '../shared/core/lane.ts';
import type { UnknownRecord, WaitingRecord } from '../shared/core/record.ts';
import { hold as limits } from '../shared/limits/numbers.ts';
import type { MoveAnswer } from '../shared/ports/index.ts';
import type { DeliverDeps } from './types.ts';

type NoteDeps = Pick<DeliverDeps, 'lanes' | 'wakeUps' | 'clock' | 'telemetry'>;

/** The lane's flag, then the wake-up. True once the sweep would find what is held, whatever becomes of the wake-up. */
export async function noteHold(deps: NoteDeps, note: { endpointId: string; count: number; wakeAtEpochMs: number; isReady: boolean }): Promise<boolean> {
  const { endpointId, count, wakeAtEpochMs, isReady } = note;
  const nowEpochMs = deps.clock.nowEpochMs();
  const answer = await deps.lanes.hold(endpointId, { count, nowEpochMs, wakeAtEpochMs, isReady });
  if (answer.kind !== 'noted') return false;
  deps.telemetry.event('held', { endpointId, copies: count });
  return wakeBy(deps, endpointId, answer.before, { wakeAtEpochMs, nowEpochMs });
}

/** Has the drain come no later than that. Others hold at the same time, and may have moved the wake-up to a time that is still too late. */
async function wakeBy(deps: Pick<DeliverDeps, 'lanes' | 'wakeUps' | 'telemetry'>, endpointId: string, before: Lane, { wakeAtEpochMs, nowEpochMs }: { wakeAtEpochMs: number; nowEpochMs: number }): Promise<boolean> {
  let { holding, drain } = before;
  for (let tries = 0; tries < limits.wakeTries; tries++) {
    // A run that is alive looks again before it ends.
    const isRunning = drain !== undefined && drain.expiresEpochMs > nowEpochMs;
    if (isRunning || (holding !== undefined && holding.wakeAtEpochMs <= wakeAtEpochMs)) return true;
    try {
      const answer: MoveAnswer = holding === undefined ? { kind: 'moved' } : await deps.lanes.moveWakeUp(endpointId, holding.wakeAtEpochMs, wakeAtEpochMs);
      if (answer.kind === 'moved') {
        await deps.wakeUps.order(endpointId, wakeAtEpochMs, nowEpochMs);
        return true;
      }
      if (answer.kind === 'unsure') continue;
      // A run has found it, and that nothing is held any more.
      if (answer.lane?.holding === undefined) return true;
      ({ holding, drain } = answer.lane);
    } catch (error) {
      // Held it is, and the lane says since when somebody should have come: the sweep finds it.
      deps.telemetry.fault('wake-up-failed', error, { endpointId });
      return true;
    }
  }
  return false;
}

/** A copy of what is held already: whoever held it may have died before it was noted. False where that is not known now. */
export function noteHeldAgain(deps: NoteDeps, { endpointId, dueEpochMs }: WaitingRecord): Promise<boolean> {
  const nowEpochMs = deps.clock.nowEpochMs();
  return noteHold(deps, { endpointId, count: 0, wakeAtEpochMs: Math.max(dueEpochMs, nowEpochMs), isReady: dueEpochMs <= nowEpochMs });
}

/** A copy of what is unknown: whoever made it so may have died before the drain was told of the next look. False where that is not known now. */
export function noteUnknownAgain(deps: NoteDeps, { endpointId, nextLookEpochMs }: UnknownRecord): Promise<boolean> {
  if (nextLookEpochMs === undefined) return Promise.resolve(true);
  return noteHold(deps, { endpointId, count: 0, wakeAtEpochMs: Math.max(nextLookEpochMs, deps.clock.nowEpochMs()), isReady: false });
}
