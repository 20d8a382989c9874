import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { createDynamoDbReplays } from '../../lambdas/shared/adapters/dynamodb-replays.ts';
import { sendWakeUp } from '../../lambdas/shared/adapters/wake-ups.ts';
import { resent } from '../../lambdas/shared/core/decide.ts';
import { claimKeyOf } from '../../lambdas/shared/core/keys.ts';
import { claimEndsEpochMs, removedCfg, type Lane } from '../../lambdas/shared/core/lane.ts';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import type { DeliveryRecord, Resolution, UnknownRecord, WaitingRecord } from '../../lambdas/shared/core/record.ts';
import { hold as limits } from '../../lambdas/shared/limits/numbers.ts';
import type { ReplayMoveAnswer } from '../../lambdas/shared/ports/index.ts';
import type { Output } from './output.ts';
import type { Target } from './target.ts';
import type { Changed, Tried, UnclaimedWriter } from './unclaimed-writer.ts';
import { recordNow, stillUnknown } from './unknown-selection.ts';

/**
 * Sends unknown deliveries of one endpoint again, in this order: the body under the next generation, then record and lane in one
 * transaction, then the wake-up. Who dies half way has moved it or not. The body of the old generation is the caller's to remove.
 */
export function createResender(target: Target, endpointId: string, writer: UnclaimedWriter) {
  const payloads = createDynamoDbPayloads(target.db, target.payloadsTable);
  const replays = createDynamoDbReplays(target.db, { endpoints: target.endpointsTable, deliveries: target.deliveriesTable });
  /** Deliveries that were moved since the last wake-up. */
  let unwoken = 0;
  let isAwake = false;

  const moveOnce = async (from: UnknownRecord, to: WaitingRecord): Promise<Tried> => {
    const claimKey = claimKeyOf(from.eventId ?? '');
    return triedOf(await replays.move(endpointId, [{ from, to, claimKey }], Date.now()), claimKey, endpointId);
  };

  async function resend(record: UnknownRecord, resolved: Resolution, leaseId: string): Promise<Changed | { readonly kind: 'noPayload' }> {
    const { found, unread } = await payloads.read([record]);
    if (unread.size > 0) return { kind: 'busy', why: 'its payload could not be read now' };
    const body = found.get(record.recordKey);
    const still = stillUnknown(record);
    // Whoever has resolved it meanwhile has removed its payload: then nothing is missing.
    if (body === undefined) return { kind: still(await recordNow(target, record)) === undefined ? 'moved' : 'noPayload' };
    if (!parseMessage(body).ok) return { kind: 'noPayload' };
    const to = (from: UnknownRecord) => resent(from, resolved, leaseId);
    if ((await payloads.put(to(record), body, Date.now())) !== 'written') return { kind: 'busy', why: 'its payload could not be written now' };
    const changed = await writer.change(record, { leaseId, still, to }, moveOnce);
    if (changed.kind === 'written') await wake();
    // Of what is over nobody needs a body; of what somebody else has sent again this one is the body.
    else if (changed.kind === 'moved' && isOver(await recordNow(target, record))) await payloads.remove(to(record)).catch(() => undefined);
    return changed;
  }

  /** The first, so that the drain begins: a run that is alive finds the others, for each move asks it to come again. */
  async function wake(): Promise<void> {
    unwoken++;
    if (!isAwake) await wakeNow();
  }

  async function wakeNow(): Promise<void> {
    try {
      await sendWakeUp(target.sqs, target.drainQueueUrl, endpointId);
      [isAwake, unwoken] = [true, 0];
    } catch {
      // Held they are, and the lane says since when somebody should have come: the sweep finds it.
    }
  }

  return {
    resend,
    /** For those that were moved after the first. */
    async wakeLast(out: Output): Promise<void> {
      if (unwoken > 0) await wakeNow();
      if (unwoken > 0) out.note('The wake-up could not be sent: the sweep finds what is held within minutes.');
    },
  };
}

function isOver(record: DeliveryRecord | undefined): boolean {
  return record?.state === 'dropped' || record?.state === 'delivered';
}

/** What the transaction says of a delivery: a claim or a full hold stands in its way, or another write came first. */
function triedOf(answer: ReplayMoveAnswer, claimKey: string, endpointId: string): Tried {
  if (answer.kind === 'moved') return { kind: 'written' };
  if (answer.kind !== 'refused') return { kind: 'unwritten' };
  if ([...answer.changed.values()].includes('own')) return { kind: 'written' };
  return answer.lane === undefined ? { kind: 'unwritten' } : refusedBy(answer.lane.found, claimKey, endpointId);
}

function refusedBy(lane: Lane | undefined, claimKey: string, endpointId: string): Tried {
  if (lane === undefined || lane.cfg === removedCfg) return { kind: 'busy', why: `there is no endpoint ${endpointId} any more` };
  if ((lane.holding?.count ?? 0) >= limits.maxCount) return { kind: 'busy', why: `${limits.maxCount} deliveries are held for endpoint ${endpointId} already` };
  const claim = lane.claims.get(claimKey);
  return claim === undefined ? { kind: 'unwritten' } : { kind: 'unwritten', claim: { ...claim, endsEpochMs: claimEndsEpochMs(lane, claim) } };
}
