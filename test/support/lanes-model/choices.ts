/** What can be done next in a history, and what whoever does it makes of the answer. */
import { afterReport, type Breaker, type Health } from '../../../lambdas/shared/core/breaker.ts';
import type { DaySpent } from '../../../lambdas/shared/core/day.ts';
import { afterAttempt, dead, dropped, renewed } from '../../../lambdas/shared/core/decide.ts';
import { isExpired, keptForDrain, readRefusal, type Lease } from '../../../lambdas/shared/core/lane.ts';
import type { Pace } from '../../../lambdas/shared/core/pace.ts';
import { decideReceive } from '../../../lambdas/shared/core/receive.ts';
import type { AttemptOutcome } from '../../../lambdas/shared/core/outcome.ts';
import { afterLook, type Found } from '../../../lambdas/shared/core/reconcile.ts';
import type { DeadRecord, DeliveryRecord, UnknownRecord, WaitingRecord } from '../../../lambdas/shared/core/record.ts';
import { blankOf } from '../../../lambdas/deliver/decide-copy.ts';
import { emptyTally } from '../../../lambdas/shared/core/statistics.ts';
import type { Admission, AdmitAnswer, GiveBack, LaneGuard } from '../../../lambdas/shared/ports/index.ts';
import { closedBreaker, configOf, endpointOf, openBreaker, timed } from '../builders.ts';
import { events, type Delivery, type History, type Planned, type Sender } from './history.ts';
import * as operations from './operations.ts';
import { checkPost } from './rules.ts';
import type { Seen } from './state.ts';

export const leaseMs = 1_000;

export interface Asking {
  readonly events: readonly string[];
  /** The copies ask for a delivered event again. */
  readonly resend: boolean;
  /** The copies are redrives of what is buried. */
  readonly redrive: boolean;
  /** Of a receive, and not by the drain. */
  readonly live: boolean;
}

/** Indexes are taken modulo what is there. */
export type Choice =
  | ({ readonly kind: 'admit'; readonly isStale: boolean } & Asking)
  | ({ readonly kind: 'exchange'; readonly which: number; readonly isStale: boolean } & Asking)
  /** One delivery, as the canary of an open breaker. */
  | { readonly kind: 'probe'; readonly event: string; readonly isStale: boolean }
  /** What a lease's attempts say: the canary's, where there is one. `isStale`: counted on what the breaker is not. */
  | { readonly kind: 'report'; readonly health: Health; readonly isStale: boolean }
  /** `isStale`: from a time at which the next request is not due. */
  | { readonly kind: 'spend'; readonly isStale: boolean }
  | { readonly kind: 'settle' | 'giveBack' | 'reapLease' | 'land'; readonly which: number }
  | { readonly kind: 'reapClaim' | 'markBuried'; readonly event: string }
  | { readonly kind: 'buryUnclaimed'; readonly event: string; readonly isStale: boolean; readonly renews: boolean }
  | { readonly kind: 'put'; readonly slots: number }
  | { readonly kind: 'remove' }
  /** The record of a delivery that waits, by whoever has no claim. */
  | { readonly kind: 'holdRecord'; readonly event: string; readonly resend: number }
  | { readonly kind: 'note'; readonly count: number; readonly isReady: boolean }
  /** `isStale`: on what is not there. */
  | { readonly kind: 'wake' | 'endDrain'; readonly isStale: boolean; readonly isEmpty: boolean }
  | { readonly kind: 'beginDrain' }
  /** At what is unknown; `found` is an index of what a look may find. */
  | { readonly kind: 'look'; readonly event: string; readonly found: number }
  | { readonly kind: 'pace'; readonly to: number; readonly isStale: boolean };

const config = configOf({ retry: { baseS: 1, factor: 1, attempts: 12 }, breaker: { connectFailures: 2 } });

export const outcomes = {
  ok: { kind: 'answered', status: 200, bodyExcerpt: '', ...timed(1) },
  busy: { kind: 'answered', status: 503, bodyExcerpt: '', ...timed(1) },
  rejected: { kind: 'answered', status: 422, bodyExcerpt: '', ...timed(1) },
  /** Under reconciliation. */
  lost: { kind: 'ambiguous', phase: 'headers', cause: 'ECONNRESET', ...timed(1) },
  silent: { kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timed(1) },
  /** Nothing is sent: the delivery is past its age. */
  expired: undefined,
} as const satisfies Record<string, AttemptOutcome | undefined>;

export type OutcomeName = keyof typeof outcomes;

const pick = <T>(all: readonly T[], which: number): T | undefined => all[which % Math.max(1, all.length)];

/** Undefined where there is nothing to do it to. `id` names what it makes. */
export function plan(h: History, choice: Choice, id: string): Planned | undefined {
  switch (choice.kind) {
    case 'admit':
      return planAdmit(h, askOf(h, choice, `L${id}`, h.nowEpochMs + leaseMs));
    case 'exchange':
      return planExchange(h, choice, `L${id}`);
    case 'probe':
      return planProbe(h, choice, `L${id}`);
    case 'report':
      return planReport(h, choice, `L${id}`);
    case 'spend':
      return planSpend(h, choice.isStale);
    case 'settle':
      return planSettle(h, choice.which);
    case 'giveBack':
      return planGiveBack(h, choice.which);
    case 'reapLease':
      return planReapLease(h, choice.which);
    case 'reapClaim':
      return planReapClaim(h, h.among([choice.event])[0] ?? '');
    case 'markBuried':
      return planMark(h, h.among([choice.event])[0] ?? '') ?? planDrop(h, h.among([choice.event])[0] ?? '', `O${id}`);
    case 'buryUnclaimed':
      return planBury(h, { ...choice, event: h.among([choice.event])[0] ?? '' }, `B${id}`);
    case 'put':
      return planPut(h, choice.slots, `V${id}`);
    case 'remove':
      return planned(operations.remove('remove', h.endpointId));
    case 'land':
      return planLand(h, choice.which);
    case 'holdRecord':
      return planHoldRecord(h, { ...choice, event: h.among([choice.event])[0] ?? '' });
    case 'note':
      return planned(operations.hold(`note ${choice.count} held`, h.endpointId, { count: choice.count, nowEpochMs: h.nowEpochMs, wakeAtEpochMs: h.nowEpochMs + 5, isReady: choice.isReady }));
    case 'wake':
      return planWake(h, choice.isStale);
    case 'beginDrain':
      return planBegin(h, `D${id}`);
    case 'look':
      return planLook(h, h.among([choice.event])[0] ?? '', findings[choice.found % findings.length], `K${id}`);
    case 'endDrain':
      return planEnd(h, { ...choice, isOther: false });
    case 'pace':
      return planPace(h, choice.isStale ? otherPaces(h)[0] : h.state.lane?.pace, paces[choice.to % paces.length]);
  }
}

const paces: readonly (Pace | undefined)[] = [{ isSlow: true, recent: '12' }, { isSlow: false, recent: '12' }, undefined, { isSlow: true, recent: '222' }, { isSlow: false, recent: '1' }];

/** Paces that are not there, and differ by one thing. */
function otherPaces(h: History): (Pace | undefined)[] {
  const now = h.state.lane?.pace;
  return now === undefined ? [paces[0], paces[1]] : [undefined, { ...now, isSlow: !now.isSlow }, { ...now, recent: `${now.recent}0` }];
}

function planPace(h: History, from: Pace | undefined, to: Pace | undefined): Planned {
  const named = (pace: Pace | undefined) => (pace === undefined ? 'nothing' : `${pace.recent}${pace.isSlow ? ', slow' : ''}`);
  return planned(operations.movePace(`pace ${named(to)}, from ${named(from)}`, h.endpointId, from, to));
}

/** A hold of what a receive found, from what it found. */
function planHoldRecord(h: History, { event, resend }: { event: string; resend: number }): Planned | undefined {
  const record = h.recordOf(event);
  if (record !== undefined && record.state !== 'waiting') return undefined;
  return holdFrom(h, event, record, (record?.resend ?? 0) + resend);
}

function holdFrom(h: History, event: string, from: WaitingRecord | undefined, resend: number): Planned {
  const to = { ...(from ?? blankOf(h.copyOf(event, 0, undefined))), home: 'held' as const, resend };
  return planned(operations.holdRecord(`hold ${event}, ${from === undefined ? 'without a record' : `from ${from.generation}/${from.attempt}`}, resend ${resend}`, from, to));
}

/** Holds of a delivery as it is not, by one thing each. */
function otherHolds(h: History, event: string): Planned[] {
  const record = h.recordOf(event);
  if (record === undefined) return [];
  const base: WaitingRecord = { ...blankOf(h.copyOf(event, 0, undefined)), generation: record.generation, attempt: record.attempt, resend: record.resend };
  const all = [base, { ...base, attempt: base.attempt + 1 }, { ...base, generation: base.generation + 1 }];
  return [holdFrom(h, event, undefined, 0), ...all.map((from) => holdFrom(h, event, from, from.resend)), ...(base.resend > 0 ? [holdFrom(h, event, { ...base, resend: base.resend - 1 }, base.resend - 1)] : [])];
}

const reconciled = configOf({ onAmbiguous: 'reconcile', lookup: { url: 'https://api.example.com/{eventId}', match: { '$.id': 'eventId' }, absenceProvesAfterS: 1, delaysS: [5, 5, 5, 5, 5, 5] } });
const longSinceMs = 10_000_000;

const findings: readonly Found[] = [{ kind: 'failed', detail: 'look failed: status 500' }, { kind: 'absent', detail: 'absent: 404' }, { kind: 'matches', reference: undefined, detail: 'found: 200' }];

/** What a look has found, from the record as it was read: whoever looks has the claim, so nobody else has. */
function planLook(h: History, event: string, found: Found | undefined, leaseId: string): Planned | undefined {
  const record = h.recordOf(event);
  return record?.state === 'unknown' && h.state.lane?.claims.has(h.namesOf(event).claimKey) !== true && found !== undefined ? lookFrom(h, record, found, leaseId) : undefined;
}

function lookFrom(h: History, from: UnknownRecord, found: Found, leaseId: string): Planned | undefined {
  if (reconciled.lookup === null) return undefined;
  const to = afterLook(from, found, reconciled.lookup, { startedEpochMs: h.nowEpochMs + longSinceMs, nowEpochMs: h.nowEpochMs, leaseId });
  return planned(operations.write(`look ${from.looks + 1} at ${from.eventId ?? ''} ${from.generation}/${from.attempt}: ${found.kind}`, from, to));
}

/** Looks at a delivery as it is not, by one thing each. */
function otherLooks(h: History, event: string, leaseId: string): (Planned | undefined)[] {
  const record = h.recordOf(event);
  if (record?.state !== 'unknown') return [];
  const all = [{ ...record, looks: record.looks + 1 }, { ...record, attempt: record.attempt + 1 }, { ...record, generation: record.generation + 1 }];
  return all.map((from) => lookFrom(h, from, { kind: 'failed', detail: 'look failed: status 500' }, leaseId));
}

function planWake(h: History, isStale: boolean): Planned | undefined {
  if (h.state.lane === undefined) return undefined;
  const from = isStale ? 1 : h.state.lane.holding?.wakeAtEpochMs;
  return from === undefined ? undefined : planned(operations.moveWakeUp(`wake-up from ${from}`, h.endpointId, from, h.nowEpochMs + 7));
}

function planBegin(h: History, leaseId: string): Planned | undefined {
  if (h.state.lane === undefined) return undefined;
  return planned(operations.beginDrain(`begin run ${leaseId}`, h.endpointId, { leaseId, expiresEpochMs: h.nowEpochMs + leaseMs }, h.nowEpochMs));
}

function planEnd(h: History, { isStale, isEmpty, isOther }: { isStale: boolean; isEmpty: boolean; isOther: boolean }): Planned | undefined {
  const { lane } = h.state;
  if (lane?.drain === undefined) return undefined;
  const leaseId = isOther ? 'D-other' : lane.drain.leaseId;
  const seenEpochMs = lane.holding?.wakeAtEpochMs ?? 0;
  const end = { leaseId, seq: lane.holdSeq - (isStale ? 1 : 0), seenEpochMs, taken: Math.min(1, lane.holding?.count ?? 0), wakeAtEpochMs: isEmpty ? undefined : h.nowEpochMs + 9, isReady: h.nowEpochMs % 2 === 0 };
  return planned(operations.endDrain(`end run ${leaseId} as of hold ${end.seq}${isEmpty ? ', nothing held' : ''}`, h.endpointId, end));
}

const planned = (op: operations.Operation, more: Partial<Planned> = {}): Planned => ({ op, uses: [], hear: () => undefined, ...more });

interface Asked {
  readonly ask: Admission;
  readonly deliveries: Delivery[];
  readonly label: string;
}

function askOf(h: History, { events: wanted, resend, redrive, live, isStale }: Asking & { isStale: boolean }, leaseId: string, expiresEpochMs: number): Asked {
  const current = h.state.version ?? 'none';
  const cfg = isStale ? (h.versions.findLast((v) => v !== current) ?? 'old') : current;
  const deliveries = h.among(wanted).map((event): Delivery => {
    const record = h.recordOf(event);
    const copy = h.copyOf(event, resend ? (record?.resend ?? 0) + 1 : 0, redrive && record?.state === 'dead' ? record.generation : undefined);
    return { event, copy, phase: 'claimed' };
  });
  const asked = deliveries.map(({ copy: { claimKey, shortHash } }) => ({ claimKey, shortHash }));
  const label = `${deliveries.map((d) => d.event).join('+')} by ${leaseId} under ${cfg}${resend ? ', a resend' : ''}${redrive ? ', a redrive' : ''}${live ? '' : ', for the drain'}`;
  const kept = live ? { live: { kept: keptForDrain(h.state.lane?.slots ?? 1) } } : {};
  return { ask: { endpointId: h.endpointId, cfg, leaseId, expiresEpochMs, wanted: asked, ...kept }, deliveries, label };
}

function planAdmit(h: History, asked: Asked): Planned {
  return planned(operations.admit(`admit ${asked.label}`, asked.ask), { hear: (answer) => void hearGrant(h, asked, answer as AdmitAnswer) });
}

function planProbe(h: History, { event, isStale }: Extract<Choice, { kind: 'probe' }>, leaseId: string): Planned | undefined {
  const { breaker } = h.state.lane ?? {};
  if (breaker?.state !== 'open') return undefined;
  const asked = askOf(h, { events: [event], resend: false, redrive: false, live: false, isStale }, leaseId, h.nowEpochMs + leaseMs);
  return planAdmit(h, { ...asked, ask: { ...asked.ask, canaryOf: breaker }, label: `as canary ${asked.label}` });
}

const [staleRate, staleDay]: [number, DaySpent] = [1, { day: 1, attempts: 9, isSpent: false }];

/** Of its rate and of its day, in turns. `isStale`: from what is not there. */
function planSpend(h: History, isStale: boolean): Planned | undefined {
  const { nextAtEpochMs, day } = h.state.lane ?? {};
  const from = <T>(seen: T | undefined, other: T) => (!isStale ? seen : seen === undefined ? other : undefined);
  const isDays = nextAtEpochMs !== undefined && (nextAtEpochMs + (day?.attempts ?? 0)) % 2 === 1;
  return isDays ? planDay(h, from(day, staleDay)) : planRate(h, from(nextAtEpochMs, staleRate));
}

function planRate(h: History, fromEpochMs: number | undefined): Planned | undefined {
  const toEpochMs = (fromEpochMs ?? h.nowEpochMs) + 1;
  return h.state.lane === undefined ? undefined : planned(operations.moveRate(`spend, from ${fromEpochMs ?? 'nothing'}`, h.endpointId, fromEpochMs, toEpochMs));
}

function planDay(h: History, from: DaySpent | undefined): Planned | undefined {
  const to = { day: 1, attempts: (from?.attempts ?? 0) + 1, isSpent: false };
  return h.state.lane === undefined ? undefined : planned(operations.moveDay(`spend of the day, from ${from?.attempts ?? 'nothing'}`, h.endpointId, from, to));
}

/** A breaker that is not there, of each kind that can be expected. */
const otherBreakers: readonly (Breaker | undefined)[] = [
  undefined,
  closedBreaker({ failed: { sinceEpochMs: 0, attempts: 1, hits: 1 }, connectFailures: 1, by: 'L-before' }),
  openBreaker({ untilEpochMs: 0, canary: { leaseId: 'L-before', expiresEpochMs: 0 } }),
];

function planReport(h: History, { health, isStale }: Extract<Choice, { kind: 'report' }>, leaseId: string): Planned | undefined {
  const { lane } = h.state;
  if (lane === undefined) return undefined;
  return reportOn(h, isStale ? otherBreakers.find((other) => other?.state !== lane.breaker?.state) : lane.breaker, health, leaseId);
}

function reportOn(h: History, from: Breaker | undefined, health: Health, by: string): Planned | undefined {
  const leaseId = from?.state === 'open' ? (from.canary?.leaseId ?? by) : by;
  const to = afterReport(from, { leaseId, round: from?.round ?? 0, samples: [{ health, answerMs: 1 }] }, config.breaker, h.nowEpochMs);
  const label = `report ${health} by ${leaseId} on ${from === undefined ? 'nothing' : `${from.state}, round ${from.round}`}`;
  return to === undefined ? undefined : planned(operations.moveBreaker(label, h.endpointId, from, to));
}

/** What an admission was told. False where it has nothing. */
function hearGrant(h: History, { ask, deliveries }: Asked, answer: AdmitAnswer): boolean {
  const sender: Sender = { leaseId: ask.leaseId, isDrain: ask.live === undefined, cfg: ask.cfg, expiresEpochMs: ask.expiresEpochMs, deliveries, gives: undefined, isDead: false };
  if (answer.kind === 'unsure') sender.gives = giveOf(h, sender);
  else if (answer.kind !== 'granted') {
    const why = answer.kind === 'refused' ? readRefusal(answer.lane, ask, h.nowEpochMs) : undefined;
    if (why?.kind !== 'granted' || why.others.length > 0) return false;
  }
  h.senders.push(sender);
  return answer.kind !== 'unsure';
}

const living = (h: History) => h.senders.filter((s) => !s.isDead);

function giveOf(h: History, { leaseId, expiresEpochMs, deliveries }: Sender): GiveBack {
  const keeps = (d: Delivery) => d.phase === 'sent' || d.phase === 'kept';
  const keys = (some: readonly Delivery[]) => some.map((d) => d.copy.claimKey);
  const judged = deliveries.filter((d) => d.to !== undefined);
  const successes = judged.filter((d) => d.to?.state === 'delivered').length;
  return {
    endpointId: h.endpointId, leaseId, expiresEpochMs, slots: deliveries.length,
    release: keys(deliveries.filter((d) => !keeps(d))), keep: keys(deliveries.filter(keeps)),
    successes, failures: judged.length - successes,
    failed: { answered: (judged.length - successes) % 2, atEpochMs: h.nowEpochMs, isFirst: deliveries.length % 2 === 0 },
    // Counted once, whatever becomes of the write.
    counted: { tally: { ...emptyTally, attempts: deliveries.length, answers: new Map(judged.length === 0 ? [] : [[50, judged.length]]) }, atEpochMs: h.nowEpochMs },
  };
}

function giveLabel(h: History, { release, keep, leaseId }: GiveBack): string {
  const named = (keys: readonly string[]) => events.filter((event) => keys.includes(h.namesOf(event).claimKey)).join('+');
  return `${leaseId}${release.length > 0 ? ` releasing ${named(release)}` : ''}${keep.length > 0 ? ` keeping ${named(keep)}` : ''}`;
}

function planGiveBack(h: History, which: number): Planned | undefined {
  const sender = pick(living(h), which);
  return sender === undefined ? undefined : giveBackOf(h, sender);
}

export function giveBackOf(h: History, sender: Sender): Planned {
  const give = sender.gives ?? giveOf(h, sender);
  const hear = () => void (h.senders = h.senders.filter((s) => s !== sender));
  return planned(operations.giveBack(`give back ${giveLabel(h, give)}`, give), { sender, uses: [sender, ...sender.deliveries], hear, endWith: hear });
}

function planExchange(h: History, choice: Extract<Choice, { kind: 'exchange' }>, leaseId: string): Planned | undefined {
  const sender = pick(living(h).filter((s) => s.gives === undefined), choice.which);
  if (sender === undefined) return undefined;
  const wanted = h.among(choice.events).filter((event) => !sender.deliveries.some((d) => d.event === event));
  if (wanted.length === 0) return undefined;
  const give = giveOf(h, sender);
  const asked = askOf(h, { ...choice, events: wanted }, leaseId, sender.expiresEpochMs);
  const hear = (answer: unknown) => {
    if (hearGrant(h, asked, answer as AdmitAnswer)) h.senders = h.senders.filter((s) => s !== sender);
    else sender.gives = give;
  };
  const endWith = () => void (h.senders = h.senders.filter((s) => s !== sender));
  return planned(operations.exchange(`exchange ${giveLabel(h, give)} for ${asked.label}`, give, asked.ask), { sender, uses: [sender, ...sender.deliveries], hear, endWith });
}

/** The next write that any living sender owes a record. */
function planSettle(h: History, which: number): Planned | undefined {
  const open = living(h).flatMap((sender) => (sender.gives === undefined ? sender.deliveries.flatMap((d) => writeOf(h, sender, d) ?? []) : []));
  return pick(open, which);
}

/** The next write of one delivery; none where it has to send first, or is done. */
export function writeOf(h: History, sender: Sender, d: Delivery): Planned | undefined {
  const by = `${d.event} by ${sender.leaseId}`;
  const op = (label: string, from: DeliveryRecord | undefined, to: DeliveryRecord, hear: (answer: unknown) => void) =>
    planned(operations.write(`${label} ${by}`, from, to), { sender, uses: [d], hear });
  if (d.phase === 'sent' && d.to !== undefined) {
    const { to } = d;
    return op(`settle ${to.state}`, d.from, to, (answer) => void (d.phase = answer !== 'written' ? 'kept' : to.state === 'dead' ? 'burying' : 'done'));
  }
  if (d.phase === 'burying' && d.to?.state === 'dead') return markOf(`mark ${by}`, d.to, d);
  if (d.phase !== 'claimed' || sender.expiresEpochMs <= h.nowEpochMs) return undefined;
  const record = h.recordOf(d.event);
  const decision = decided(h, sender, d, record);
  if (decision.kind === 'renew' && record !== undefined) {
    return op(`renew (${decision.why})`, record, renewed(record, h.nowEpochMs, d.copy.message.resend), (answer) => void (d.phase = answer === 'written' ? 'claimed' : 'done'));
  }
  if (decision.kind === 'early' && record?.state === 'waiting' && d.copy.message.resend > record.resend) {
    return op('note a resend of', record, { ...record, resend: d.copy.message.resend }, () => void (d.phase = 'done'));
  }
  return decision.kind === 'buryAgain' && record?.state === 'dead' ? markOf(`mark again ${by}`, record, d) : undefined;
}

function decided(h: History, { isDrain }: Sender, { copy }: Delivery, record: DeliveryRecord | undefined) {
  return decideReceive({ ...copy.message, deadLetterGeneration: copy.received.deadLetterGeneration }, record, h.nowEpochMs, isDrain ? 'held' : 'queue');
}

function markOf(label: string, record: DeadRecord, d?: Delivery): Planned {
  return planned(operations.markBuried(label, record), { uses: d === undefined ? [] : [d], hear: () => void (d === undefined || (d.phase = 'done')) });
}

/** A request to the consumer, if the delivery is one that is sent now. False where it is not. */
export function post(h: History, sender: Sender, d: Delivery, outcome: OutcomeName, waitMs: number): boolean {
  if (d.phase !== 'claimed' || sender.isDead || sender.gives !== undefined || sender.expiresEpochMs <= h.nowEpochMs) return false;
  const record = h.recordOf(d.event);
  if (decided(h, sender, d, record).kind !== 'proceed') return false;
  const { claimKey, recordKey } = d.copy;
  const { leaseId } = sender;
  const base = record?.state === 'waiting' ? record : blankOf(d.copy);
  const result = outcomes[outcome];
  h.note(`${leaseId} ${result === undefined ? 'gives up' : 'sends'} ${d.event}: ${outcome}`);
  d.phase = 'sent';
  d.from = record;
  if (result === undefined) {
    d.to = dead({ ...base, lastEpochMs: h.nowEpochMs }, 'expired', 'found expired when it was due');
    return true;
  }
  const problems = checkPost(h.state, { claimKey, recordKey, leaseId, nowEpochMs: h.nowEpochMs }, h.posts, h.verdicts);
  if (problems.length > 0) throw h.broken(problems.join('; '));
  h.posts.push({ recordKey, leaseId, generation: base.generation, delivers: outcome === 'ok' });
  const to = afterAttempt(base, result, outcome === 'lost' ? reconciled : config, { nowEpochMs: h.nowEpochMs, random: 0, leaseId });
  d.to = to.state === 'waiting' ? { ...to, dueEpochMs: h.nowEpochMs + waitMs } : to;
  return true;
}

function planReapLease(h: History, which: number): Planned | undefined {
  const found = pick([...(h.state.lane?.leases ?? [])].filter(([, lease]) => lease.expiresEpochMs <= h.nowEpochMs), which);
  return found === undefined ? undefined : reapLeaseOf(h, ...found);
}

export function reapLeaseOf(h: History, leaseId: string, seen: Lease): Planned {
  return planned(operations.reapLease(`reap lease ${leaseId} of ${seen.slots}`, h.endpointId, leaseId, seen));
}

export function planReapClaim(h: History, event: string): Planned | undefined {
  const copy = h.copyOf(event, 0, undefined);
  const { lane } = h.state;
  const claim = lane?.claims.get(copy.claimKey);
  if (lane === undefined || claim === undefined || !isExpired(lane, claim, h.nowEpochMs)) return undefined;
  return planned(operations.reapClaim(`reap claim of ${claim.leaseId} on ${event}`, copy, claim, h.nowEpochMs));
}

/** Anybody who receives a copy of what is burying may finish it. */
function planMark(h: History, event: string): Planned | undefined {
  const record = h.recordOf(event);
  return record?.state === 'dead' && record.phase === 'burying' ? markOf(`mark ${event}`, record) : undefined;
}

/** An operator drops what is buried. */
function planDrop(h: History, event: string, leaseId: string): Planned | undefined {
  const record = h.recordOf(event);
  if (record?.state !== 'dead' || record.phase !== 'buried') return undefined;
  const to = dropped(record, { why: 'closed', by: 'ada', nowEpochMs: h.nowEpochMs, leaseId });
  const lane: LaneGuard['lane'] = h.state.version === undefined ? { kind: 'absent' } : { kind: 'atVersion', cfg: h.state.version };
  return planned(operations.writeUnclaimed(`drop ${event} by ${leaseId}`, record, to, { endpointId: h.endpointId, claimKey: h.copyOf(event, 0, undefined).claimKey, lane }));
}

/** A mark of what was dropped meanwhile, by a worker that had begun its burial. */
function planLateMark(h: History, event: string): Planned | undefined {
  const record = h.recordOf(event);
  return record?.state === 'dropped' && record.reason !== 'unknown' ? markOf(`mark ${event}, which was dropped`, dead(record, record.reason, record.detail)) : undefined;
}

/** A delivery that nobody may claim: its endpoint is disabled or gone, as the burier has read, perhaps some time ago. */
function planBury(h: History, { event, isStale, renews }: Extract<Choice, { kind: 'buryUnclaimed' }>, leaseId: string): Planned | undefined {
  const record = h.recordOf(event);
  const copy = h.copyOf(event, 0, undefined);
  const isTerminal = record?.state === 'delivered' || (record?.state === 'dead' && record.phase === 'buried');
  if (record !== undefined && record.state !== 'waiting' && !(renews && isTerminal)) return undefined;
  const base = record === undefined ? blankOf(copy) : record.state === 'waiting' ? record : renewed(record, h.nowEpochMs, record.resend + 1);
  const version = isStale ? h.versions.findLast((v) => v !== h.state.version) : h.state.version;
  const lane: LaneGuard['lane'] = version === undefined ? { kind: 'absent' } : { kind: 'atVersion', cfg: version };
  const token = { ...base, lastEpochMs: h.nowEpochMs, lastLease: { leaseId, kind: 'settled' as const } } satisfies WaitingRecord;
  const to = dead(token, version === undefined ? 'unknown-endpoint' : 'disabled', 'without a lane');
  const guard = { endpointId: h.endpointId, claimKey: copy.claimKey, lane };
  return planned(operations.writeUnclaimed(`bury ${event} by ${leaseId}, no claim, ${version === undefined ? 'no endpoint' : `disabled at ${version}`}`, record, to, guard));
}

function planPut(h: History, slots: number, version: string): Planned {
  const endpoint = endpointOf({ endpointId: h.endpointId, maxInFlight: slots }, version);
  return planned(operations.put(`put ${slots} slots as ${version}`, endpoint), { slots, hear: (answer) => void (answer === 'written' && h.versions.push(version)) });
}

function planLand(h: History, which: number): Planned | undefined {
  const late = pick(h.late, which);
  if (late === undefined) return undefined;
  const op: operations.Operation = {
    label: `late: ${late.label}`, reads: [], readRequests: 0, unsure: undefined, again: late.instant, hasToken: () => false,
    write: (state) => ({ ...late.instant(state, undefined), seen: undefined }),
    perform: () => late.land(),
  };
  return planned(op, { isLate: true, uses: [late], hear: () => void h.late.splice(h.late.indexOf(late), 1) });
}

/** What could be issued now and one thing alone would stop, with that thing. What concerns one event is asked for one. */
export function narrowlyRefused(h: History, which: number, id: string): { readonly why: string; readonly planned: Planned }[] {
  const all = h.among(events);
  const asked = all[which % all.length] ?? '';
  const asking = { events: [asked], resend: false, redrive: false, live: true, isStale: false };
  const senders = living(h);
  const drain = { ...asking, live: false };
  const plans = [
    ...h.late.map((_, i) => planLand(h, i)),
    ...senders.flatMap((_, i) => planExchange(h, { kind: 'exchange', which: i, ...asking }, `L${id}`)),
    ...senders.flatMap((_, i) => planExchange(h, { kind: 'exchange', which: i, ...asking, events: all }, `L${id}`)),
    ...senders.flatMap((_, i) => planExchange(h, { kind: 'exchange', which: i, ...drain }, `L${id}`)),
    ...senders.flatMap((_, i) => planExchange(h, { kind: 'exchange', which: i, ...drain, events: all }, `L${id}`)),
    planAdmit(h, askOf(h, drain, `L${id}`, h.nowEpochMs + leaseMs)),
    planAdmit(h, askOf(h, { ...drain, events: all }, `L${id}`, h.nowEpochMs + leaseMs)),
    planAdmit(h, askOf(h, { ...drain, isStale: true }, `L${id}`, h.nowEpochMs + leaseMs)),
    ...otherHolds(h, asked),
    plan(h, { kind: 'note', count: 1, isReady: true }, id),
    planWake(h, true),
    planBegin(h, `D${id}`),
    planEnd(h, { isStale: true, isEmpty: true, isOther: false }),
    planEnd(h, { isStale: false, isEmpty: true, isOther: true }),
    ...otherPaces(h).map((from) => planPace(h, from, paces[0])),
    ...(h.state.lane === undefined ? [planPace(h, undefined, paces[0])] : []),
    ...senders.flatMap((sender) => sender.deliveries.map((d) => writeOf(h, sender, d))),
    ...senders.map((sender) => giveBackOf(h, sender)),
    planAdmit(h, askOf(h, asking, `L${id}`, h.nowEpochMs + leaseMs)),
    planRate(h, undefined),
    planRate(h, staleRate),
    planDay(h, undefined),
    planDay(h, staleDay),
    planProbe(h, { kind: 'probe', event: asked, isStale: false }, `L${id}`),
    planProbe(h, { kind: 'probe', event: asked, isStale: true }, `L${id}`),
    ...(h.state.lane === undefined ? [] : otherBreakers.map((other) => reportOn(h, other, 'unreachable', `L${id}`))),
    planBury(h, { kind: 'buryUnclaimed', event: asked, isStale: false, renews: true }, `B${id}`),
    planLateMark(h, asked),
    ...otherLooks(h, asked, `K${id}`),
  ];
  return plans.flatMap((planned) => {
    const [why, ...more] = planned === undefined ? [] : whyNot(h, planned);
    return planned === undefined || why === undefined || more.length > 0 ? [] : [{ why, planned }];
  });
}

function whyNot(h: History, { op }: Planned): readonly string[] {
  let last: Seen = { state: h.state, seen: undefined };
  for (const instant of [...op.reads, op.write]) last = instant(last.state, last.seen);
  return last.why ?? [];
}
