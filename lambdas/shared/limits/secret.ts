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
