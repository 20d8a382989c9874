/** at(), rate() and time zones of EventBridge Scheduler. cron() is not emulated. */
import { AwsError } from './emulator.ts';

const periodMs: Record<string, number> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };

const invalid = (message: string) => new AwsError('ValidationException', message);

/** Offset of a time zone at an instant, in milliseconds east of UTC. @throws AwsError for an unknown zone. */
function zoneOffsetMs(epochMs: number, timeZone: string): number {
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat('en-CA', {
      timeZone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit',
    });
  } catch {
    throw invalid(`Invalid ScheduleExpressionTimezone ${timeZone}.`);
  }
  const part = Object.fromEntries(format.formatToParts(epochMs).map(({ type, value }) => [type, Number(value)]));
  const local = Date.UTC(part['year'] ?? 0, (part['month'] ?? 1) - 1, part['day'], part['hour'], part['minute'], part['second']);
  return local - Math.floor(epochMs / 1000) * 1000;
}

/** The instant at which clocks in `timeZone` show `local`; in an hour that a zone skips, the one an hour later. */
export function zonedEpochMs(local: string, timeZone: string): number {
  const utcMs = Date.parse(`${local}Z`);
  // Date.parse rolls over a 30 February; an expression with one is a mistake.
  if (Number.isNaN(utcMs) || new Date(utcMs).toISOString().slice(0, 19) !== local) throw invalid(`Invalid Schedule Expression at(${local}).`);
  return utcMs - zoneOffsetMs(utcMs - zoneOffsetMs(utcMs, timeZone), timeZone);
}

export type Expression = { kind: 'at'; dueEpochMs: number } | { kind: 'rate'; everyMs: number };

/** @throws AwsError ValidationException, also for at() with milliseconds or a Z, which people write and AWS refuses. */
export function parseExpression(text: string, timeZone: string): Expression {
  const at = /^at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)$/.exec(text);
  if (at?.[1]) return { kind: 'at', dueEpochMs: zonedEpochMs(at[1], timeZone) };
  const rate = /^rate\((\d+) (minute|hour|day)(s?)\)$/.exec(text);
  const count = Number(rate?.[1]);
  if (rate?.[2] && count > 0) return { kind: 'rate', everyMs: count * (periodMs[rate[2]] ?? 0) };
  throw invalid(`Invalid Schedule Expression ${text}.`);
}

/** First time of a rate at or after `fromMs`, counted from `baseMs`. */
export function nextOfRate(baseMs: number, everyMs: number, fromMs: number): number {
  return baseMs + Math.max(1, Math.ceil((fromMs - baseMs) / everyMs)) * everyMs;
}
