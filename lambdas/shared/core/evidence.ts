import type { Suggestion } from './auto-lane.ts';
import { isSpent, todayOf, type Today } from './day.ts';
import type { NoticeStep } from './escalation.ts';
import { inFlight, type Lane } from './lane.ts';
import { statistics as limits } from '../limits/numbers.ts';
import { merged, percentilesOf, type EndedWindow, type Percentiles, type Window } from './statistics.ts';

/** What an endpoint can be told of itself (L7): as measured, with the arithmetic. */
export interface Evidence {
  /** Of how many attempts, since when; undefined of none. */
  readonly window: { readonly sinceEpochMs: number; readonly attempts: number; readonly failed: number; readonly lastFailure: string | undefined } | undefined;
  readonly latencyMs: Percentiles | undefined;
  readonly slots: number;
  readonly inFlight: number;
  /** Of what came in the window; undefined where nothing did. */
  readonly shedShare: number | undefined;
  /** Deliveries that wait, about. */
  readonly backlog: number;
  readonly offeredPerSecond: number | undefined;
  /** What the lane allows at the measured p95: slots ÷ p95. */
  readonly sustainablePerSecond: number | undefined;
  readonly breaker: 'closed' | 'open' | 'half-open';
  /** Of an endpoint whose attempts a day are bounded: those of today (O8). */
  readonly today?: Today;
  /** For how long a delivery waits for its answer that is tried now for the first time; of an adaptive budget only. */
  readonly readBudgetMs?: number;
  /** What its lane would be by what is measured, and what that would give (L2); undefined where too little is. */
  readonly suggested?: Suggestion & { readonly isApplied: boolean };
}

/**
 * @param window what the lane counts now, with the last one that has ended where that is short
 * @param maxPerDay of the endpoint
 */
export function evidenceOf(lane: Lane, window: Window | undefined, nowEpochMs: number, maxPerDay: number | null = null): Evidence {
  const latencyMs = window === undefined ? undefined : percentilesOf(window);
  const today = todayOf(lane.day, maxPerDay, nowEpochMs);
  const seconds = window === undefined ? 0 : Math.max(1, (nowEpochMs - window.sinceEpochMs) / 1_000);
  return {
    window: window === undefined ? undefined : { sinceEpochMs: window.sinceEpochMs, attempts: window.attempts, failed: window.attempts - window.delivered, lastFailure: window.lastFailure },
    latencyMs,
    slots: lane.slots,
    inFlight: inFlight(lane, nowEpochMs),
    shedShare: window === undefined || window.offered === 0 ? undefined : window.shed / window.offered,
    backlog: lane.holding?.count ?? 0,
    offeredPerSecond: window === undefined ? undefined : window.offered / seconds,
    sustainablePerSecond: latencyMs === undefined ? undefined : (1_000 * lane.slots) / latencyMs.p95,
    breaker: lane.breaker?.state !== 'open' ? 'closed' : lane.breaker.untilEpochMs <= nowEpochMs ? 'half-open' : 'open',
    ...(today === undefined ? {} : { today }),
  };
}

/** What a lane counts now, with what it counted in the window before where that is little; an old one says nothing of today. */
export function measuredOf(current: Window | undefined, before: EndedWindow | undefined, nowEpochMs: number): Window | undefined {
  if (before === undefined || nowEpochMs - before.endedEpochMs > limits.maxWindowS * 1_000) return current;
  if (current === undefined) return before;
  return current.attempts + current.offered >= limits.minSamples ? current : { ...merged(before, current), sinceEpochMs: before.sinceEpochMs };
}

/** The sentence that does the arithmetic (L7). Where a day is spent, that comes first: nothing else holds anything up. */
export function sentenceOf(evidence: Evidence): string {
  const spent = spentText(evidence);
  return spent === undefined ? arithmeticOf(evidence) : `${spent} ${arithmeticOf(evidence)}`;
}

function spentText({ today }: Evidence): string | undefined {
  if (!isSpent(today)) return undefined;
  return `${today.most} attempts a day are allowed, and ${today.attempts} were counted today: nothing more is sent before 00:00 UTC.`;
}

function arithmeticOf({ window, latencyMs, slots, shedShare, offeredPerSecond, sustainablePerSecond }: Evidence): string {
  if (latencyMs === undefined || sustainablePerSecond === undefined) return 'No attempt was measured lately.';
  const allows = `95 of 100 requests end within ${seconds(latencyMs.p95)}; ${slots} at a time are then ${rate(sustainablePerSecond)}.`;
  if (offeredPerSecond === undefined || offeredPerSecond === 0) return allows;
  if (offeredPerSecond <= sustainablePerSecond) return `${allows} ${rate(offeredPerSecond)} are offered${standing(window, shedShare)}.`;
  const neededMs = (1_000 * slots) / offeredPerSecond;
  return `${allows} ${rate(offeredPerSecond)} are offered: it falls behind. To keep up, 95 of 100 must end within ${seconds(neededMs)}.`;
}

/** Of one whose lane is wide enough: nobody is told that it keeps up while it fails, or what comes finds no room. */
function standing(window: Evidence['window'], shedShare = 0): string {
  if (window !== undefined && window.failed > limits.failedShare * window.attempts) return `, which the lane allows, but ${window.failed} of ${window.attempts} attempts failed`;
  return shedShare > limits.shedShare ? `, yet ${percent(shedShare)} of what came found no room: it comes in bursts, or is held up` : ': it keeps up';
}

/** The evidence as lines of text, each a name and what is to be said. */
export function evidenceLines(evidence: Evidence, nowEpochMs: number): [string, string][] {
  const { window, latencyMs, slots, inFlight: busy, shedShare, backlog, offeredPerSecond, sustainablePerSecond, today, readBudgetMs, suggested } = evidence;
  const measured: [string, string][] = window === undefined ? [['Measured', 'nothing lately']] : [
    ['Measured', `${window.attempts} attempts in ${minutes(nowEpochMs - window.sinceEpochMs)}, ${window.failed} failed${window.lastFailure === undefined || window.failed === 0 ? '' : ` (last: ${window.lastFailure})`}`],
  ];
  return [
    ...measured,
    ['Latency', latencyMs === undefined ? '-' : `p50 ${seconds(latencyMs.p50)}, p95 ${seconds(latencyMs.p95)}, p99 ${seconds(latencyMs.p99)}; what was cut off counts with the time it had`],
    ['Lane', `${busy} of ${slots} in flight`],
    ['Offered', offeredPerSecond === undefined ? '-' : `${rate(offeredPerSecond)}${shedShare === undefined ? '' : `, no room for ${percent(shedShare)}`}`],
    ['Sustainable', sustainablePerSecond === undefined ? '-' : `${rate(sustainablePerSecond)} (lane ÷ p95)`],
    ['Waiting', `${backlog}`],
    ...(today === undefined ? [] : [['Today', `${today.attempts} of ${today.most} attempts; the next day begins at 00:00 UTC`] as [string, string]]),
    ...(suggested === undefined ? [] : [['Suggested', suggestionText(suggested)] as [string, string]]),
    ...(readBudgetMs === undefined ? [] : [['Read budget', `${seconds(readBudgetMs)} (adaptive: three times the p99 of a full lane)`] as [string, string]]),
    ['', sentenceOf(evidence)],
  ];
}

const reasons: Readonly<Record<Suggestion['why'], string>> = {
  offered: 'offered × p95',
  slow: 'all that one gets whose p95 is above 3 s',
  ceiling: 'the share of all slots that one endpoint gets',
  short: 'twice as many, for what came had no room, or waits',
  floor: 'a lane that sizes itself shrinks by a half at most, to no fewer than are needed at once',
  failing: 'as it is, for it fails'
};

function suggestionText({ slots, sustainablePerSecond, why, isApplied }: NonNullable<Evidence['suggested']>): string {
  return `a lane of ${slots} (${reasons[why]}), which sustains ${rate(sustainablePerSecond)}${isApplied ? '; it sizes itself' : '. Apply it: --set maxInFlight=auto'}`;
}

/** What an alarm's reader wants first: what is wrong, who else is affected, what waits, and what to do. */
export function alarmText(endpointId: string, evidence: Evidence, othersIll: number, nowEpochMs: number): string {
  const { window, shedShare, backlog, breaker, today } = evidence;
  const said = [
    ...(window === undefined || window.failed === 0 ? [] : [`${window.failed} of ${window.attempts} attempts failed in ${minutes(nowEpochMs - window.sinceEpochMs)}${window.lastFailure === undefined ? '' : ` (${window.lastFailure})`}.`]),
    ...(shedShare === undefined || shedShare === 0 ? [] : [`No room for ${percent(shedShare)} of what came.`]),
    ...(breaker === 'closed' ? [] : [`Its breaker is ${breaker}.`]),
    ...(!isSpent(today) ? [] : [`Its ${today.most} attempts of today are spent.`]),
  ];
  const rest = othersIll === 0 ? 'Others unaffected.' : othersIll === 1 ? 'One other needs attention too.' : `${othersIll} others need attention too.`;
  return `${endpointId}: ${said.length === 0 ? 'needs attention.' : said.join(' ')} ${rest} ${backlog} waiting, none lost. Next: sluice status ${endpointId}`;
}

/** What a notice says: what happened, what waits, and what to do next. */
export function noticeText(endpointId: string, step: NoticeStep, lane: Lane, evidence: Evidence, nowEpochMs: number): string {
  const { row, failures, flag } = lane;
  const { backlog } = evidence;
  const since = row === undefined ? '' : ` in ${span(nowEpochMs - row.sinceEpochMs)}`;
  const last = lane.window?.lastFailure === undefined ? '' : ` (last: ${lane.window.lastFailure})`;
  const waits = `${backlog} waiting, none lost.`;
  switch (step) {
    case 'warn':
    case 'alert':
      return `${endpointId}: ${failures} attempts in a row failed${since}${last}. ${waits} Next: sluice status ${endpointId}`;
    case 'disable':
      return `${endpointId}: disabled, for ${row?.answered ?? failures} answers in a row were no success${since}${last}. What comes now goes to the dead-letter queue. Next, once it is mended: sluice endpoint put ${endpointId} --set status=enabled, then sluice dlq replay --endpoint ${endpointId}`;
    case 'pause':
      return `${endpointId}: paused, for it has not answered for a week. What comes is held. ${waits} Next, once it is mended: sluice endpoint ping ${endpointId}`;
    case 'gone':
      return `${endpointId}: disabled, for it answered 410: it is gone. What comes now goes to the dead-letter queue. Next: ask its owner; sluice endpoint put ${endpointId} --set status=enabled, or sluice endpoint rm ${endpointId}`;
    case 'refusing':
      return `${endpointId}: refuses deliveries as ${flag?.why ?? 'unwanted'}: its URL or its credentials have changed. They go to the dead-letter queue. Next: ask its owner; sluice dlq ls --endpoint ${endpointId}`;
    case 'spent':
      return `${endpointId}: ${spentText(evidence) ?? 'its attempts of today are spent.'} What comes is held, and is given up past its age. ${waits} Next: sluice status ${endpointId}, and for more sluice endpoint put ${endpointId} --set maxPerDay=N`;
    case 'recovered':
      return `${endpointId}: delivers again. ${backlog} waiting. Next: nothing`;
  }
}

const seconds = (ms: number) => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`);
const rate = (perSecond: number) => (perSecond >= 1 ? `${perSecond.toFixed(1)} a second` : `${(60 * perSecond).toFixed(1)} a minute`);
const percent = (share: number) => `${Math.round(100 * share)} %`;
/** As long as it is, in a unit in which that is a small number. */
function span(ms: number): string {
  const hours = ms / 3_600_000;
  return hours < 2 ? minutes(ms) : hours < 48 ? `${Math.round(hours)} h` : `${Math.round(hours / 24)} days`;
}

const minutes = (ms: number) => `${Math.max(1, Math.round(ms / 60_000))} min`;
