import type { Breaker, Cause, ClosedBreaker, OpenBreaker, Share } from '../core/breaker.ts';
import type { FlagReason } from '../core/classify.ts';
import type { DaySpent } from '../core/day.ts';
import { noticeSubjects, type FailureRow, type NoticeSubject, type Told } from '../core/escalation.ts';
import type { Claim, Lane, Lease } from '../core/lane.ts';
import type { Tally, Window } from '../core/statistics.ts';

/** Attributes of a window: each is billed with every write of the lane, so their names are short. */
const windowNames = { since: 'w0', attempts: 'wn', delivered: 'wd', unconnected: 'wu', cutOff: 'wk', inFlight: 'wi', offered: 'wo', shed: 'ws', busyMs: 'wb', lastFailure: 'wl' } as const;
const counterNames = ['attempts', 'delivered', 'unconnected', 'cutOff', 'inFlight', 'offered', 'shed', 'busyMs'] as const;
const binName = /^([gh])(\d+)$/;

/** Sort keys of the Endpoints table. */
export const sk = { config: 'config', lane: 'lane', fleet: 'fleet', status: 'status' } as const;

/** Beginning of a window, attempts, hits. */
type ShareValue = [number, number, number];

type ToldValue = [string, number, 0 | 1];

type DayValue = [number, number, 0 | 1];

/** Attributes of failures in a row. */
export const rowNames = ['rs', 'ra', 'rl', 'rt', 'ru'] as const;
export type RowName = (typeof rowNames)[number];

/** Attribute of a lane whose size the sweep changes. */
export const autoName = 'auto';

/** Attribute of a lane that says what was learned of the time that answers take. */
export const learnedName = 'lm';

/** Attribute of a lane for each subject of notices. */
export const toldNames = { row: 'tr', flag: 'tf', gone: 'tg', day: 'td' } as const;

export const dayValue = ({ day, attempts, isSpent }: DaySpent): DayValue => [day, attempts, isSpent ? 1 : 0];

export const toldValue = ({ what, atEpochMs, isTold }: Told): ToldValue => [what, atEpochMs, isTold ? 1 : 0];

export interface LaneItem {
  readonly slots: number;
  readonly avail: number;
  readonly cfg: string;
  /** Lease id to [slots, expiry]: lists, for names inside maps are billed with every write. */
  readonly leases: Record<string, [number, number]>;
  /** Claim key to [lease id, first characters of the payload hash]. */
  readonly claims: Record<string, [string, string]>;
  readonly failures?: number;
  readonly nextAt?: number;
  /** Of its attempts a day: the day, how many, and 1 once they are spent. */
  readonly day?: DayValue;
  readonly pausedUntil?: number;
  /** Of a lane that is not quick: its pace, and `slow` where that is what it is. */
  readonly pace?: string;
  readonly slow?: true;
  readonly holdSeq?: number;
  /** It refuses: how, and since when. */
  readonly flag?: [FlagReason, number];
  /** These four are there while anything is held; by the first two the sparse index finds it. */
  readonly holding?: typeof holdingValue;
  readonly wakeAt?: number;
  readonly heldAt?: number;
  readonly held?: number;
  /** Some of what is held may be due. */
  readonly ready?: true;
  /** Lease and expiry of the drain's run. */
  readonly drain?: [string, number];
  /** Of failures in a row: since when, how many were answered, and when the last of these was; the last of all, and the first without an answer since one was answered. */
  readonly rs?: number;
  readonly ra?: number;
  readonly rl?: number;
  readonly rt?: number;
  readonly ru?: number;
  /** Of what somebody was told, by its subject: what, when it was claimed, and 1 once it is told. */
  readonly tr?: ToldValue;
  readonly tf?: ToldValue;
  readonly tg?: ToldValue;
  readonly td?: ToldValue;
  /** The sweep may change its size. */
  readonly auto?: true;
  /** What 99 of 100 answers take, of windows that have ended. */
  readonly lm?: number;
  /** Of a closed breaker: round, connections in a row that failed, the lease that reported last; then of failures, and of what was slow: beginning of the window, attempts, hits. */
  readonly tally?: [number, number, string, ...ShareValue, ...ShareValue];
  /** Of an open breaker: round, its cause, its end, trips in a row, and the canary's lease and expiry, empty where there is none. */
  readonly open?: [number, Cause, number, number, string, number];
}

export function toLane(item: Record<string, unknown>): Lane {
  const raw = item as unknown as LaneItem;
  return {
    slots: raw.slots,
    avail: raw.avail,
    cfg: raw.cfg,
    leases: new Map(Object.entries(raw.leases).map(([id, [slots, expiresEpochMs]]): [string, Lease] => [id, { slots, expiresEpochMs }])),
    claims: new Map(Object.entries(raw.claims).map(([key, [leaseId, shortHash]]): [string, Claim] => [key, { leaseId, shortHash }])),
    failures: raw.failures ?? 0,
    breaker: toBreaker(raw),
    nextAtEpochMs: raw.nextAt,
    day: raw.day === undefined ? undefined : { day: raw.day[0], attempts: raw.day[1], isSpent: raw.day[2] === 1 },
    flag: raw.flag === undefined ? undefined : { why: raw.flag[0], sinceEpochMs: raw.flag[1] },
    pausedUntilEpochMs: raw.pausedUntil,
    pace: raw.pace === undefined ? undefined : { recent: raw.pace, isSlow: raw.slow === true },
    holdSeq: raw.holdSeq ?? 0,
    holding: raw.holding === undefined ? undefined : { heldAtEpochMs: raw.heldAt ?? 0, wakeAtEpochMs: raw.wakeAt ?? 0, count: Math.max(0, raw.held ?? 0), isReady: raw.ready === true },
    drain: raw.drain === undefined ? undefined : { leaseId: raw.drain[0], expiresEpochMs: raw.drain[1] },
    row: toRow(raw),
    told: new Map(noticeSubjects.flatMap((subject): [NoticeSubject, Told][] => {
      const value = raw[toldNames[subject]];
      return value === undefined ? [] : [[subject, { what: value[0], atEpochMs: value[1], isTold: value[2] === 1 }]];
    })),
    window: toWindow(item),
    learnedMs: raw.lm,
    isAuto: raw.auto === true,
  };
}

/** A success by a version of the program that knows of no rows says so by `failures` alone. */
function toRow({ failures = 0, rs, ra = 0, rl, rt, ru }: LaneItem): FailureRow | undefined {
  if (failures === 0 || rs === undefined) return undefined;
  return { sinceEpochMs: rs, answered: ra, answeredEpochMs: rl, lastEpochMs: rt ?? rs, unansweredEpochMs: ru };
}

/** The window of a lane, or one that was put away. */
export function toWindow(item: Readonly<Record<string, unknown>>): Window | undefined {
  const sinceEpochMs = item[windowNames.since];
  if (typeof sinceEpochMs !== 'number') return undefined;
  const bins = { g: new Map<number, number>(), h: new Map<number, number>() };
  for (const [name, count] of Object.entries(item)) {
    const [, kind, bin] = binName.exec(name) ?? [];
    if (kind === 'g' || kind === 'h') bins[kind].set(Number(bin), count as number);
  }
  const counts = Object.fromEntries(counterNames.map((name) => [name, (item[windowNames[name]] as number | undefined) ?? 0])) as Record<(typeof counterNames)[number], number>;
  const lastFailure = item[windowNames.lastFailure] as string | undefined;
  return { sinceEpochMs, ...counts, answers: bins.g, failures: bins.h, ...(lastFailure === undefined ? {} : { lastFailure }) };
}

/** What of a tally is not nothing, by the names of its attributes. */
export function tallyAttributes(tally: Tally): [string, number][] {
  return [
    ...counterNames.map((name): [string, number] => [windowNames[name], tally[name]]),
    ...[...tally.answers].map(([bin, count]): [string, number] => [`g${bin}`, count]),
    ...[...tally.failures].map(([bin, count]): [string, number] => [`h${bin}`, count]),
  ].filter(([, count]) => count !== 0);
}

/** Attributes that say when a window began, and what its last failure said. */
export const { since: windowSince, lastFailure: windowLastFailure } = windowNames;

/** Every attribute of a window that was seen. */
export function windowAttributes(window: Window): string[] {
  return [...Object.values(windowNames), ...[...window.answers.keys()].map((bin) => `g${bin}`), ...[...window.failures.keys()].map((bin) => `h${bin}`)];
}

/** Partition of the sparse index over lanes that hold deliveries. */
export const holdingValue = 'y';

export function toBreaker({ open, tally }: Pick<LaneItem, 'open' | 'tally'>): Breaker | undefined {
  if (open !== undefined) {
    const [round, cause, untilEpochMs, trips, leaseId, expiresEpochMs] = open;
    return { state: 'open', round, cause, untilEpochMs, trips, canary: leaseId === '' ? undefined : { leaseId, expiresEpochMs } };
  }
  if (tally === undefined) return undefined;
  const [round, connectFailures, by, ...shares] = tally;
  return { state: 'closed', round, connectFailures, by, failed: toShare(shares.slice(0, 3) as ShareValue), slow: toShare(shares.slice(3) as ShareValue) };
}

const toShare = ([sinceEpochMs, attempts, hits]: ShareValue): Share => ({ sinceEpochMs, attempts, hits });
const shareValue = ({ sinceEpochMs, attempts, hits }: Share): ShareValue => [sinceEpochMs, attempts, hits];

export const openValue = ({ round, cause, untilEpochMs, trips, canary }: OpenBreaker): NonNullable<LaneItem['open']> => [
  round, cause, untilEpochMs, trips, canary?.leaseId ?? '', canary?.expiresEpochMs ?? 0,
];
export const tallyValue = ({ round, connectFailures, by, failed, slow }: ClosedBreaker): NonNullable<LaneItem['tally']> => [
  round, connectFailures, by, ...shareValue(failed), ...shareValue(slow),
];

export const leaseValue = (lease: Lease): [number, number] => [lease.slots, lease.expiresEpochMs];
export const claimValue = (claim: Claim): [string, string] => [claim.leaseId, claim.shortHash];
