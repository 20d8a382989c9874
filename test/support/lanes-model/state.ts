/**
 * The sequential model: an endpoint's lane, configuration and records, and what each write does to them at its one
 * instant. It knows nothing of expressions and conditions; it says what the ports promise.
 */
import { laneOf } from '../builders.ts';
import { isDeepStrictEqual } from 'node:util';
import type { Breaker } from '../../../lambdas/shared/core/breaker.ts';
import type { DaySpent } from '../../../lambdas/shared/core/day.ts';
import type { Pace } from '../../../lambdas/shared/core/pace.ts';
import { claimEndsEpochMs, removedCfg, type Claim, type Lane, type Lease } from '../../../lambdas/shared/core/lane.ts';
import { stateName, type DeadRecord, type DeliveryRecord, type WaitingRecord } from '../../../lambdas/shared/core/record.ts';
import { emptyTally, merged } from '../../../lambdas/shared/core/statistics.ts';
import type { Admission, DrainEnd, DrainRun, GiveBack, LaneGuard, ReapClaim } from '../../../lambdas/shared/ports/index.ts';

export interface State {
  readonly lane: Lane | undefined;
  /** Version of the endpoint's configuration; undefined where there is none. */
  readonly version: string | undefined;
  readonly records: ReadonlyMap<string, DeliveryRecord>;
}

/** The state after an instant, and what its caller has seen of it. */
export interface Seen {
  readonly state: State;
  readonly seen: unknown;
  /** Everything that stood in its way. What only one thing stops is what a mistake about that thing lets through. */
  readonly why?: readonly string[];
}

/** Something that happens at once. It is given what its caller saw in the instant before. */
export type Instant = (state: State, seen: unknown) => Seen;

export function admitted(state: State, ask: Admission): Seen {
  const { lane } = state;
  if (lane === undefined) return { state, seen: { kind: 'refused', lane } };
  const kind = ask.canaryOf !== undefined ? 'canary' : ask.live === undefined ? 'the drain\'s admit' : 'admit';
  const why = [...inTheWay(lane, ask, lane.avail, kind), ...reasons({ [`${kind}: the lease is there`]: lane.leases.has(ask.leaseId) })];
  return why.length > 0 ? { state, seen: { kind: 'refused', lane }, why } : granted(state, taken(lane, ask));
}

export function exchanged(state: State, give: GiveBack, ask: Admission): Seen {
  const { lane } = state;
  if (lane === undefined) return { state, seen: { kind: 'refused', lane } };
  const kind = ask.live === undefined ? 'the drain\'s exchange' : 'exchange';
  const why = [...notOwn(lane, give, kind), ...inTheWay(lane, ask, lane.avail + give.slots, kind)];
  return why.length > 0 ? { state, seen: { kind: 'refused', lane }, why } : granted(state, taken(returned(lane, give), ask));
}

export function gaveBack(state: State, give: GiveBack): Seen {
  const { lane } = state;
  if (lane === undefined) return { state, seen: 'lost' };
  const why = notOwn(lane, give, 'give back');
  if (why.length === 0) return { state: { ...state, lane: returned(lane, give) }, seen: 'done' };
  // Nothing of it left is the same as done: the SDK may have repeated it.
  const isLeft = lane.leases.get(give.leaseId)?.slots === give.slots || give.release.some((key) => lane.claims.get(key)?.leaseId === give.leaseId);
  return { state, seen: isLeft ? 'lost' : 'done', why };
}

export function breakerMoved(state: State, from: Breaker | undefined, to: Breaker): Seen {
  const { lane } = state;
  if (lane === undefined) return { state, seen: { kind: 'lost', lane } };
  const now = lane.breaker;
  const why = from === undefined
    ? reasons({ 'report: there is a tally': now?.state === 'closed', 'report: it is open': now?.state === 'open' })
    : reasons({ [`report: not as it was, ${from.state}`]: !isDeepStrictEqual(now, from) });
  return why.length > 0 ? { state, seen: { kind: 'lost', lane }, why } : { state: { ...state, lane: { ...lane, breaker: to } }, seen: { kind: 'moved' } };
}

export function rateMoved(state: State, fromEpochMs: number | undefined, toEpochMs: number): Seen {
  const { lane } = state;
  if (lane === undefined) return { state, seen: { kind: 'lost', lane } };
  if (lane.nextAtEpochMs !== fromEpochMs) return { state, seen: { kind: 'lost', lane }, why: [`rate: ${fromEpochMs === undefined ? 'there is one' : 'another'}`] };
  return { state: { ...state, lane: { ...lane, nextAtEpochMs: toEpochMs } }, seen: { kind: 'moved' } };
}

export function dayMoved(state: State, from: DaySpent | undefined, to: DaySpent): Seen {
  const { lane } = state;
  if (lane === undefined) return { state, seen: { kind: 'lost', lane } };
  if (!isDeepStrictEqual(lane.day, from)) return { state, seen: { kind: 'lost', lane }, why: [`day: ${from === undefined ? 'there is one' : 'another'}`] };
  return { state: { ...state, lane: { ...lane, day: to } }, seen: { kind: 'moved' } };
}

export function leaseReaped(state: State, leaseId: string, seen: Lease): Seen {
  const { lane } = state;
  const found = lane?.leases.get(leaseId);
  if (lane === undefined || found?.slots !== seen.slots || found.expiresEpochMs !== seen.expiresEpochMs) {
    return { state, seen: undefined, why: ['reap: another lease'] };
  }
  return { state: { ...state, lane: { ...lane, avail: lane.avail + seen.slots, leases: without(lane.leases, [leaseId]) } }, seen: undefined };
}

export function claimReaped(state: State, reap: ReapClaim): Seen {
  const { lane } = state;
  if (lane === undefined) return { state, seen: false };
  const { ambiguous } = reap;
  const record = ambiguous === undefined ? [] : changed(state.records.get(ambiguous.to.recordKey), ambiguous.from);
  const why = [...record, ...reasons({ 'reap: another claim': !isClaim(lane.claims.get(reap.claimKey), reap.claim) })];
  if (why.length > 0) return { state, seen: false, why };
  const freed = { ...state, lane: { ...lane, claims: without(lane.claims, [reap.claimKey]) } };
  return { state: ambiguous === undefined ? freed : withRecord(freed, raised(state, ambiguous.from, ambiguous.to)), seen: true };
}

/** A hold that came between is kept: what waits on stays held, and the largest `resend`. */
export function written(state: State, from: DeliveryRecord | undefined, to: DeliveryRecord): Seen {
  const found = state.records.get(to.recordKey);
  if (!isHeldBetween(found, from)) return writtenOver(state, from, to);
  const kept = { ...to, resend: Math.max(to.resend, found.resend) };
  return { state: withRecord(state, kept.state === 'waiting' ? { ...kept, home: 'held' } : kept), seen: 'written' };
}

/** Nothing but a hold has come between. No record is as one that waits in generation 0, with no attempt. */
export function isHeldBetween(found: DeliveryRecord | undefined, from: DeliveryRecord | undefined): found is WaitingRecord {
  if (stateName(found) !== 'held' || !['absent', 'waiting'].includes(stateName(from))) return false;
  return found?.generation === (from?.generation ?? 0) && found.attempt === (from?.attempt ?? 0);
}

/** Over exactly what was read: of one request that nobody goes on from. */
export function writtenOver(state: State, from: DeliveryRecord | undefined, to: DeliveryRecord): Seen {
  const found = state.records.get(to.recordKey);
  const why = changed(found, from);
  if (why.length === 0) return { state: withRecord(state, raised(state, from, to)), seen: 'written' };
  return { state, seen: isOwnWrite(found, to) ? 'written' : 'lost', why };
}

export function recordHeld(state: State, from: WaitingRecord | undefined, to: WaitingRecord): Seen {
  const found = state.records.get(to.recordKey);
  const why = from === undefined
    ? reasons({ 'hold: there is a record': found !== undefined })
    : reasons({
      'hold: nothing waits': found?.state !== 'waiting', 'hold: another generation': found?.generation !== from.generation,
      'hold: another attempt': found?.attempt !== from.attempt, 'hold: asked for again': (found?.resend ?? 0) > to.resend,
    });
  if (why.length > 0) return { state, seen: found !== undefined && isOwnWrite(found, to) ? 'written' : 'lost', why };
  return { state: withRecord(state, found?.state === 'waiting' ? { ...found, home: 'held', resend: to.resend } : to), seen: 'written' };
}

export function held(state: State, note: { count: number; nowEpochMs: number; wakeAtEpochMs: number; isReady: boolean }): Seen {
  const { lane } = state;
  const why = reasons({ 'note a hold: no lane': lane === undefined, 'note a hold: removed': lane?.cfg === removedCfg });
  if (lane === undefined || why.length > 0) return { state, seen: { kind: 'noLane' }, why };
  const wakeAtEpochMs = lane.holding?.wakeAtEpochMs ?? note.wakeAtEpochMs;
  const holding = { heldAtEpochMs: note.nowEpochMs, wakeAtEpochMs, count: (lane.holding?.count ?? 0) + note.count, isReady: note.isReady || lane.holding?.isReady === true };
  return { state: { ...state, lane: { ...lane, holdSeq: lane.holdSeq + 1, holding } }, seen: { kind: 'noted', before: lane } };
}

export function wakeUpMoved(state: State, fromEpochMs: number, toEpochMs: number): Seen {
  const { lane } = state;
  if (lane?.holding === undefined || lane.holding.wakeAtEpochMs !== fromEpochMs) return { state, seen: { kind: 'lost', lane }, why: ['wake-up: another'] };
  return { state: { ...state, lane: { ...lane, holding: { ...lane.holding, wakeAtEpochMs: toEpochMs } } }, seen: { kind: 'moved' } };
}

export function drainBegun(state: State, run: DrainRun, nowEpochMs: number): Seen {
  const { lane } = state;
  const why = reasons({ 'begin: nothing is held': lane?.holding === undefined, 'begin: a run is alive': lane?.drain !== undefined && lane.drain.expiresEpochMs > nowEpochMs });
  if (lane?.holding === undefined || why.length > 0) return { state, seen: lane?.drain?.leaseId === run.leaseId ? { kind: 'begun', lane, wakeAtEpochMs: nowEpochMs, wasReady: true } : { kind: 'refused', lane }, why };
  const next = { ...lane, drain: run, holding: { ...lane.holding, wakeAtEpochMs: run.expiresEpochMs, isReady: true } };
  return { state: { ...state, lane: next }, seen: { kind: 'begun', lane: next, wakeAtEpochMs: lane.holding.wakeAtEpochMs, wasReady: lane.holding.isReady } };
}

export function drainEnded(state: State, { leaseId, seq, seenEpochMs, taken: count, wakeAtEpochMs, isReady }: DrainEnd): Seen {
  const { lane } = state;
  const why = reasons({ 'end: another run': lane?.drain?.leaseId !== leaseId, 'end: held meanwhile': lane?.holdSeq !== seq, 'end: asked for meanwhile': lane?.holding?.wakeAtEpochMs !== seenEpochMs });
  if (lane === undefined || why.length > 0) {
    const isOwn = lane !== undefined && lane.drain === undefined && lane.holdSeq === seq && lane.holding?.wakeAtEpochMs === wakeAtEpochMs;
    return { state, seen: isOwn ? { kind: 'moved' } : { kind: 'lost', lane }, why };
  }
  const holding = wakeAtEpochMs === undefined || lane.holding === undefined ? undefined : { ...lane.holding, wakeAtEpochMs, count: lane.holding.count - count, isReady };
  return { state: { ...state, lane: { ...lane, drain: undefined, holding } }, seen: { kind: 'moved' } };
}

export function paceMoved(state: State, from: Pace | undefined, to: Pace | undefined): Seen {
  const { lane } = state;
  const [is, was] = [lane?.pace, from];
  const why = was === undefined
    ? reasons({ 'first pace: no lane': lane === undefined, 'first pace: there is one': is !== undefined })
    : reasons({ [`pace, ${was.isSlow ? '' : 'not '}slow: another`]: is?.recent !== was.recent, [`pace, ${was.isSlow ? '' : 'not '}slow: it is not`]: (is?.isSlow ?? false) !== was.isSlow });
  if (lane === undefined || why.length > 0) return { state, seen: { kind: 'lost', lane }, why };
  return { state: { ...state, lane: { ...lane, pace: to } }, seen: { kind: 'moved' } };
}

export function markedBuried(state: State, record: DeadRecord): Seen {
  return writtenOver(state, record, { ...record, phase: 'buried' });
}

export function writtenUnclaimed(state: State, from: DeliveryRecord | undefined, to: DeliveryRecord, guard: LaneGuard): Seen {
  const { lane } = state;
  const claim = lane?.claims.get(guard.claimKey);
  const kind = guard.lane.kind === 'absent' ? 'bury as unknown' : 'bury';
  const serves = guard.lane.kind === 'absent' ? lane !== undefined && lane.cfg !== removedCfg : lane?.cfg !== guard.lane.cfg;
  const lost = reasons({ [`${kind}: another configuration`]: serves, [`${kind}: claimed`]: claim !== undefined });
  const record = writtenOver(state, from, to);
  const why = [...lost, ...(record.why ?? [])];
  // That there is no lane at all is by itself enough.
  if (lost.length === 0) return { state: record.state, seen: { answer: record.seen }, why: lane === undefined ? [...why, 'bury as unknown: no lane'] : why };
  return { state, seen: { answer: 'lost', ...(lane === undefined || claim === undefined ? {} : { claim: { ...claim, endsEpochMs: claimEndsEpochMs(lane, claim) } }) }, why };
}

/** `seen`: the lane as the operator's command read it. */
export function put(state: State, seen: Lane | undefined, version: string, slots: number): Seen {
  const { lane } = state;
  const why = seen === undefined
    ? reasons({ 'put: there is a lane': lane !== undefined })
    : reasons({ 'put: another configuration': lane?.cfg !== seen.cfg, 'put: another size': lane?.slots !== seen.slots });
  if (why.length > 0) return { state, seen: 'changed', why };
  const next = lane === undefined
    ? laneOf({ slots, avail: slots, cfg: version })
    : { ...lane, slots, cfg: version, avail: lane.avail + slots - lane.slots, failures: 0, row: undefined };
  return { state: { ...state, lane: next, version }, seen: 'written' };
}

/** `seen`: the version of the configuration that the command read. */
export function removed(state: State, seen: string | undefined): Seen {
  if (seen === undefined) return { state, seen: 'absent' };
  if (state.lane?.cfg !== seen) return { state, seen: 'changed', why: ['remove: another configuration'] };
  return { state: { ...state, lane: { ...state.lane, cfg: removedCfg }, version: undefined }, seen: 'removed' };
}

const reasons = (all: Readonly<Record<string, boolean>>): string[] => Object.keys(all).filter((reason) => all[reason]);

function granted(state: State, lane: Lane): Seen {
  return { state: { ...state, lane }, seen: { kind: 'granted', avail: lane.avail, failures: lane.failures, breaker: lane.breaker, nextAtEpochMs: lane.nextAtEpochMs, day: lane.day, pausedUntilEpochMs: lane.pausedUntilEpochMs, pace: lane.pace, flag: lane.flag, holding: lane.holding, window: lane.window, slots: lane.slots, learnedMs: lane.learnedMs } };
}

/** What stands in the way of an admission that finds `avail` slots. */
function inTheWay(lane: Lane, ask: Admission, avail: number, kind: string): string[] {
  return reasons({
    [`${kind}: another configuration`]: lane.cfg !== ask.cfg,
    [`${kind}: no room`]: avail < ask.wanted.length,
    [`${kind}: claimed`]: ask.wanted.some((w) => lane.claims.has(w.claimKey)),
    [`${kind}: slow`]: ask.live !== undefined && lane.pace?.isSlow === true,
    [`${kind}: left to the drain`]: ask.live !== undefined && lane.holding?.isReady === true && avail < ask.wanted.length + ask.live.kept && avail >= ask.wanted.length,
    [`${kind}: the breaker`]: ask.canaryOf === undefined ? lane.breaker?.state === 'open' : !isDeepStrictEqual(lane.breaker, ask.canaryOf),
  });
}

function taken(lane: Lane, ask: Admission): Lane {
  const { leaseId, expiresEpochMs, wanted, canaryOf } = ask;
  return {
    ...lane,
    breaker: canaryOf === undefined ? lane.breaker : { ...canaryOf, canary: { leaseId, expiresEpochMs } },
    avail: lane.avail - wanted.length,
    leases: new Map([...lane.leases, [leaseId, { slots: wanted.length, expiresEpochMs }]]),
    claims: new Map([...lane.claims, ...wanted.map(({ claimKey, shortHash }): [string, Claim] => [claimKey, { leaseId, shortHash }])]),
  };
}

/** A lease is given back once, with its slots, and only claims that are its own go with it. */
function notOwn(lane: Lane, give: GiveBack, kind: string): string[] {
  return reasons({
    [`${kind}: the lease has not these slots`]: lane.leases.get(give.leaseId)?.slots !== give.slots,
    [`${kind}: a claim is not its own`]: give.release.some((key) => lane.claims.get(key)?.leaseId !== give.leaseId),
  });
}

function returned(lane: Lane, give: GiveBack): Lane {
  const leases = without(lane.leases, [give.leaseId]);
  if (give.keep.length > 0) leases.set(give.leaseId, { slots: 0, expiresEpochMs: give.expiresEpochMs });
  const failures = give.successes > 0 ? 0 : lane.failures + give.failures;
  const { counted } = give;
  const window = counted === undefined ? lane.window : { sinceEpochMs: lane.window?.sinceEpochMs ?? counted.atEpochMs, ...merged(lane.window ?? emptyTally, counted.tally) };
  return { ...lane, avail: lane.avail + give.slots, leases, claims: without(lane.claims, give.release), failures, row: rowOf(lane, give), window };
}

/** Since the last success. */
function rowOf({ row }: Lane, { successes, failures, failed }: GiveBack): Lane['row'] {
  if (successes > 0) return undefined;
  if (failures === 0 || failed === undefined) return row;
  const { answered, atEpochMs } = failed;
  const before = failed.isFirst ? undefined : row;
  const shared = { sinceEpochMs: before?.sinceEpochMs ?? atEpochMs, lastEpochMs: atEpochMs, answered: (before?.answered ?? 0) + answered };
  return answered > 0
    ? { ...shared, answeredEpochMs: atEpochMs, unansweredEpochMs: undefined }
    : { ...shared, answeredEpochMs: before?.answeredEpochMs, unansweredEpochMs: before?.unansweredEpochMs ?? atEpochMs };
}

function isClaim(found: Claim | undefined, claim: Claim): boolean {
  return found?.leaseId === claim.leaseId && found.shortHash === claim.shortHash;
}

/** In what a record differs from the one that a decision was made from. What has a verdict goes on only as a whole. */
function changed(found: DeliveryRecord | undefined, from: DeliveryRecord | undefined): string[] {
  const [was, is] = [stateName(from), stateName(found)];
  const differs = { state: was !== is, generation: found?.generation !== from?.generation, attempt: found?.attempt !== from?.attempt };
  if (from?.state === 'unknown' && found !== undefined) {
    const isLooked = found.state !== 'unknown' || found.looks !== from.looks;
    return reasons({ 'unknown record: another generation': differs.generation, 'unknown record: another attempt': differs.attempt, 'unknown record: looked for, or unknown no more': isLooked });
  }
  if ((was !== 'waiting' && was !== 'held') || found === undefined) return reasons({ [`${was} record: it has changed`]: differs.state || differs.generation || differs.attempt });
  return reasons({
    'waiting record: another state, or home': differs.state,
    'waiting record: another generation': differs.generation,
    'waiting record: another attempt': differs.attempt,
  });
}

/** A lost condition on one's own write is one's own repeat. */
function isOwnWrite(found: DeliveryRecord | undefined, to: DeliveryRecord): boolean {
  const reason = (record: DeliveryRecord | undefined) => (record?.state === 'dead' ? record.reason : undefined);
  return changed(found, to).length === 0 && found?.lastLease?.leaseId === to.lastLease?.leaseId && found?.lastLease?.kind === to.lastLease?.kind && reason(found) === reason(to);
}

/** A `resend` that a write does not raise stays as it is. */
function raised(state: State, from: DeliveryRecord | undefined, to: DeliveryRecord): DeliveryRecord {
  const found = state.records.get(to.recordKey);
  return found !== undefined && from?.resend === to.resend ? { ...to, resend: found.resend } : to;
}

function withRecord(state: State, record: DeliveryRecord): State {
  return { ...state, records: new Map([...state.records, [record.recordKey, record]]) };
}

function without<T>(all: ReadonlyMap<string, T>, keys: readonly string[]): Map<string, T> {
  return new Map([...all].filter(([key]) => !keys.includes(key)));
}
