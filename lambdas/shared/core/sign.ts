import { createHmac } from 'node:crypto';
import { parseSecret } from '../limits/secret.ts';

export type Signed = { ok: true; signature: string } | { ok: false; problem: string };

/**
 * The `webhook-signature` header of Standard Webhooks: HMAC-SHA256 over `id.timestamp.payload`, one signature a secret,
 * in the order of the secrets (newest first). Made at send time, so that a late retry carries a fresh timestamp (R6).
 */
export function signStandard(secrets: readonly string[], id: string, timestampEpochS: number, payload: Buffer): Signed {
  const signatures: string[] = [];
  for (const text of secrets) {
    const parsed = parseSecret(text);
    if (!parsed.ok) return { ok: false, problem: `signing secret ${parsed.problem}` };
    const hmac = createHmac('sha256', parsed.key).update(`${id}.${timestampEpochS}.`).update(payload);
    signatures.push(`v1,${hmac.digest('base64')}`);
  }
  return signatures.length === 0 ? { ok: false, problem: 'no signing secret' } : { ok: true, signature: signatures.join(' ') };
}
