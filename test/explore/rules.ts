/** What must hold in every state that the explorer reaches, and over every write. Each answer is a sentence, or nothing. */
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { toLane } from '../../lambdas/shared/adapters/dynamodb-lane-item.ts';
import { toRecord } from '../../lambdas/shared/adapters/dynamodb-record-item.ts';
import { firstRound, type Breaker } from '../../lambdas/shared/core/breaker.ts';
import { keptForDrain, removedCfg, type Lane } from '../../lambdas/shared/core/lane.ts';
import { afterAnswers, type Pace } from '../../lambdas/shared/core/pace.ts';
import { assertTransition, type DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { drain as drainLimits, lease as leaseLimits, pace as paceLimits, records as recordLimits } from '../../lambdas/shared/limits/numbers.ts';
import type { Item } from '../../local/types/dynalite.d.ts';
import type { Items } from './memory-dynamodb.ts';

/** A request that reached the consumer. */
export interface Post {
  readonly recordKey: string;
  readonly leaseId: string;
  readonly generation: number;
  readonly outcome: string;
  /** True once an authoritative absence has proved that it did not arrive. */
  readonly isAnsweredFor?: boolean;
}

/** A verdict that a record was given. */
export interface Verdict {
  readonly recordKey: string;
  readonly leaseId: string;
  readonly kind: 'settled' | 'reaped';
}

const lanes = new WeakMap<Item, Lane>();
const records = new WeakMap<Item, DeliveryRecord>();
const plain = (item: Item) => unmarshall(item as unknown as Record<string, AttributeValue>);

export function laneIn(items: Items, key: string): Lane | undefined {
  return cached(lanes, items.get(key), (item) => toLane(plain(item)));
}

export function recordIn(items: Items, key: string): DeliveryRecord | undefined {
  return cached(records, items.get(key), (item) => toRecord(plain(item)));
}

function cached<T>(known: WeakMap<Item, T>, item: Item | undefined, read: (item: Item) => T): T | undefined {
  if (item === undefined) return undefined;
  const found = known.get(item) ?? read(item);
  known.set(item, found);
  return found;
}

const sortKeyOf = (item: Item) => item['sk']?.['S'];

/** What a write broke, and the verdicts that it gave. */
export interface Written {
  readonly problems: readonly string[];
  readonly verdicts: readonly Verdict[];
}

/** A write as it was asked for. */
export interface Writing {
  /** Texts that it was given: what it must name to be its owner's. */
  readonly names: readonly string[];
  readonly nowEpochMs: number;
}

export function checkWrite(before: Items, after: Items, copied: readonly string[], writing: Writing): Written {
  const problems: string[] = [];
  const verdicts: Verdict[] = [];
  for (const [key, item] of after) {
    if (before.get(key) === item) continue;
    if (sortKeyOf(item) === 'lane') problems.push(...(item['leases'] === undefined ? ['a lane that no endpoint has'] : checkLane(laneIn(before, key), laneIn(after, key) as Lane)));
    if (sortKeyOf(item) === 'lane' && problems.length === 0) problems.push(...checkHolding(laneIn(before, key), laneIn(after, key) as Lane, item, writing));
    if (sortKeyOf(item) === undefined) {
      problems.push(...checkIndexed(recordIn(after, key) as DeliveryRecord, item));
      const change = checkRecord(recordIn(before, key), recordIn(after, key) as DeliveryRecord, after, copied);
      problems.push(...change.problems);
      verdicts.push(...change.verdicts);
    }
  }
  return { problems, verdicts };
}

function checkLane(before: Lane | undefined, lane: Lane): string[] {
  const leased = [...lane.leases.values()].reduce((sum, l) => sum + l.slots, 0);
  const problems: string[] = [];
  if (lane.avail + leased !== lane.slots) problems.push(`avail ${lane.avail} + leased ${leased} is not slots ${lane.slots}`);
  if (before !== undefined && lane.avail < 0 && lane.avail < before.avail && lane.slots >= before.slots) problems.push(`more in flight than the lane allows: avail ${lane.avail}`);
  for (const [key, claim] of before?.claims ?? []) {
    const now = lane.claims.get(key);
    if (now !== undefined && now.leaseId !== claim.leaseId) problems.push(`claim ${key} went from lease ${claim.leaseId} to ${now.leaseId} without being free`);
  }
  return [...problems, ...checkBreaker(before?.breaker, lane.breaker), ...checkPace(before?.pace, lane.pace)];
}

/** Attributes that are there while anything is held, and only then: what one run leaves of them the next hold would take for its own. */
const holdingAttributes = ['wakeAt', 'heldAt', 'held'];

function checkHolding(before: Lane | undefined, after: Lane, item: Item, { names, nowEpochMs }: Writing): string[] {
  const { holding, drain, holdSeq } = after;
  const stray = holdingAttributes.filter((name) => (item[name] !== undefined) !== (holding !== undefined));
  const problems = stray.map((name) => (holding === undefined ? `nothing is held, and the lane has a ${name}` : `something is held, and the lane has no ${name}`));
  if (holdSeq < (before?.holdSeq ?? 0)) problems.push('a number of a hold comes twice');
  if (after.cfg === removedCfg && holdSeq > (before?.holdSeq ?? 0)) problems.push('held for an endpoint that was removed');
  if (drain === undefined) {
    const ended = before?.drain;
    if (ended === undefined) return problems;
    const isAskedFor = before?.holding !== undefined && before.holding.wakeAtEpochMs < ended.expiresEpochMs;
    if (isAskedFor && (holding === undefined || holding.wakeAtEpochMs > nowEpochMs)) problems.push('a wake-up that was asked for while a run was under way was put off');
    return names.includes(ended.leaseId) ? problems : [...problems, `the drain's run ${ended.leaseId} was ended by another`];
  }
  if (holding === undefined) problems.push('a run of the drain where nothing is held');
  // Somebody may ask for another while it is under way.
  else if (drain.expiresEpochMs > nowEpochMs && holding.wakeAtEpochMs > drain.expiresEpochMs) problems.push('the wake-up is later than the expiry of the run that is under way');
  if (before?.drain !== undefined && before.drain.leaseId !== drain.leaseId && before.drain.expiresEpochMs > drain.expiresEpochMs - drainLeaseMs) problems.push('two runs of the drain at once');
  return problems;
}

/** Of every run in a world: a run that replaces one began when that had expired. */
const drainLeaseMs = drainLimits.timeoutS * 1_000 + leaseLimits.skewMs;

/** Only its owner takes digits out of a pace, and only by the rules of core/pace.ts: below the most that are kept, none ever goes. */
function checkPace(before: Pace | undefined, after: Pace | undefined): string[] {
  if (before === undefined) return [];
  if (after === undefined) return before.recent.length < paceLimits.kept && /[12]/.test(before.recent) ? ['a pace was forgotten'] : [];
  if (before.recent.length >= paceLimits.kept) return [];
  if (!after.recent.startsWith(before.recent.slice(0, after.recent.length)) || after.recent.length < before.recent.length) return ['an answer\'s time was forgotten'];
  if (before.isSlow && !after.isSlow && after.recent.length < paceLimits.kept) return ['a slow endpoint was forgotten'];
  const isSlow = afterAnswers({ isSlow: false, recent: after.recent }, [])?.isSlow === true;
  return after.isSlow && !before.isSlow && !isSlow ? ['an endpoint is slow without a reason'] : [];
}

/** The index shows exactly what is held, by when it is due: else it is never found, or found for ever. */
function checkIndexed(record: DeliveryRecord, item: Item): string[] {
  const [shown, isUnknown] = [String(item['gpk']?.['S']).startsWith('held#'), String(item['gpk']?.['S']).startsWith('unknown#')];
  if (isUnknown !== (record.state === 'unknown') || isUnknown !== (item['upk'] !== undefined)) return [`the indexes of what is unknown are wrong about what is ${record.state}`];
  if (record.state === 'unknown') return Number(item['gsk']?.['N']) === (record.nextLookEpochMs ?? recordLimits.neverEpochMs + record.sinceEpochMs) ? [] : ['unknown, and the index says another time than its record'];
  if (item['gpk'] !== undefined && !shown && record.state !== 'dead') return [`the index shows as dead what is ${record.state}`];
  if (record.state !== 'waiting' || record.home !== 'held') return shown ? [`the index shows as held what is ${record.state}`] : [];
  if (!shown) return ['held, and not in the index'];
  return Number(item['gsk']?.['N']) === record.dueEpochMs ? [] : ['held, and the index says another time than its record'];
}

/** What live traffic must leave to the drain, of a lane as its admission left it. */
export function checkLive(lane: Lane | undefined): string[] {
  if (lane === undefined) return [];
  const problems = lane.pace?.isSlow === true ? ['live traffic goes to a slow endpoint'] : [];
  if (lane.holding?.isReady === true && lane.avail < keptForDrain(lane.slots)) problems.push('live traffic takes the slots that are kept for the drain');
  return problems;
}

function checkBreaker(before: Breaker | undefined, after: Breaker | undefined): string[] {
  if (after === undefined) return before === undefined ? [] : ['the breaker was forgotten'];
  const rounds = after.round - (before?.round ?? firstRound);
  if (rounds !== 0 && rounds !== 1) return [`the breaker went from round ${before?.round ?? firstRound} to ${after.round}`];
  const was = before?.state ?? 'closed';
  if (rounds === 0 && was !== after.state) return [`the breaker went from ${was} to ${after.state} within a round`];
  if (after.state === 'open') return [];
  if (before?.state === 'open') return after.by === before.canary?.leaseId ? [] : ['the breaker was closed by another than its canary'];
  return before !== undefined && after.failed.sinceEpochMs === before.failed.sinceEpochMs && after.failed.attempts < before.failed.attempts ? ['a report was forgotten'] : [];
}

function checkRecord(before: DeliveryRecord | undefined, after: DeliveryRecord, items: Items, copied: readonly string[]): Written {
  const problems: string[] = [];
  const verdicts: Verdict[] = [];
  try {
    // Repeats change nothing; anything else must be in the table.
    if (JSON.stringify(before) !== JSON.stringify(after)) assertTransition(before, after);
  } catch (error) {
    problems.push((error as Error).message);
  }
  const kept = before?.history ?? [];
  if (JSON.stringify(after.history.slice(0, kept.length)) !== JSON.stringify(kept)) problems.push('a verdict in the history was overwritten');
  // A second receive of a copy that is gone by then would be sent once more, and leave no message behind it.
  if (after.resend < (before?.resend ?? 0)) problems.push('a resend that was noted is forgotten');
  const counted = after.attempt - (before?.attempt ?? 0);
  if (counted === 1 && after.lastLease !== undefined) verdicts.push({ recordKey: after.recordKey, ...after.lastLease });
  if (after.state === 'dead') problems.push(...checkDead(before, after, items, copied));
  return { problems, verdicts };
}

function checkDead(before: DeliveryRecord | undefined, after: Extract<DeliveryRecord, { state: 'dead' }>, items: Items, copied: readonly string[]): string[] {
  const isNew = before?.state !== 'dead' || before.generation !== after.generation;
  if (after.phase === 'buried' && !copied.includes(copyName(after))) return ['marked buried before the dead-letter queue had its copy'];
  if (!isNew) return [];
  const config = [...items.values()].filter((item) => sortKeyOf(item) === 'config').map(plain).find((item) => item['pk'] === after.endpointId);
  const status = (config?.['config'] as { status?: string } | undefined)?.status;
  if (after.reason === 'unknown-endpoint' && config !== undefined) return ['dead as unknown although the endpoint exists'];
  if (after.reason === 'disabled' && status !== 'disabled') return [`dead as disabled although the endpoint is ${status ?? 'gone'}`];
  return [];
}

/** Name of a dead letter's copy. */
export function copyName(record: { readonly recordKey: string; readonly generation: number }): string {
  return `${record.recordKey}@${record.generation}`;
}

export interface PostContext {
  readonly lane: Lane | undefined;
  readonly record: DeliveryRecord | undefined;
  readonly claimKey: string;
  readonly recordKey: string;
  /** Prefix of the sender's lease ids. */
  readonly sender: string;
  /** Version of the configuration that it sends by, and the one that its admission found. */
  readonly version: string;
  readonly admittedVersion: string;
  /** The breaker's round, as its admission found it. */
  readonly admittedRound: number;
  /** Under it nothing is sent again that may have arrived. */
  readonly isReconciled: boolean;
  readonly attempt: number;
  readonly saysDuplicate: boolean;
  readonly nowEpochMs: number;
}

/** What is wrong with a request about to be made, given all that were made before. */
export function checkPost(at: PostContext, posts: readonly Post[], verdicts: readonly Verdict[]): { problems: string[]; leaseId: string; generation: number } {
  const { lane, record } = at;
  const problems: string[] = [];
  const leaseId = lane?.claims.get(at.claimKey)?.leaseId ?? '';
  if (!leaseId.startsWith(at.sender)) problems.push(`POST without a claim: it is held by ${leaseId === '' ? 'nobody' : leaseId}`);
  else if ((lane?.leases.get(leaseId)?.slots ?? 0) < 1) problems.push('POST without a slot');
  if (record !== undefined && record.state !== 'waiting') problems.push(`POST of a delivery that is ${record.state}`);
  if (record?.state === 'waiting' && record.dueEpochMs > at.nowEpochMs) problems.push('POST before it was due');
  if (at.attempt !== (record?.attempt ?? 0) + 1) problems.push(`POST as attempt ${at.attempt} on a record with ${record?.attempt ?? 0}`);
  if (at.saysDuplicate !== (record?.ambiguous ?? 0) > 0) problems.push('the mark of a possible duplicate is wrong');
  const breaker = lane?.breaker;
  // What was admitted before it opened may still be sent.
  if (breaker?.state === 'open' && breaker.round === at.admittedRound && breaker.canary?.leaseId !== leaseId) problems.push('POST past an open breaker, not as its canary');
  if (at.version !== at.admittedVersion) problems.push(`POST by configuration ${at.version}, admitted under ${at.admittedVersion}`);
  for (const post of posts.filter((p) => p.recordKey === at.recordKey)) {
    const verdict = verdicts.find((v) => v.recordKey === at.recordKey && v.leaseId === post.leaseId);
    if (verdict === undefined) problems.push(`POST while an earlier one, of ${post.leaseId}, has no verdict`);
    else if (at.isReconciled && post.isAnsweredFor !== true && post.generation === (record?.generation ?? 0) && (verdict.kind === 'reaped' || post.outcome.startsWith('no answer'))) problems.push(`POST again, although that of ${post.leaseId} may have arrived`);
    else if (post.outcome === 'ok' && verdict.kind === 'settled' && post.generation === (record?.generation ?? 0)) problems.push('POST after a recorded 2xx');
  }
  return { problems, leaseId, generation: record?.generation ?? 0 };
}

/**
 * One verdict for each request. A lease that sent nothing may be reaped twice: an admission that comes after its clean-up
 * takes the claim again, with an expiry that is long past.
 */
export function checkVerdicts(all: readonly Verdict[], added: readonly Verdict[], posts: readonly Post[]): string[] {
  const isOf = (v: Verdict) => (o: { readonly recordKey: string; readonly leaseId: string }) => o.recordKey === v.recordKey && o.leaseId === v.leaseId;
  return added.filter((v) => all.some(isOf(v)) && posts.some(isOf(v))).map((v) => `two verdicts for lease ${v.leaseId}`);
}
