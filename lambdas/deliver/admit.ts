import { readRefusal, type Refusal } from '../shared/core/lane.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import { reapExpired } from './reap.ts';
import type { Copy, DeliverDeps, Invocation } from './types.ts';

export type Admitted =
  | {
      kind: 'admitted';
      endpoint: Endpoint;
      leaseId: string;
      granted: Copy[];
      /** `notBeforeEpochMs` where a live claim of another worker covers the key. */
      refused: { copy: Copy; notBeforeEpochMs: number | undefined }[];
    }
  /** No such endpoint any more, or not one that is delivered to. */
  | { kind: 'unavailable'; endpoint: Endpoint | undefined };

/**
 * Admits and reserves: one conditional write for all `copies` (distinct keys), and one second try with what fits. The
 * lease id is the same for both, so that a repeat by the SDK is recognised as our own.
 */
export async function admit(
  deps: DeliverDeps,
  cached: Endpoint,
  copies: readonly Copy[],
  invocation: Invocation,
): Promise<Admitted> {
  const leaseId = deps.random.leaseId();
  const refused: { copy: Copy; notBeforeEpochMs: number | undefined }[] = [];
  const shed = (rest: readonly Copy[]) => refused.push(...rest.map((copy) => ({ copy, notBeforeEpochMs: undefined })));
  let endpoint = cached;
  const done = (granted: Copy[]): Admitted => ({ kind: 'admitted', endpoint, leaseId, granted, refused });

  // More than the lane could ever hold need not be asked for.
  let wanted = copies.slice(0, endpoint.config.maxInFlight);
  shed(copies.slice(wanted.length));

  for (let tries = 1; ; tries++) {
    const ask = { endpointId: endpoint.config.endpointId, cfg: endpoint.version, leaseId, wanted };
    const answer = await deps.lanes.admit({ ...ask, expiresEpochMs: invocation.leaseExpiresEpochMs });
    if (answer.kind === 'granted') return done(wanted);
    if (answer.kind !== 'refused') {
      if (answer.kind === 'unsure') await giveUpUnsure(deps, ask, invocation);
      shed(wanted);
      return done([]);
    }

    const why = readRefusal(answer.lane, ask, deps.clock.nowEpochMs());
    if (why.kind === 'granted') {
      shed(why.others);
      return done(why.granted);
    }
    if (why.kind === 'noLane' || why.kind === 'staleConfig') {
      const fresh = await deps.endpoints.refresh(endpoint.config.endpointId);
      if (fresh?.config.status !== 'enabled') return { kind: 'unavailable', endpoint: fresh };
      endpoint = fresh;
      shed(wanted.slice(fresh.config.maxInFlight));
      wanted = wanted.slice(0, fresh.config.maxInFlight);
    } else {
      refused.push(...why.live.map(({ wanted: copy, endsEpochMs }) => ({ copy, notBeforeEpochMs: endsEpochMs })));
      wanted = await makeRoom(deps, ask.endpointId, answer.lane?.avail ?? 0, why, shed);
    }
    if (tries === 2 || wanted.length === 0) {
      shed(wanted);
      return done([]);
    }
  }
}

/** Reaps what has expired, and returns the copies that fit. */
async function makeRoom(
  deps: DeliverDeps,
  endpointId: string,
  avail: number,
  why: Extract<Refusal<Copy>, { kind: 'partly' }>,
  shed: (rest: readonly Copy[]) => void,
): Promise<Copy[]> {
  const reaped: Copy[] = [];
  for (const { wanted: copy, claim } of why.expired) {
    if (await reapExpired(deps, copy, claim)) reaped.push(copy);
    else shed([copy]);
  }
  const wanted = [...why.free, ...reaped];
  // Beside a reaped claim its lease goes too, or leases without slots would stay for ever.
  if (wanted.length > avail || reaped.length > 0) {
    for (const [leaseId, lease] of why.expiredLeases) await deps.lanes.reapLease(endpointId, leaseId, lease);
  }
  shed(wanted.slice(why.room));
  return wanted.slice(0, why.room);
}

/** A write whose fate is not known is taken back; if even that fails, the lease's expiry heals the lane. */
async function giveUpUnsure(
  deps: DeliverDeps,
  ask: { endpointId: string; leaseId: string; wanted: readonly Copy[] },
  invocation: Invocation,
): Promise<void> {
  await deps.lanes.giveBack({
    endpointId: ask.endpointId,
    leaseId: ask.leaseId,
    expiresEpochMs: invocation.leaseExpiresEpochMs,
    slots: ask.wanted.length,
    release: ask.wanted.map((copy) => copy.claimKey),
    keep: [],
    successes: 0,
    failures: 0,
  });
}
