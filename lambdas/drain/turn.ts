import type { Settled } from '../deliver/deliver-one.ts';
import type { Copy, Invocation } from '../deliver/types.ts';
import type { Pacing, Stop } from '../deliver/waves.ts';
import { drain as limits } from '../shared/limits/numbers.ts';
import type { HeldCopies } from './held-copies.ts';
import type { DrainDeps } from './types.ts';

/** One endpoint's turn: its time, and what has become of its deliveries. */
export interface Turn extends Pacing {
  attempts(): number;
  /** Deliveries that are held no more. */
  taken(): number;
  /** When a delivery of this turn is due again; undefined for one that was not in it. */
  dueOf(recordKey: string): number | 'taken' | undefined;
  /** Waits for what the turn has left behind it. */
  ended(): Promise<void>;
}

export function createTurn(deps: DrainDeps, held: HeldCopies, nextAtEpochMs: number | undefined, invocation: Invocation): Turn {
  const endsMs = deps.clock.monotonicMs() + limits.turnMs;
  const dues = new Map<string, number | 'taken'>();
  const removals = new Set<Promise<void>>();
  let idleSinceMs: number | undefined;
  let attempts = 0;
  let taken = 0;
  // Past that no attempt fits into what is left of the invocation.
  const isOver = () => deps.clock.monotonicMs() >= endsMs || invocation.remainingMs() < limits.turnMs;

  return {
    nextAtEpochMs,
    attempts: () => attempts,
    taken: () => taken,
    dueOf: (recordKey) => dues.get(recordKey),
    ended: async () => void (await Promise.all(removals)),
    more: () => (isOver() ? Promise.resolve([]) : held.next()),

    goesOn() {
      idleSinceMs = undefined;
      return !isOver();
    },

    /** No slot is held meanwhile. An endpoint's rate makes room for certain, a full lane may. */
    async wait(stop: Stop) {
      const nowMs = deps.clock.monotonicMs();
      idleSinceMs = stop.kind === 'rate' ? nowMs : (idleSinceMs ?? nowMs);
      const waitMs = stop.kind === 'rate' ? Math.max(limits.pollMs, stop.untilEpochMs - deps.clock.nowEpochMs()) : limits.pollMs;
      const mayPass = stop.kind === 'rate' || stop.kind === 'full';
      if (!mayPass || nowMs + waitMs > endsMs || nowMs + waitMs - idleSinceMs > limits.idleMs) return false;
      await deps.pause(waitMs);
      return true;
    },

    settled(wave: ReadonlyMap<Copy, Settled>) {
      for (const [{ recordKey }, { record, verdict }] of wave) {
        if (verdict !== undefined) attempts++;
        if (record?.state === 'waiting') dues.set(recordKey, record.dueEpochMs);
        if (record === undefined || record.state === 'waiting') continue;
        dues.set(recordKey, 'taken');
        taken++;
        // Of what has arrived nothing is kept; of what is dead the payload is, for its replay.
        if (record.state === 'delivered' || record.reason === 'ping-failed') remove(record);
      }
    },
  };

  function remove(record: Parameters<DrainDeps['payloads']['remove']>[0]): void {
    const removal = deps.payloads.remove(record).catch((error: unknown) => deps.telemetry.fault('payload-not-removed', error));
    removals.add(removal);
    void removal.finally(() => removals.delete(removal));
  }
}
