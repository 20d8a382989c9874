const crockford = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** A ULID: 48 bits of time and 80 of chance (10 bytes), so that versions sort by time and never come twice. */
export function ulid(epochMs: number, random: Uint8Array): string {
  let bits = BigInt(Math.floor(epochMs));
  for (const byte of random.subarray(0, 10)) bits = (bits << 8n) | BigInt(byte);
  let text = '';
  for (let i = 0; i < 26; i++) {
    text = crockford.charAt(Number(bits & 31n)) + text;
    bits >>= 5n;
  }
  return text;
}
