import { attemptMessage } from '../../lambdas/shared/limits/log-queries.ts';
import { table, time } from './output.ts';

/** One line of a function's log, with everything that it says. */
export interface LogLine {
  readonly epochMs: number;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** @param fallbackEpochMs where the line itself does not say when. @returns undefined where it is no line of our logger */
export function parseLogLine(text: string, fallbackEpochMs?: number): LogLine | undefined {
  const fields = objectOf(text);
  if (fields === undefined || typeof fields['message'] !== 'string') return undefined;
  const said = typeof fields['timestamp'] === 'string' ? Date.parse(fields['timestamp']) : Number.NaN;
  const epochMs = Number.isNaN(said) ? fallbackEpochMs : said;
  return epochMs === undefined || Number.isNaN(epochMs) ? undefined : { epochMs, fields };
}

function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Oldest first, the newest `count` of them; lines of one millisecond stay as they came. */
export function newest(lines: readonly LogLine[], count: number): LogLine[] {
  return lines.toSorted((a, b) => a.epochMs - b.epochMs).slice(-count);
}

/** A line of text each. */
export function describeLines(lines: readonly LogLine[]): string {
  return table(['TIME', 'EVENT', 'ATTEMPT', 'WHAT', 'DETAIL', 'TOOK', 'STATE'], lines.map(rowOf));
}

function rowOf({ epochMs, fields }: LogLine): string[] {
  const isAttempt = fields['message'] === attemptMessage;
  const generation = Number(fields['generation'] ?? 0);
  const attempt = isAttempt ? `${textOf(fields['attempt'])}${generation > 0 ? ` (gen ${generation})` : ''}` : '-';
  const took = fields['durationMs'] === undefined || fields['durationMs'] === null ? '-' : `${textOf(fields['durationMs'])} ms`;
  const what = isAttempt ? textOf(fields['outcome']) : textOf(fields['message']);
  return [time(epochMs), textOf(fields['eventId']), attempt, what, isAttempt ? attemptDetail(fields) : eventDetail(fields), took, textOf(fields['state'])];
}

function attemptDetail({ detail, status, phase, cause, possibleDuplicate, source }: LogLine['fields']): string {
  const how = isSaid(detail) ? textOf(detail) : [status, phase, cause].filter(isSaid).map(textOf).join(' ');
  const notes = [...(possibleDuplicate === 1 ? ['possible duplicate'] : []), ...(source === 'held' ? ['from the hold'] : [])];
  return [how === '' ? '-' : how, ...notes].join(', ');
}

/** What every line has, and what has a column of its own. */
const shownElsewhere = new Set(['level', 'message', 'timestamp', 'service', 'sampling_rate', 'xray_trace_id', 'endpointId', 'eventId', 'durationMs', 'state']);
const epochSuffix = /EpochMs$/;

/** All that an event says, as it says it; a fault's error in words. */
function eventDetail({ errorName, errorMessage, ...fields }: LogLine['fields']): string {
  const fault = isSaid(errorName) || isSaid(errorMessage) ? [`${textOf(errorName)}: ${textOf(errorMessage)}`] : [];
  const said = Object.entries(fields)
    .filter(([name, value]) => !shownElsewhere.has(name) && isSaid(value))
    .map(([name, value]) => (epochSuffix.test(name) && isTime(value) ? `${name.replace(epochSuffix, '')}=${time(value)}` : `${name}=${textOf(value)}`));
  return [...fault, ...said].join(' ') || '-';
}

function isSaid(value: unknown): boolean {
  return value !== undefined && value !== null && value !== '';
}

/** Of what a calendar knows: an event may say that something never ends. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && !Number.isNaN(new Date(value).getTime());
}

function textOf(value: unknown): string {
  if (!isSaid(value)) return '-';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
