import { dead, reasonToGiveUp, renewed } from '../shared/core/decide.ts';
import { hashOf, syntheticKeyOf } from '../shared/core/keys.ts';
import type { Parsed } from '../shared/core/parse.ts';
import { isPing, mustLook } from '../shared/core/reconcile.ts';
import { assertTransition, blankRecord, type DeadRecord, type DeliveryRecord, type UnknownRecord } from '../shared/core/record.ts';
import { hold as holdLimits } from '../shared/limits/numbers.ts';
import type { LaneGuard, ReceivedMessage, StoredEndpoint } from '../shared/ports/index.ts';
import { blankOf, decideCopy } from './decide-copy.ts';
import { dropPayload, putBack, putBackPastClaim } from './retain.ts';
import { reapExpired } from './reap.ts';
import { leaveDoubtful, leaveUnclaimed } from './unknown.ts';
import type { Copy, DeliverDeps, Exit, Invocation } from './types.ts';

/**
 * The last steps of every burial: the body beside the record, for its replay; then the queue, the mark, the acknowledgement. Each
 * may be repeated.
 */
export async function finishBurial(deps: DeliverDeps, received: ReceivedMessage, record: DeliveryRecord | undefined): Promise<Exit> {
  if (record?.state !== 'dead') throw new Error('only a dead record is buried');
  // What was held has its body there already.
  if (deps.serves === 'queue' && (await deps.payloads.put(record, received.body, deps.clock.nowEpochMs())) !== 'written') return putBack(deps, received);
  try {
    await deps.queues.bury(received.body, record);
  } catch (error) {
    // The record says burying, so whoever receives this message next tries again.
    deps.telemetry.fault('bury-failed', error, { endpointId: record.endpointId, eventId: record.eventId });
    return putBack(deps, received);
  }
  const marked = await deps.records.markBuried(record);
  if (marked !== 'written') return putBack(deps, received);
  deps.telemetry.event('dead', { endpointId: record.endpointId, eventId: record.eventId, reason: record.reason });
  return { kind: 'ack' };
}

/** A body that is no message: a dead record under a key made from the body, so that repeats of it find the first. */
export function buryMalformed(
  deps: DeliverDeps,
  received: ReceivedMessage,
  parsed: Extract<Parsed, { ok: false }>,
): Promise<Exit> {
  return burySynthetic(deps, received, { ...parsed, reason: 'malformed' });
}

/** A message that contradicts its event's record: that record stays untouched, and this message is never sent (U2). */
export function buryConflict(deps: DeliverDeps, copy: Copy, detail: string): Promise<Exit> {
  const { endpointId, eventId } = copy.message;
  return burySynthetic(deps, copy.received, { endpointId, eventId, detail, reason: 'conflict' });
}

interface Synthetic {
  readonly endpointId: string | undefined;
  readonly eventId: string | undefined;
  readonly reason: 'malformed' | 'conflict';
  readonly detail: string;
}

async function burySynthetic(deps: DeliverDeps, received: ReceivedMessage, what: Synthetic): Promise<Exit> {
  const recordKey = syntheticKeyOf(what.endpointId, what.reason, received.body);
  const { found, unread } = await deps.records.read([recordKey]);
  if (unread.has(recordKey)) return putBack(deps, received);
  const record = found.get(recordKey);
  if (record?.state === 'dead' && record.phase === 'burying') return finishBurial(deps, received, record);
  const redriven = record !== undefined && record.state !== 'dropped' && received.deadLetterGeneration === record.generation;
  if (record !== undefined && !redriven) {
    // A copy of what is already buried, or was dropped since: its home is that record.
    deps.telemetry.event('copy-done', { endpointId: what.endpointId, eventId: what.eventId, why: record.state === 'dropped' ? 'dropped' : 'buried-before' });
    return { kind: 'ack' };
  }

  const nowEpochMs = deps.clock.nowEpochMs();
  const base = record === undefined
    ? blankRecord({ endpointId: what.endpointId ?? '', eventId: what.eventId, eventType: undefined, payloadHash: hashOf(Buffer.from(received.body)), recordKey }, received.sentEpochMs)
    : renewed(record, nowEpochMs, 0);
  const to = dead(byUnclaimed(deps, base, nowEpochMs), what.reason, what.detail);
  assertTransition(record, to);
  // Lost means that another copy was quicker; this one then finds what it wrote.
  if ((await deps.records.write(record, to)) !== 'written') return putBack(deps, received);
  await dropPayload(deps, record);
  return finishBurial(deps, received, to);
}

/**
 * Buries deliveries that will not be admitted: to an endpoint that does not exist, is disabled or cannot be sent to as it is
 * stored, or past their age.
 * Nobody can own their claims now, so each write also requires, in one transaction, that no claim covers the key and that
 * the endpoint is still as it was read.
 */
export async function buryUnclaimed(
  deps: DeliverDeps,
  copies: readonly Copy[],
  endpoint: StoredEndpoint | undefined,
  invocation: Invocation,
): Promise<Map<string, Exit>> {
  const { found, unread } = await deps.records.read(copies.map((copy) => copy.recordKey));
  const bury = async (copy: Copy): Promise<Exit> => {
    if (unread.has(copy.recordKey)) return putBack(deps, copy.received);
    return buryOneUnclaimed(deps, copy, found.get(copy.recordKey), endpoint, invocation);
  };
  // One after the other: each is a transaction with the same lane, and side by side they would refuse each other.
  const exits = new Map<string, Exit>();
  for (const copy of copies) exits.set(copy.received.messageId, await bury(copy));
  return exits;
}

async function buryOneUnclaimed(
  deps: DeliverDeps,
  copy: Copy,
  record: DeliveryRecord | undefined,
  endpoint: StoredEndpoint | undefined,
  invocation: Invocation,
): Promise<Exit> {
  const nowEpochMs = deps.clock.nowEpochMs();
  const decision = await decideCopy(deps, copy, record, nowEpochMs);
  if (decision.kind === 'unread') return putBack(deps, copy.received);
  if (decision.kind === 'done') {
    deps.telemetry.event('copy-done', { endpointId: copy.message.endpointId, eventId: copy.message.eventId, why: decision.why });
    return { kind: 'ack' };
  }
  if (decision.kind === 'conflict') return buryConflict(deps, copy, decision.detail);
  if (decision.kind === 'unknown' || decision.kind === 'look') return leaveUnclaimed(deps, copy, record as UnknownRecord, endpoint, invocation);
  if (decision.kind === 'buryAgain') return finishBurial(deps, copy.received, record);

  const to = deadUnclaimed(deps, { copy, record, endpoint, renew: decision.kind === 'renew' }, nowEpochMs);
  if (to === undefined) return putBack(deps, copy.received);
  const retires = decision.kind === 'takeUp' ? decision.buried : undefined;
  return writeUnclaimed(deps, copy, { record, to, endpoint, ...(retires === undefined ? {} : { retires }) }, invocation);
}

interface Unclaimed {
  readonly record: DeliveryRecord | undefined;
  readonly to: DeadRecord;
  readonly endpoint: StoredEndpoint | undefined;
  /** A record that `to` has taken up. */
  readonly retires?: DeadRecord;
}

async function writeUnclaimed(deps: DeliverDeps, copy: Copy, { record, to, endpoint, retires }: Unclaimed, invocation: Invocation): Promise<Exit> {
  // A dead letter would say that it was not delivered, and a replay would send it.
  if (record?.state === 'waiting' && endpoint?.config !== undefined && !isPing(record) && mustLook(record, endpoint.config)) return leaveDoubtful(deps, copy, record, endpoint, invocation);
  assertTransition(record, to);
  const { answer, claim } = await deps.records.writeUnclaimed(record, to, guardOf(copy, endpoint));
  if (answer === 'written') {
    if (retires !== undefined) await deps.records.retire(retires);
    await dropPayload(deps, retires ?? record);
    return finishBurial(deps, copy.received, to);
  }
  if (claim === undefined) return putBack(deps, copy.received);
  if (claim.endsEpochMs > deps.clock.nowEpochMs()) return putBackPastClaim(deps, copy.received, claim.endsEpochMs, invocation);
  await reapExpired(deps, copy, claim, endpoint?.config);
  return putBack(deps, copy.received);
}

/** Buries a delivery that would be held, were not so many held already for its endpoint. */
export async function buryOverLimit(deps: DeliverDeps, copy: Copy, record: DeliveryRecord | undefined, endpoint: StoredEndpoint | undefined, invocation: Invocation): Promise<Exit> {
  const base = byUnclaimed(deps, record ?? blankOf(copy), deps.clock.nowEpochMs());
  const to = dead(base, 'hold-limit', `${holdLimits.maxCount} deliveries are held for endpoint ${copy.message.endpointId}`);
  return writeUnclaimed(deps, copy, { record, to, endpoint }, invocation);
}

function deadUnclaimed(
  deps: DeliverDeps,
  found: { copy: Copy; record: DeliveryRecord | undefined; endpoint: StoredEndpoint | undefined; renew: boolean },
  nowEpochMs: number,
): DeadRecord | undefined {
  const { endpointId, resend } = found.copy.message;
  const base = found.renew && found.record !== undefined ? renewed(found.record, nowEpochMs, resend) : (found.record ?? blankOf(found.copy));
  const written = byUnclaimed(deps, base, nowEpochMs);
  if (found.endpoint === undefined) return dead(written, 'unknown-endpoint', `no endpoint ${endpointId}`);
  if (found.endpoint.config === undefined) return dead(written, 'invalid-configuration', found.endpoint.problem);
  const { config } = found.endpoint;
  if (config.status === 'disabled') return dead(written, 'disabled', `endpoint ${endpointId} is disabled`);
  // Of an endpoint that is delivered to, only what is past its limits: a younger generation than the message waits on.
  const reason = base.state === 'waiting' ? reasonToGiveUp(base, config, nowEpochMs) : undefined;
  return reason === undefined ? undefined : dead(written, reason, `found ${reason} before it could be sent`);
}

/** A token of this very write: of two workers that bury the same message only one may take the write for its own. */
function byUnclaimed(deps: DeliverDeps, record: DeliveryRecord, nowEpochMs: number): DeliveryRecord {
  return { ...record, lastEpochMs: nowEpochMs, lastLease: { leaseId: deps.random.leaseId(), kind: 'settled' } };
}

function guardOf(copy: Copy, endpoint: StoredEndpoint | undefined): LaneGuard {
  return {
    endpointId: copy.message.endpointId,
    claimKey: copy.claimKey,
    lane: endpoint === undefined ? { kind: 'absent' } : { kind: 'atVersion', cfg: endpoint.version },
  };
}
