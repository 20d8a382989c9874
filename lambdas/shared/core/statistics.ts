import { createHash } from 'node:crypto';
import { DDSketch } from '@datadog/sketches-js';
import { statistics as limits } from '../limits/numbers.ts';
import type { CountedOutcome } from './decide.ts';

/** How often a duration fell into each of the bins, whose width grows with the duration. Bins of two histograms add up. */
export type Bins = ReadonlyMap<number, number>;

/** What the attempts of a lease, or of a window, add to an endpoint's statistics. */
export interface Tally {
  /** Attempts that ended, whatever came of them. */
  readonly attempts: number;
  readonly delivered: number;
  /** Of the attempts, those that got no connection. */
  readonly unconnected: number;
  /** Deliveries that came for the first time. */
  readonly offered: number;
  /** Of these, those for which there was no room. */
  readonly shed: number;
  /** Of the attempts, those that were cut off by a budget that is shorter than the endpoint's longest. */
  readonly cutOff: number;
  /** How many were in flight at the beginning of each attempt, added up. */
  readonly inFlight: number;
  /** For how long the attempts had a slot, together. */
  readonly busyMs: number;
  /** Of what was delivered: how long it took, from the socket on. */
  readonly answers: Bins;
  /** Of the others likewise. */
  readonly failures: Bins;
  /** What the last of these said: a status, or the phase and cause that ended it. */
  readonly lastFailure?: string;
}

/** What was counted since a time. */
export interface Window extends Tally {
  readonly sinceEpochMs: number;
}

export interface EndedWindow extends Window {
  readonly endedEpochMs: number;
}

export const emptyTally: Tally = { attempts: 0, delivered: 0, unconnected: 0, cutOff: 0, inFlight: 0, offered: 0, shed: 0, busyMs: 0, answers: new Map(), failures: new Map() };

/** Only its mapping is used: counts of a lane are added up in DynamoDB, by writes that need not read them. */
const { mapping } = new DDSketch({ relativeAccuracy: limits.accuracy });

/** The bin of a duration; those beyond the bounds fall into the last ones. */
export function binOf(ms: number): number {
  return mapping.key(Math.min(limits.maxMs, Math.max(limits.minMs, ms)));
}

/** The duration that a bin stands for: no duration in it is further away than the accuracy. */
export function msOf(bin: number): number {
  return Math.round(mapping.value(bin));
}

/**
 * The bin to count a duration in, of a lane that has `known` ones: every bin makes each write of the lane larger. Where they are
 * many, a new duration is counted by a coarser grid: it may look slower than it was by a third or so, and never quicker.
 */
export function boundedBin(ms: number, known: ReadonlySet<number>): number {
  const bin = binOf(ms);
  if (known.size < limits.maxBins || known.has(bin)) return bin;
  return Math.ceil(bin / limits.coarseBins) * limits.coarseBins;
}

/** Of a lease: what the lane had counted and what was in flight when it was taken, what came with it for the first time, and how many it cut off in haste. */
export interface Leased {
  readonly window: Window | undefined;
  readonly inFlight: number;
  readonly offered: number;
  readonly cutOff: number;
}

/** What one lease's attempts count for. */
export function tallyOf(outcomes: readonly CountedOutcome[], { window: before, inFlight, offered, cutOff }: Leased): Tally {
  const known = new Set([...(before?.answers.keys() ?? []), ...(before?.failures.keys() ?? [])]);
  const [answers, failures] = [new Map<number, number>(), new Map<number, number>()];
  let lastFailure: string | undefined;
  const counts = { attempts: 0, delivered: 0, unconnected: 0, inFlight: 0, busyMs: 0 };
  for (const outcome of outcomes) {
    if (outcome.kind === 'invalidConfiguration') continue;
    const isDelivered = outcome.kind === 'answered' && outcome.status >= 200 && outcome.status < 300;
    const bins = isDelivered ? answers : failures;
    // The wait for a socket of our own is not the endpoint's.
    const bin = boundedBin(outcome.durationMs - (outcome.phasesMs.connection ?? 0), known);
    known.add(bin);
    bins.set(bin, (bins.get(bin) ?? 0) + 1);
    counts.attempts++;
    counts.delivered += Number(isDelivered);
    counts.unconnected += Number(outcome.kind === 'unsent' && outcome.phase !== 'write');
    counts.inFlight += inFlight;
    counts.busyMs += Math.round(outcome.durationMs);
    if (!isDelivered) lastFailure = outcome.kind === 'answered' ? String(outcome.status) : `${outcome.phase} ${outcome.cause}`.slice(0, limits.maxFailureLength);
  }
  return { ...emptyTally, ...counts, offered, cutOff, answers, failures, ...withFailure(lastFailure) };
}

export function isEmpty({ attempts, offered, shed }: Tally): boolean {
  return attempts === 0 && offered === 0 && shed === 0;
}

export function mergedBins(...all: readonly Bins[]): Bins {
  const merged = new Map<number, number>();
  for (const bins of all) for (const [bin, count] of bins) merged.set(bin, (merged.get(bin) ?? 0) + count);
  return merged;
}

export function merged(a: Tally, b: Tally): Tally {
  return {
    attempts: a.attempts + b.attempts, delivered: a.delivered + b.delivered, unconnected: a.unconnected + b.unconnected,
    cutOff: a.cutOff + b.cutOff, inFlight: a.inFlight + b.inFlight,
    offered: a.offered + b.offered, shed: a.shed + b.shed, busyMs: a.busyMs + b.busyMs,
    answers: mergedBins(a.answers, b.answers), failures: mergedBins(a.failures, b.failures),
    ...withFailure(b.lastFailure ?? a.lastFailure),
  };
}

const withFailure = (lastFailure: string | undefined) => (lastFailure === undefined ? {} : { lastFailure });

export function countIn(bins: Bins): number {
  return [...bins.values()].reduce((sum, count) => sum + count, 0);
}

/** The duration that a share of the counted ones does not exceed (nearest rank), in milliseconds; undefined of none. */
export function percentile(bins: Bins, share: number): number | undefined {
  const rank = Math.max(1, Math.ceil(share * countIn(bins) - limits.rankGrain));
  let seen = 0;
  for (const bin of [...bins.keys()].sort((a, b) => a - b)) {
    seen += bins.get(bin) ?? 0;
    if (seen >= rank) return msOf(bin);
  }
  return undefined;
}

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** Of all attempts: one that was cut off counts with the time after which it was. */
export function percentilesOf({ answers, failures }: Pick<Tally, 'answers' | 'failures'>): Percentiles | undefined {
  const all = mergedBins(answers, failures);
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => percentile(all, share));
  return p50 === undefined || p95 === undefined || p99 === undefined ? undefined : { p50, p95, p99 };
}

/** True where a window is to be put away: it says enough, or it is old. */
export function isOver(endpointId: string, window: Window, nowEpochMs: number): boolean {
  const ageS = (nowEpochMs - window.sinceEpochMs) / 1_000;
  return ageS >= limits.maxWindowS || (ageS >= limits.windowS + spreadS(endpointId) && window.attempts + window.shed >= limits.minSamples);
}

/** By endpoint: windows that were ended together, by one run, begin together and would all end in one run again. */
function spreadS(endpointId: string): number {
  return createHash('sha256').update(endpointId).digest().readUInt32BE(0) % limits.spreadS;
}
