import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import { escalation as limits } from '../limits/numbers.ts';
import { isSpent, todayOf } from './day.ts';
import { removedCfg, type Lane } from './lane.ts';

/** Failures in a row, fleet-wide, as the lane has them since the last success; an operator's pings are none of them. */
export interface FailureRow {
  readonly sinceEpochMs: number;
  /** Of the last of them: without traffic nothing goes on. */
  readonly lastEpochMs: number;
  /** Of them, those that were answered with a status. */
  readonly answered: number;
  /** The last of these; undefined where none was. */
  readonly answeredEpochMs: number | undefined;
  /** Of the first that was not answered, since one was; undefined where the last ones were. */
  readonly unansweredEpochMs: number | undefined;
}

/** What somebody is told of an endpoint, once each (R12, R4). */
export type NoticeStep =
  /** 10, and 50 attempts in a row failed. */
  | 'warn'
  | 'alert'
  /** It answers, and never well, for a day: disabled. It answered 410: likewise. */
  | 'disable'
  | 'gone'
  /** It has not answered for a week: paused. */
  | 'pause'
  /** It answers 401, 403 or 404, and is flagged. */
  | 'refusing'
  /** All that it may be sent in a day is spent (O8). */
  | 'spent'
  | 'recovered';

/** What a notice is about: each is told by itself. */
export const noticeSubjects = ['row', 'flag', 'gone', 'day'] as const;
export type NoticeSubject = (typeof noticeSubjects)[number];

/** That somebody is being told, or has been. It stays when what it is about has ended, so that the same is not told again soon. */
export interface Told {
  /** Of a row the step, and since when it lasts; of flags their names; of a day its end. Another is another notice. */
  readonly what: string;
  /** When it was claimed; one that is not told long after was left by who died. */
  readonly atEpochMs: number;
  readonly isTold: boolean;
}

export interface DueNotice {
  readonly subject: NoticeSubject;
  readonly step: NoticeStep;
  readonly what: string;
}

type Status = EndpointConfig['status'];

/** Of an endpoint's configuration what its notices depend on. */
type Settings = Pick<EndpointConfig, 'status' | 'maxPerDay'>;

/** The notices that are to be told now; each is in the answer until it is told. `settings`: of the endpoint, as far as they are known. */
export function dueNotices(lane: Lane, { status, maxPerDay }: Settings, nowEpochMs: number): DueNotice[] {
  if (lane.cfg === removedCfg) return [];
  return [rowNotice(lane, status, nowEpochMs), flagNotice(lane, nowEpochMs), goneNotice(lane, nowEpochMs), dayNotice(lane, maxPerDay, nowEpochMs)].filter((notice) => notice !== undefined);
}

/**
 * The settings of an endpoint that was not read, as its lane lets them be known. An operator's change takes all marks away: one that is
 * there says what the sweep, or an answer, has made of it.
 */
export function presumedSettings({ told, day }: Pick<Lane, 'told' | 'day'>): Settings {
  return { status: presumedStatus(told), maxPerDay: day?.isSpent === true ? day.attempts : null };
}

function presumedStatus(told: Lane['told']): Status {
  const mark = markOf(told.get('row'));
  if (told.has('gone') || (mark?.was === 'disable' && mark.isTold)) return 'disabled';
  return (mark?.was === 'pause' && mark.isTold) || (mark?.was === 'resume' && !mark.isTold) ? 'paused' : 'enabled';
}

/** Marks of what is over, and was told so long ago that it may be told again. */
export function endedMarks({ row, flag, told, day }: Lane, nowEpochMs: number): [NoticeSubject, Told][] {
  const [ofRow, ofFlag, ofDay] = [told.get('row'), told.get('flag'), told.get('day')];
  const ended: [NoticeSubject, Told][] = [];
  if (ofRow !== undefined && row === undefined && hasNoMore(markOf(ofRow)) && nowEpochMs - ofRow.atEpochMs >= limits.quietMs) ended.push(['row', ofRow]);
  if (ofFlag !== undefined && flag === undefined && nowEpochMs - ofFlag.atEpochMs >= limits.flagAgainMs) ended.push(['flag', ofFlag]);
  if (ofDay !== undefined && ofDay.what !== String(todayOf(day, 0, nowEpochMs)?.untilEpochMs)) ended.push(['day', ofDay]);
  return ended;
}

function isOpen(told: Told | undefined, what: string, nowEpochMs: number): boolean {
  if (told?.what !== what) return true;
  return !told.isTold && nowEpochMs - told.atEpochMs >= limits.claimMs;
}

/** Noted by who disabled it, in the same write. */
function goneNotice({ told }: Lane, nowEpochMs: number): DueNotice | undefined {
  const gone = told.get('gone');
  return gone !== undefined && isOpen(gone, gone.what, nowEpochMs) ? { subject: 'gone', step: 'gone', what: gone.what } : undefined;
}

/** Once for each day that is spent. */
function dayNotice({ day, told }: Lane, maxPerDay: number | null, nowEpochMs: number): DueNotice | undefined {
  const today = todayOf(day, maxPerDay, nowEpochMs);
  if (!isSpent(today)) return undefined;
  const what = String(today.untilEpochMs);
  return isOpen(told.get('day'), what, nowEpochMs) ? { subject: 'day', step: 'spent', what } : undefined;
}

/** Each flag once a day: an endpoint that refuses one kind of event and takes the others is flagged and unflagged with every one. */
function flagNotice({ flag, told }: Lane, nowEpochMs: number): DueNotice | undefined {
  if (flag === undefined) return undefined;
  const before = told.get('flag');
  const isRecent = before !== undefined && (flag.sinceEpochMs <= before.atEpochMs || nowEpochMs - before.atEpochMs < limits.flagAgainMs);
  const names = isRecent ? before.what.split(' ') : [];
  if (!names.includes(flag.why)) return { subject: 'flag', step: 'refusing', what: [...names, flag.why].join(' ') };
  return before !== undefined && isOpen(before, before.what, nowEpochMs) ? { subject: 'flag', step: 'refusing', what: before.what } : undefined;
}

/** What a mark of a row says: which step, and since when the row lasts. `resume`: well again, and the pause is to end that came of it. */
interface Mark extends Told {
  readonly was: NoticeStep | 'resume';
  readonly since: string;
}

function markOf(told: Told | undefined): Mark | undefined {
  if (told === undefined) return undefined;
  const [was = '', since = ''] = told.what.split('@');
  return { ...told, was: was as Mark['was'], since };
}

const isWell = ({ was }: Mark) => was === 'recovered' || was === 'resume';

/** Of a row that has ended nothing more is to be told: that it has was told, or nobody was told of it. */
const hasNoMore = (mark: Mark | undefined) => mark !== undefined && (isWell(mark) ? mark.isTold : mark.was === 'warn' && !mark.isTold);

type RowNotice = Pick<DueNotice, 'step' | 'what'>;

function rowNotice(lane: Lane, status: Status, nowEpochMs: number): DueNotice | undefined {
  const mark = markOf(lane.told.get('row'));
  const due = (mark === undefined ? undefined : recovery(mark, lane.row, status)) ?? worsening(lane, mark, status, nowEpochMs);
  return due !== undefined && isOpen(mark, due.what, nowEpochMs) ? { subject: 'row', ...due } : undefined;
}

/** That the row has ended of which somebody was told. */
function recovery(mark: Mark, row: FailureRow | undefined, status: Status): RowNotice | undefined {
  const { was, since, what, isTold } = mark;
  // A delivery that was under way ends no disabling, and no operator's pause: only what was paused unasked is resumed unasked.
  if (isOf(mark, row) || status === 'disabled') return undefined;
  if (status === 'paused') return was === 'pause' || (was === 'resume' && !isTold) ? { step: 'recovered', what: `resume@${since}` } : undefined;
  if (row !== undefined || hasNoMore(mark)) return undefined;
  return { step: 'recovered', what: isWell(mark) ? what : `recovered@${since}` };
}

function worsening({ row, failures }: Lane, mark: Mark | undefined, status: Status, nowEpochMs: number): RowNotice | undefined {
  if (row === undefined) return undefined;
  const step = stepOf(row, failures, status);
  if (mark !== undefined && isOf(mark, row)) {
    // What was disabled or paused fails no more, and is not warned of again.
    if (rankOf(mark.was) > rankOf(step ?? 'warn')) return { step: mark.was as NoticeStep, what: mark.what };
  } else if (mark !== undefined && step !== undefined && isQuiet(mark, step, status, nowEpochMs)) return undefined;
  return step === undefined ? undefined : { step, what: `${step}@${row.sinceEpochMs}` };
}

const isOf = ({ since }: Mark, row: FailureRow | undefined) => since === String(row?.sinceEpochMs);

/** True where no more is to be told of a new row than of the one before it, which has hardly ended: an endpoint may be ill and well in turns. */
function isQuiet(mark: Mark, step: NoticeStep, status: Status, nowEpochMs: number): boolean {
  if (mark.was === 'disable' && status === 'disabled') return true;
  if (rankOf(step) > rankOf('alert') || nowEpochMs - mark.atEpochMs >= limits.quietMs) return false;
  return isWell(mark) || (mark.isTold && rankOf(mark.was) >= rankOf(step));
}

/** Set where an endpoint was paused because it did not answer: a ping that is answered ends that, and nobody else's pause. `sinceEpochMs`: of its row. */
export function pausedUnanswered({ told }: Pick<Lane, 'told'>): { readonly what: string; readonly sinceEpochMs: number } | undefined {
  const mark = markOf(told.get('row'));
  return mark?.was === 'pause' ? { what: mark.what, sinceEpochMs: Number(mark.since) } : undefined;
}

const ranks: readonly Mark['was'][] = ['warn', 'alert', 'disable', 'pause'];
const rankOf = (step: Mark['was']) => ranks.indexOf(step);

/**
 * The furthest step that a row has come to. One that an operator has disabled or paused goes no further. Its times are those of
 * attempts: how long nothing was tried says nothing of the endpoint.
 */
export function stepOf(row: FailureRow, failures: number, status: EndpointConfig['status']): NoticeStep | undefined {
  if (status === 'enabled' && failures >= limits.warnFrom && unansweredMs(row) >= limits.pauseAfterMs) return 'pause';
  // Of both: what was answered may be left of a row whose end an older version of the program has written.
  if (status === 'enabled' && Math.min(failures, row.answered) >= limits.disableFrom && answeredMs(row) >= limits.disableAfterMs) return 'disable';
  if (failures >= limits.alertFrom) return 'alert';
  return failures >= limits.warnFrom ? 'warn' : undefined;
}

const unansweredMs = ({ lastEpochMs, unansweredEpochMs }: FailureRow) => (unansweredEpochMs === undefined ? 0 : lastEpochMs - unansweredEpochMs);
const answeredMs = ({ sinceEpochMs, answeredEpochMs }: FailureRow) => (answeredEpochMs === undefined ? 0 : answeredEpochMs - sinceEpochMs);
