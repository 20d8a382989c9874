import { readBudgetOf, type Learned } from '../shared/core/adaptive.ts';
import { afterAttempt, afterPing, dead, reasonToGiveUp, renewed, type CountedOutcome } from '../shared/core/decide.ts';
import { isCutOff, type Timing } from '../shared/core/outcome.ts';
import { isPing, mustLook, unknownFrom } from '../shared/core/reconcile.ts';
import { assertTransition, type AttemptedRecord, type DeliveryRecord, type UnknownRecord, type WaitingRecord } from '../shared/core/record.ts';
import type { AttemptLine, Endpoint } from '../shared/ports/index.ts';
import { attempt, type Due } from './attempt.ts';
import { buryConflict, finishBurial } from './bury.ts';
import { blankOf, decideCopy } from './decide-copy.ts';
import { look } from './look.ts';
import { noteResend, waitUntilDue } from './hold.ts';
import { noteHeldAgain } from './note-hold.ts';
import { dropPayload, putBack, putBackFaulted, putBackPastClaim } from './retain.ts';
import { earlierAttempts, leaveCopy } from './unknown.ts';
import type { RateGate } from './spend-rate.ts';
import type { Copy, DeliverDeps, Exit, Heard, Invocation } from './types.ts';

export interface Settled {
  readonly exit: Exit;
  /** True where the claim may go: the verdict is durable, or no byte was sent. */
  readonly release: boolean;
  /** The record as this delivery left it, where it is known. */
  readonly record?: DeliveryRecord;
  /** Of an attempt; none of an operator's ping that was not accepted: it says enough to who sent it. */
  readonly verdict?: 'success' | 'failure';
  /** True where the endpoint's rate had no room for it, or there was no socket: what becomes of its message is decided with that of the others. */
  readonly isUntried?: boolean;
  /** Set where it was looked for; `silent`: there was no whole answer. */
  readonly look?: 'answered' | 'silent';
  /** Set where its record says that it is held until then, or looked for then, and the lane does not know of it yet. */
  readonly heldUntilEpochMs?: number;
}

/** One delivery whose claim is ours, from the record that was read under it. */
export interface Claimed {
  readonly endpoint: Endpoint;
  readonly leaseId: string;
  readonly copy: Copy;
  readonly record: DeliveryRecord | undefined;
  readonly invocation: Invocation;
  /** Asked for a request only: all else is done that needs none. */
  readonly rate: Pick<RateGate, 'isBounded' | 'refuses' | 'take' | 'takeLook'>;
  /** Told how the attempt ended, whatever becomes of its verdict. */
  readonly hear: (heard: Heard) => void;
  /** What the lane knows of how long the endpoint takes. */
  readonly learned: Learned;
}

/** What the receive finds decides: send, wait, bury, or nothing. Never rejects: a fault keeps message and claim. */
export async function deliverOne(deps: DeliverDeps, claimed: Claimed): Promise<Settled> {
  try {
    return await deliverClaimed(deps, claimed);
  } catch (error) {
    // Whether a byte was sent is not known here, so the claim stays until it expires and is reaped as ambiguous.
    deps.telemetry.fault('delivery-failed', error, {
      endpointId: claimed.copy.message.endpointId,
      eventId: claimed.copy.message.eventId,
    });
    const { copy, invocation } = claimed;
    return { exit: await putBackFaulted(deps, copy.received, invocation, invocation.leaseExpiresEpochMs), release: false };
  }
}

async function deliverClaimed(deps: DeliverDeps, claimed: Claimed): Promise<Settled> {
  const { copy, record } = claimed;
  const nowEpochMs = deps.clock.nowEpochMs();
  const decision = await decideCopy(deps, copy, record, nowEpochMs);
  switch (decision.kind) {
    case 'unread':
      return { exit: await putBack(deps, copy.received), release: true };
    case 'takeUp':
      // Found again by its key if this worker dies before it has sent: only operators no longer see it as dead.
      await deps.records.retire(decision.buried);
      await dropPayload(deps, decision.buried);
      return send(deps, claimed, blankOf(copy));
    case 'done':
      deps.telemetry.event('copy-done', { endpointId: copy.message.endpointId, eventId: copy.message.eventId, why: decision.why });
      return { exit: { kind: 'ack' }, release: true, ...(record === undefined ? {} : { record }) };
    case 'held':
      // Repeated before the acknowledgement: whoever held it may have died before it was noted.
      return (await noteResend(deps, copy, record as WaitingRecord)) && (await noteHeldAgain(deps, record as WaitingRecord))
        ? { exit: { kind: 'ack' }, release: true }
        : { exit: await putBack(deps, copy.received), release: true };
    case 'unknown':
      return { exit: await leaveCopy(deps, copy, record as UnknownRecord), release: true };
    case 'look':
      return look(deps, claimed, record as UnknownRecord);
    case 'early':
      return early(deps, claimed, record as WaitingRecord);
    case 'conflict':
      return { exit: await buryConflict(deps, copy, decision.detail), release: true };
    case 'buryAgain':
      return { exit: await finishBurial(deps, copy.received, record), release: true };
    case 'renew':
      return sendRenewed(deps, claimed, renewed(record as DeliveryRecord, nowEpochMs, copy.message.resend));
    case 'proceed':
      return send(deps, claimed, (record as WaitingRecord | undefined) ?? blankOf(copy));
  }
}

/** A resend that meets a delivery under way is answered by it: noted now, or this copy would ask again once it is delivered. */
async function early(deps: DeliverDeps, claimed: Claimed, record: WaitingRecord): Promise<Settled> {
  const { copy, invocation } = claimed;
  const noted = withResend(record, copy);
  assertTransition(record, noted);
  if (noted.resend > record.resend && (await deps.records.write(record, noted)) !== 'written') {
    return { exit: await putBack(deps, copy.received), release: true };
  }
  return { ...(await waitUntilDue(deps, copy, noted, invocation)), release: true, record: noted };
}

/** Writes the next generation before anything is sent in it: a crash after the POST must find it begun. */
async function sendRenewed(deps: DeliverDeps, claimed: Claimed, next: WaitingRecord): Promise<Settled> {
  assertTransition(claimed.record, next);
  const answer = await deps.records.write(claimed.record, next);
  if (answer !== 'written') return { exit: await putBack(deps, claimed.copy.received), release: true };
  await dropPayload(deps, claimed.record);
  return send(deps, { ...claimed, record: next }, next);
}

/** What becomes of it is decided with the others that were not tried. */
const untried: Settled = { exit: { kind: 'retain' }, release: true, isUntried: true };

async function send(deps: DeliverDeps, claimed: Claimed, waiting: WaitingRecord): Promise<Settled> {
  const { copy, endpoint, invocation, leaseId } = claimed;
  const asPing = deps.serves === 'held' && isPing(waiting);
  // Reconciled since then: what an earlier attempt has done must be found out first (U3).
  if (!asPing && mustLook(waiting, endpoint.config)) return settle(deps, claimed, unsentUnknown(deps, claimed, waiting), true);
  const giveUp = reasonToGiveUp(waiting, endpoint.config, deps.clock.nowEpochMs());
  if (giveUp !== undefined) {
    const now = { ...waiting, lastEpochMs: deps.clock.nowEpochMs() };
    return settle(deps, claimed, dead(now, giveUp, `found ${giveUp} when it was due`), true);
  }

  // An operator's one question is asked all the same.
  if (!asPing && claimed.rate.refuses()) return untried;

  const { readMs, isTight } = readBudgetOf(endpoint.config, claimed.learned, { ...waiting, isPing: asPing }, deps.clock.nowEpochMs());
  const due = { endpoint, copy, record: waiting, invocation, readMs, ...(asPing || !claimed.rate.isBounded ? {} : { mayBegin: () => claimed.rate.take() }) };
  const outcome = await attempt(deps, due);
  if (outcome.kind === 'notStarted') {
    if (outcome.why === 'not-allowed') return untried;
    deps.telemetry.event('not-started', { endpointId: copy.message.endpointId, why: outcome.why });
    // The drain looks for a socket again, in order.
    if (deps.serves === 'held' && outcome.why === 'no-socket') return untried;
    return { exit: await putBack(deps, copy.received), release: true };
  }
  const isHasty = isTight && isCutOff(outcome);
  claimed.hear({ outcome, isPing: asPing, isHasty });
  const verdict = { nowEpochMs: deps.clock.nowEpochMs(), random: deps.random.number(), leaseId };
  const attempted = afterAttempt(withResend(waiting, copy), outcome, endpoint.config, verdict);
  const settledAs = asPing ? afterPing(attempted) : attempted;
  deps.telemetry.attempt(lineOf(deps, due, outcome, settledAs));
  const sent = outcome.kind === 'answered' || outcome.kind === 'ambiguous';
  const settled = await settle(deps, claimed, settledAs, !sent);
  if (settledAs.state === 'delivered') return { ...settled, verdict: 'success' };
  // Neither an operator's question nor our own haste is a failure in its row.
  return asPing || isHasty ? settled : { ...settled, verdict: 'failure' };
}

/** What is not sent once more, because an earlier attempt may have arrived. */
function unsentUnknown({ clock }: DeliverDeps, { endpoint, leaseId, copy }: Claimed, waiting: WaitingRecord): UnknownRecord {
  const nowEpochMs = clock.nowEpochMs();
  const base = { ...withResend(waiting, copy), lastEpochMs: nowEpochMs, lastLease: { leaseId, kind: 'settled' as const } };
  return unknownFrom(base, endpoint.config, nowEpochMs, earlierAttempts(waiting));
}

/** Writes the verdict, then takes the message to where the verdict says. */
async function settle(deps: DeliverDeps, claimed: Claimed, to: AttemptedRecord, nothingSent: boolean): Promise<Settled> {
  const { copy, record, invocation } = claimed;
  assertTransition(record, to);
  // What is unknown outlives its message: nothing says so before its payload lies beside it.
  const isKept = to.state !== 'unknown' || deps.serves === 'held' || (await deps.payloads.put(to, copy.received.body, deps.clock.nowEpochMs())) === 'written';
  const answer = isKept ? await deps.records.write(record, to) : 'failed';
  if (answer !== 'written') {
    deps.telemetry.event('settle-failed', { endpointId: to.endpointId, eventId: to.eventId, answer });
    // The claim stays, unless nothing was sent: with no verdict in the record nobody may send again before it is reaped.
    const release = nothingSent && answer === 'failed';
    return { exit: await putBackPastClaim(deps, copy.received, invocation.leaseExpiresEpochMs, invocation), release };
  }
  switch (to.state) {
    case 'delivered':
      return { exit: { kind: 'ack' }, release: true, record: to };
    case 'waiting':
      return { ...(await waitUntilDue(deps, copy, to, invocation)), release: true, record: to };
    case 'unknown':
      deps.telemetry.event('unknown', { endpointId: to.endpointId, eventId: to.eventId, stuck: to.stuck });
      // The run of the drain that it ends in comes again in time; of others the lane learns with the rest of its wave.
      if (deps.serves === 'held' || to.nextLookEpochMs === undefined) return { exit: { kind: 'ack' }, release: true, record: to };
      return { exit: { kind: 'retain' }, release: true, record: to, heldUntilEpochMs: to.nextLookEpochMs };
    case 'dead':
      if (to.phase === 'buried') return { exit: { kind: 'ack' }, release: true, record: to };
      return { exit: await finishBurial(deps, copy.received, to), release: true, record: to };
  }
}

function withResend(record: WaitingRecord, copy: Copy): WaitingRecord {
  return { ...record, resend: Math.max(record.resend, copy.message.resend) };
}

/** In a line of the log, where a key has nothing to say. */
const nothing = '-';

function lineOf(deps: DeliverDeps, { endpoint, copy, record }: Due, outcome: CountedOutcome, settledAs: AttemptedRecord): AttemptLine {
  const isSilent = outcome.kind === 'ambiguous' || outcome.kind === 'unsent';
  return {
    endpointId: copy.message.endpointId,
    eventId: copy.message.eventId,
    eventType: copy.message.eventType ?? nothing,
    host: new URL(endpoint.config.url).host,
    generation: record.generation,
    attempt: settledAs.attempt,
    outcome: outcome.kind,
    status: outcome.kind === 'answered' ? outcome.status : 0,
    phase: isSilent ? outcome.phase : nothing,
    cause: isSilent ? outcome.cause : nothing,
    detail: detailOf(settledAs, outcome.kind) || nothing,
    ...timingOf(outcome),
    state: settledAs.state,
    latencyMs: Math.max(0, deps.clock.nowEpochMs() - copy.received.sentEpochMs),
    source: deps.serves,
    isPossibleDuplicate: record.ambiguous > 0,
    cfg: endpoint.version,
  };
}

function timingOf(outcome: CountedOutcome): Timing {
  if (outcome.kind === 'invalidConfiguration') return { durationMs: 0, phasesMs: {}, reused: false };
  const { durationMs, phasesMs, reused } = outcome;
  return { durationMs, phasesMs, reused };
}

function detailOf(record: AttemptedRecord, kind: string): string {
  return kind === 'invalidConfiguration' && record.state === 'dead' ? record.detail : (record.history.at(-1)?.detail ?? '');
}
