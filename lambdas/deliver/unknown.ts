import { leftToPerson, unknownFrom, withResend } from '../shared/core/reconcile.ts';
import { assertTransition, doubtsOf, type UnknownRecord, type WaitingRecord } from '../shared/core/record.ts';
import type { Endpoint, StoredEndpoint } from '../shared/ports/index.ts';
import { noteUnknownAgain } from './note-hold.ts';
import { isEnabled, isPaused } from './endpoint-cache.ts';
import { reapExpired } from './reap.ts';
import { putBack, putBackPastClaim } from './retain.ts';
import type { Copy, DeliverDeps, Exit, Invocation } from './types.ts';

/**
 * A copy of what is unknown, under its claim: it is never sent. What it asks for again is noted first, or another receive of it would
 * ask once more when the delivery is known to have arrived.
 */
export async function leaveCopy(deps: DeliverDeps, copy: Copy, record: UnknownRecord): Promise<Exit> {
  if (copy.message.resend > record.resend) {
    const noted = withResend(record, copy.message.resend);
    assertTransition(record, noted);
    if ((await deps.records.write(record, noted)) !== 'written') return putBack(deps, copy.received);
  }
  return (await noteUnknownAgain(deps, record)) ? { kind: 'ack' } : putBack(deps, copy.received);
}

/**
 * As `leaveCopy`, where nobody has the claim. What is unknown at an endpoint that is asked nothing any more is left to a person; the
 * write requires, as a burial's does, that nobody owns its claim.
 */
export async function leaveUnclaimed(deps: DeliverDeps, copy: Copy, record: UnknownRecord, endpoint: StoredEndpoint | undefined, invocation: Invocation): Promise<Exit> {
  // Noting what it asks for again needs the claim.
  if (copy.message.resend > record.resend && isAsked(endpoint)) return putBack(deps, copy.received);
  if (isAsked(endpoint)) return (await noteUnknownAgain(deps, record)) ? { kind: 'ack' } : putBack(deps, copy.received);
  if (record.nextLookEpochMs === undefined) return { kind: 'ack' };
  const { endpointId } = copy.message;
  const detail = endpoint === undefined ? `no endpoint ${endpointId}` : endpoint.config === undefined ? endpoint.problem : `endpoint ${endpointId} is disabled`;
  const to = leftToPerson(record, { stuck: 'no-endpoint', detail }, deps.clock.nowEpochMs(), deps.random.leaseId());
  return writtenUnclaimed(deps, copy, { from: record, to, endpoint }, invocation);
}

/** What is given up, and may have arrived: it is unknown from now on. */
export async function leaveDoubtful(deps: DeliverDeps, copy: Copy, record: WaitingRecord, endpoint: Endpoint, invocation: Invocation): Promise<Exit> {
  const nowEpochMs = deps.clock.nowEpochMs();
  const to = { ...unknownFrom(record, endpoint.config, nowEpochMs, earlierAttempts(record)), lastEpochMs: nowEpochMs, lastLease: { leaseId: deps.random.leaseId(), kind: 'settled' as const } };
  if (deps.serves === 'queue' && (await deps.payloads.put(to, copy.received.body, nowEpochMs)) !== 'written') return putBack(deps, copy.received);
  const exit = await writtenUnclaimed(deps, copy, { from: record, to, endpoint }, invocation);
  if (exit.kind === 'retain') return exit;
  return (await noteUnknownAgain(deps, to)) ? exit : putBack(deps, copy.received);
}

/** What is known of a delivery that is not sent once more. */
export function earlierAttempts(record: WaitingRecord): string {
  const doubts = doubtsOf(record);
  return doubts === 1 ? 'an earlier attempt may have arrived' : `${doubts} earlier attempts may have arrived`;
}

interface Unclaimed {
  readonly from: WaitingRecord | UnknownRecord;
  readonly to: UnknownRecord;
  readonly endpoint: StoredEndpoint | undefined;
}

async function writtenUnclaimed(deps: DeliverDeps, copy: Copy, { from, to, endpoint }: Unclaimed, invocation: Invocation): Promise<Exit> {
  const { endpointId } = copy.message;
  assertTransition(from, to);
  const lane = endpoint === undefined ? { kind: 'absent' as const } : { kind: 'atVersion' as const, cfg: endpoint.version };
  const { answer, claim } = await deps.records.writeUnclaimed(from, to, { endpointId, claimKey: copy.claimKey, lane });
  if (answer === 'written') return { kind: 'ack' };
  if (claim === undefined) return putBack(deps, copy.received);
  if (claim.endsEpochMs > deps.clock.nowEpochMs()) return putBackPastClaim(deps, copy.received, claim.endsEpochMs, invocation);
  await reapExpired(deps, copy, claim, endpoint?.config);
  return putBack(deps, copy.received);
}

function isAsked(endpoint: StoredEndpoint | undefined): boolean {
  return isEnabled(endpoint) || isPaused(endpoint);
}
