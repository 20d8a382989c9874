import type { Invocation } from '../deliver/types.ts';
import { sendWaves, type Waves } from '../deliver/waves.ts';
import { triedFromEpochMs } from '../shared/core/breaker.ts';
import { drain as limits, hold as holdLimits } from '../shared/limits/numbers.ts';
import { buryAged } from './bury-aged.ts';
import { clearDeadRuns } from './clear-dead-runs.ts';
import { endRun, type Next } from './end-run.ts';
import { finishBurials } from './finish-burials.ts';
import { createHeldCopies } from './held-copies.ts';
import { createTurn, type Turn } from './turn.ts';
import type { DrainDeps } from './types.ts';

/**
 * One turn of one endpoint: what is held for it is sent, the longest due first, at its lane's pace. Then it says when it is to
 * come again: at once where it got on and more is due, else when something may have changed; never while nothing can.
 */
export async function drainEndpoint(deps: DrainDeps, endpointId: string, invocation: Invocation): Promise<void> {
  const leaseId = deps.random.leaseId();
  const begun = await deps.lanes.beginDrain(endpointId, { leaseId, expiresEpochMs: invocation.leaseExpiresEpochMs }, deps.clock.nowEpochMs());
  // Nothing is held, or another run is at it and looks again before it ends. Unsure: if it was begun, its expiry is the next wake-up.
  if (begun.kind !== 'begun' || begun.lane === undefined) return;
  const { holdSeq, holding, slots, nextAtEpochMs } = begun.lane;
  await clearDeadRuns(deps, endpointId, begun.lane);
  const isBuried = await finishBurials(deps, endpointId);
  const held = createHeldCopies(deps, endpointId, limits.pageLanes * Math.max(1, slots));
  const turn = createTurn(deps, held, nextAtEpochMs, invocation);
  const waves = await sendWaves(deps, endpointId, [], turn, invocation);
  const aged = await buryAged(deps, waves, held, invocation);
  await turn.ended();
  const taken = turn.taken() + aged;
  deps.telemetry.event('drained', { endpointId, attempts: turn.attempts(), taken, stop: waves.stop.kind });
  const next = await nextOf(deps, endpointId, waves, turn, isBuried);
  await endRun(deps, { endpointId, leaseId, seq: holdSeq, heldAtEpochMs: holding?.heldAtEpochMs ?? 0, taken }, next);
}

/** When to come again, by what stopped the run. `isBuried`: no burial of a dead run is left. */
async function nextOf(deps: DrainDeps, endpointId: string, { stop, endpoint }: Waves, turn: Turn, isBuried: boolean): Promise<Next> {
  const nowEpochMs = deps.clock.nowEpochMs();
  // A run that got nowhere would get nowhere again.
  const soonEpochMs = turn.attempts() + turn.taken() > 0 ? nowEpochMs : nowEpochMs + limits.busyMs;
  switch (stop.kind) {
    case 'open': {
      const fromEpochMs = endpoint?.config === undefined ? nowEpochMs : triedFromEpochMs(stop.open, endpoint.config.breaker, nowEpochMs);
      return { kind: 'blocked', untilEpochMs: Math.max(fromEpochMs, stop.open.canary?.expiresEpochMs ?? 0, nowEpochMs) };
    }
    case 'paused':
      return { kind: 'blocked', untilEpochMs: nowEpochMs + holdLimits.pausedLookMs };
    case 'rate':
      return { kind: 'blocked', untilEpochMs: stop.untilEpochMs };
    case 'unknown':
      return { kind: 'blocked', untilEpochMs: nowEpochMs + limits.busyMs };
    case 'full':
    case 'slow':
      return { kind: 'blocked', untilEpochMs: soonEpochMs };
    case 'done': {
      const dueEpochMs = await earliestDue(deps, endpointId, turn);
      if (dueEpochMs === undefined) return isBuried ? { kind: 'empty' } : { kind: 'blocked', untilEpochMs: nowEpochMs + limits.busyMs };
      return { kind: 'due', fromEpochMs: Math.max(dueEpochMs, soonEpochMs) };
    }
  }
}

/** When the first of what is held is due, as far as the index knows; what this run has settled it may still show as it was before. */
async function earliestDue(deps: DrainDeps, endpointId: string, turn: Turn): Promise<number | undefined> {
  let from: unknown;
  let known: number | undefined;
  for (let pages = 0; pages < limits.lookPages; pages++) {
    const { keys, next } = await deps.held.page(endpointId, limits.lookPage, from);
    for (const { recordKey, dueEpochMs } of keys) {
      const now = turn.dueOf(recordKey);
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
