import { held, renewed } from '../shared/core/decide.ts';
import { claimKeyOf } from '../shared/core/keys.ts';
import { isExpired, removedCfg, type Lane } from '../shared/core/lane.ts';
import { assertTransition, type DeadRecord, type WaitingRecord } from '../shared/core/record.ts';
import { hold as holdLimits, replay as limits } from '../shared/limits/numbers.ts';
import type { Move } from '../shared/ports/index.ts';
import { readPatiently } from './select.ts';
import type { Outcome } from './tally.ts';
import { pauseBetweenTries } from './tries.ts';
import type { ReplayDeps } from './types.ts';

/** By record key. */
export type Outcomes = Map<string, Outcome>;

/**
 * Moves dead deliveries of one endpoint to what is held, in this order: the body under its next generation, then records and lane in
 * one transaction, then the wake-up; last the body of the old generation goes. Who dies half way has moved all or nothing, and
 * the next replay finds out which. @param dueEpochMs a time for each next delivery, rising
 */
export async function moveBatch(deps: ReplayDeps, endpointId: string, batch: readonly DeadRecord[], dueEpochMs: () => number): Promise<Outcomes> {
  const { bodies, outcomes } = await readBodies(deps, batch);
  // One lease for all tries: whichever of them was applied, it is known as ours.
  const leaseId = deps.random.leaseId();
  const moves = batch.flatMap((from) => (bodies.has(from.recordKey) ? [moveOf(from, leaseId, { nowEpochMs: deps.clock.nowEpochMs(), dueEpochMs: dueEpochMs() })] : []));
  const kept = await Promise.all(moves.map(async (move) => {
    const answer = await deps.payloads.put(move.to, bodies.get(move.to.recordKey) ?? '', deps.clock.nowEpochMs());
    if (answer !== 'written') outcomes.set(move.to.recordKey, { kind: 'busy', why: 'the payload could not be written now' });
    return answer === 'written' ? [move] : [];
  }));
  for (const [key, outcome] of await moveRecords(deps, endpointId, kept.flat())) outcomes.set(key, outcome);
  const moved = batch.filter(({ recordKey }) => outcomes.get(recordKey)?.kind === 'replayed');
  if (moved.length === 0) return outcomes;
  deps.telemetry.event('replayed', { endpointId, deliveries: moved.length });
  try {
    await deps.wake(endpointId);
  } catch (error) {
    // Held they are, and the lane says since when somebody should have come: the sweep finds it.
    deps.telemetry.fault('wake-up-failed', error, { endpointId });
  }
  await Promise.all(moved.map((record) => deps.payloads.remove(record)));
  return outcomes;
}

/** Bodies of dead records, and what became of those that have none. */
export async function readBodies(deps: ReplayDeps, batch: readonly DeadRecord[]): Promise<{ bodies: ReadonlyMap<string, string>; outcomes: Outcomes }> {
  const { found: bodies, unread } = await deps.payloads.read(batch);
  const outcomes: Outcomes = new Map([...unread].map((key) => [key, { kind: 'busy', why: 'the payload could not be read now' }]));
  const missing = batch.filter(({ recordKey }) => !bodies.has(recordKey) && !unread.has(recordKey));
  if (missing.length === 0) return { bodies, outcomes };
  // Another replay removes the body once it has moved the record: then nothing is missing.
  const now = await readPatiently(deps, missing.map(({ recordKey }) => recordKey));
  for (const record of missing) {
    const found = now.found.get(record.recordKey);
    const isStill = found?.state === 'dead' && found.generation === record.generation;
    if (now.unread.includes(record.recordKey)) outcomes.set(record.recordKey, { kind: 'busy', why: 'the record could not be read now' });
    else outcomes.set(record.recordKey, isStill ? { kind: 'noPayload', why: record.reason === 'payload-missing' ? 'its body is lost: send it again, with a larger resend' : 'its body is in the dead-letter queue only, if anywhere' } : { kind: 'gone' });
  }
  return { bodies, outcomes };
}

function moveOf(from: DeadRecord, leaseId: string, { nowEpochMs, dueEpochMs }: { nowEpochMs: number; dueEpochMs: number }): Move {
  const to: WaitingRecord = held({ ...renewed(from, nowEpochMs, from.resend), dueEpochMs, lastLease: { leaseId, kind: 'settled' } }, from.resend);
  assertTransition(from, to);
  return { from, to, claimKey: claimKeyOf(from.eventId ?? '') };
}

/** Tries the transaction, without what stood in its way, until all of the rest is moved. */
async function moveRecords(deps: ReplayDeps, endpointId: string, moves: readonly Move[]): Promise<Outcomes> {
  const outcomes: Outcomes = new Map();
  let rest = moves;
  for (let tries = 0; rest.length > 0 && tries < limits.tries; tries++) {
    if (tries > 0) await pauseBetweenTries(deps, tries);
    const answer = await deps.replays.move(endpointId, rest, deps.clock.nowEpochMs());
    if (answer.kind === 'moved') for (const { to } of rest) outcomes.set(to.recordKey, { kind: 'replayed' });
    if (answer.kind === 'refused') {
      for (const [key, by] of answer.changed) outcomes.set(key, { kind: by === 'own' ? 'replayed' : 'gone' });
      const left = rest.filter(({ to }) => !outcomes.has(to.recordKey));
      if (answer.lane !== undefined) for (const [key, outcome] of await readLane(deps, endpointId, left, answer.lane.found)) outcomes.set(key, outcome);
    }
    rest = rest.filter(({ to }) => !outcomes.has(to.recordKey));
  }
  for (const { to } of rest) outcomes.set(to.recordKey, { kind: 'busy', why: 'DynamoDB did not take the move now' });
  return outcomes;
}

/** What a lane that refused says of each delivery; one whose claim is out of the way now is not in the answer. */
async function readLane(deps: ReplayDeps, endpointId: string, moves: readonly Move[], lane: Lane | undefined): Promise<Outcomes> {
  if (lane === undefined || lane.cfg === removedCfg) return new Map(moves.map(({ to }) => [to.recordKey, noEndpoint(endpointId)]));
  if ((lane.holding?.count ?? 0) >= holdLimits.maxCount) return new Map(moves.map(({ to }) => [to.recordKey, { kind: 'busy', why: `${holdLimits.maxCount} deliveries are held for endpoint ${endpointId} already` }]));
  const outcomes: Outcomes = new Map();
  for (const move of moves) {
    const claim = lane.claims.get(move.claimKey);
    if (claim === undefined) continue;
    const isCleared = isExpired(lane, claim, deps.clock.nowEpochMs()) && (await reap(deps, endpointId, move, claim));
    if (!isCleared) outcomes.set(move.to.recordKey, { kind: 'busy', why: 'a worker has a claim on it' });
  }
  return outcomes;
}

export function noEndpoint(endpointId: string): Outcome {
  return { kind: 'noEndpoint', why: `no endpoint ${endpointId}` };
}

/**
 * Removes the claim of a worker that died after its verdict. The record is read after the claim was seen: while a claim stays, a verdict
 * does not go away. False where it must stay, for the next receive or the drain.
 */
async function reap(deps: ReplayDeps, endpointId: string, { from, claimKey }: Move, claim: { leaseId: string; shortHash: string }): Promise<boolean> {
  const { found } = await deps.records.read([from.recordKey]);
  if (found.get(from.recordKey)?.generation !== from.generation) return false;
  return (await deps.lanes.reapClaim({ endpointId, claimKey, claim, ambiguous: undefined })) === 'reaped';
}
