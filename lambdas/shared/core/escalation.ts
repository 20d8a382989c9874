import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import { escalation as limits } from '../limits/numbers.ts';
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
  | 'recovered';

/** What a notice is about: each is told by itself. */
export const noticeSubjects = ['row', 'flag', 'gone'] as const;
export type NoticeSubject = (typeof noticeSubjects)[number];

/** That somebody is being told, or has been. */
export interface Told {
  /** Step, and since when what it is about: another of either is another notice. */
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

/** The notices that are to be told now; each is in the answer until it is told. `status`: of the endpoint, as far as it is known. */
export function dueNotices(lane: Lane, status: EndpointConfig['status'], nowEpochMs: number): DueNotice[] {
  if (lane.cfg === removedCfg) return [];
  const due: DueNotice[] = [];
  const row = rowNotice(lane, status);
  if (row !== undefined) due.push(row);
  if (lane.flag !== undefined) due.push({ subject: 'flag', step: 'refusing', what: `${lane.flag.why}@${lane.flag.sinceEpochMs}` });
  // Noted by who disabled it, in the same write.
  const gone = lane.told.get('gone');
  if (gone !== undefined) due.push({ subject: 'gone', step: 'gone', what: gone.what });
  return due.filter(({ subject, what }) => isOpen(lane.told.get(subject), what, nowEpochMs));
}

function isOpen(told: Told | undefined, what: string, nowEpochMs: number): boolean {
  if (told?.what !== what) return true;
  return !told.isTold && nowEpochMs - told.atEpochMs >= limits.claimMs;
}

function rowNotice({ row, failures, told }: Lane, status: EndpointConfig['status']): DueNotice | undefined {
  const before = told.get('row');
  const [was, since] = before?.what.split('@') ?? [];
  if (row === undefined) return before === undefined ? undefined : { subject: 'row', step: 'recovered', what: `recovered@${since ?? ''}` };
  const step = stepOf(row, failures, status);
  // What was disabled or paused fails no more, and is not warned of again.
  if (before !== undefined && since === String(row.sinceEpochMs) && ranks.indexOf(was as NoticeStep) > ranks.indexOf(step ?? 'warn')) return { subject: 'row', step: was as NoticeStep, what: before.what };
  return step === undefined ? undefined : { subject: 'row', step, what: `${step}@${row.sinceEpochMs}` };
}

/** Set where an endpoint was paused because it did not answer: a ping that is answered ends that, and nobody else's pause. */
export function pausedUnanswered({ told }: Pick<Lane, 'told'>): Told | undefined {
  const row = told.get('row');
  return row?.what.startsWith('pause@') === true ? row : undefined;
}

const ranks: readonly NoticeStep[] = ['warn', 'alert', 'disable', 'pause'];

/**
 * The furthest step that a row has come to. One that an operator has disabled or paused goes no further. Its times are those of
 * attempts: how long nothing was tried says nothing of the endpoint.
 */
export function stepOf(row: FailureRow, failures: number, status: EndpointConfig['status']): NoticeStep | undefined {
  if (status === 'enabled' && failures >= limits.warnFrom && unansweredMs(row) >= limits.pauseAfterMs) return 'pause';
  if (status === 'enabled' && row.answered >= limits.disableFrom && answeredMs(row) >= limits.disableAfterMs) return 'disable';
  if (failures >= limits.alertFrom) return 'alert';
  return failures >= limits.warnFrom ? 'warn' : undefined;
}

const unansweredMs = ({ lastEpochMs, unansweredEpochMs }: FailureRow) => (unansweredEpochMs === undefined ? 0 : lastEpochMs - unansweredEpochMs);
const answeredMs = ({ sinceEpochMs, answeredEpochMs }: FailureRow) => (answeredEpochMs === undefined ? 0 : answeredEpochMs - sinceEpochMs);
