/** Server certificates with one flaw each. */
import { createIssuer, createSelfSigned, type Issuer, type KeyPair } from '../authority.ts';

export type CertificateKind = 'good' | 'expired' | 'notYetValid' | 'selfSigned' | 'wrongHost' | 'untrusted';

/** Gives the certificate of a kind, made at its first use. */
export type Certificates = (kind: CertificateKind) => Promise<KeyPair>;

/** Fixed dates: OpenSSL judges by the true clock, which a steered `Date` of this process may be far ahead of. */
const validity = { from: new Date('2024-01-01'), to: new Date('2045-01-01') };
const past = { from: new Date('2024-01-01'), to: new Date('2024-02-01') };
const future = { from: new Date('2044-01-01'), to: new Date('2045-01-01') };

/** @param issuer the authority that the sender trusts; what is signed by it is for localhost and 127.0.0.1 */
export function createCertificates(issuer: Issuer): Certificates {
  const makers: Readonly<Record<CertificateKind, () => Promise<KeyPair>>> = {
    good: () => issuer.issue({ validity }),
    expired: () => issuer.issue({ validity: past }),
    notYetValid: () => issuer.issue({ validity: future }),
    selfSigned: () => createSelfSigned({ validity }),
    wrongHost: () => issuer.issue({ validity, names: ['other.example'], addresses: ['127.0.0.99'] }),
    untrusted: async () => (await createIssuer()).issue({ validity }),
  };
  const made = new Map<CertificateKind, Promise<KeyPair>>();
  return (kind) => {
    const pair = made.get(kind) ?? makers[kind]();
    made.set(kind, pair);
    return pair;
  };
}
