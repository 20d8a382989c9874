import { endpoint } from './numbers.ts';

const prefix = 'whsec_';

export type ParsedSecret = { ok: true; secret: string; key: Buffer } | { ok: false; problem: string };

/**
 * Reads a Standard Webhooks secret: `whsec_` and canonical base64 of 24–64 bytes. White space around it is trimmed, for
 * that is how secrets get pasted; any other prefix is refused rather than stripped, since the receiver would not strip
 * it. The problem never quotes the secret.
 */
export function parseSecret(text: string): ParsedSecret {
  const secret = text.trim();
  if (!secret.startsWith(prefix)) return { ok: false, problem: `must start with ${prefix} (nothing before it)` };
  const encoded = secret.slice(prefix.length);
  const key = Buffer.from(encoded, 'base64');
  if (key.toString('base64') !== encoded) return { ok: false, problem: `must be canonical base64 after ${prefix}` };
  if (key.length < endpoint.minSecretBytes || key.length > endpoint.maxSecretBytes) {
    return { ok: false, problem: `holds ${key.length} bytes; between ${endpoint.minSecretBytes} and ${endpoint.maxSecretBytes} are allowed` };
  }
  return { ok: true, secret, key };
}

/** Builds a secret from random bytes (24–64 of them). */
export function formatSecret(random: Buffer): string {
  return prefix + random.toString('base64');
}

/**
 * Reads the secret of a body HMAC: text of 1–256 bytes, whose UTF-8 bytes are the key, for that is what receivers take. One
 * line break at its end is removed, for that is how files end; other white space around it and control characters are refused
 * rather than guessed about. So is a Standard Webhooks secret: taken whole as a key, prefix and all, it verifies nowhere that
 * knows the prefix, and a mix-up of the two kinds is far more likely than a receiver that wants it so. The problem never quotes
 * the secret.
 */
export function parseBodySecret(text: string): ParsedSecret {
  const secret = text.replace(/\r?\n$/, '');
  const key = Buffer.from(secret, 'utf8');
  if (key.length < endpoint.minBodySecretBytes || key.length > endpoint.maxBodySecretBytes) {
    return { ok: false, problem: `holds ${key.length} bytes; between ${endpoint.minBodySecretBytes} and ${endpoint.maxBodySecretBytes} are allowed` };
  }
  if (/\p{Cc}/u.test(secret)) return { ok: false, problem: 'must not hold control characters, such as a line break' };
  if (secret !== secret.trim()) return { ok: false, problem: 'must not start or end with white space: it would be part of the key' };
  if (secret.startsWith(prefix)) return { ok: false, problem: `must not start with ${prefix}: such a secret belongs to the scheme "standard"` };
  return { ok: true, secret, key };
}

/** Builds the secret of a body HMAC from random bytes (at most 128 of them). */
export function formatBodySecret(random: Buffer): string {
  return random.toString('hex');
}
