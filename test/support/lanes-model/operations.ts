/** Calls of the ports, each with what it does in the sequential model. */
import { reapExpired } from '../../../lambdas/deliver/reap.ts';
import { blankOf } from '../../../lambdas/deliver/decide-copy.ts';
import type { Copy, DeliverDeps } from '../../../lambdas/deliver/types.ts';
import { afterReap } from '../../../lambdas/shared/core/decide.ts';
import type { Breaker } from '../../../lambdas/shared/core/breaker.ts';
import type { DaySpent } from '../../../lambdas/shared/core/day.ts';
import type { Claim, Lane, Lease } from '../../../lambdas/shared/core/lane.ts';
import type { Pace } from '../../../lambdas/shared/core/pace.ts';
import type { DeadRecord, DeliveryRecord, WaitingRecord } from '../../../lambdas/shared/core/record.ts';
import type { Admission, DrainEnd, DrainRun, Endpoint, GiveBack, LaneGuard, Lanes, MoveAnswer, ReapClaim } from '../../../lambdas/shared/ports/index.ts';
import type { RealWorld } from './reals.ts';
import * as model from './state.ts';
import type { Instant, State } from './state.ts';

export interface Operation {
  readonly label: string;
  /** What it reads before its one write, and in how many requests. */
  readonly reads: readonly Instant[];
  readonly readRequests: number;
  readonly write: Instant;
  /** Whether it is a transaction: its repeat by the SDK carries its token, changes nothing, and has the first one's answer. */
  readonly hasToken: (before: State) => boolean;
  /** The write once more, where a repeat is another write. */
  readonly again: Instant;
  /** What the one request of it does by itself, where its caller would go on from a refusal. */
  readonly request?: Instant;
  /** True for a hold of a record: a write that meets it makes a second request, so that what a repeat does is not known before. */
  readonly isHold?: boolean;
  /** What a caller is told who never hears of the write. */
  readonly unsure: unknown;
  readonly perform: (world: RealWorld) => Promise<unknown>;
}

function single(label: string, write: Instant, unsure: unknown, perform: Operation['perform']): Operation {
  return { label, reads: [], readRequests: 0, write, again: write, hasToken: () => false, unsure, perform };
}

/** Of what was moved only that it was. */
const plainly = async (answer: Promise<MoveAnswer>): Promise<MoveAnswer> => {
  const told = await answer;
  return told.kind === 'moved' ? { kind: 'moved' } : told;
};

const always = { again: (state: State, seen: unknown) => ({ state, seen }), hasToken: () => true };

export function admit(label: string, ask: Admission): Operation {
  return single(label, (state) => model.admitted(state, ask), { kind: 'unsure' }, ({ lanes }) => lanes.admit(ask));
}

export function exchange(label: string, give: GiveBack, ask: Admission): Operation {
  return single(label, (state) => model.exchanged(state, give, ask), { kind: 'unsure' }, ({ lanes }) => lanes.exchange(give, ask));
}

export function giveBack(label: string, give: GiveBack): Operation {
  return single(label, (state) => model.gaveBack(state, give), 'unsure', ({ lanes }) => lanes.giveBack(give));
}

export function moveBreaker(label: string, endpointId: string, from: Breaker | undefined, to: Breaker): Operation {
  return single(label, (state) => model.breakerMoved(state, from, to), { kind: 'unsure' }, ({ lanes }) => plainly(lanes.moveBreaker(endpointId, from, to)));
}

export function moveRate(label: string, endpointId: string, fromEpochMs: number | undefined, toEpochMs: number): Operation {
  return single(label, (state) => model.rateMoved(state, fromEpochMs, toEpochMs), { kind: 'unsure' }, ({ lanes }) => plainly(lanes.moveRate(endpointId, fromEpochMs, toEpochMs)));
}

export function moveDay(label: string, endpointId: string, from: DaySpent | undefined, to: DaySpent): Operation {
  return single(label, (state) => model.dayMoved(state, from, to), { kind: 'unsure' }, ({ lanes }) => plainly(lanes.moveDay(endpointId, from, to)));
}

export function reapLease(label: string, endpointId: string, leaseId: string, seen: Lease): Operation {
  return single(label, (state) => model.leaseReaped(state, leaseId, seen), undefined, ({ lanes }) => lanes.reapLease(endpointId, leaseId, seen));
}

export function write(label: string, from: DeliveryRecord | undefined, to: DeliveryRecord): Operation {
  const op = single(label, (state) => model.written(state, from, to), 'unsure', ({ records }) => records.write(from, to));
  // Across a hold the first request changes nothing, so neither does its repeat.
  const isAcross = (state: State) => model.isHeldBetween(state.records.get(to.recordKey), from);
  return { ...op, hasToken: isAcross, request: (state) => model.writtenOver(state, from, to) };
}

export function holdRecord(label: string, from: WaitingRecord | undefined, to: WaitingRecord): Operation {
  return { ...single(label, (state) => model.recordHeld(state, from, to), 'unsure', ({ records }) => records.hold(from, to)), isHold: true };
}

export function hold(label: string, endpointId: string, note: Parameters<Lanes['hold']>[1]): Operation {
  return single(label, (state) => model.held(state, note), { kind: 'unsure' }, ({ lanes }) => lanes.hold(endpointId, note));
}

export function moveWakeUp(label: string, endpointId: string, fromEpochMs: number, toEpochMs: number): Operation {
  return single(label, (state) => model.wakeUpMoved(state, fromEpochMs, toEpochMs), { kind: 'unsure' }, ({ lanes }) => lanes.moveWakeUp(endpointId, fromEpochMs, toEpochMs));
}

export function beginDrain(label: string, endpointId: string, run: DrainRun, nowEpochMs: number): Operation {
  return single(label, (state) => model.drainBegun(state, run, nowEpochMs), { kind: 'unsure' }, ({ lanes }) => lanes.beginDrain(endpointId, run, nowEpochMs));
}

export function endDrain(label: string, endpointId: string, end: DrainEnd): Operation {
  return single(label, (state) => model.drainEnded(state, end), { kind: 'unsure' }, ({ lanes }) => lanes.endDrain(endpointId, end));
}

export function movePace(label: string, endpointId: string, from: Pace | undefined, to: Pace | undefined): Operation {
  return single(label, (state) => model.paceMoved(state, from, to), { kind: 'unsure' }, ({ lanes }) => lanes.movePace(endpointId, from, to));
}

export function markBuried(label: string, record: DeadRecord): Operation {
  return single(label, (state) => model.markedBuried(state, record), 'unsure', ({ records }) => records.markBuried(record));
}

export function writeUnclaimed(label: string, from: DeliveryRecord | undefined, to: DeliveryRecord, guard: LaneGuard): Operation {
  const op = single(label, (state) => model.writtenUnclaimed(state, from, to, guard), { answer: 'unsure' }, ({ records }) => records.writeUnclaimed(from, to, guard));
  return { ...op, ...always };
}

/** As the flow reaps an expired claim: the record is read, and an attempt without a verdict is written with it. */
export function reapClaim(label: string, copy: Copy, claim: Claim, nowEpochMs: number): Operation {
  const { recordKey, claimKey, message: { endpointId } } = copy;
  const reap = (ambiguous: ReapClaim['ambiguous']): ReapClaim => ({ endpointId, claimKey, claim, ambiguous });
  const owed = (seen: unknown) => owedBy(seen as DeliveryRecord | undefined, copy, claim, nowEpochMs);
  return {
    label,
    reads: [(state) => ({ state, seen: state.records.get(recordKey) })],
    readRequests: 1,
    write: (state, seen) => model.claimReaped(state, reap(owed(seen))),
    // Without a verdict to write it is a single write.
    hasToken: (before) => owed(before.records.get(recordKey)) !== undefined,
    again: (state) => model.claimReaped(state, reap(undefined)),
    unsure: false,
    perform: (world) => reapExpired(depsOf(world, nowEpochMs), copy, claim, undefined),
  };
}

/** The attempt that a dead owner owes: none where its verdict is there. */
function owedBy(record: DeliveryRecord | undefined, copy: Copy, claim: Claim, nowEpochMs: number): ReapClaim['ambiguous'] {
  if (record === undefined) return { from: undefined, to: afterReap(blankOf(copy), claim.leaseId, nowEpochMs, undefined) };
  if (record.state !== 'waiting' || record.lastLease?.leaseId === claim.leaseId) return undefined;
  return { from: record, to: afterReap(record, claim.leaseId, nowEpochMs, undefined) };
}

function depsOf({ lanes, records }: RealWorld, nowEpochMs: number): DeliverDeps {
  return { lanes, records, clock: { nowEpochMs: () => nowEpochMs }, telemetry: { event: () => undefined } } as unknown as DeliverDeps;
}

export function put(label: string, endpoint: Endpoint): Operation {
  return {
    label,
    reads: [(state) => ({ state, seen: state.lane })],
    readRequests: 2,
    write: (state, seen) => model.put(state, seen as Lane | undefined, endpoint.version, endpoint.config.maxInFlight),
    ...always,
    unsure: 'unsure',
    perform: ({ registry }) => orUnsure(registry.put(endpoint)),
  };
}

export function remove(label: string, endpointId: string): Operation {
  return {
    label,
    reads: [(state) => ({ state, seen: state.version })],
    readRequests: 2,
    write: (state, seen) => model.removed(state, seen as string | undefined),
    ...always,
    unsure: 'unsure',
    perform: ({ registry }) => orUnsure(registry.remove(endpointId)),
  };
}

/** An operator whose command hears nothing is told so by an exception. */
async function orUnsure<T>(command: Promise<T>): Promise<T | 'unsure'> {
  try {
    return await command;
  } catch (error) {
    if ((error as Error).name === 'TimeoutError') return 'unsure';
    throw error;
  }
}
