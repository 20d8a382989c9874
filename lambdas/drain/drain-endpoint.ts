import type { Invocation } from '../deliver/types.ts';
import { sendWaves, type Waves } from '../deliver/waves.ts';
import { probedFromEpochMs } from '../shared/core/breaker.ts';
import type { Lane } from '../shared/core/lane.ts';
import { drain as limits, hold as holdLimits, lease } from '../shared/limits/numbers.ts';
import type { HeldPage } from '../shared/ports/index.ts';
import { buryAged } from './bury-aged.ts';
import { clearDeadRuns } from './clear-dead-runs.ts';
import { endRun, type Done, type Next, type Run } from './end-run.ts';
import { finishBurials } from './finish-burials.ts';
import { byTurns, createHeldCopies, createUnknownCopies } from './held-copies.ts';
import { createTurn, type Turn } from './turn.ts';
import type { DrainDeps } from './types.ts';

/**
 * One turn of one endpoint: what is held for it is sent, the longest due first, at its lane's pace. Then it says when it is to
 * come again: at once where it got on and more is due, else when something may have changed; never while nothing can.
 */
export async function drainEndpoint(deps: DrainDeps, endpointId: string, invocation: Invocation): Promise<void> {
  const leaseId = deps.random.leaseId();
  const nowEpochMs = deps.clock.nowEpochMs();
  const begun = await deps.lanes.beginDrain(endpointId, { leaseId, expiresEpochMs: invocation.leaseExpiresEpochMs }, nowEpochMs);
  // Nothing is held, or another run is at it. Unsure: if it was begun, its expiry is the next wake-up.
  if (begun.kind !== 'begun') return;
  const run: Run = {
    endpointId, leaseId, expiresEpochMs: invocation.leaseExpiresEpochMs, seq: begun.lane.holdSeq, heldAtEpochMs: begun.lane.holding?.heldAtEpochMs ?? 0,
  };
  const isFresh = run.heldAtEpochMs + holdLimits.indexLagMs + lease.skewMs > nowEpochMs;
  if (begun.wakeAtEpochMs > nowEpochMs + lease.skewMs && !isFresh) {
    // One wake-up too many: the one that is ordered for then is left to come. Not right after a hold, which may rely on this run.
    await endRun(deps, run, { taken: 0 }, { kind: 'ordered', forEpochMs: begun.wakeAtEpochMs, isReady: begun.wasReady });
    return;
  }
  let served: Served = { taken: 0, next: { kind: 'blocked', untilEpochMs: nowEpochMs + limits.busyMs } };
  try {
    served = await serve(deps, endpointId, begun.lane, invocation);
  } catch (error) {
    // An index or a table that cannot be read: what was sent has its verdicts, and the rest has its turn soon.
    deps.telemetry.fault('drain-failed', error, { endpointId });
  }
  await endRun(deps, run, served, served.next);
}

interface Served extends Done {
  readonly next: Next;
}

async function serve(deps: DrainDeps, endpointId: string, lane: Lane, invocation: Invocation): Promise<Served> {
  await clearDeadRuns(deps, endpointId, lane);
  const isBuried = await finishBurials(deps, endpointId);
  const turn = createTurn(deps, lane.nextAtEpochMs, invocation);
  const pages = { pageSize: limits.pageLanes * Math.max(1, lane.slots), isOver: turn.isOver, seen: new Set<string>() };
  const held = createHeldCopies(deps, endpointId, pages);
  const waves = await sendWaves(deps, endpointId, [], turn.pacing(byTurns(createUnknownCopies(deps, endpointId, pages), held)), invocation);
  const aged = await buryAged(deps, waves, held, invocation);
  await turn.ended();
  const taken = turn.taken() + aged.buried + [...waves.exits.values()].filter(({ kind }) => kind === 'ack').length;
  deps.telemetry.event('drained', { endpointId, attempts: turn.attempts(), taken, stop: waves.stop.kind });
  const next = await nextOf(deps, endpointId, waves, turn, taken);
  // What is left half done is this run's own: nobody else would come for it.
  const isUnfinished = !isBuried || !aged.isFinished || turn.hasOpenBurial() || [...waves.exits.values()].some(({ kind }) => kind === 'retain');
  const done: Done = { taken, movedEpochMs: turn.movedEpochMs() };
  if (!isUnfinished && !waves.leavesClaims) return { ...done, next };
  return { ...done, next: noLater(next, waves.leavesClaims ? invocation.leaseExpiresEpochMs : deps.clock.nowEpochMs() + limits.busyMs) };
}

/** What is held may be due in hours: what is unfinished does not wait for that. */
function noLater(next: Next, untilEpochMs: number): Next {
  switch (next.kind) {
    case 'due':
      return { kind: 'due', fromEpochMs: Math.min(next.fromEpochMs, untilEpochMs) };
    case 'blocked':
      return { kind: 'blocked', untilEpochMs: Math.min(next.untilEpochMs, untilEpochMs) };
    case 'empty':
    case 'ordered':
      return { kind: 'blocked', untilEpochMs };
  }
}

/** When to come again, by what stopped the run. */
async function nextOf(deps: DrainDeps, endpointId: string, { stop, endpoint }: Waves, turn: Turn, taken: number): Promise<Next> {
  const nowEpochMs = deps.clock.nowEpochMs();
  // A run that got nowhere would get nowhere again.
  const soonEpochMs = turn.attempts() > 0 || taken > 0 ? nowEpochMs : nowEpochMs + limits.busyMs;
  switch (stop.kind) {
    case 'open': {
      const fromEpochMs = endpoint?.config === undefined ? nowEpochMs : probedFromEpochMs(stop.open, endpoint.config.breaker, nowEpochMs);
      return { kind: 'blocked', untilEpochMs: Math.max(fromEpochMs, nowEpochMs) };
    }
    case 'paused':
      return { kind: 'blocked', untilEpochMs: nowEpochMs + holdLimits.pausedLookMs };
    case 'rate':
      // It may want to be left alone for a day: what is past its age by then is given up as it is at a paused endpoint.
      return { kind: 'blocked', untilEpochMs: Math.min(stop.untilEpochMs, nowEpochMs + holdLimits.pausedLookMs) };
    case 'unknown':
      return { kind: 'blocked', untilEpochMs: nowEpochMs + limits.busyMs };
    case 'full':
    case 'slow':
      return { kind: 'blocked', untilEpochMs: soonEpochMs };
    case 'done': {
      const times = await Promise.all([
        earliest(deps, { page: (from) => deps.held.page(endpointId, limits.lookPage, from), timeOf: (key) => turn.dueOf(key), known: turn.earliestDue() }),
        earliest(deps, { page: (from) => deps.held.unknown(endpointId, limits.lookPage, from), timeOf: (key) => turn.lookOf(key), known: turn.earliestLook() }),
      ]);
      const dueEpochMs = times.reduce((first, at) => (first === undefined || (at !== undefined && at < first) ? at : first), undefined);
      if (dueEpochMs === undefined) return { kind: 'empty' };
      // Due before the next run: it may be sent then, were there room.
      return dueEpochMs < soonEpochMs ? { kind: 'blocked', untilEpochMs: soonEpochMs } : { kind: 'due', fromEpochMs: dueEpochMs };
    }
  }
}

/** What is held, or what is unknown, as the index shows it, and what this run knows better. */
interface Indexed {
  readonly page: (from: unknown) => Promise<HeldPage>;
  readonly timeOf: Turn['dueOf'];
  /** What this run has put off itself, the index may not show at all yet. */
  readonly known: number | undefined;
}

/** When the first of it is due, as far as the index knows; what this run has settled it may still show as it was before. */
async function earliest(deps: DrainDeps, index: Indexed): Promise<number | undefined> {
  let from: unknown;
  let { known } = index;
  for (let pages = 0; pages < limits.lookPages; pages++) {
    const { keys, next } = await index.page(from);
    for (const { recordKey, dueEpochMs } of keys) {
      const now = index.timeOf(recordKey);
      if (now === 'taken') continue;
      const due = now ?? dueEpochMs;
      known = Math.min(known ?? due, due);
      // The index is in the order of due times: what follows is due later.
      if (now === undefined) return known;
    }
    if (next === undefined) return known;
    from = next;
  }
  return known ?? deps.clock.nowEpochMs();
}
