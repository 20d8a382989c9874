import type { Invocation } from '../deliver/types.ts';
import { sendWaves, type Stop, type Waves } from '../deliver/waves.ts';
import { probedFromEpochMs } from '../shared/core/breaker.ts';
import type { Lane } from '../shared/core/lane.ts';
import { drain as limits, hold as holdLimits, lease } from '../shared/limits/numbers.ts';
import type { HeldPage } from '../shared/ports/index.ts';
import { buryAged } from './bury-aged.ts';
import { clearDeadRuns } from './clear-dead-runs.ts';
import { endRun, type Done, type Next, type Run } from './end-run.ts';
import { finishBurials } from './finish-burials.ts';
import { createHeldCopies, createUnknownCopies } from './held-copies.ts';
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

const mayLook: ReadonlySet<Stop['kind']> = new Set(['done', 'full', 'rate']);

interface Served extends Done {
  readonly next: Next;
}

async function serve(deps: DrainDeps, endpointId: string, lane: Lane, invocation: Invocation): Promise<Served> {
  await clearDeadRuns(deps, endpointId, lane);
  const isBuried = await finishBurials(deps, endpointId);
  const turn = createTurn(deps, lane, invocation);
  const [slots, seen] = [Math.max(1, lane.slots), new Set<string>()];
  const held = createHeldCopies(deps, endpointId, { pageSize: limits.pageLanes * slots, isOver: turn.isOver, seen });
  const waves = await sendWaves(deps, endpointId, [], turn.pacing(held), invocation);
  const aged = await buryAged(deps, waves, held, invocation);
  const unknown = createUnknownCopies(deps, endpointId, { pageSize: Math.max(1, Math.floor(limits.lookShare * slots)), isOver: turn.areLooksOver, seen });
  // What stands in the way of a delivery stands in the way of a look, but for the day, and the rate that deliveries share with it.
  // While the breaker may be tried, a delivery is tried first.
  const looks = mayLook.has(waves.stop.kind) ? await sendWaves(deps, endpointId, [], turn.looking(unknown), invocation) : undefined;
  await turn.ended();
  const taken = turn.taken() + aged.buried + [...waves.exits.values()].filter(({ kind }) => kind === 'ack').length;
  deps.telemetry.event('drained', { endpointId, attempts: turn.attempts(), taken, stop: waves.stop.kind });
  const next = sooner(await nextOf(deps, waves, heldIndex(deps, endpointId, turn), turn.attempts() > 0 || taken > 0), await nextLooks(deps, endpointId, looks, turn));
  // What is left half done is this run's own: nobody else would come for it.
  const isUnfinished = !isBuried || !aged.isFinished || turn.hasOpenBurial() || [...waves.exits.values(), ...(looks?.exits.values() ?? [])].some(({ kind }) => kind === 'retain');
  const leavesClaims = waves.leavesClaims || looks?.leavesClaims === true;
  const done: Done = { taken, movedEpochMs: turn.movedEpochMs() };
  if (!isUnfinished && !leavesClaims) return { ...done, next };
  return { ...done, next: noLater(next, leavesClaims ? invocation.leaseExpiresEpochMs : deps.clock.nowEpochMs() + limits.busyMs) };
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

/** The sooner of two times to come again. */
function sooner(held: Next, looks: Next): Next {
  if (looks.kind !== 'due') return held;
  return held.kind === 'empty' ? looks : noLater(held, looks.fromEpochMs);
}

/** When to look next; `empty` where nothing is to be looked for, or no look was tried: what stood in the way has its own time. */
async function nextLooks(deps: DrainDeps, endpointId: string, looks: Waves | undefined, turn: Turn): Promise<Next> {
  if (looks === undefined) return { kind: 'empty' };
  const nowEpochMs = deps.clock.nowEpochMs();
  const next = await nextOf(deps, looks, unknownIndex(deps, endpointId, turn), turn.looks() > 0);
  if (next.kind !== 'blocked') return next;
  // Something is to be looked for now. Live traffic has its slots meanwhile: nothing of it is to be sent.
  const pauseMs = turn.hasSilentLook() ? limits.lookPauseMs : looks.stop.kind === 'open' ? limits.busyMs : 0;
  return { kind: 'due', fromEpochMs: Math.max(next.untilEpochMs, nowEpochMs + pauseMs) };
}

const heldIndex = (deps: DrainDeps, endpointId: string, turn: Turn): Indexed => ({ page: (from) => deps.held.page(endpointId, limits.lookPage, from), timeOf: (key) => turn.dueOf(key), known: turn.earliestDue() });
const unknownIndex = (deps: DrainDeps, endpointId: string, turn: Turn): Indexed => ({ page: (from) => deps.held.unknown(endpointId, limits.lookPage, from), timeOf: (key) => turn.lookOf(key), known: turn.earliestLook() });

/** When to come again, by what stopped the waves. */
async function nextOf(deps: DrainDeps, { stop, endpoint }: Waves, index: Indexed, gotOn: boolean): Promise<Next> {
  const nowEpochMs = deps.clock.nowEpochMs();
  // A run that got nowhere would get nowhere again.
  const soonEpochMs = gotOn ? nowEpochMs : nowEpochMs + limits.busyMs;
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
      const dueEpochMs = await earliest(deps, index);
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
