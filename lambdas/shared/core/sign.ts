import { createHmac } from 'node:crypto';
import { bodySchemeOf, type EndpointConfig } from '../limits/endpoint-schema.ts';
import { headers as names } from '../limits/names.ts';
import { parseBodySecret, parseSecret } from '../limits/secret.ts';
import { perObject } from './per-object.ts';

export type Signed = { ok: true; signature: string } | { ok: false; problem: string };

/**
 * The `webhook-signature` header of Standard Webhooks: HMAC-SHA256 over `id.timestamp.payload`, one signature a secret,
 * in the order of the secrets (newest first). Made at send time, so that a late retry carries a fresh timestamp (R6).
 */
export function signStandard(secrets: readonly string[], id: string, timestampEpochS: number, payload: Buffer): Signed {
  const signatures: string[] = [];
  for (const parsed of parsedOf(secrets)) {
    if (!parsed.ok) return { ok: false, problem: `signing secret ${parsed.problem}` };
    const hmac = createHmac('sha256', parsed.key).update(`${id}.${timestampEpochS}.`).update(payload);
    signatures.push(`v1,${hmac.digest('base64')}`);
  }
  return signatures.length === 0 ? { ok: false, problem: 'no signing secret' } : { ok: true, signature: signatures.join(' ') };
}

const parsedOf = perObject((secrets: readonly string[]) => secrets.map(parseSecret));

/** What an endpoint's deliveries are signed with. */
export interface Signer {
  readonly signing: EndpointConfig['signing'];
  /** Of the scheme `standard`, newest first. */
  readonly secrets: readonly string[];
  /** Of the schemes that sign the body alone. */
  readonly bodySecret: string | undefined;
}

export type SignedHeaders = { ok: true; headers: Readonly<Record<string, string>> } | { ok: false; problem: string };

/**
 * The headers that identify and sign one attempt: id and timestamp always, for receivers drop repeats by them; then the
 * signature of each scheme. A secret that is missing or odd is a problem that no repeat would cure; it is never quoted.
 */
export function signatureHeaders(signer: Signer, id: string, timestampEpochS: number, body: Buffer): SignedHeaders {
  let headers: Record<string, string> = { [names.id]: id, [names.timestamp]: String(timestampEpochS) };
  let mac: Mac | undefined;
  for (const scheme of signer.signing) {
    const bodyScheme = bodySchemeOf(scheme);
    if (bodyScheme === undefined) {
      const signed = signStandard(signer.secrets, id, timestampEpochS, body);
      if (!signed.ok) return signed;
      headers[names.signature] = signed.signature;
      continue;
    }
    // One pass over the body, however many headers carry it.
    mac ??= macOf(signer.bodySecret, body);
    if (!mac.ok) return mac;
    // Not assigned: a header may be named __proto__.
    headers = { ...headers, [bodyScheme.header]: bodyScheme.prefix + mac.digest.toString(bodyScheme.encoding) };
  }
  return { ok: true, headers };
}

type Mac = { ok: true; digest: Buffer } | { ok: false; problem: string };

function macOf(bodySecret: string | undefined, body: Buffer): Mac {
  if (bodySecret === undefined) return { ok: false, problem: 'no body secret' };
  const parsed = parseBodySecret(bodySecret);
  if (!parsed.ok) return { ok: false, problem: `body secret ${parsed.problem}` };
  return { ok: true, digest: createHmac('sha256', parsed.key).update(body).digest() };
}
