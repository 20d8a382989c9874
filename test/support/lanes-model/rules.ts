/** What must hold in every state and over every change, whatever the model says. Each answer is a sentence, or nothing. */
import { isDeepStrictEqual } from 'node:util';
import { inFlight, removedCfg, type Lane } from '../../../lambdas/shared/core/lane.ts';
import { assertTransition, type DeliveryRecord } from '../../../lambdas/shared/core/record.ts';
import { records as recordLimits } from '../../../lambdas/shared/limits/numbers.ts';
import type { State } from './state.ts';

/** A request that may have reached the consumer. */
export interface Post {
  readonly recordKey: string;
  readonly leaseId: string;
  readonly generation: number;
  readonly delivers: boolean;
}

/** A verdict that a record was given. */
export interface Verdict {
  readonly recordKey: string;
  readonly leaseId: string;
  readonly kind: 'settled' | 'reaped';
}

export function checkState({ lane, version }: State): string[] {
  if (lane === undefined) return version === undefined ? [] : ['a configuration without a lane'];
  const leased = [...lane.leases.values()].reduce((sum, l) => sum + l.slots, 0);
  const problems: string[] = [];
  if (lane.avail + leased !== lane.slots) problems.push(`avail ${lane.avail} + leased ${leased} is not slots ${lane.slots}`);
  if (lane.cfg !== (version ?? removedCfg)) problems.push(`the lane serves ${lane.cfg}, and the configuration is ${version ?? 'none'}`);
  return problems;
}

/** A change that one write has made. */
export function checkChange(before: State, after: State): string[] {
  return [...checkLane(before.lane, after.lane), ...recordChanges(before, after).flatMap(([from, to]) => checkRecord(from, to))];
}

function checkLane(before: Lane | undefined, after: Lane | undefined): string[] {
  if (before === undefined) return [];
  if (after === undefined) return ['the lane is gone'];
  const problems: string[] = [];
  const isLess = after.avail < 0 && after.avail < before.avail && after.slots >= before.slots;
  if (isLess) problems.push(`more in flight than the lane allows: avail ${after.avail}`);
  for (const [key, { leaseId }] of before.claims) {
    const now = after.claims.get(key)?.leaseId;
    if (now !== undefined && now !== leaseId) problems.push(`claim ${key} went from ${leaseId} to ${now} without being free`);
  }
  return problems;
}

function checkRecord(from: DeliveryRecord | undefined, to: DeliveryRecord | undefined): string[] {
  if (to === undefined) return ['a record is gone'];
  const problems: string[] = [];
  try {
    assertTransition(from, to);
  } catch (error) {
    problems.push((error as Error).message);
  }
  const kept = from?.history ?? [];
  // A full history loses entries from its middle.
  const isKept = kept.length >= recordLimits.maxHistory || isDeepStrictEqual(to.history.slice(0, kept.length), kept);
  if (!isKept) problems.push('a verdict in the history was overwritten');
  return problems;
}

/** Records that differ. A repeat of a write changes nothing. */
function recordChanges(before: State, after: State): [DeliveryRecord | undefined, DeliveryRecord | undefined][] {
  const keys = new Set([...before.records.keys(), ...after.records.keys()]);
  return [...keys]
    .map((key): [DeliveryRecord | undefined, DeliveryRecord | undefined] => [before.records.get(key), after.records.get(key)])
    .filter(([from, to]) => !isDeepStrictEqual(from, to));
}

/** Verdicts that a change has given: each raises the attempt by one, and names the lease that it is of. */
export function verdictsOf(before: State, after: State): Verdict[] {
  return recordChanges(before, after).flatMap(([from, to]) => {
    if (to?.lastLease === undefined || to.attempt !== (from?.attempt ?? 0) + 1) return [];
    return [{ recordKey: to.recordKey, ...to.lastLease }];
  });
}

/**
 * A lease that sent has one verdict. Not so one that came back after it was gone, because a copy of its admission landed:
 * nothing tells its reaper whether its verdict is there under those of later leases, and the attempt counts once more.
 */
export function checkVerdicts(all: readonly Verdict[], added: readonly Verdict[], posts: readonly Post[], revived: ReadonlySet<string>): string[] {
  const isOf = (v: Verdict) => (o: { recordKey: string; leaseId: string }) => o.recordKey === v.recordKey && o.leaseId === v.leaseId;
  const mayRepeat = (v: Verdict) => v.kind === 'reaped' && revived.has(v.leaseId);
  return added.filter((v) => all.some(isOf(v)) && posts.some(isOf(v)) && !mayRepeat(v)).map((v) => `two verdicts for ${v.leaseId}`);
}

/** What is wrong with a request about to be made under `leaseId`. */
export function checkPost(
  { lane, records }: State,
  at: { readonly claimKey: string; readonly recordKey: string; readonly leaseId: string; readonly nowEpochMs: number },
  posts: readonly Post[],
  verdicts: readonly Verdict[],
): string[] {
  const record = records.get(at.recordKey);
  const owner = lane?.claims.get(at.claimKey)?.leaseId;
  const problems: string[] = [];
  if (owner !== at.leaseId) problems.push(`${at.leaseId} sends without a claim, which is ${owner ?? 'nobody'}'s`);
  else if ((lane?.leases.get(owner)?.slots ?? 0) < 1) problems.push(`${at.leaseId} sends without a slot`);
  for (const post of posts.filter((p) => p.recordKey === at.recordKey)) {
    const verdict = verdicts.find((v) => v.recordKey === at.recordKey && v.leaseId === post.leaseId);
    if (verdict === undefined) problems.push(`${at.leaseId} sends while a request of ${post.leaseId} has no verdict`);
    else if (post.delivers && verdict.kind === 'settled' && post.generation === (record?.generation ?? 0)) problems.push(`${at.leaseId} sends after a recorded 2xx`);
  }
  return problems;
}

/** Sizes that a lane was given, by the step in which they were, and its leases. */
export class Sizes {
  /** Leases that were gone and are there again. */
  readonly revived = new Set<string>();
  #present: ReadonlySet<string> = new Set();
  readonly #sizes: { readonly step: number; readonly slots: number }[] = [];
  readonly #firstSeen = new Map<string, number>();

  /** `slots`: all sizes that it may have had in this step. */
  note(step: number, slots: readonly number[], lane: Lane | undefined): void {
    for (const n of slots) this.#sizes.push({ step, slots: n });
    const present = new Set(lane?.leases.keys());
    for (const leaseId of present) {
      if (!this.#firstSeen.has(leaseId)) this.#firstSeen.set(leaseId, step);
      else if (!this.#present.has(leaseId)) this.revived.add(leaseId);
    }
    this.#present = present;
  }

  /** More may be in flight than the lane allows now, but not more than it allowed at any time since those were admitted. */
  check(lane: Lane | undefined, nowEpochMs: number): string[] {
    if (lane === undefined) return [];
    const live = [...lane.leases].filter(([, l]) => l.expiresEpochMs > nowEpochMs && l.slots > 0).map(([id]) => this.#firstSeen.get(id) ?? 0);
    const since = Math.min(...live);
    const largest = Math.max(0, ...this.#sizes.filter(({ step }) => step >= since).map(({ slots }) => slots));
    const flying = inFlight(lane, nowEpochMs);
    return flying > largest ? [`${flying} in flight, and the lane never allowed more than ${largest} since`] : [];
  }
}
