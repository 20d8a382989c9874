import { hints as limits } from '../limits/numbers.ts';

/** What an answer says, in its headers, of when to come again: as text, for a header may say anything. */
export interface Hints {
  readonly retryAfter?: string;
  readonly rateLimitReset?: string;
}

/** Answers whose hints are honoured (R5). */
const hinting: ReadonlySet<number> = new Set([429, 503]);

/** What an answer to a request that came too often, or at a bad time, may say in its headers. A header that came more than once says nothing. */
export function hintsOf(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): Hints | undefined {
  if (!hinting.has(status)) return undefined;
  const text = (name: string) => {
    const value = headers[name];
    return typeof value === 'string' && value.length <= limits.maxLength ? value : undefined;
  };
  const [retryAfter, rateLimitReset] = [text('retry-after'), text('x-ratelimit-reset')];
  if (retryAfter === undefined && rateLimitReset === undefined) return undefined;
  return { ...(retryAfter === undefined ? {} : { retryAfter }), ...(rateLimitReset === undefined ? {} : { rateLimitReset }) };
}

/**
 * How long an endpoint asks to be left alone, in milliseconds from now; undefined where it does not say, or says it in no form
 * that there is: that is not zero. What lies in the past is zero. Never negative or NaN, and never beyond `mostMs`.
 */
export function hintedMs(hints: Hints | undefined, mostMs: number, nowEpochMs: number): number | undefined {
  const wanted = retryAfterMs(hints?.retryAfter, nowEpochMs) ?? resetMs(hints?.rateLimitReset, nowEpochMs);
  return wanted === undefined ? undefined : Math.min(mostMs, Math.max(0, wanted));
}

/**
 * The wait before the next attempt where the endpoint asked for `hintMs`: a little longer, so that not all come at once. At most
 * `capMs`, that included. `random` is in [0, 1).
 */
export function hintedWaitMs(hintMs: number, capMs: number, random: number): number {
  const jitterMs = limits.jitterMinMs + random * (limits.jitterMaxMs - limits.jitterMinMs);
  return Math.round(Math.min(capMs, Math.min(hintMs, Math.max(0, capMs - limits.jitterMaxMs)) + jitterMs));
}

/** Retry-After (RFC 9110, section 10.2.3): whole seconds, or an HTTP date. */
function retryAfterMs(text: string | undefined, nowEpochMs: number): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1_000;
  const atEpochMs = httpDateEpochMs(text, nowEpochMs);
  return atEpochMs === undefined ? undefined : atEpochMs - nowEpochMs;
}

/** X-RateLimit-Reset has no standard: seconds or milliseconds since the epoch, or seconds from now, told apart by their size. */
function resetMs(text: string | undefined, nowEpochMs: number): number | undefined {
  if (text === undefined || !/^\d+(\.\d+)?$/.test(text)) return undefined;
  const value = Number(text);
  if (value >= limits.epochMsFrom) return value - nowEpochMs;
  return value >= limits.epochSFrom ? value * 1_000 - nowEpochMs : value * 1_000;
}

const days = { short: 'Mon|Tue|Wed|Thu|Fri|Sat|Sun', long: 'Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday' };
const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const time = '(?<hour>\\d{2}):(?<minute>\\d{2}):(?<second>\\d{2})';
const month = `(?<month>${months.join('|')})`;

/** The three forms of an HTTP date (RFC 9110, section 5.6.7), the two old ones included. */
const forms = [
  new RegExp(`^(?:${days.short}), (?<day>\\d{2}) ${month} (?<year>\\d{4}) ${time} GMT$`),
  new RegExp(`^(?:${days.long}), (?<day>\\d{2})-${month}-(?<year>\\d{2}) ${time} GMT$`),
  new RegExp(`^(?:${days.short}) ${month} (?<day>[ \\d]\\d) ${time} (?<year>\\d{4})$`),
];

/** Undefined for anything else: what `Date.parse` takes besides is a guess. */
function httpDateEpochMs(text: string, nowEpochMs: number): number | undefined {
  const parts = forms.map((form) => form.exec(text)?.groups).find((groups) => groups !== undefined);
  if (parts === undefined) return undefined;
  const of = (name: string) => Number(parts[name]);
  const year = fullYear(parts['year'] ?? '', nowEpochMs);
  const monthOfYear = months.indexOf(parts['month'] ?? '') + 1;
  // A leap second is part of the form.
  if (of('day') < 1 || of('day') > daysIn(year, monthOfYear) || of('hour') > 23 || of('minute') > 59 || of('second') > 60) return undefined;
  return ((daysSinceEpoch(year, monthOfYear, of('day')) * 24 + of('hour')) * 60 + of('minute')) * 60_000 + of('second') * 1_000;
}

/** Of two digits the year that is not more than 50 years ahead. */
function fullYear(digits: string, nowEpochMs: number): number {
  if (digits.length === 4) return Number(digits);
  const thisYear = 1970 + Math.floor(nowEpochMs / meanYearMs);
  const inThisCentury = thisYear - (thisYear % 100) + Number(digits);
  return inThisCentury > thisYear + 50 ? inThisCentury - 100 : inThisCentury;
}

const meanYearMs = 365.2425 * 86_400_000;

function daysIn(year: number, monthOfYear: number): number {
  if (monthOfYear === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return [4, 6, 9, 11].includes(monthOfYear) ? 30 : 31;
}

/** In the Gregorian calendar; years are counted from March, so that a leap day is a year's last. */
function daysSinceEpoch(year: number, monthOfYear: number, day: number): number {
  const years = monthOfYear > 2 ? year : year - 1;
  const leapDays = Math.floor(years / 4) - Math.floor(years / 100) + Math.floor(years / 400);
  const dayOfYear = Math.floor((153 * ((monthOfYear + 9) % 12) + 2) / 5) + day - 1;
  return years * 365 + leapDays + dayOfYear - daysToEpoch;
}

/** From the first of March of the year 0 to the epoch. */
const daysToEpoch = 719_468;
