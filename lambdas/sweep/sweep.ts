import { sweep as limits } from '../shared/limits/numbers.ts';
import type { Clock, Lanes, Telemetry } from '../shared/ports/index.ts';

/** A lane whose wake-up is overdue. */
export interface Overdue {
  readonly endpointId: string;
  readonly wakeAtEpochMs: number;
}

export interface SweepDeps {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly lanes: Pick<Lanes, 'moveWakeUp' | 'hold'>;
  readonly holding: {
    /** Lanes whose wake-up was due before a time, the longest overdue first. */
    overdue(beforeEpochMs: number, limit: number): Promise<readonly Overdue[]>;
    /** Endpoints that have held deliveries, or burials that were begun before a time and not finished; of one of `parts` parts of them. */
    withHeld(part: number, parts: number, buriedBeforeEpochMs: number): Promise<ReadonlySet<string>>;
    /** True where the endpoint's lane says that something is held, or there is no lane that could. */
    isKnown(endpointId: string): Promise<boolean>;
  };
  /** Wakes the drain now. Rejects if that is not known to be ordered. */
  wake(endpointId: string): Promise<void>;
}

/**
 * Finds what lost its wake-up, and orders another. Also looks through a part of what is held, all of it once an hour, for endpoints
 * whose lane does not know of it: a hold that died half way, whose message never came back, or a burial that nobody finished.
 */
export async function sweep(deps: SweepDeps): Promise<void> {
  const woken = await wakeOverdue(deps);
  const found = await repairLanes(deps);
  deps.telemetry.event('swept', { woken, found });
}

async function wakeOverdue(deps: SweepDeps): Promise<number> {
  const nowEpochMs = deps.clock.nowEpochMs();
  const overdue = await deps.holding.overdue(nowEpochMs - limits.graceMs, limits.maxWoken);
  const endsMs = deps.clock.monotonicMs() + limits.wakeMs;
  let woken = 0;
  for (const { endpointId, wakeAtEpochMs } of overdue) {
    // The rest of it in a minute: the other half of the sweep must have its time.
    if (deps.clock.monotonicMs() > endsMs) break;
    try {
      // Moved first: the next run then leaves it its time, and a drain that has begun meanwhile is left alone.
      if ((await deps.lanes.moveWakeUp(endpointId, wakeAtEpochMs, nowEpochMs)).kind !== 'moved') continue;
      await deps.wake(endpointId);
      deps.telemetry.event('wake-up-lost', { endpointId, overdueMs: nowEpochMs - wakeAtEpochMs });
      woken++;
    } catch (error) {
      deps.telemetry.fault('wake-failed', error, { endpointId });
    }
  }
  return woken;
}

async function repairLanes(deps: SweepDeps): Promise<number> {
  const nowEpochMs = deps.clock.nowEpochMs();
  const part = Math.floor(nowEpochMs / (limits.periodS * 1_000)) % limits.parts;
  let repaired = 0;
  for (const endpointId of await deps.holding.withHeld(part, limits.parts, nowEpochMs - limits.burialMs)) {
    try {
      if (await deps.holding.isKnown(endpointId)) continue;
      // Overdue from the start, were the wake-up below to be lost.
      if ((await deps.lanes.hold(endpointId, { count: 0, nowEpochMs, wakeAtEpochMs: nowEpochMs, isReady: true })).kind !== 'noted') continue;
      await deps.wake(endpointId);
      deps.telemetry.event('hold-found', { endpointId });
      repaired++;
    } catch (error) {
      deps.telemetry.fault('repair-failed', error, { endpointId });
    }
  }
  return repaired;
}
