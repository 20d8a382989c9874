import { createHash } from 'node:crypto';
import { records } from '../limits/numbers.ts';

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest();

/** SHA-256 of the payload, base64url. */
export function hashOf(payload: Buffer): string {
  return sha256(payload).toString('base64url');
}

/** Short form of a payload hash that a claim carries, so that only a holder of the same payload speaks for it. */
export function shortHash(payloadHash: string): string {
  return payloadHash.slice(0, 8);
}

/** Claim key of an event: 12 bytes of a hash of its id, so that the lane item stays small whatever the id's length. */
export function claimKeyOf(eventId: string): string {
  return sha256(eventId).subarray(0, records.keyBytes).toString('base64url');
}

/** Stands for the endpoint in keys of messages in which none is legible; outside the alphabet of ids. */
export const noEndpoint = '?';

/** Key of a delivery's record. */
export function recordKeyOf(endpointId: string, claimKey: string): string {
  return `${endpointId}#${claimKey}`;
}

/** The endpoint of a record's key; `noEndpoint` where none was legible. */
export function endpointIdOfKey(recordKey: string): string {
  return recordKey.slice(0, recordKey.indexOf('#'));
}

/** Keys under which a message may have been buried by its body. */
export function syntheticKeysOf(endpointId: string, body: string): string[] {
  return [
    syntheticKeyOf(endpointId, 'conflict', body),
    syntheticKeyOf(endpointId, 'malformed', body),
    syntheticKeyOf(undefined, 'malformed', body),
  ];
}

/**
 * Key of the record of a message that has none of its own: malformed, or in conflict with the record of its event.
 * Made from the body, so that repeats of the message find it; the `!` is outside the alphabet of claim keys.
 */
export function syntheticKeyOf(endpointId: string | undefined, reason: string, body: string): string {
  return recordKeyOf(endpointId ?? noEndpoint, `!${reason}!${sha256(body).subarray(0, records.keyBytes).toString('base64url')}`);
}

/** True for a key that was made from a body: no claim ever covers it. */
export function isSyntheticKey(recordKey: string): boolean {
  return recordKey.includes('#!');
}
