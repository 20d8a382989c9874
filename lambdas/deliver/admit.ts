import { mayProbe, type OpenBreaker } from '../shared/core/breaker.ts';
import { keptForDrain, readRefusal, type Lane, type Refusal } from '../shared/core/lane.ts';
import type { EndpointConfig } from '../shared/limits/endpoint-schema.ts';
import type { Admission, AdmitAnswer, Endpoint, GiveBack, GiveBackAnswer, LaneState, StoredEndpoint } from '../shared/ports/index.ts';
import { isEnabled } from './endpoint-cache.ts';
import { reapExpired } from './reap.ts';
import { reportHealth } from './report-health.ts';
import type { Copy, DeliverDeps, Invocation } from './types.ts';

export type Admitted = (
  | {
      kind: 'admitted';
      endpoint: Endpoint;
      leaseId: string;
      granted: Copy[];
      /** The lane as of the grant: its breaker is an open one where this is its canary. Undefined where nothing was granted. */
      state: LaneState | undefined;
      /** The lane as it refused, where it did. */
      seen: Lane | undefined;
      /** True where a write or a read failed: what refused the rest is not known. */
      isUnknown: boolean;
      /** `notBeforeEpochMs` where a live claim of another worker covers the key. */
      refused: { copy: Copy; notBeforeEpochMs: number | undefined }[];
    }
  /** No such endpoint any more, or not one that is delivered to. */
  | { kind: 'unavailable'; endpoint: StoredEndpoint | undefined }
) & {
  /** What became of the lease that was to be given back first. */
  gaveBack: GiveBackAnswer | undefined;
};

/** The lease of the wave before, and the slots that the lane had beside it. */
export interface Held {
  readonly give: GiveBack;
  readonly avail: number;
}

/**
 * Admits and reserves: one conditional write for all `copies` (distinct keys), and one second try with what fits. The
 * lease id is the same for both, so that a repeat by the SDK is recognised as our own. With `held`, the slots of the wave
 * before are given back by the first write, or on their own where it is refused. Of an open breaker whose time has come, the
 * drain's second try asks for one canary; live traffic leaves it, and slow endpoints, to the drain.
 */
export async function admit(
  deps: DeliverDeps,
  cached: Endpoint,
  copies: readonly Copy[],
  invocation: Invocation,
  held?: Held,
): Promise<Admitted> {
  const leaseId = deps.random.leaseId();
  const refused: { copy: Copy; notBeforeEpochMs: number | undefined }[] = [];
  const shed = (rest: readonly Copy[]) => refused.push(...rest.map((copy) => ({ copy, notBeforeEpochMs: undefined })));
  let endpoint = cached;
  let gaveBack: GiveBackAnswer | undefined;
  let seen: Lane | undefined;
  let canaryOf: OpenBreaker | undefined;
  const done = (granted: Copy[], state?: LaneState): Admitted => ({
    kind: 'admitted', endpoint, leaseId, granted, state, seen, isUnknown: false, refused, gaveBack,
  });
  const unknown = (): Admitted => ({ ...done([]), isUnknown: true } as Admitted);

  // More than the lane could ever hold need not be asked for, nor more than it had and gets back.
  const room = held === undefined ? Infinity : held.give.slots + Math.max(0, held.avail);
  let wanted = copies.slice(0, Math.min(endpoint.config.maxInFlight, room));
  shed(copies.slice(wanted.length));

  for (let tries = 1; ; tries++) {
    const ask: Asked = {
      endpointId: endpoint.config.endpointId, cfg: endpoint.version, leaseId, expiresEpochMs: invocation.leaseExpiresEpochMs, wanted,
      ...(deps.serves === 'held' ? {} : { live: { kept: keptForDrain(endpoint.config.maxInFlight) } }),
      ...(canaryOf === undefined ? {} : { canaryOf }),
    };
    const taken = await (tries === 1 && held !== undefined ? exchanged(deps, held.give, ask) : admitted(deps, ask));
    const { answer } = taken;
    gaveBack ??= taken.gaveBack;
    if (answer.kind === 'granted') return done(wanted, answer);
    if (answer.kind !== 'refused') {
      if (answer.kind === 'unsure') await giveUpUnsure(deps, endpoint, ask, invocation);
      shed(wanted);
      return unknown();
    }

    seen = answer.lane;
    const why = readRefusal(answer.lane, ask, deps.clock.nowEpochMs());
    if (why.kind === 'granted') {
      shed(why.others);
      return done(why.granted, answer.lane);
    }
    if (why.kind === 'noLane' || why.kind === 'staleConfig') {
      const fresh = await refreshed(deps, endpoint.config.endpointId);
      if (fresh === 'unread') {
        shed(wanted);
        return unknown();
      }
      if (!isEnabled(fresh)) return { kind: 'unavailable', endpoint: fresh, gaveBack };
      endpoint = fresh;
      shed(wanted.slice(fresh.config.maxInFlight));
      wanted = wanted.slice(0, fresh.config.maxInFlight);
    } else {
      refused.push(...why.live.map(({ wanted: copy, endsEpochMs }) => ({ copy, notBeforeEpochMs: endsEpochMs })));
      canaryOf = why.open;
      wanted = await askable(deps, endpoint, why, shed);
    }
    if (tries === 2 || wanted.length === 0) {
      shed(wanted);
      return done([]);
    }
  }
}

/** A read that fails must not undo what earlier waves have settled. */
/** As it is stored now; `unread` where that is not known. */
export async function refreshed(deps: DeliverDeps, endpointId: string): Promise<StoredEndpoint | undefined | 'unread'> {
  try {
    return await deps.endpoints.refresh(endpointId);
  } catch (error) {
    deps.telemetry.fault('endpoint-unread', error, { endpointId });
    return 'unread';
  }
}

type Asked = Admission & { readonly wanted: Copy[] };

interface Taken {
  readonly answer: AdmitAnswer;
  readonly gaveBack: GiveBackAnswer | undefined;
}

async function admitted(deps: DeliverDeps, ask: Admission): Promise<Taken> {
  return { answer: await deps.lanes.admit(ask), gaveBack: undefined };
}

/** One write where it is granted; else the old lease is given back alone, which also fences an exchange that may yet arrive. */
async function exchanged(deps: DeliverDeps, give: GiveBack, ask: Admission): Promise<Taken> {
  const answer = await deps.lanes.exchange(give, ask);
  if (isGranted(answer, ask.leaseId)) return { answer, gaveBack: 'done' };
  const gaveBack = await deps.lanes.giveBack(give);
  // What refused the exchange says nothing of the lane as it is now.
  return { answer: answer.kind === 'refused' ? await deps.lanes.admit(ask) : answer, gaveBack };
}

/** Granted, or refused because the SDK repeated what had been granted. */
function isGranted(answer: AdmitAnswer, leaseId: string): boolean {
  return answer.kind === 'granted' || (answer.kind === 'refused' && answer.lane?.leases.has(leaseId) === true);
}

/** What may be asked for once more: what fits, or by the drain of an open breaker one delivery, when its time has come, to see how the endpoint is. */
async function askable(
  deps: DeliverDeps,
  { config }: Endpoint,
  why: Extract<Refusal<Copy>, { kind: 'partly' }>,
  shed: (rest: readonly Copy[]) => void,
): Promise<Copy[]> {
  const { open, isSlow } = why;
  const isForDrain = deps.serves === 'queue' && (open !== undefined || isSlow);
  if (isForDrain || (open !== undefined && !mayProbe(open, config.breaker, deps.clock.nowEpochMs()))) {
    shed([...why.free, ...why.expired.map((e) => e.wanted)]);
    return [];
  }
  const fits = await makeRoom(deps, config, why, shed);
  if (open === undefined) return fits;
  shed(fits.slice(1));
  return fits.slice(0, 1);
}

/** Reaps what has expired, and returns the copies that fit. */
async function makeRoom(
  deps: DeliverDeps,
  config: EndpointConfig,
  why: Extract<Refusal<Copy>, { kind: 'partly' }>,
  shed: (rest: readonly Copy[]) => void,
): Promise<Copy[]> {
  const reaped: Copy[] = [];
  for (const { wanted: copy, claim } of why.expired) {
    if (await reapExpired(deps, copy, claim, config)) reaped.push(copy);
    else shed([copy]);
  }
  const wanted = [...why.free, ...reaped];
  // Without those of the dead, and without what is left to the drain.
  const freeNow = why.room - why.expiredLeases.reduce((sum, [, lease]) => sum + lease.slots, 0);
  // Beside a reaped claim its lease goes too, or leases without slots would stay for ever.
  if (wanted.length > freeNow || reaped.length > 0) {
    for (const [leaseId, lease] of why.expiredLeases) await deps.lanes.reapLease(config.endpointId, leaseId, lease);
  }
  shed(wanted.slice(why.room));
  return wanted.slice(0, why.room);
}

/** A write whose fate is not known is taken back; if even that fails, the lease's expiry heals the lane. */
async function giveUpUnsure(deps: DeliverDeps, endpoint: Endpoint, ask: Admission, invocation: Invocation): Promise<void> {
  const { endpointId, leaseId, expiresEpochMs, wanted, canaryOf } = ask;
  const release = wanted.map((w) => w.claimKey);
  await deps.lanes.giveBack({ endpointId, leaseId, expiresEpochMs, slots: wanted.length, release, keep: [], successes: 0, failures: 0 });
  if (canaryOf === undefined) return;
  await reportHealth(deps, { endpoint, leaseId, breaker: { ...canaryOf, canary: { leaseId, expiresEpochMs } } }, [], invocation);
}
