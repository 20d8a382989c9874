/** What a header may be on the wire. For registration, and again before each send: a record may be older than the rule. */

/** RFC 9110, a token. */
export const headerNamePattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Visible ASCII and spaces: a line break would begin a header of the customer's own, and clients disagree about all else. */
export const headerValuePattern = /^[\x20-\x7e]*$/;

/** Why headers cannot be sent, or undefined. The value is left out: it may be a credential. */
export function headersProblem(headers: Readonly<Record<string, string>>): string | undefined {
  for (const [name, value] of Object.entries(headers)) {
    if (!headerNamePattern.test(name)) return `header ${JSON.stringify(name)}: is not a header name (RFC 9110 token)`;
    if (!headerValuePattern.test(value)) return `header ${name}: may hold visible ASCII and spaces only`;
  }
  return undefined;
}
