import { dead } from '../shared/core/decide.ts';
import { claimKeyOf } from '../shared/core/keys.ts';
import { leftToPerson } from '../shared/core/reconcile.ts';
import { assertTransition, type DeadRecord, type UnknownRecord, type WaitingRecord } from '../shared/core/record.ts';
import type { DrainDeps } from './types.ts';

/**
 * A held delivery whose payload is gone, or cannot be read any more, can never be sent, and would keep its endpoint's hold open for
 * ever. It ends as a dead record that operators see, with what there is of it in the dead-letter queue.
 */
export async function buryLost(deps: DrainDeps, record: WaitingRecord, body: string | undefined): Promise<void> {
  const { endpointId, eventId } = record;
  const written = { ...record, lastEpochMs: deps.clock.nowEpochMs(), lastLease: { leaseId: deps.random.leaseId(), kind: 'settled' as const } };
  // Without a body there is nothing to bury: it ends at once.
  const to: DeadRecord = body === undefined
    ? { ...dead(written, 'payload-missing', 'held, but its payload is not there'), phase: 'buried' }
    : dead(written, 'malformed', 'held, but its body cannot be read by this version');
  assertTransition(record, to);
  if (!(await writtenUnclaimed(deps, record, to))) return;
  if (body !== undefined) {
    // A failure leaves it burying, with its payload: the next run finishes it.
    await deps.queues.bury(body, to);
    await deps.records.markBuried(to);
  }
  deps.telemetry.fault('held-lost', new Error(to.detail), { endpointId, eventId });
}

/** An unknown delivery whose payload is gone can neither be compared nor sent: a person must decide. */
export async function leaveLost(deps: DrainDeps, record: UnknownRecord, body: string | undefined): Promise<void> {
  const { endpointId, eventId } = record;
  const detail = body === undefined ? 'its payload is not there' : 'its body cannot be read by this version';
  const to = leftToPerson(record, { stuck: 'payload-missing', detail }, deps.clock.nowEpochMs(), deps.random.leaseId());
  assertTransition(record, to);
  if (await writtenUnclaimed(deps, record, to)) deps.telemetry.fault('unknown-lost', new Error(detail), { endpointId, eventId });
}

/** True where nobody owned its claim, and the endpoint was still as it is read here. */
async function writtenUnclaimed(deps: DrainDeps, from: WaitingRecord | UnknownRecord, to: DeadRecord | UnknownRecord): Promise<boolean> {
  const { endpointId, eventId } = from;
  const endpoint = await deps.endpoints.refresh(endpointId);
  const lane = endpoint === undefined ? { kind: 'absent' as const } : { kind: 'atVersion' as const, cfg: endpoint.version };
  return (await deps.records.writeUnclaimed(from, to, { endpointId, claimKey: claimKeyOf(eventId ?? ''), lane })).answer === 'written';
}
