import type { Settled } from '../deliver/deliver-one.ts';
import type { Copy, Invocation } from '../deliver/types.ts';
import type { Spending } from '../deliver/spend-rate.ts';
import type { Pacing, Stop } from '../deliver/waves.ts';
import type { Lane } from '../shared/core/lane.ts';
import { budgets, drain as limits } from '../shared/limits/numbers.ts';
import type { PayloadName } from '../shared/ports/index.ts';
import type { HeldCopies } from './held-copies.ts';
import type { DrainDeps } from './types.ts';

/** One endpoint's turn: its time, and what has become of its deliveries. */
export interface Turn {
  pacing(held: HeldCopies): Pacing;
  /** Of its looks, which begin now. */
  looking(unknown: HeldCopies): Pacing;
  readonly areLooksOver: () => boolean;
  /** Looks that were made. */
  looks(): number;
  /** True where one of them had no whole answer. */
  hasSilentLook(): boolean;
  readonly isOver: () => boolean;
  attempts(): number;
  /** Deliveries that are held no more, less those that are again. */
  taken(): number;
  /** When some were last moved from what is held to what is unknown, or back. */
  movedEpochMs(): number | undefined;
  /** True where a burial of this turn is begun and not finished. */
  hasOpenBurial(): boolean;
  /** When a delivery of this turn is due again; undefined for one that was not in it. */
  dueOf(recordKey: string): number | 'taken' | undefined;
  /** The first of these times. */
  earliestDue(): number | undefined;
  /** Likewise of what is unknown: when it is looked for next, and the first of these times. */
  lookOf(recordKey: string): number | 'taken' | undefined;
  earliestLook(): number | undefined;
  /** Waits for what the turn has left behind it. */
  ended(): Promise<void>;
}

/** By record key; `taken` where it is in that index no more. */
type Times = Map<string, number | 'taken'>;

function earliestOf(times: Times): number | undefined {
  return [...times.values()].reduce<number | undefined>((first, at) => (at === 'taken' || (first !== undefined && first <= at) ? first : at), undefined);
}

export function createTurn(deps: DrainDeps, lane: Spending & Pick<Lane, 'cfg'>, invocation: Invocation): Turn {
  const endsMs = deps.clock.monotonicMs() + limits.turnMs;
  const neededMs = budgets.connectionMs + budgets.maxTotalMs + deps.limits.settleMarginMs;
  const dues: Times = new Map();
  const lookTimes: Times = new Map();
  const removals = new Set<Promise<void>>();
  let idleSinceMs: number | undefined;
  let attempts = 0;
  let taken = 0;
  let hasOpenBurial = false;
  let movedEpochMs: number | undefined;
  let looksEndMs = 0;
  let looksMade = 0;
  let isSilent = false;
  // Past that no attempt fits into what is left of the invocation.
  const isOver = () => deps.clock.monotonicMs() >= endsMs || invocation.remainingMs() < neededMs;

  const areLooksOver = () => isSilent || deps.clock.monotonicMs() >= looksEndMs || invocation.remainingMs() < neededMs;

  return {
    isOver,
    areLooksOver,
    looks: () => looksMade,
    hasSilentLook: () => isSilent,
    looking: (unknown) => {
      looksEndMs = deps.clock.monotonicMs() + limits.lookMs;
      const more = () => (areLooksOver() ? Promise.resolve([]) : unknown.next());
      return { spending: undefined, more, goesOn: () => !areLooksOver(), wait: () => Promise.resolve(false), settled };
    },
    attempts: () => attempts,
    taken: () => taken,
    movedEpochMs: () => movedEpochMs,
    hasOpenBurial: () => hasOpenBurial,
    dueOf: (recordKey) => dues.get(recordKey),
    earliestDue: () => earliestOf(dues),
    lookOf: (recordKey) => lookTimes.get(recordKey),
    earliestLook: () => earliestOf(lookTimes),
    ended: async () => void (await Promise.all(removals)),
    pacing: (held) => ({ spending: lane, cfg: lane.cfg, more: () => (isOver() ? Promise.resolve([]) : held.next()), goesOn, wait, settled }),
  };

  function goesOn(): boolean {
    idleSinceMs = undefined;
    return !isOver();
  }

  /** No slot is held meanwhile. An endpoint's rate makes room for certain, a full lane may. */
  async function wait(stop: Stop): Promise<boolean> {
    const nowMs = deps.clock.monotonicMs();
    idleSinceMs = stop.kind === 'rate' ? nowMs : (idleSinceMs ?? nowMs);
    const waitMs = stop.kind === 'rate' ? Math.max(limits.pollMs, stop.untilEpochMs - deps.clock.nowEpochMs()) : limits.pollMs;
    const mayPass = stop.kind === 'rate' || stop.kind === 'full';
    if (!mayPass || isOver() || nowMs + waitMs > endsMs || nowMs + waitMs - idleSinceMs > limits.idleMs) return false;
    await deps.pause(waitMs);
    return true;
  }

  function settled(wave: ReadonlyMap<Copy, Settled>): void {
    for (const [{ recordKey, isUnknown = false }, { record, verdict, exit, look }] of wave) {
      looksMade += Number(look !== undefined);
      isSilent ||= look === 'silent';
      if (verdict !== undefined || look !== undefined) {
        attempts++;
        idleSinceMs = undefined;
      }
      if (record === undefined) continue;
      const isHeld = record.state === 'waiting';
      dues.set(recordKey, isHeld ? record.dueEpochMs : 'taken');
      lookTimes.set(recordKey, record.state === 'unknown' ? (record.nextLookEpochMs ?? 'taken') : 'taken');
      // What is looked for is not held; what was found absent is again.
      taken += Number(!isUnknown) - Number(isHeld);
      if (isUnknown ? isHeld : record.state === 'unknown') movedEpochMs = deps.clock.nowEpochMs();
      if (isHeld || record.state === 'unknown') continue;
      if (record.state === 'dead' && exit.kind === 'retain') hasOpenBurial = true;
      // Of what has arrived or was dropped nothing is kept; of what is dead the payload is, for its replay.
      if (record.state !== 'dead' || record.reason === 'ping-failed') remove(record);
    }
  }

  function remove(record: PayloadName): void {
    const removal = deps.payloads.remove(record).catch((error: unknown) => deps.telemetry.fault('payload-not-removed', error));
    removals.add(removal);
    void removal.finally(() => removals.delete(removal));
  }
}
