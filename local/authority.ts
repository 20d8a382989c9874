import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import selfsigned from 'selfsigned';

/** A certificate authority that lives as long as this process, and a server certificate of it for loopback. */
export interface Authority {
  readonly caFile: string;
  readonly ca: string;
  readonly key: string;
  readonly cert: string;
}

/** Makes both and writes the authority's certificate to `caFile`; its key is never written anywhere. */
export async function createAuthority(caFile: string): Promise<Authority> {
  const common = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;
  // OpenSSL looks an issuer up by its name: two authorities of one name in a trust file would hide each other.
  const ca = await selfsigned.generate([{ name: 'commonName', value: `Sluice local CA ${randomUUID()}` }], {
    ...common,
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  const leaf = await selfsigned.generate([{ name: 'commonName', value: 'localhost' }], {
    ...common,
    ca: { key: ca.private, cert: ca.cert },
    extensions: [
      { name: 'basicConstraints', cA: false },
      { name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }, { type: 7, ip: '127.0.0.1' }] },
      { name: 'extKeyUsage', serverAuth: true },
    ],
  });
  writeFileSync(caFile, `${ca.cert.trimEnd()}\n`);
  return { caFile, ca: ca.cert, key: leaf.private, cert: leaf.cert };
}
