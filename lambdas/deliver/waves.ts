import { sampleOf, type Breaker, type OpenBreaker } from '../shared/core/breaker.ts';
import type { Holding, Lane } from '../shared/core/lane.ts';
import { isEmpty, tallyOf } from '../shared/core/statistics.ts';
import type { Endpoint, GiveBack, GiveBackAnswer, LaneState, StoredEndpoint } from '../shared/ports/index.ts';
import { admit, refreshed, type Admitted, type Held } from './admit.ts';
import { buryUnclaimed } from './bury.ts';
import { deliverOne, type Claimed, type Settled } from './deliver-one.ts';
import { isEnabled, isPaused } from './endpoint-cache.ts';
import { isOffer } from './report-offers.ts';
import { noteHolds } from './hold.ts';
import { reportHealth } from './report-health.ts';
import { reportPace } from './report-pace.ts';
import { disableGone, isGone, reportRefusals } from './report-refusals.ts';
import { reportThrottle } from './report-throttle.ts';
import { putBack, putBackPastClaim } from './retain.ts';
import { createRateGate, roomIn, type Room, type Spending } from './spend-rate.ts';
import type { Copy, DeliverDeps, Exit, Heard, Invocation } from './types.ts';

/** What a wave has dealt with under one lease, until the lease is given back. */
interface Wave extends Held {
  /** When the rate, or the day, allows more, where it allowed fewer than were granted: another wave would find nothing before. */
  readonly atRate: Pick<Room, 'fromEpochMs' | 'isDaySpent'> | undefined;
  readonly spending: Spending;
  /** As its attempts have left it. */
  readonly breaker: Breaker | undefined;
  readonly isSlow: boolean;
  readonly holding: Holding | undefined;
  /** True where no attempt was made: as a canary it has said nothing, and the next delivery may be. */
  readonly isSilent: boolean;
  readonly settled: ReadonlyMap<Copy, Settled>;
  /** Those that the rate had no room for, or there was no socket for. */
  readonly untried: readonly Copy[];
  /** Set where the endpoint has said that it is gone. */
  readonly gone: Endpoint | undefined;
}

/** Why what is left was not tried. */
export type Stop =
  /** All were tried; or nothing is delivered to the endpoint, and all were buried. */
  | { readonly kind: 'done' }
  | { readonly kind: 'paused' }
  | { readonly kind: 'open'; readonly open: OpenBreaker }
  /** Only the drain serves it. */
  | { readonly kind: 'slow' }
  /** Of its rate, of its day, or the endpoint asked for less. */
  | { readonly kind: 'rate'; readonly untilEpochMs: number; readonly isDaySpent: boolean }
  /** No slot or no socket was left for them, or no time. */
  | { readonly kind: 'full' }
  /** What the lane is like is not known. */
  | { readonly kind: 'unknown' };

export interface Waves {
  /** As the last admission found it. */
  readonly endpoint: StoredEndpoint | undefined;
  /** By message: those that wait for another's claim, and those that were buried. What became of the claimed is told to the pacing. */
  readonly exits: Map<string, Exit>;
  readonly left: readonly Copy[];
  readonly stop: Stop;
  readonly holding: Holding | undefined;
  /** True where claims may be left that only their expiry frees: a lease was not given back, or a fate is not known. */
  readonly leavesClaims: boolean;
  /** The lane as it refused last; undefined where it never did. */
  readonly seen: Lane | undefined;
}

/** How long waves go on, and with what. */
export interface Pacing {
  /** Of what an endpoint may be sent in a second or a day, what is known; undefined: its first wave finds out. */
  readonly spending: Spending | undefined;
  /** Version of the configuration that the lane served then. */
  readonly cfg?: string;
  /** True where another wave may begin, after one that took `lastMs`. */
  goesOn(lastMs: number): boolean;
  /** What comes next, once too few for a lane are left; distinct keys. */
  more(): Promise<readonly Copy[]>;
  /** Told what became of each delivery of a wave, once its lease is given back. */
  settled(wave: ReadonlyMap<Copy, Settled>): void;
  /** Waits for room or time of which there is none now; false where that is not worth it. No slot is held meanwhile. */
  wait(stop: Stop): Promise<boolean>;
}

/**
 * Deliveries to one endpoint (distinct keys), in waves: admit, read, attempt and settle each; then the same slots, in one write,
 * for what the lane had no room for.
 */
export async function sendWaves(deps: DeliverDeps, endpointId: string, copies: readonly Copy[], pacing: Pacing, invocation: Invocation): Promise<Waves> {
  const exits = new Map<string, Exit>();
  let endpoint = await deps.endpoints.get(endpointId);
  let left = copies;
  let wave: Wave | undefined;
  let stop: Stop = { kind: 'done' };
  let holding: Holding | undefined;
  let seen: Lane | undefined;
  let leavesClaims = false;
  let { spending, cfg } = pacing;
  const close = async (answer?: GiveBackAnswer) => {
    if (wave === undefined) return;
    const closing = wave;
    wave = undefined;
    const given = answer ?? (await deps.lanes.giveBack(closing.give));
    leavesClaims ||= given !== 'done' || closing.give.keep.length > 0;
    pacing.settled(await closed(deps, closing, given, invocation));
    if (closing.gone !== undefined) await disableGone(deps, closing.gone);
  };

  for (;;) {
    const more = await moreOf(deps, endpointId, left, endpoint, pacing);
    if (more === 'unread') {
      stop = { kind: 'unknown' };
      break;
    }
    left = [...left, ...more];
    stop = { kind: 'done' };
    if (left.length === 0) break;
    if (isPaused(endpoint)) {
      stop = { kind: 'paused' };
      break;
    }
    if (!isEnabled(endpoint)) {
      for (const [id, exit] of await buryUnclaimed(deps, left, endpoint, invocation)) exits.set(id, exit);
      left = [];
      continue;
    }
    const rate = roomIn(endpoint.config, spending, deps.clock.nowEpochMs());
    // An operator's one question, which comes first, is asked all the same.
    const room = Math.max(rate.requests, pingsFirst(left));
    if (room === 0) {
      await close();
      if (cfg !== undefined && endpoint.version !== cfg) {
        // No admission follows, which would find out that another configuration is in force.
        cfg = undefined;
        const fresh = await refreshed(deps, endpointId);
        if (fresh !== 'unread') {
          endpoint = fresh;
          continue;
        }
      }
      stop = { kind: 'rate', untilEpochMs: rate.fromEpochMs, isDaySpent: rate.isDaySpent };
      if (await pacing.wait(stop)) continue;
      break;
    }
    const startedMs = deps.clock.monotonicMs();
    const beyond = left.slice(room);
    const admission: Admitted = await admit(deps, endpoint, left.slice(0, room), invocation, wave);
    await close(admission.gaveBack);
    endpoint = admission.endpoint;
    if (admission.kind === 'unavailable') continue;
    [wave] = await Promise.all([deliverGranted(deps, admission, invocation), waitForOthers(deps, admission, invocation, exits)]);
    const open = new Set([...(wave?.untried ?? []), ...admission.refused.filter((r) => r.notBeforeEpochMs === undefined).map((r) => r.copy), ...beyond]);
    // In the order in which they came: the drain's is that of their due times.
    left = left.filter((copy) => open.has(copy));
    seen = admission.seen ?? seen;
    spending = wave?.spending ?? spending;
    holding = wave === undefined ? admission.seen?.holding : wave.holding;
    stop = stopAfter(deps, admission, wave);
    const lastMs = deps.clock.monotonicMs() - startedMs;
    if (stop.kind !== 'done') {
      await close();
      if (!(await pacing.wait(stop))) break;
    } else if (!pacing.goesOn(lastMs)) {
      stop = { kind: 'full' };
      break;
    } else if (wave?.gone !== undefined) {
      // Disabled before the next wave is admitted.
      await close();
    }
    // Not before the first wave, where it has just been read; since then it may have been paused.
    endpoint = await deps.endpoints.get(endpointId);
  }
  await close();
  return { endpoint, exits, left, stop, holding, leavesClaims, seen };
}

/** What comes next, where too few for a lane are left. A read that fails must not keep the slots of the wave before. */
async function moreOf(deps: DeliverDeps, endpointId: string, left: readonly Copy[], endpoint: StoredEndpoint | undefined, pacing: Pacing): Promise<readonly Copy[] | 'unread'> {
  if (left.length >= (endpoint?.config?.maxInFlight ?? 1)) return [];
  try {
    return await pacing.more();
  } catch (error) {
    deps.telemetry.fault('held-unread', error, { endpointId });
    return 'unread';
  }
}

function pingsFirst(copies: readonly Copy[]): number {
  const other = copies.findIndex(({ isPing }) => isPing !== true);
  return other < 0 ? copies.length : other;
}

/** What stands in the way of another wave; `done` where nothing does. */
function stopAfter(deps: DeliverDeps, { seen, isUnknown }: Extract<Admitted, { kind: 'admitted' }>, wave: Wave | undefined): Stop {
  const isLive = deps.serves === 'queue';
  if (wave === undefined) {
    if (isUnknown || seen === undefined) return { kind: 'unknown' };
    if (seen.breaker?.state === 'open') return { kind: 'open', open: seen.breaker };
    return isLive && seen.pace?.isSlow === true ? { kind: 'slow' } : { kind: 'full' };
  }
  // A look has said nothing of the endpoint, but is one request: the next is no sooner than a delivery may be tried.
  const isLook = [...wave.settled.keys()].some(({ isUnknown }) => isUnknown === true);
  if (wave.breaker?.state === 'open' && (!wave.isSilent || isLook)) return { kind: 'open', open: wave.breaker };
  if (isLive && wave.isSlow) return { kind: 'slow' };
  if (wave.atRate !== undefined) return { kind: 'rate', untilEpochMs: wave.atRate.fromEpochMs, isDaySpent: wave.atRate.isDaySpent };
  // There was no socket for them.
  return wave.untried.length > 0 ? { kind: 'full' } : { kind: 'done' };
}

/** Copies that another worker's live claim covers are put back beyond it. */
async function waitForOthers(
  deps: DeliverDeps,
  { refused }: Extract<Admitted, { kind: 'admitted' }>,
  invocation: Invocation,
  exits: Map<string, Exit>,
): Promise<void> {
  await Promise.all(
    refused.map(async ({ copy, notBeforeEpochMs }) => {
      if (notBeforeEpochMs === undefined) return;
      exits.set(copy.received.messageId, await putBackPastClaim(deps, copy.received, notBeforeEpochMs, invocation));
    }),
  );
}

/** The granted deliveries: one strongly consistent read, then each on its own. */
async function deliverGranted(
  deps: DeliverDeps,
  { endpoint, leaseId, granted, state }: Extract<Admitted, { kind: 'admitted' }>,
  invocation: Invocation,
): Promise<Wave | undefined> {
  if (granted.length === 0 || state === undefined) return undefined;
  const { found, unread } = await readOrNone(deps, granted);
  const rate = createRateGate(deps, endpoint, state, invocation);
  const heard: Heard[] = [];
  const hear: Claimed['hear'] = (one) => void heard.push(one);
  const settled = new Map(
    await Promise.all(
      granted.map(async (copy): Promise<[Copy, Settled]> => {
        // Unread is not "no record": nothing may be sent on it.
        if (unread.has(copy.recordKey)) return [copy, { exit: await putBack(deps, copy.received), release: true }];
        const record = found.get(copy.recordKey);
        return [copy, await deliverOne(deps, { endpoint, leaseId, copy, record, invocation, rate, hear, learned: state })];
      }),
    ),
  );
  const results = [...settled.values()];
  // Before the slots are given back, or the next wave would be admitted by what this one has found out already.
  const samples = heard.map(({ outcome, isHasty }) => (isHasty ? { ...sampleOf(outcome), health: 'unknown' as const } : sampleOf(outcome)));
  const [breaker, pace, throttledUntilEpochMs] = await Promise.all([
    reportHealth(deps, { endpoint, leaseId, breaker: state.breaker }, samples, invocation),
    reportPace(deps, endpoint, state.pace, samples, invocation),
    reportThrottle(deps, endpoint, heard),
    reportRefusals(deps, endpoint, state, heard),
  ]);
  const untried = [...settled].filter(([, s]) => s.isUntried).map(([copy]) => copy);
  const give: GiveBack = {
    endpointId: endpoint.config.endpointId,
    leaseId,
    expiresEpochMs: invocation.leaseExpiresEpochMs,
    slots: granted.length,
    release: [...settled].filter(([, s]) => s.release).map(([copy]) => copy.claimKey),
    keep: [...settled].filter(([, s]) => !s.release).map(([copy]) => copy.claimKey),
    successes: results.filter((s) => s.verdict === 'success').length,
    failures: results.filter((s) => s.verdict === 'failure').length,
    failed: { answered: heard.filter(({ outcome, isPing }) => outcome.kind === 'answered' && !isPing).length, atEpochMs: deps.clock.nowEpochMs(), isFirst: state.failures === 0 },
    ...countedIn(deps, heard, untried, state, granted),
  };
  const more = rate.refused() > 0 ? rate.more() : undefined;
  const atRate = throttledUntilEpochMs === undefined ? more : { fromEpochMs: throttledUntilEpochMs, isDaySpent: false };
  for (const copy of untried) settled.delete(copy);
  return { settled, untried, give, avail: state.avail, atRate, spending: rate.spending(), breaker, isSlow: pace?.isSlow === true, holding: state.holding, isSilent: samples.length === 0, gone: isGone(endpoint, heard) ? endpoint : undefined };
}

/** What the wave adds to the lane's statistics: in the write that gives the lease back, so that it counts once. */
function countedIn(deps: DeliverDeps, heard: readonly Heard[], untried: readonly Copy[], { window, slots, avail }: LaneState, granted: readonly Copy[]): Pick<GiveBack, 'counted'> {
  const offered = granted.filter((copy) => isOffer(deps, copy) && !untried.includes(copy)).length;
  const tally = tallyOf(heard.map(({ outcome }) => outcome), { window, inFlight: slots - avail, offered, cutOff: heard.filter(({ isHasty }) => isHasty).length });
  return isEmpty(tally) ? {} : { counted: { tally, atEpochMs: deps.clock.nowEpochMs() } };
}

/** What becomes of a wave's messages, by whether its lease was given back. */
async function closed(deps: DeliverDeps, { settled, give }: Wave, answer: GiveBackAnswer, invocation: Invocation): Promise<ReadonlyMap<Copy, Settled>> {
  if (answer === 'done') return noteHolds(deps, give.endpointId, settled, invocation);
  // Claims of settled deliveries may be left. Their messages stay, and clear them when the claims have expired:
  // without a message nobody would come for them.
  deps.telemetry.event('give-back-failed', { endpointId: give.endpointId, answer });
  const kept = [...settled].map(async ([copy, s]): Promise<[Copy, Settled]> => {
    if (s.exit.kind === 'retain' && s.heldUntilEpochMs === undefined) return [copy, s];
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
