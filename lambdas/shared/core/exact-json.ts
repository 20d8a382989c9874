import type { JsonPath } from '../limits/json-path.ts';

/**
 * JSON whose numbers are what they say: 7615917337495251231 and …232 are one and the same to JSON.parse, and two amounts to a
 * customer.
 */
export type ExactJson = null | boolean | string | ExactNumber | readonly ExactJson[] | { readonly [name: string]: ExactJson };

/** Exact as a number of JavaScript, with room for the length of the digits. */
const maxExponentLength = 14;

class ExactNumber {
  /** Sign, digits without zeros at either end, and the power of ten of the last of them: one text for each number. */
  readonly text: string;
  /** As it was written. */
  readonly source: string;

  constructor(source: string) {
    this.source = source;
    const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? [];
    const digits = (whole + fraction).replace(/^0+/, '');
    let end = digits.length;
    // A pattern anchored at the end would try each zero anew.
    while (digits[end - 1] === '0') end--;
    const significant = digits.slice(0, end);
    // Nobody means such a power: then it is what is written.
    if (exponent.length > maxExponentLength) this.text = source;
    else this.text = significant === '' ? '0' : `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - end}`;
  }
}

/** Undefined where the text is no JSON, names a member of an object twice, or is nested so deeply that nobody meant it. */
export function parseExactJson(text: string): { readonly value: ExactJson } | undefined {
  let members = 0;
  try {
    const value: unknown = JSON.parse(text, function (this: unknown, _name, found: unknown, context?: { source?: string }) {
      if (!Array.isArray(this)) members++;
      return typeof found === 'number' ? new ExactNumber(context?.source ?? String(found)) : found;
    });
    // The value itself is visited as a member too. Of two of one name JSON.parse takes the last, and others the first.
    return namesIn(text) === members - 1 ? { value: value as ExactJson } : undefined;
  } catch {
    return undefined;
  }
}

/** Names of members in a text that is JSON: strings with a colon behind them. */
function namesIn(text: string): number {
  let names = 0;
  for (const [, colon] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/gs)) names += Number(colon !== undefined);
  return names;
}

/** What stands at a path; undefined where there is nothing. */
export function atPath(value: ExactJson, path: JsonPath): ExactJson | undefined {
  let at: ExactJson | undefined = value;
  for (const step of path) {
    if (at === null || typeof at !== 'object' || at instanceof ExactNumber || Array.isArray(at) !== (typeof step === 'number')) return undefined;
    if (!Object.hasOwn(at, step)) return undefined;
    at = (at as { readonly [name: string | number]: ExactJson })[step];
  }
  return at;
}

/** True where both say the same: numbers by their value, objects whatever the order of their members. A text is never a number. */
export function isSameJson(one: ExactJson, other: ExactJson): boolean {
  if (one === null || other === null || typeof one !== 'object' || typeof other !== 'object') return one === other;
  if (one instanceof ExactNumber || other instanceof ExactNumber) return one instanceof ExactNumber && other instanceof ExactNumber && one.text === other.text;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const [members, others] = [Object.entries(one), other as { readonly [name: string]: ExactJson }];
  return members.length === Object.keys(other).length && members.every(([name, value]) => Object.hasOwn(others, name) && isSameJson(value, others[name] as ExactJson));
}

/** A text, or a number as it is written, as which an id may come; undefined for all else. */
export function idText(value: ExactJson | undefined): string | undefined {
  return value instanceof ExactNumber ? value.source : typeof value === 'string' ? value : undefined;
}

/** In a few words, for a person. */
export function shownJson(value: ExactJson | undefined, maxLength: number): string {
  if (value === undefined) return 'nothing';
  // Of arrays and objects only the kind: a deep one would overflow the stack.
  const text = value instanceof ExactNumber ? value.source : Array.isArray(value) ? 'an array' : typeof value === 'object' && value !== null ? 'an object' : JSON.stringify(value);
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).toWellFormed()}…`;
}
