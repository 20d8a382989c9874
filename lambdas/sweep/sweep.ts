import { sweep as limits } from '../shared/limits/numbers.ts';
import type { FlushedTelemetry, Lanes, Tidied } from '../shared/ports/index.ts';
import { attendEndpoints, type AttendDeps } from './attend.ts';
import { escalate, type EscalateDeps } from './escalate.ts';

/** A lane whose wake-up is overdue. */
export interface Overdue {
  readonly endpointId: string;
  readonly wakeAtEpochMs: number;
}

export interface SweepDeps extends AttendDeps, EscalateDeps {
  readonly telemetry: FlushedTelemetry;
  readonly lanes: Pick<Lanes, 'moveWakeUp' | 'hold' | 'takeWindow' | 'moveTold'>;
  readonly holding: {
    /** Lanes whose wake-up was due before a time, the longest overdue first. */
    overdue(beforeEpochMs: number, limit: number): Promise<readonly Overdue[]>;
    /** Endpoints that have held deliveries, or unknown ones that are to be looked for, or burials that were begun before a time and not finished; of one of `parts` parts of them. */
    withHeld(part: number, parts: number, buriedBeforeEpochMs: number): Promise<ReadonlySet<string>>;
    /** True where the endpoint's lane says that something is held, or there is no lane that could. */
    isKnown(endpointId: string): Promise<boolean>;
  };
  /** Wakes the drain now. Rejects if that is not known to be ordered. */
  wake(endpointId: string): Promise<void>;
  readonly deadLetters: {
    /** Copies in the dead-letter queue that could be received now, about. */
    ready(): Promise<number>;
    /** Deletes stale copies, asking before each page whether it may go on; says when the oldest was sent that it has seen and left. */
    tidy(mayGoOn: () => boolean): Promise<Tidied & { readonly stop: string; readonly oldestSentEpochMs: number | undefined }>;
  };
}

/**
 * Finds what lost its wake-up, and orders another. Also looks through a part of what is held, all of it once an hour, for endpoints
 * whose lane does not know of it: a hold that died half way, whose message never came back, or a burial that nobody finished.
 * Beside that it looks at every lane, for endpoints that need somebody (attend.ts).
 * With the time that is left it tells of them (escalate.ts), clears stale copies out of the dead-letter queue, and says how old the oldest is that it sees there.
 */
export async function sweep(deps: SweepDeps): Promise<void> {
  const startedMs = deps.clock.monotonicMs();
  // Beside each other: what is seen must not come later because much is to be woken, nor the other way round.
  const [{ woken, found }, seen] = await Promise.all([wakeAndRepair(deps), attendEndpoints(deps)]);
  deps.telemetry.event('swept', { woken, found });
  // Said before anything waits for a topic, or walks a queue: a run that is killed by that has said what it saw.
  deps.telemetry.flush();
  await Promise.all([tidy(deps, startedMs), escalate(deps, seen, startedMs)]);
}

async function wakeAndRepair(deps: SweepDeps): Promise<{ woken: number; found: number }> {
  const woken = await wakeOverdue(deps);
  return { woken, found: await repairLanes(deps) };
}

/** Never costs the rest of the run anything: it comes last, and what it does not get done stays harmless. */
async function tidy({ clock, deadLetters, telemetry }: SweepDeps, startedMs: number): Promise<void> {
  const endsMs = Math.min(clock.monotonicMs() + limits.tidyMs, startedMs + limits.tidyUntilMs);
  let receives = 0;
  try {
    if ((await deadLetters.ready()) === 0) return telemetry.gauge('oldest_dead_letter_age', 0);
    const { oldestSentEpochMs, stop, looked, stale, deleted, kept, unknown } = await deadLetters.tidy(() => receives++ < limits.tidyReceives && clock.monotonicMs() < endsMs);
    telemetry.event('tidied', { stop, looked, stale, deleted, kept, unknown });
    // SQS leaves out of its own age what was received three times, which every copy here soon was.
    if (looked > 0) telemetry.gauge('oldest_dead_letter_age', ageS(oldestSentEpochMs, clock.nowEpochMs()));
  } catch (error) {
    telemetry.fault('tidy-failed', error);
  }
}

function ageS(sentEpochMs: number | undefined, nowEpochMs: number): number {
  return sentEpochMs === undefined ? 0 : Math.max(0, Math.round((nowEpochMs - sentEpochMs) / 1_000));
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
