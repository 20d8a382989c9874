/**
 * The sequential model: an endpoint's lane, configuration and records, and what each write does to them at its one
 * instant. It knows nothing of expressions and conditions; it says what the ports promise.
 */
import { laneOf } from '../builders.ts';
import { isDeepStrictEqual } from 'node:util';
import type { Breaker } from '../../../lambdas/shared/core/breaker.ts';
import { claimEndsEpochMs, removedCfg, type Claim, type Lane, type Lease } from '../../../lambdas/shared/core/lane.ts';
import { stateName, type DeadRecord, type DeliveryRecord } from '../../../lambdas/shared/core/record.ts';
import type { Admission, GiveBack, LaneGuard, ReapClaim } from '../../../lambdas/shared/ports/index.ts';

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
  const kind = ask.canaryOf === undefined ? 'admit' : 'canary';
  const why = [...inTheWay(lane, ask, lane.avail, kind), ...reasons({ [`${kind}: the lease is there`]: lane.leases.has(ask.leaseId) })];
  return why.length > 0 ? { state, seen: { kind: 'refused', lane }, why } : granted(state, taken(lane, ask));
}

export function exchanged(state: State, give: GiveBack, ask: Admission): Seen {
  const { lane } = state;
  if (lane === undefined) return { state, seen: { kind: 'refused', lane } };
  const why = [...notOwn(lane, give, 'exchange'), ...inTheWay(lane, ask, lane.avail + give.slots, 'exchange')];
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
  return { state: ambiguous === undefined ? freed : withRecord(freed, ambiguous.to), seen: true };
}

export function written(state: State, from: DeliveryRecord | undefined, to: DeliveryRecord): Seen {
  const found = state.records.get(to.recordKey);
  const why = changed(found, from);
  if (why.length === 0) return { state: withRecord(state, to), seen: 'written' };
  return { state, seen: isOwnWrite(found, to) ? 'written' : 'lost', why };
}

export function markedBuried(state: State, record: DeadRecord): Seen {
  return written(state, record, { ...record, phase: 'buried' });
}

export function writtenUnclaimed(state: State, from: DeliveryRecord | undefined, to: DeliveryRecord, guard: LaneGuard): Seen {
  const { lane } = state;
  const claim = lane?.claims.get(guard.claimKey);
  const kind = guard.lane.kind === 'absent' ? 'bury as unknown' : 'bury';
  const serves = guard.lane.kind === 'absent' ? lane !== undefined && lane.cfg !== removedCfg : lane?.cfg !== guard.lane.cfg;
  const lost = reasons({ [`${kind}: another configuration`]: serves, [`${kind}: claimed`]: claim !== undefined });
  const record = written(state, from, to);
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
    : { ...lane, slots, cfg: version, avail: lane.avail + slots - lane.slots };
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
  return { state: { ...state, lane }, seen: { kind: 'granted', avail: lane.avail, breaker: lane.breaker, nextAtEpochMs: lane.nextAtEpochMs, pace: lane.pace, holding: lane.holding } };
}

/** What stands in the way of an admission that finds `avail` slots. */
function inTheWay(lane: Lane, ask: Admission, avail: number, kind: string): string[] {
  return reasons({
    [`${kind}: another configuration`]: lane.cfg !== ask.cfg,
    [`${kind}: no room`]: avail < ask.wanted.length,
    [`${kind}: claimed`]: ask.wanted.some((w) => lane.claims.has(w.claimKey)),
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
  return { ...lane, avail: lane.avail + give.slots, leases, claims: without(lane.claims, give.release), failures };
}

function isClaim(found: Claim | undefined, claim: Claim): boolean {
  return found?.leaseId === claim.leaseId && found.shortHash === claim.shortHash;
}

/** In what a record differs from the one that a decision was made from. What has a verdict goes on only as a whole. */
function changed(found: DeliveryRecord | undefined, from: DeliveryRecord | undefined): string[] {
  const [was, is] = [stateName(from), stateName(found)];
  const differs = { state: was !== is, generation: found?.generation !== from?.generation, attempt: found?.attempt !== from?.attempt };
  if (was !== 'waiting' || found === undefined) return reasons({ [`${was} record: it has changed`]: differs.state || differs.generation || differs.attempt });
  return reasons({
    'waiting record: another state': differs.state,
    'waiting record: another generation': differs.generation,
    'waiting record: another attempt': differs.attempt,
  });
}

/** A lost condition on one's own write is one's own repeat. */
function isOwnWrite(found: DeliveryRecord | undefined, to: DeliveryRecord): boolean {
  const reason = (record: DeliveryRecord | undefined) => (record?.state === 'dead' ? record.reason : undefined);
  return changed(found, to).length === 0 && found?.lastLease?.leaseId === to.lastLease?.leaseId && found?.lastLease?.kind === to.lastLease?.kind && reason(found) === reason(to);
}

function withRecord(state: State, record: DeliveryRecord): State {
  return { ...state, records: new Map([...state.records, [record.recordKey, record]]) };
}

function without<T>(all: ReadonlyMap<string, T>, keys: readonly string[]): Map<string, T> {
  return new Map([...all].filter(([key]) => !keys.includes(key)));
}
