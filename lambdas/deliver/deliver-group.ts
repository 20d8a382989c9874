import { deliver as limits } from '../shared/limits/numbers.ts';
import { decideReceive } from '../shared/core/receive.ts';
import type { DeliveryRecord } from '../shared/core/record.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import { admit } from './admit.ts';
import { buryUnclaimed } from './bury.ts';
import { deliverOne, type Settled } from './deliver-one.ts';
import { putBack, putBackPastClaim, putBackUntil } from './retain.ts';
import type { Copy, DeliverDeps, Exit, Invocation } from './types.ts';

type Exits = Map<string, Exit>;

/**
 * All copies for one endpoint, in waves: admit, read, attempt and settle each, give back; then the same slots for what
 * the lane had no room for, while that is quick. What is left is shed.
 */
export async function deliverGroup(deps: DeliverDeps, copies: readonly Copy[], invocation: Invocation): Promise<Exits> {
  const endpointId = copies[0]?.message.endpointId ?? '';
  const exits: Exits = new Map();
  const { firsts, repeats } = splitRepeats(copies);
  const settled = new Map<Copy, Settled>();
  const startedMs = deps.clock.monotonicMs();
  let endpoint = await deps.endpoints.get(endpointId);
  let left: readonly Copy[] = firsts;

  while (left.length > 0) {
    if (endpoint?.config.status !== 'enabled') {
      for (const [id, exit] of await buryUnclaimed(deps, left, endpoint, invocation)) exits.set(id, exit);
      left = [];
      break;
    }
    const waveStartedMs = deps.clock.monotonicMs();
    const before = left.length;
    const wave = await deliverWave(deps, endpoint, left, invocation, exits);
    endpoint = wave.endpoint;
    for (const [copy, result] of wave.settled) settled.set(copy, result);
    left = wave.left;
    const nowMs = deps.clock.monotonicMs();
    const nextEndsMs = nowMs + (nowMs - waveStartedMs) - startedMs;
    // A wave that took nothing off the list would be followed by another such.
    if (!wave.unavailable && (wave.left.length === before || nextEndsMs > limits.waveMs)) break;
  }

  for (const [copy, result] of settled) exits.set(copy.received.messageId, result.exit);
  await Promise.all([
    shed(deps, endpoint, left, invocation, exits),
    ...repeats.map(async (copy) => exits.set(copy.received.messageId, await exitOfRepeat(deps, copy, settled, invocation))),
  ]);
  return exits;
}

interface Wave {
  readonly endpoint: Endpoint | undefined;
  readonly settled: ReadonlyMap<Copy, Settled>;
  /** Copies that the lane had no room for. */
  readonly left: readonly Copy[];
  /** The endpoint turned out to be gone or disabled; nothing was admitted. */
  readonly unavailable: boolean;
}

/** One admission and what was granted by it. Copies that another worker's live claim covers are put back beyond it. */
async function deliverWave(
  deps: DeliverDeps,
  endpoint: Endpoint,
  copies: readonly Copy[],
  invocation: Invocation,
  exits: Exits,
): Promise<Wave> {
  const admission = await admit(deps, endpoint, copies, invocation);
  if (admission.kind === 'unavailable') return { endpoint: admission.endpoint, settled: new Map(), left: copies, unavailable: true };
  const covered = admission.refused.map(async ({ copy, notBeforeEpochMs }) => {
    if (notBeforeEpochMs === undefined) return;
    exits.set(copy.received.messageId, await putBackPastClaim(deps, copy.received, notBeforeEpochMs, invocation));
  });
  const settled = await deliverGranted(deps, admission.endpoint, admission.leaseId, admission.granted, invocation);
  await Promise.all(covered);
  const left = admission.refused.filter((r) => r.notBeforeEpochMs === undefined).map((r) => r.copy);
  return { endpoint: admission.endpoint, settled, left, unavailable: false };
}

/** No attempt, no failure, no step towards a dead letter (L3); but what is past its age is given up here too. */
async function shed(
  deps: DeliverDeps,
  endpoint: Endpoint | undefined,
  copies: readonly Copy[],
  invocation: Invocation,
  exits: Exits,
): Promise<void> {
  if (copies.length === 0 || endpoint === undefined) return;
  deps.telemetry.event('shed', { endpointId: endpoint.config.endpointId, copies: copies.length });
  const oldestEpochMs = deps.clock.nowEpochMs() - endpoint.config.retry.maxAgeS * 1_000;
  const old = copies.filter((copy) => copy.received.sentEpochMs < oldestEpochMs);
  const young = copies.filter((copy) => !old.includes(copy));
  const expired = old.length === 0 ? new Map<string, Exit>() : await buryUnclaimed(deps, old, endpoint, invocation);
  for (const [id, exit] of expired) exits.set(id, exit);
  await Promise.all(young.map(async (copy) => exits.set(copy.received.messageId, await putBack(deps, copy.received))));
}

/** The granted deliveries: one strongly consistent read, then each on its own, then one write that gives all back. */
async function deliverGranted(
  deps: DeliverDeps,
  endpoint: Endpoint,
  leaseId: string,
  granted: readonly Copy[],
  invocation: Invocation,
): Promise<Map<Copy, Settled>> {
  if (granted.length === 0) return new Map();
  const { found, unread } = await readOrNone(deps, granted);
  const settled = new Map(
    await Promise.all(
      granted.map(async (copy): Promise<[Copy, Settled]> => {
        // Unread is not "no record": nothing may be sent on it.
        if (unread.has(copy.recordKey)) return [copy, { exit: await putBack(deps, copy.received), release: true }];
        const record = found.get(copy.recordKey);
        return [copy, await deliverOne(deps, { endpoint, leaseId, copy, record, invocation })];
      }),
    ),
  );

  const results = [...settled.values()];
  const answer = await deps.lanes.giveBack({
    endpointId: endpoint.config.endpointId,
    leaseId,
    expiresEpochMs: invocation.leaseExpiresEpochMs,
    slots: granted.length,
    release: [...settled].filter(([, s]) => s.release).map(([copy]) => copy.claimKey),
    keep: [...settled].filter(([, s]) => !s.release).map(([copy]) => copy.claimKey),
    successes: results.filter((s) => s.verdict === 'success').length,
    failures: results.filter((s) => s.verdict === 'failure').length,
  });
  if (answer === 'done') return settled;

  // Claims of settled deliveries may be left. Their messages stay, and clear them when the claims have expired:
  // without a message nobody would come for them.
  deps.telemetry.event('give-back-failed', { endpointId: endpoint.config.endpointId, answer });
  return new Map(
    await Promise.all(
      [...settled].map(async ([copy, s]): Promise<[Copy, Settled]> => {
        if (s.exit.kind === 'retain') return [copy, s];
        const exit = await putBackPastClaim(deps, copy.received, invocation.leaseExpiresEpochMs, invocation);
        return [copy, { ...s, exit }];
      }),
    ),
  );
}

/** A read that fails for a reason of ours leaves all unread, so that the slots are given back at once. */
async function readOrNone(deps: DeliverDeps, granted: readonly Copy[]): ReturnType<DeliverDeps['records']['read']> {
  const keys = granted.map((copy) => copy.recordKey);
  try {
    return await deps.records.read(keys);
  } catch (error) {
    deps.telemetry.fault('read-failed', error, { endpointId: granted[0]?.message.endpointId });
    return { found: new Map(), unread: new Set(keys) };
  }
}

/** Distinct keys first; a second copy of a key waits for the first one's settle. */
function splitRepeats(copies: readonly Copy[]): { firsts: Copy[]; repeats: Copy[] } {
  const firsts = new Map<string, Copy>();
  for (const copy of copies) if (!firsts.has(copy.claimKey)) firsts.set(copy.claimKey, copy);
  const chosen = new Set(firsts.values());
  return { firsts: [...chosen], repeats: copies.filter((copy) => !chosen.has(copy)) };
}

/** What a repeat within the batch finds is what its first copy left; anything that needs a claim comes back on its own. */
async function exitOfRepeat(
  deps: DeliverDeps,
  copy: Copy,
  settled: ReadonlyMap<Copy, Settled>,
  invocation: Invocation,
): Promise<Exit> {
  const first = [...settled].find(([other]) => other.claimKey === copy.claimKey)?.[1];
  if (first?.record === undefined || first.exit.kind !== exitOf(first.record)) return putBack(deps, copy.received);
  const received = { ...copy.message, deadLetterGeneration: copy.received.deadLetterGeneration };
  const decision = decideReceive(received, first.record, deps.clock.nowEpochMs());
  if (decision.kind === 'done') return { kind: 'ack' };
  // A larger resend must be noted in the record first, which takes the claim.
  if (decision.kind === 'early' && copy.message.resend <= first.record.resend) return putBackUntil(deps, copy.received, decision.dueEpochMs, invocation);
  return putBack(deps, copy.received);
}

/** The exit that a first copy takes when all went well; another one means that its record may not be final. */
function exitOf(record: DeliveryRecord): Exit['kind'] {
  return record.state === 'waiting' ? 'retain' : 'ack';
}
