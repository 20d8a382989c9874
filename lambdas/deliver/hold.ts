import { probedFromEpochMs } from '../shared/core/breaker.ts';
import { claimEndsEpochMs, isExpired } from '../shared/core/lane.ts';
import { held, renewed } from '../shared/core/decide.ts';
import { pausedFor } from '../shared/core/rate.ts';
import { assertTransition, type DeliveryRecord, type UnknownRecord, type WaitingRecord } from '../shared/core/record.ts';
import type { EndpointConfig } from '../shared/limits/endpoint-schema.ts';
import { hold as limits, putBack as putBackLimits } from '../shared/limits/numbers.ts';
import type { ReceivedMessage } from '../shared/ports/index.ts';
import { buryConflict, buryOverLimit, finishBurial } from './bury.ts';
import { blankOf, decideCopy } from './decide-copy.ts';
import { reapExpired } from './reap.ts';
import { dropPayload, putBack, putBackPastClaim, putBackUntil, putBackUntried } from './retain.ts';
import { noteHold, noteUnknownAgain } from './note-hold.ts';
import type { Settled } from './deliver-one.ts';
import type { Copy, DeliverDeps, Exit, Invocation } from './types.ts';
import type { Stop, Waves } from './waves.ts';

/** The lane's state, and what stood in the way. */
type Why = Pick<Waves, 'stop' | 'holding' | 'endpoint' | 'seen'> & { readonly config: EndpointConfig };

/**
 * True where a delivery that was not tried goes to the hold: its endpoint is served by the drain alone, or takes nothing for more
 * than a minute; others of it are held already and may be sent now; it has come back twice; or too much waits in the queue. One
 * whose lane is not known comes back.
 */
export function mustHold({ receiveCount }: ReceivedMessage, { stop, holding }: Pick<Waves, 'stop' | 'holding'>, isCrowded: boolean, nowEpochMs: number): boolean {
  if (stop.kind === 'unknown') return isCrowded || receiveCount >= putBackLimits.lateReceive;
  if (stop.kind === 'rate' && isLong(stop.untilEpochMs, nowEpochMs)) return true;
  if (stop.kind === 'full' || stop.kind === 'done' || stop.kind === 'rate') {
    return holding?.isReady === true || isCrowded || receiveCount > putBackLimits.fullCeilingsS.length;
  }
  return true;
}

/**
 * Holds deliveries beside their records, in this order: payload, record, lane, wake-up, acknowledgement. What fails half way comes
 * back, and is repeated from where it stands.
 */
export async function holdCopies(deps: DeliverDeps, copies: readonly Copy[], why: Why, invocation: Invocation): Promise<Map<string, Exit>> {
  if (copies.length === 0) return new Map();
  const { found, unread } = await deps.records.read(copies.map((copy) => copy.recordKey));
  const isFull = (why.holding?.count ?? 0) >= limits.maxCount;
  const stored = await Promise.all(
    copies.map(async (copy): Promise<[Copy, Stored]> => {
      if (unread.has(copy.recordKey)) return [copy, { exit: await putBack(deps, copy.received) }];
      return [copy, await store(deps, copy, found.get(copy.recordKey), { ...why, isFull }, invocation)];
    }),
  );
  const exits = new Map(stored.flatMap(([copy, s]) => (s.exit === 'held' ? [] : [[copy.received.messageId, s.exit]])));
  const holds = stored.filter(([, s]) => s.exit === 'held');
  if (holds.length === 0) return exits;
  const count = holds.filter(([, s]) => s.isNew === true).length;
  const isNoted = await noteHold(deps, { endpointId: why.config.endpointId, count, wakeAtEpochMs: wakeAtOf(deps, why), isReady: true });
  for (const [{ received }] of holds) exits.set(received.messageId, isNoted ? { kind: 'ack' } : await putBack(deps, received));
  return exits;
}

interface Stored {
  readonly exit: Exit | 'held';
  /** True where it was not held before. */
  readonly isNew?: boolean;
}

/** Payload and record; or what the record asks for instead. */
async function store(deps: DeliverDeps, copy: Copy, record: DeliveryRecord | undefined, why: Why & { isFull: boolean }, invocation: Invocation): Promise<Stored> {
  const nowEpochMs = deps.clock.nowEpochMs();
  const claim = why.seen?.claims.get(copy.claimKey);
  if (why.seen !== undefined && claim !== undefined) {
    // A copy that goes takes with it whoever would come for the claim of a dead worker.
    if (!isExpired(why.seen, claim, nowEpochMs)) return { exit: await putBackPastClaim(deps, copy.received, claimEndsEpochMs(why.seen, claim), invocation) };
    if (!(await reapExpired(deps, copy, claim, why.config))) return { exit: await putBack(deps, copy.received) };
    return { exit: await putBackUntried(deps, copy.received, why, invocation) };
  }
  const decision = await decideCopy(deps, copy, record, nowEpochMs);
  switch (decision.kind) {
    case 'held':
      return { exit: (await noteResend(deps, copy, record as WaitingRecord)) ? 'held' : await putBack(deps, copy.received) };
    case 'unknown':
      // Whether a claim is left is not known; or what it asks for again is to be noted, which needs the claim.
      if (why.seen === undefined || copy.message.resend > (record as UnknownRecord).resend) return { exit: await putBackUntried(deps, copy.received, why, invocation) };
      return { exit: (await noteUnknownAgain(deps, record as UnknownRecord)) ? { kind: 'ack' } : await putBack(deps, copy.received) };
    case 'proceed':
    case 'early':
      if (why.isFull) return { exit: await buryOverLimit(deps, copy, record, why.endpoint, invocation) };
      return hold(deps, copy, record as WaitingRecord | undefined, nowEpochMs);
    case 'done':
      // Whether a claim is left is not known.
      if (why.seen === undefined) return { exit: await putBackUntried(deps, copy.received, why, invocation) };
      deps.telemetry.event('copy-done', { endpointId: copy.message.endpointId, eventId: copy.message.eventId, why: decision.why });
      return { exit: { kind: 'ack' } };
    case 'conflict':
      return { exit: await buryConflict(deps, copy, decision.detail) };
    case 'buryAgain':
      return { exit: await finishBurial(deps, copy.received, record) };
    case 'renew':
      return holdRenewed(deps, copy, record as DeliveryRecord, why, invocation);
    case 'takeUp': {
      const stored = await hold(deps, copy, undefined, nowEpochMs);
      if (stored.exit === 'held') {
        await deps.records.retire(decision.buried);
        await dropPayload(deps, decision.buried);
      }
      return stored;
    }
    case 'unread':
    case 'look':
      // Nothing may be done on what was not read; and only the drain looks.
      return { exit: await putBack(deps, copy.received) };
  }
}

async function hold(deps: DeliverDeps, copy: Copy, record: WaitingRecord | undefined, nowEpochMs: number): Promise<Stored> {
  const { received } = copy;
  const to = held(record ?? blankOf(copy), copy.message.resend);
  if ((await deps.payloads.put(to, received.body, nowEpochMs)) !== 'written') return { exit: await putBack(deps, received) };
  assertTransition(record, to);
  if ((await deps.records.hold(record, to)) !== 'written') return { exit: await putBack(deps, received) };
  return { exit: 'held', isNew: true };
}

/** A redrive or a resend: its next generation begins held, if nobody has the claim and the endpoint is still as it was read. */
async function holdRenewed(deps: DeliverDeps, copy: Copy, record: DeliveryRecord, { endpoint }: Why, invocation: Invocation): Promise<Stored> {
  const { message: { resend, endpointId }, claimKey, received } = copy;
  const nowEpochMs = deps.clock.nowEpochMs();
  const to = held({ ...renewed(record, nowEpochMs, resend), lastLease: { leaseId: deps.random.leaseId(), kind: 'settled' } }, resend);
  assertTransition(record, to);
  if ((await deps.payloads.put(to, received.body, nowEpochMs)) !== 'written') return { exit: await putBack(deps, received) };
  const guard = { endpointId, claimKey, lane: { kind: 'atVersion' as const, cfg: endpoint?.version ?? '' } };
  const { answer, claim } = await deps.records.writeUnclaimed(record, to, guard);
  if (answer === 'written') {
    await dropPayload(deps, record);
    return { exit: 'held', isNew: true };
  }
  if (claim !== undefined && claim.endsEpochMs > nowEpochMs) return { exit: await putBackPastClaim(deps, received, claim.endsEpochMs, invocation) };
  // Of a dead worker, which nobody else would clear while nothing is sent.
  if (claim !== undefined) await reapExpired(deps, copy, claim, endpoint?.config);
  return { exit: await putBack(deps, received) };
}

/**
 * Where a delivery waits for its next attempt: hidden in the queue for a minute at most; held where it waits for longer, where too
 * much is hidden already, or where it was. Of what is held the lane learns with the rest of its wave.
 */
export async function waitUntilDue(deps: DeliverDeps, copy: Copy, record: WaitingRecord, invocation: Invocation): Promise<Pick<Settled, 'exit' | 'heldUntilEpochMs'>> {
  const { dueEpochMs } = record;
  const waitsLong = isLong(dueEpochMs, deps.clock.nowEpochMs());
  if (record.home === 'queue' && deps.serves === 'queue' && (waitsLong || (await deps.inFlight.isCrowded()))) {
    const stored = await hold(deps, copy, record, deps.clock.nowEpochMs());
    return stored.exit === 'held' ? { exit: { kind: 'retain' }, heldUntilEpochMs: dueEpochMs } : { exit: stored.exit };
  }
  return { exit: await putBackUntil(deps, copy.received, dueEpochMs, invocation) };
}

/** Notes in the lane what a wave has held, or is to be looked for, all of it at once, and has the drain come when the first is due; then their messages may go. */
export async function noteHolds(deps: DeliverDeps, endpointId: string, settled: ReadonlyMap<Copy, Settled>, invocation: Invocation): Promise<ReadonlyMap<Copy, Settled>> {
  const holds = [...settled].flatMap(([copy, one]) => (one.heldUntilEpochMs === undefined ? [] : [{ copy, one, dueEpochMs: one.heldUntilEpochMs }]));
  if (holds.length === 0) return settled;
  const count = holds.filter(({ one }) => one.record?.state !== 'unknown').length;
  const isNoted = await noteHold(deps, { endpointId, count, wakeAtEpochMs: Math.min(...holds.map(({ dueEpochMs }) => dueEpochMs)), isReady: false });
  const noted = holds.map(async ({ copy, one, dueEpochMs }): Promise<[Copy, Settled]> => [copy, { ...one, exit: isNoted ? { kind: 'ack' } : await putBackUntil(deps, copy.received, dueEpochMs, invocation) }]);
  return new Map([...settled, ...(await Promise.all(noted))]);
}

/** Beyond what a message is hidden for. */
function isLong(untilEpochMs: number, nowEpochMs: number): boolean {
  return untilEpochMs - nowEpochMs > limits.directMs;
}

/**
 * What is held is asked for again, and the delivery under way answers it: noted before the copy is acknowledged, or a second
 * receive of it would ask once more, for a generation whose message is gone. False where that is not known to be noted.
 */
export async function noteResend(deps: Pick<DeliverDeps, 'records'>, { message }: Copy, record: WaitingRecord): Promise<boolean> {
  return message.resend <= record.resend || (await deps.records.hold(record, held(record, message.resend))) === 'written';
}

/** When the drain can do something about it: not while the endpoint wants to be left alone, whatever else stands in the way. */
function wakeAtOf({ clock }: DeliverDeps, { stop, config, seen }: Pick<Why, 'stop' | 'config' | 'seen'>): number {
  const nowEpochMs = clock.nowEpochMs();
  const pausedEpochMs = Math.min(pausedFor(seen?.pausedUntilEpochMs, nowEpochMs), nowEpochMs + limits.pausedLookMs);
  return Math.max(freeAtOf(stop, config, nowEpochMs), pausedEpochMs);
}

function freeAtOf(stop: Stop, config: EndpointConfig, nowEpochMs: number): number {
  switch (stop.kind) {
    case 'open':
      return probedFromEpochMs(stop.open, config.breaker, nowEpochMs);
    case 'rate':
      return Math.min(stop.untilEpochMs, nowEpochMs + limits.pausedLookMs);
    case 'paused':
      return nowEpochMs + limits.pausedLookMs;
    case 'slow':
    case 'full':
    case 'done':
    case 'unknown':
      return nowEpochMs;
  }
}
