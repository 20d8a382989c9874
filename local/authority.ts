import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import selfsigned from 'selfsigned';

/** A certificate with its private key, both PEM. */
export interface KeyPair {
  readonly key: string;
  readonly cert: string;
}

/** What a server certificate says. */
export interface Leaf {
  /** Host names it is for; default `localhost`. */
  readonly names?: readonly string[];
  /** Addresses it is for; default 127.0.0.1. */
  readonly addresses?: readonly string[];
  /** Default: a year from now. */
  readonly validity?: { readonly from: Date; readonly to: Date };
}

/** A certificate authority whose key stays in this object. */
export interface Issuer {
  readonly ca: string;
  issue(leaf?: Leaf): Promise<KeyPair>;
}

/** A certificate authority that lives as long as this process, and a server certificate of it for loopback. */
export interface Authority extends Issuer, KeyPair {
  readonly caFile: string;
}

const common = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;

/** Makes both and writes the authority's certificate to `caFile`; its key is never written anywhere. */
export async function createAuthority(caFile: string): Promise<Authority> {
  const issuer = await createIssuer();
  const leaf = await issuer.issue();
  writeFileSync(caFile, `${issuer.ca.trimEnd()}\n`);
  return { caFile, ...issuer, ...leaf };
}

/** An authority that nobody trusts yet. */
export async function createIssuer(): Promise<Issuer> {
  // OpenSSL looks an issuer up by its name: two authorities of one name in a trust file would hide each other.
  const ca = await selfsigned.generate([{ name: 'commonName', value: `Sluice local CA ${randomUUID()}` }], {
    ...common,
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return { ca: ca.cert, issue: (leaf = {}) => certify(leaf, { key: ca.private, cert: ca.cert }) };
}

/** A server certificate that vouches for itself. */
export function createSelfSigned(leaf: Leaf = {}): Promise<KeyPair> {
  return certify(leaf);
}

async function certify(leaf: Leaf, ca?: KeyPair): Promise<KeyPair> {
  const { names = ['localhost'], addresses = ['127.0.0.1'], validity } = leaf;
  const pair = await selfsigned.generate([{ name: 'commonName', value: 'localhost' }], {
    ...common,
    ...(ca === undefined ? {} : { ca }),
    ...(validity === undefined ? {} : { notBeforeDate: validity.from, notAfterDate: validity.to }),
    extensions: [
      { name: 'basicConstraints', cA: false },
      { name: 'subjectAltName', altNames: [...names.map((value) => ({ type: 2 as const, value })), ...addresses.map((ip) => ({ type: 7 as const, ip }))] },
      { name: 'extKeyUsage', serverAuth: true },
    ],
  });
  return { key: pair.private, cert: pair.cert };
}
