import type { Breaker, OpenBreaker, Sample } from '../shared/core/breaker.ts';
import { deliver as limits } from '../shared/limits/numbers.ts';
import type { GiveBack, GiveBackAnswer, StoredEndpoint } from '../shared/ports/index.ts';
import { admit, type Admitted, type Held } from './admit.ts';
import { buryUnclaimed } from './bury.ts';
import { deliverOne, type Settled } from './deliver-one.ts';
import { isEnabled } from './endpoint-cache.ts';
import { exitOfRepeat, splitRepeats } from './repeats.ts';
import { reportHealth } from './report-health.ts';
import { putBack, putBackPastBreaker, putBackPastClaim } from './retain.ts';
import { createRateGate } from './spend-rate.ts';
import type { Copy, DeliverDeps, Exit, Invocation } from './types.ts';

type Exits = Map<string, Exit>;

/** What a wave has dealt with under one lease, until the lease is given back. */
interface Wave extends Held {
  /** True where the rate allowed fewer than were granted: another wave would find nothing. */
  readonly isAtRate: boolean;
  /** As its attempts have left it. */
  readonly breaker: Breaker | undefined;
  /** True where no attempt was made: as a canary it has said nothing, and the next delivery may be. */
  readonly isSilent: boolean;
  readonly settled: ReadonlyMap<Copy, Settled>;
}

/**
 * All copies for one endpoint, in waves: admit, read, attempt and settle each; then the same slots, in one write, for what
 * the lane had no room for, while that is quick. What is left is shed.
 */
export async function deliverGroup(deps: DeliverDeps, copies: readonly Copy[], invocation: Invocation): Promise<Exits> {
  const exits: Exits = new Map();
  const settled = new Map<Copy, Settled>();
  const { firsts, repeats } = splitRepeats(copies);
  const startedMs = deps.clock.monotonicMs();
  let endpoint = await deps.endpoints.get(copies[0]?.message.endpointId ?? '');
  let left: readonly Copy[] = firsts;
  let wave: Wave | undefined;
  let open: OpenBreaker | undefined;
  let isAtRate = false;
  const close = async (closing: Wave, answer: GiveBackAnswer | undefined) => {
    for (const [copy, s] of await closed(deps, closing, answer ?? (await deps.lanes.giveBack(closing.give)), invocation)) settled.set(copy, s);
  };

  while (left.length > 0) {
    if (!isEnabled(endpoint)) {
      for (const [id, exit] of await buryUnclaimed(deps, left, endpoint, invocation)) exits.set(id, exit);
      left = [];
      break;
    }
    const waveStartedMs = deps.clock.monotonicMs();
    const admission: Admitted = await admit(deps, endpoint, left, invocation, wave);
    if (wave !== undefined) await close(wave, admission.gaveBack);
    wave = undefined;
    endpoint = admission.endpoint;
    if (admission.kind === 'unavailable') continue;
    [wave] = await Promise.all([deliverGranted(deps, admission, invocation), waitForOthers(deps, admission, invocation, exits)]);
    left = admission.refused.filter((r) => r.notBeforeEpochMs === undefined).map((r) => r.copy);
    const breaker = wave === undefined ? admission.open : wave.breaker;
    open = breaker?.state === 'open' ? breaker : undefined;
    isAtRate = wave?.isAtRate ?? false;
    const nowMs = deps.clock.monotonicMs();
    const isShut = open !== undefined && wave?.isSilent !== true;
    // No slot that could be used again, nothing that may be sent, or no time.
    if (wave === undefined || isShut || isAtRate || nowMs + (nowMs - waveStartedMs) - startedMs > limits.waveMs) break;
  }

  if (wave !== undefined) await close(wave, undefined);
  for (const [copy, { exit }] of settled) exits.set(copy.received.messageId, exit);
  const untried = (copy: Copy) => putBackUntried(deps, copy, endpoint, open, invocation);
  await Promise.all([
    shed(deps, endpoint, { left, why: open !== undefined ? 'breaker-open' : isAtRate ? 'rate-reached' : 'shed', untried }, invocation, exits),
    ...repeats.map(async (copy) => exits.set(copy.received.messageId, await exitOfRepeat(deps, copy, settled, untried, invocation))),
  ]);
  return exits;
}

/** Copies that another worker's live claim covers are put back beyond it. */
async function waitForOthers(
  deps: DeliverDeps,
  { refused }: Extract<Admitted, { kind: 'admitted' }>,
  invocation: Invocation,
  exits: Exits,
): Promise<void> {
  await Promise.all(
    refused.map(async ({ copy, notBeforeEpochMs }) => {
      if (notBeforeEpochMs === undefined) return;
      exits.set(copy.received.messageId, await putBackPastClaim(deps, copy.received, notBeforeEpochMs, invocation));
    }),
  );
}

/** No attempt, no failure, no step towards a dead letter (L3); but what is past its age is given up here too. */
async function shed(
  deps: DeliverDeps,
  endpoint: StoredEndpoint | undefined,
  { left: copies, why, untried }: { left: readonly Copy[]; why: string; untried: (copy: Copy) => Promise<Exit> },
  invocation: Invocation,
  exits: Exits,
): Promise<void> {
  if (copies.length === 0 || endpoint?.config === undefined) return;
  deps.telemetry.event(why, { endpointId: endpoint.config.endpointId, copies: copies.length });
  const oldestEpochMs = deps.clock.nowEpochMs() - endpoint.config.retry.maxAgeS * 1_000;
  const old = copies.filter((copy) => copy.received.sentEpochMs < oldestEpochMs);
  const young = copies.filter((copy) => !old.includes(copy));
  const expired = old.length === 0 ? new Map<string, Exit>() : await buryUnclaimed(deps, old, endpoint, invocation);
  for (const [id, exit] of expired) exits.set(id, exit);
  await Promise.all(young.map(async (copy) => exits.set(copy.received.messageId, await untried(copy))));
}

/** Back for a while; past an open breaker's end, where that is what stopped it. */
function putBackUntried(deps: DeliverDeps, { received }: Copy, endpoint: StoredEndpoint | undefined, open: OpenBreaker | undefined, invocation: Invocation): Promise<Exit> {
  if (open === undefined || endpoint?.config === undefined) return putBack(deps, received);
  return putBackPastBreaker(deps, received, { open, policy: endpoint.config.breaker }, invocation);
}

/** The granted deliveries: one strongly consistent read, then each on its own. */
async function deliverGranted(
  deps: DeliverDeps,
  { endpoint, leaseId, granted, avail, breaker, nextAtEpochMs }: Extract<Admitted, { kind: 'admitted' }>,
  invocation: Invocation,
): Promise<Wave | undefined> {
  if (granted.length === 0) return undefined;
  const { found, unread } = await readOrNone(deps, granted);
  const rate = createRateGate(deps, endpoint, nextAtEpochMs, invocation);
  const samples: Sample[] = [];
  const hear = (sample: Sample) => void samples.push(sample);
  const settled = new Map(
    await Promise.all(
      granted.map(async (copy): Promise<[Copy, Settled]> => {
        // Unread is not "no record": nothing may be sent on it.
        if (unread.has(copy.recordKey)) return [copy, { exit: await putBack(deps, copy.received), release: true }];
        const record = found.get(copy.recordKey);
        return [copy, await deliverOne(deps, { endpoint, leaseId, copy, record, invocation, rate, hear })];
      }),
    ),
  );
  const results = [...settled.values()];
  // Before the slots are given back, or the next wave would be admitted by what this one has found out already.
  const now = await reportHealth(deps, { endpoint, leaseId, breaker }, samples, invocation);
  const give: GiveBack = {
    endpointId: endpoint.config.endpointId,
    leaseId,
    expiresEpochMs: invocation.leaseExpiresEpochMs,
    slots: granted.length,
    release: [...settled].filter(([, s]) => s.release).map(([copy]) => copy.claimKey),
    keep: [...settled].filter(([, s]) => !s.release).map(([copy]) => copy.claimKey),
    successes: results.filter((s) => s.verdict === 'success').length,
    failures: results.filter((s) => s.verdict === 'failure').length,
  };
  const isAtRate = rate.refused() > 0;
  if (isAtRate) deps.telemetry.event('rate-reached', { endpointId: give.endpointId, copies: rate.refused() });
  return { settled, give, avail, isAtRate, breaker: now, isSilent: samples.length === 0 };
}

/** What becomes of a wave's messages, by whether its lease was given back. */
async function closed(deps: DeliverDeps, { settled, give }: Wave, answer: GiveBackAnswer, invocation: Invocation): Promise<ReadonlyMap<Copy, Settled>> {
  if (answer === 'done') return settled;
  // Claims of settled deliveries may be left. Their messages stay, and clear them when the claims have expired:
  // without a message nobody would come for them.
  deps.telemetry.event('give-back-failed', { endpointId: give.endpointId, answer });
  const kept = [...settled].map(async ([copy, s]): Promise<[Copy, Settled]> => {
    if (s.exit.kind === 'retain') return [copy, s];
    const exit = await putBackPastClaim(deps, copy.received, give.expiresEpochMs, invocation);
    return [copy, { ...s, exit }];
  });
  return new Map(await Promise.all(kept));
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
