import { putBack as limits } from '../shared/limits/numbers.ts';
import { fullPutBackS, putBackS, visibilityUntilS } from '../shared/core/put-back.ts';
import { triedFromEpochMs, type OpenBreaker } from '../shared/core/breaker.ts';
import type { DeliveryRecord } from '../shared/core/record.ts';
import type { BreakerPolicy } from '../shared/limits/endpoint-schema.ts';
import type { ReceivedMessage } from '../shared/ports/index.ts';
import type { DeliverDeps, Exit, Invocation } from './types.ts';
import type { Waves } from './waves.ts';

/**
 * Removes the body that lay beside a dead record, once what follows it is written: its next generation has another home. One that is
 * left by a crash ends by itself.
 */
export async function dropPayload(deps: Pick<DeliverDeps, 'payloads' | 'telemetry'>, before: DeliveryRecord | undefined): Promise<void> {
  if (before?.state !== 'dead') return;
  try {
    await deps.payloads.remove(before);
  } catch (error) {
    deps.telemetry.fault('payload-not-removed', error, { endpointId: before.endpointId });
  }
}

/** Puts a message back for a jittered while: it could not be tried now, and that says nothing about its endpoint. */
export async function putBack(deps: DeliverDeps, received: ReceivedMessage): Promise<Exit> {
  await deps.queues.delay(received, putBackS(received.receiveCount, deps.random.number()));
  return { kind: 'retain' };
}

/** Puts a delivery back that was not tried: for a little while where its lane was full, past an open breaker's end where that stopped it. */
export async function putBackUntried(
  deps: DeliverDeps,
  received: ReceivedMessage,
  { stop, endpoint }: Pick<Waves, 'stop' | 'endpoint'>,
  invocation: Pick<Invocation, 'startedEpochMs'>,
): Promise<Exit> {
  if (stop.kind === 'open' && endpoint?.config !== undefined) {
    return putBackPastBreaker(deps, received, { open: stop.open, policy: endpoint.config.breaker }, invocation);
  }
  if (stop.kind === 'unknown' || stop.kind === 'paused' || stop.kind === 'slow') return putBack(deps, received);
  await deps.queues.delay(received, fullPutBackS(received.receiveCount, deps.random.number()));
  return { kind: 'retain' };
}

/** Puts a message back until `dueEpochMs`, or for as long as SQS allows: it then comes back early, and is put back again. */
export async function putBackUntil(
  deps: DeliverDeps,
  received: ReceivedMessage,
  dueEpochMs: number,
  invocation: Pick<Invocation, 'startedEpochMs'>,
): Promise<Exit> {
  await deps.queues.delay(received, visibilityUntilS(dueEpochMs, invocation.startedEpochMs, deps.clock.nowEpochMs()));
  return { kind: 'retain' };
}

/**
 * Puts a message back until an open breaker may be tried again: spread out, and for longer with each receive, for a dead endpoint
 * may stay dead for days.
 */
async function putBackPastBreaker(
  deps: DeliverDeps,
  received: ReceivedMessage,
  { open, policy }: { open: OpenBreaker; policy: BreakerPolicy },
  invocation: Pick<Invocation, 'startedEpochMs'>,
): Promise<Exit> {
  const nowEpochMs = deps.clock.nowEpochMs();
  const fromEpochMs = triedFromEpochMs(open, policy, nowEpochMs);
  const spreadMs = Math.max(limits.openSpreadMinS * 1_000, limits.openSpread * (fromEpochMs - nowEpochMs));
  const dueEpochMs = fromEpochMs + deps.random.number() * spreadMs;
  const backoffS = putBackS(received.receiveCount, deps.random.number());
  await deps.queues.delay(received, Math.max(backoffS, visibilityUntilS(dueEpochMs, invocation.startedEpochMs, nowEpochMs)));
  return { kind: 'retain' };
}

/** Puts a message back until a claim that covers it has certainly expired. */
export function putBackPastClaim(
  deps: DeliverDeps,
  received: ReceivedMessage,
  claimEndsEpochMs: number,
  invocation: Pick<Invocation, 'startedEpochMs'>,
): Promise<Exit> {
  return putBackUntil(deps, received, claimEndsEpochMs + limits.afterClaimMs, invocation);
}

/**
 * Puts a message back after a bug or an outage: for longer with each receive, for an outage lasts hours, and the queue gives up
 * on a message after a number of receives. Not before `claimEndsEpochMs`, where its claim stays. Never rejects: who asks has
 * failed already.
 */
export async function putBackFaulted(
  deps: DeliverDeps,
  received: ReceivedMessage,
  invocation: Pick<Invocation, 'startedEpochMs'>,
  claimEndsEpochMs?: number,
): Promise<Exit> {
  const backoffS = putBackS(received.receiveCount, deps.random.number());
  const claimedS = claimEndsEpochMs === undefined
    ? 0
    : visibilityUntilS(claimEndsEpochMs + limits.afterClaimMs, invocation.startedEpochMs, deps.clock.nowEpochMs());
  try {
    await deps.queues.delay(received, Math.max(backoffS, claimedS));
  } catch (error) {
    // The message returns at the queue's own timeout.
    deps.telemetry.fault('put-back-failed', error, { messageId: received.messageId });
  }
  return { kind: 'retain' };
}
