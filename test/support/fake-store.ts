/**
 * Endpoints, lanes and records in memory, under the very conditions of the ports. The contract suites run on it and on
 * DynamoDB, so that a flow that is tested on it is tested on rules that hold.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Breaker } from '../../lambdas/shared/core/breaker.ts';
import type { DaySpent } from '../../lambdas/shared/core/day.ts';
import { noEndpoint } from '../../lambdas/shared/core/keys.ts';
import { claimEndsEpochMs, removedCfg, type Claim, type Flag, type Holding, type Lane, type Lease } from '../../lambdas/shared/core/lane.ts';
import type { FailureRow, NoticeSubject, Told } from '../../lambdas/shared/core/escalation.ts';
import { emptyTally, merged, type Window } from '../../lambdas/shared/core/statistics.ts';
import type { Pace } from '../../lambdas/shared/core/pace.ts';
import { pausedFor } from '../../lambdas/shared/core/rate.ts';
import { hold as holds } from '../../lambdas/shared/limits/numbers.ts';
import { stateName, type DeliveryRecord, type WaitingRecord } from '../../lambdas/shared/core/record.ts';
import type {
  Admission, ChangeStatus, DeadIndex, DeadKey, DisableEndpoint, Endpoint, Endpoints, GiveBack, HeldIndex, HeldKey, LaneGuard, Lanes, LaneState, PayloadName, Payloads, Records, Replays, StoredEndpoint,
  WriteAnswer,
} from '../../lambdas/shared/ports/index.ts';

interface MutableLane {
  slots: number;
  avail: number;
  cfg: string;
  leases: Map<string, Lease>;
  claims: Map<string, Claim>;
  failures: number;
  breaker: Breaker | undefined;
  nextAtEpochMs: number | undefined;
  day: DaySpent | undefined;
  pausedUntilEpochMs: number | undefined;
  pace: Pace | undefined;
  holdSeq: number;
  flag: Flag | undefined;
  holding: Holding | undefined;
  drain: Lane['drain'];
  window: Window | undefined;
  learnedMs: number | undefined;
  isAuto: boolean;
  row: FailureRow | undefined;
  told: Map<NoticeSubject, Told>;
}

function emptyLane(): MutableLane {
  return {
    slots: 0, avail: 0, cfg: '', leases: new Map(), claims: new Map(), failures: 0, breaker: undefined, nextAtEpochMs: undefined, day: undefined, pausedUntilEpochMs: undefined,
    pace: undefined, flag: undefined, holdSeq: 0, holding: undefined, drain: undefined, window: undefined, learnedMs: undefined, isAuto: false, row: undefined, told: new Map(),
  };
}

export class FakeStore {
  readonly #configs = new Map<string, StoredEndpoint>();
  readonly #lanes = new Map<string, MutableLane>();
  readonly #records = new Map<string, DeliveryRecord>();

  /** As Registry.put: slots in flight stay counted. */
  put(endpoint: Endpoint): Promise<void> {
    const { endpointId, maxInFlight } = endpoint.config;
    const lane = this.#lanes.get(endpointId) ?? emptyLane();
    lane.avail += maxInFlight - lane.slots;
    lane.slots = maxInFlight;
    lane.isAuto = endpoint.config.autoLane;
    lane.cfg = endpoint.version;
    [lane.pausedUntilEpochMs, lane.flag, lane.row, lane.failures] = [undefined, undefined, undefined, 0];
    const before = this.#configs.get(endpointId)?.config;
    if (before?.url !== endpoint.config.url) [lane.learnedMs, lane.window] = [undefined, before === undefined ? lane.window : undefined];
    lane.told = new Map();
    const { maxPerDay } = endpoint.config;
    if (lane.day !== undefined) lane.day = { ...lane.day, isSpent: maxPerDay !== null && lane.day.attempts >= maxPerDay };
    this.#lanes.set(endpointId, lane);
    this.#configs.set(endpointId, endpoint);
    return Promise.resolve();
  }

  /** Makes the stored configuration one that cannot be used, as an edit by hand does: its lane stays as it is. */
  spoil(endpointId: string, problem: string): Promise<void> {
    const stored = this.#configs.get(endpointId);
    if (stored?.config === undefined) throw new Error(`no endpoint ${endpointId} to spoil`);
    this.#configs.set(endpointId, { ...stored, config: undefined, endpointId, problem, document: {} });
    return Promise.resolve();
  }

  remove(endpointId: string): Promise<void> {
    this.#configs.delete(endpointId);
    const lane = this.#lanes.get(endpointId);
    if (lane !== undefined) lane.cfg = removedCfg;
    return Promise.resolve();
  }

  lane(endpointId: string): Promise<Lane | undefined> {
    return Promise.resolve(snapshot(this.#lanes.get(endpointId)));
  }

  record(recordKey: string): DeliveryRecord | undefined {
    return this.#records.get(recordKey);
  }

  seed(...records: DeliveryRecord[]): void {
    for (const record of records) this.#records.set(record.recordKey, record);
  }

  readonly disableEndpoint: DisableEndpoint = async ({ config: { endpointId }, version }, reason) => {
    const told = { subject: 'gone' as const, note: { what: `${reason.why}@${reason.atEpochMs}`, atEpochMs: 0, isTold: false } };
    const answer = await this.changeStatus({ endpointId, version }, { fields: { status: 'disabled', disabledFor: reason }, atEpochMs: reason.atEpochMs, told });
    return answer === 'written' ? 'disabled' : answer;
  };

  readonly changeStatus: ChangeStatus = ({ endpointId, version }, { fields, slots, atEpochMs, told, whileFailingSinceEpochMs }) => {
    const [stored, lane] = [this.#configs.get(endpointId), this.#lanes.get(endpointId)];
    if (stored?.config === undefined || stored.version !== version || lane === undefined) return Promise.resolve('changed');
    if (whileFailingSinceEpochMs !== undefined && lane.row?.sinceEpochMs !== whileFailingSinceEpochMs) return Promise.resolve('changed');
    if (slots !== undefined && lane.slots !== slots.from) return Promise.resolve('changed');
    lane.cfg = `${version}-${atEpochMs}`;
    if (slots !== undefined) [lane.avail, lane.slots, lane.learnedMs] = [lane.avail + slots.to - slots.from, slots.to, slots.learnedMs ?? lane.learnedMs];
    if (told !== undefined) lane.told.set(told.subject, told.note);
    this.#configs.set(endpointId, { ...stored, version: lane.cfg, config: { ...stored.config, ...fields } });
    return Promise.resolve('written');
  };

  readonly endpoints: Endpoints = { read: (endpointId) => Promise.resolve(this.#configs.get(endpointId)) };

  readonly lanes: Lanes = {
    admit: (ask) => {
      const lane = this.#lanes.get(ask.endpointId);
      if (lane === undefined || !isFree(lane, ask, 0)) return Promise.resolve({ kind: 'refused', lane: snapshot(lane) });
      take(lane, ask);
      return Promise.resolve({ kind: 'granted', ...stateOf(lane) });
    },

    exchange: (give, ask) => {
      const lane = this.#lanes.get(ask.endpointId);
      // DynamoDB refuses a write that removes a claim and sets it.
      if (ask.wanted.some(({ claimKey }) => give.release.includes(claimKey))) throw new Error('one write releases a claim and takes it');
      if (lane === undefined || !isHeld(lane, give) || !isFree(lane, ask, give.slots)) return Promise.resolve({ kind: 'refused', lane: snapshot(lane) });
      putDown(lane, give);
      take(lane, ask);
      return Promise.resolve({ kind: 'granted', ...stateOf(lane) });
    },

    giveBack: (give) => {
      const lane = this.#lanes.get(give.endpointId);
      if (lane === undefined) return Promise.resolve('lost');
      if (!isHeld(lane, give)) {
        const left = lane.leases.get(give.leaseId)?.slots === give.slots || give.release.some((key) => isOwnClaim(lane, give, key));
        return Promise.resolve(left ? 'lost' : 'done');
      }
      putDown(lane, give);
      return Promise.resolve('done');
    },

    moveTold: (endpointId, subject, from, to) => {
      const lane = this.#lanes.get(endpointId);
      if (lane === undefined || !isDeepStrictEqual(lane.told.get(subject), from)) return Promise.resolve({ kind: 'lost', lane: snapshot(lane) });
      if (to === undefined) lane.told.delete(subject);
      else lane.told.set(subject, to);
      return Promise.resolve({ kind: 'moved' });
    },

    countOffers: (endpointId, counted) => {
      const lane = this.#lanes.get(endpointId);
      if (lane !== undefined && lane.cfg !== removedCfg) countIn(lane, counted);
      return Promise.resolve();
    },

    takeWindow: (endpointId, seen, learnedMs) => {
      const lane = this.#lanes.get(endpointId);
      if (lane?.window?.sinceEpochMs !== seen.sinceEpochMs) return Promise.resolve(undefined);
      const { window } = lane;
      lane.window = undefined;
      lane.learnedMs = learnedMs ?? lane.learnedMs;
      return Promise.resolve(window);
    },

    moveRate: (endpointId, fromEpochMs, toEpochMs) => {
      const lane = this.#lanes.get(endpointId);
      if (lane === undefined || lane.nextAtEpochMs !== fromEpochMs) return Promise.resolve({ kind: 'lost', lane: snapshot(lane) });
      lane.nextAtEpochMs = toEpochMs;
      return Promise.resolve({ kind: 'moved' });
    },

    moveDay: (endpointId, from, to) => {
      const lane = this.#lanes.get(endpointId);
      if (lane === undefined || !isDeepStrictEqual(lane.day, from)) return Promise.resolve({ kind: 'lost', lane: snapshot(lane) });
      lane.day = to;
      return Promise.resolve({ kind: 'moved' });
    },

    reapLease: (endpointId, leaseId, seen) => {
      const lane = this.#lanes.get(endpointId);
      if (lane === undefined || !isDeepStrictEqual(lane.leases.get(leaseId), seen)) return Promise.resolve();
      lane.avail += seen.slots;
      lane.leases.delete(leaseId);
      return Promise.resolve();
    },

    reapClaim: (reap) => {
      const lane = this.#lanes.get(reap.endpointId);
      const { ambiguous, claim } = reap;
      const found = lane?.claims.get(reap.claimKey);
      if (lane === undefined || found?.leaseId !== claim.leaseId || found.shortHash !== claim.shortHash) return Promise.resolve('lost');
      if (ambiguous !== undefined && !isStill(this.#records.get(ambiguous.to.recordKey), ambiguous.from)) return Promise.resolve('lost');
      lane.claims.delete(reap.claimKey);
      if (ambiguous !== undefined) this.seed(raised(this.#records.get(ambiguous.to.recordKey), ambiguous.from, ambiguous.to));
      return Promise.resolve('reaped');
    },

    moveBreaker: (endpointId, from, to) => {
      const lane = this.#lanes.get(endpointId);
      if (lane === undefined || !isDeepStrictEqual(lane.breaker, from)) return Promise.resolve({ kind: 'lost', lane: snapshot(lane) });
      lane.breaker = to;
      return Promise.resolve({ kind: 'moved' });
    },

    movePace: (endpointId, from, to) => {
      const lane = this.#lanes.get(endpointId);
      if (lane === undefined || !isDeepStrictEqual(lane.pace, from)) return Promise.resolve({ kind: 'lost', lane: snapshot(lane) });
      lane.pace = to;
      return Promise.resolve({ kind: 'moved' });
    },

    pauseUntil: (endpointId, untilEpochMs, nowEpochMs) => {
      const lane = this.#lanes.get(endpointId);
      if (lane !== undefined && lane.cfg !== removedCfg) lane.pausedUntilEpochMs = Math.max(untilEpochMs, pausedFor(lane.pausedUntilEpochMs, nowEpochMs));
      return Promise.resolve();
    },

    flag: (endpointId, flag) => {
      const lane = this.#lanes.get(endpointId);
      if (lane !== undefined && lane.cfg !== removedCfg) lane.flag = flag;
      return Promise.resolve();
    },

    hold: (endpointId, { count, nowEpochMs, wakeAtEpochMs, isReady }) => {
      const lane = this.#lanes.get(endpointId);
      if (lane === undefined || lane.cfg === removedCfg) return Promise.resolve({ kind: 'noLane' });
      const before = toSnapshot(lane);
      lane.holdSeq++;
      lane.holding = {
        heldAtEpochMs: nowEpochMs,
        wakeAtEpochMs: lane.holding?.wakeAtEpochMs ?? wakeAtEpochMs,
        count: (lane.holding?.count ?? 0) + count,
        isReady: isReady || lane.holding?.isReady === true,
      };
      return Promise.resolve({ kind: 'noted', before });
    },

    moveWakeUp: (endpointId, fromEpochMs, toEpochMs) => {
      const lane = this.#lanes.get(endpointId);
      if (lane?.holding?.wakeAtEpochMs !== fromEpochMs) return Promise.resolve({ kind: 'lost', lane: snapshot(lane) });
      lane.holding = { ...lane.holding, wakeAtEpochMs: toEpochMs };
      return Promise.resolve({ kind: 'moved' });
    },

    beginDrain: (endpointId, run, nowEpochMs) => {
      const lane = this.#lanes.get(endpointId);
      const isBusy = lane?.drain !== undefined && lane.drain.expiresEpochMs > nowEpochMs && lane.drain.leaseId !== run.leaseId;
      if (lane?.holding === undefined || isBusy) return Promise.resolve({ kind: 'refused', lane: snapshot(lane) });
      const wakeAtEpochMs = lane.drain?.leaseId === run.leaseId ? nowEpochMs : lane.holding.wakeAtEpochMs;
      lane.drain = { leaseId: run.leaseId, expiresEpochMs: run.expiresEpochMs };
      const wasReady = lane.holding.isReady;
      lane.holding = { ...lane.holding, wakeAtEpochMs: run.expiresEpochMs, isReady: true };
      return Promise.resolve({ kind: 'begun', lane: toSnapshot(lane), wakeAtEpochMs, wasReady });
    },

    endDrain: (endpointId, { leaseId, seq, taken, seenEpochMs, wakeAtEpochMs, movedEpochMs, isReady }) => {
      const lane = this.#lanes.get(endpointId);
      const isOwnRepeat = lane !== undefined && lane.drain === undefined && lane.holdSeq === seq && lane.holding?.wakeAtEpochMs === wakeAtEpochMs;
      if (isOwnRepeat) return Promise.resolve({ kind: 'moved' });
      if (lane?.drain?.leaseId !== leaseId || lane.holdSeq !== seq || lane.holding?.wakeAtEpochMs !== seenEpochMs) return Promise.resolve({ kind: 'lost', lane: snapshot(lane) });
      lane.drain = undefined;
      if (wakeAtEpochMs === undefined) lane.holding = undefined;
      else if (lane.holding !== undefined) lane.holding = { ...lane.holding, wakeAtEpochMs, count: lane.holding.count - taken, isReady, heldAtEpochMs: movedEpochMs ?? lane.holding.heldAtEpochMs };
      return Promise.resolve({ kind: 'moved' });
    },
  };

  readonly records: Records = {
    read: (keys) => {
      const found = new Map([...new Set(keys)].flatMap((key) => {
        const record = this.#records.get(key);
        return record === undefined ? [] : [[key, record] as const];
      }));
      return Promise.resolve({ found, unread: new Set<string>() });
    },
    write: (from, to) => Promise.resolve(this.#write(from, to)),
    hold: (from, to) => {
      const found = this.#records.get(to.recordKey);
      // A larger `resend` that another copy has noted stays: what waits in the queue comes back, and is held from what it is now.
      if (from === undefined ? found !== undefined : !isSameAttempt(found, from) || found.resend > to.resend) {
        return Promise.resolve(found !== undefined && isOwn(found, to) ? 'written' : 'lost');
      }
      this.seed(found?.state === 'waiting' ? { ...found, home: 'held', resend: to.resend } : to);
      return Promise.resolve('written');
    },
    writeUnclaimed: (from, to, guard) => {
      const lane = this.#lanes.get(guard.endpointId);
      const claim = lane?.claims.get(guard.claimKey);
      if (lane !== undefined && !this.#isOpen(lane, guard)) {
        return Promise.resolve({ answer: 'lost', ...(claim === undefined ? {} : { claim: { ...claim, endsEpochMs: claimEndsEpochMs(lane, claim) } }) });
      }
      if (lane === undefined && guard.lane.kind !== 'absent') return Promise.resolve({ answer: 'lost' });
      return Promise.resolve({ answer: this.#writeOver(from, to) });
    },
    retire: () => Promise.resolve(),
    markBuried: (record) => {
      if (!isStill(this.#records.get(record.recordKey), record)) return Promise.resolve('lost');
      this.seed({ ...record, phase: 'buried' });
      return Promise.resolve('written');
    },
  };

  #isOpen(lane: MutableLane, guard: LaneGuard): boolean {
    const cfg = guard.lane.kind === 'absent' ? removedCfg : guard.lane.cfg;
    return lane.cfg === cfg && !lane.claims.has(guard.claimKey);
  }

  readonly payloads: Payloads = {
    put: (name, body) => {
      this.bodies.set(payloadKey(name), body);
      return Promise.resolve('written');
    },
    read: (names) => {
      const found = new Map(names.flatMap((name) => {
        const body = this.bodies.get(payloadKey(name));
        return body === undefined ? [] : [[name.recordKey, body] as const];
      }));
      return Promise.resolve({ found, unread: new Set<string>() });
    },
    remove: (name) => {
      this.bodies.delete(payloadKey(name));
      return Promise.resolve();
    },
  };

  /** Bodies that are kept, by record key and payload hash. */
  readonly bodies = new Map<string, string>();

  readonly heldIndex: HeldIndex = {
    burying: (endpointId, limit) => {
      const all = [...this.#records.values()].filter((r) => r.endpointId === endpointId && r.state === 'dead' && r.phase === 'burying');
      return Promise.resolve(all.slice(0, limit).map(({ recordKey }) => recordKey));
    },
    page: (endpointId, limit, from) => {
      const after = from as HeldKey | undefined;
      const all = this.held(endpointId)
        .map(({ recordKey, dueEpochMs }): HeldKey => ({ recordKey, dueEpochMs }))
        .filter((key) => after === undefined || compareKeys(key, after) > 0);
      const keys = all.slice(0, limit);
      return Promise.resolve({ keys, next: keys.length < all.length ? keys.at(-1) : undefined });
    },
    unknown: (endpointId, limit, from) => {
      const after = from as HeldKey | undefined;
      const all = [...this.#records.values()]
        .flatMap((r): HeldKey[] => (r.state === 'unknown' && r.endpointId === endpointId && r.nextLookEpochMs !== undefined ? [{ recordKey: r.recordKey, dueEpochMs: r.nextLookEpochMs }] : []))
        .toSorted(compareKeys)
        .filter((key) => after === undefined || compareKeys(key, after) > 0);
      const keys = all.slice(0, limit);
      return Promise.resolve({ keys, next: keys.length < all.length ? keys.at(-1) : undefined });
    },
  };

  readonly dead: DeadIndex = {
    page: ({ endpointId, fromEpochMs, toEpochMs }, limit, after) => {
      const all = [...this.#records.values()]
        .filter((r) => r.state === 'dead' && r.phase === 'buried' && (endpointId ?? r.endpointId) === r.endpointId && r.lastEpochMs >= fromEpochMs && r.lastEpochMs < toEpochMs)
        .map((r): DeadKey => ({ recordKey: r.recordKey, partition: `dead#${r.endpointId === '' ? noEndpoint : r.endpointId}`, lastEpochMs: r.lastEpochMs }))
        .toSorted(compareDead)
        .filter((key) => after === undefined || compareDead(key, after) > 0);
      const keys = all.slice(0, limit);
      return Promise.resolve({ keys, next: keys.length < all.length ? keys.at(-1) : undefined });
    },
  };

  readonly replays: Replays = {
    move: (endpointId, moves, nowEpochMs) => {
      const lane = this.#lanes.get(endpointId);
      const isOpen = lane !== undefined && lane.cfg !== removedCfg && !moves.some(({ claimKey }) => lane.claims.has(claimKey)) && (lane.holding?.count ?? 0) < holds.maxCount;
      const changed = new Map(moves.flatMap(({ from, to }) => {
        const found = this.#records.get(to.recordKey);
        if (isStill(found, from) && (from.state !== 'dead' || (found?.state === 'dead' && found.phase === from.phase))) return [];
        return [[to.recordKey, found?.lastLease?.leaseId === to.lastLease?.leaseId ? 'own' : 'other'] as const];
      }));
      if (!isOpen || changed.size > 0) return Promise.resolve({ kind: 'refused', changed, lane: isOpen ? undefined : { found: snapshot(lane) } });
      for (const { from, to } of moves) this.seed(raised(this.#records.get(to.recordKey), from, to));
      lane.holdSeq++;
      lane.holding = { heldAtEpochMs: nowEpochMs, wakeAtEpochMs: nowEpochMs, count: (lane.holding?.count ?? 0) + moves.length, isReady: true };
      return Promise.resolve({ kind: 'moved' });
    },
  };

  /** What is held for an endpoint, the longest due first. */
  held(endpointId = 'acme'): WaitingRecord[] {
    return [...this.#records.values()]
      .filter((record): record is WaitingRecord => record.state === 'waiting' && record.home === 'held' && record.endpointId === endpointId)
      .toSorted(compareKeys);
  }

  #write(from: DeliveryRecord | undefined, to: DeliveryRecord): WriteAnswer {
    const found = this.#records.get(to.recordKey);
    if (isHeldBetween(found, from)) {
      const kept = { ...to, resend: Math.max(to.resend, found.resend) };
      this.seed(kept.state === 'waiting' ? { ...kept, home: 'held' } : kept);
      return 'written';
    }
    return this.#writeOver(from, to);
  }

  /** Over exactly what was read: no hold may have come between. */
  #writeOver(from: DeliveryRecord | undefined, to: DeliveryRecord): WriteAnswer {
    const found = this.#records.get(to.recordKey);
    if (!isStill(found, from)) return found !== undefined && isOwn(found, to) ? 'written' : 'lost';
    this.seed(raised(found, from, to));
    return 'written';
  }
}

const payloadKey = ({ recordKey, payloadHash, generation }: PayloadName) => `${recordKey}#${generation}#${payloadHash}`;

function compareKeys(a: HeldKey, b: HeldKey): number {
  return a.dueEpochMs - b.dueEpochMs || (a.recordKey < b.recordKey ? -1 : Number(a.recordKey > b.recordKey));
}

function compareDead(a: DeadKey, b: DeadKey): number {
  if (a.partition !== b.partition) return a.partition < b.partition ? -1 : 1;
  return a.lastEpochMs - b.lastEpochMs || (a.recordKey < b.recordKey ? -1 : Number(a.recordKey > b.recordKey));
}

function stateOf(lane: MutableLane): LaneState {
  const { avail, failures, breaker, nextAtEpochMs, day, pausedUntilEpochMs, pace, flag, holding, window, slots, learnedMs } = toSnapshot(lane);
  return { avail, failures, breaker, nextAtEpochMs, day, pausedUntilEpochMs, pace, flag, holding, window, slots, learnedMs };
}

function snapshot(lane: MutableLane | undefined): Lane | undefined {
  return lane === undefined ? undefined : toSnapshot(lane);
}

/** A hold that was never counted is taken too: kept below nothing, and shown as nothing. */
function toSnapshot(lane: MutableLane): Lane {
  const { holding, ...rest } = structuredClone(lane);
  return { ...rest, holding: holding === undefined ? undefined : { ...holding, count: Math.max(0, holding.count) } };
}

const isOwnClaim = (lane: MutableLane, give: GiveBack, key: string) => lane.claims.get(key)?.leaseId === give.leaseId;

function isHeld(lane: MutableLane, give: GiveBack): boolean {
  return lane.leases.get(give.leaseId)?.slots === give.slots && give.release.every((key) => isOwnClaim(lane, give, key));
}

function putDown(lane: MutableLane, give: GiveBack): void {
  lane.avail += give.slots;
  if (give.keep.length > 0) lane.leases.set(give.leaseId, { slots: 0, expiresEpochMs: give.expiresEpochMs });
  else lane.leases.delete(give.leaseId);
  for (const key of give.release) lane.claims.delete(key);
  lane.failures = give.successes > 0 ? 0 : lane.failures + give.failures;
  lane.row = rowAfter(lane.row, give);
  if (give.counted !== undefined) countIn(lane, give.counted);
}

/** Failures in a row: a success ends the row, and who says nothing of the kind leaves it. */
export function rowAfter(row: FailureRow | undefined, { successes, failures, failed }: GiveBack): FailureRow | undefined {
  if (successes > 0) return undefined;
  if (failures === 0 || failed === undefined) return row;
  const { answered, atEpochMs, isFirst } = failed;
  const before = isFirst ? undefined : row;
  return {
    sinceEpochMs: before?.sinceEpochMs ?? atEpochMs,
    lastEpochMs: atEpochMs,
    answered: (before?.answered ?? 0) + answered,
    answeredEpochMs: answered > 0 ? atEpochMs : before?.answeredEpochMs,
    unansweredEpochMs: answered > 0 ? undefined : before?.unansweredEpochMs ?? atEpochMs,
  };
}

function countIn(lane: MutableLane, { tally, atEpochMs }: NonNullable<GiveBack['counted']>): void {
  lane.window = { sinceEpochMs: lane.window?.sinceEpochMs ?? atEpochMs, ...merged(lane.window ?? emptyTally, tally) };
}

/** `returning`: slots that the same write gives back. */
function isFree(lane: MutableLane, ask: Admission, returning: number): boolean {
  const roomy = lane.avail >= ask.wanted.length - returning;
  const passes = ask.canaryOf === undefined ? lane.breaker?.state !== 'open' : isDeepStrictEqual(lane.breaker, ask.canaryOf);
  const { live } = ask;
  const isLeft = live === undefined || (lane.pace?.isSlow !== true && (lane.holding?.isReady !== true || lane.avail >= ask.wanted.length - returning + live.kept));
  return lane.cfg === ask.cfg && roomy && passes && isLeft && !lane.leases.has(ask.leaseId) && !ask.wanted.some((w) => lane.claims.has(w.claimKey));
}

function take(lane: MutableLane, ask: Admission): void {
  lane.avail -= ask.wanted.length;
  lane.leases.set(ask.leaseId, { slots: ask.wanted.length, expiresEpochMs: ask.expiresEpochMs });
  if (ask.canaryOf !== undefined) lane.breaker = { ...ask.canaryOf, canary: { leaseId: ask.leaseId, expiresEpochMs: ask.expiresEpochMs } };
  for (const { claimKey, shortHash } of ask.wanted) lane.claims.set(claimKey, { leaseId: ask.leaseId, shortHash });
}

/** Of a verdict generation and state count: within a generation only a drop follows it. */
function isStill(found: DeliveryRecord | undefined, from: DeliveryRecord | undefined): boolean {
  if (found === undefined || from === undefined) return found === from;
  const isSameLook = from.state !== 'unknown' || (found.state === 'unknown' && found.attempt === from.attempt && found.looks === from.looks);
  if (from.state !== 'waiting') return found.generation === from.generation && found.state === from.state && isSameLook;
  return isSameAttempt(found, from) && found.home === from.home;
}

function isSameAttempt(found: DeliveryRecord | undefined, from: WaitingRecord): found is WaitingRecord {
  return found?.state === 'waiting' && found.generation === from.generation && found.attempt === from.attempt;
}

/** A `resend` that a write does not raise stays as it is. */
function raised<To extends DeliveryRecord>(found: DeliveryRecord | undefined, from: DeliveryRecord | undefined, to: To): To {
  return found !== undefined && from?.resend === to.resend ? { ...to, resend: found.resend } : to;
}

/** Nothing but a hold has come between. */
function isHeldBetween(found: DeliveryRecord | undefined, from: DeliveryRecord | undefined): found is WaitingRecord {
  if (found?.state !== 'waiting' || found.home !== 'held') return false;
  if (from === undefined) return found.generation === 0 && found.attempt === 0;
  return from.state === 'waiting' && from.home === 'queue' && isSameAttempt(found, from);
}

/** What the SDK's repeat of an applied write finds: the very values that it wrote. */
function isOwn(found: DeliveryRecord, to: DeliveryRecord): boolean {
  const reasonOf = (record: DeliveryRecord) => (record.state === 'dead' ? record.reason : '');
  const [isState, isAttempt] = [stateName(found) === stateName(to), found.attempt === to.attempt && found.generation === to.generation];
  const isSameLook = found.state !== 'unknown' || (to.state === 'unknown' && found.looks === to.looks);
  return isState && isAttempt && isSameLook && isDeepStrictEqual(found.lastLease, to.lastLease) && reasonOf(found) === reasonOf(to);
}
