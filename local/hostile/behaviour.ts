import type { CertificateKind } from './certificates.ts';
import type { Outcome } from './outcomes.ts';
import type { Script } from './peer.ts';

export type Scheme = 'http' | 'https';

/** What is there to connect to. */
export type Listener =
  /** Connections are handed to the script: after the TLS handshake on https. */
  | 'scripted'
  /** Connections are handed to the script as they are, even though the URL says https. */
  | 'withoutTls'
  /** Nothing listens on the port. */
  | 'refusing'
  /** SYNs are dropped. */
  | 'blackHole';

/** One way in which a consumer can be hostile, and what a sender owes in spite of it. */
export interface HostileBehaviour {
  /** Unique; fits an endpoint id. */
  readonly name: string;
  /** One line: what it does. */
  readonly summary: string;
  readonly scheme: Scheme | 'both';
  /** Default `scripted`. */
  readonly listener?: Exclude<Listener, 'scripted'>;
  readonly script?: Script;
  /** On https; default `good`. */
  readonly certificate?: CertificateKind;
  /** The only TLS version that it speaks; default: what Node offers. */
  readonly tlsVersion?: 'TLSv1' | 'TLSv1.1';
  /** Size of a request body with which it does what it says, in bytes; default: any. */
  readonly bodyBytes?: number;
  /** Owed for a first request: any one of these, where the timing of the wire allows more than one. */
  readonly expected: readonly Outcome[];
  /** Owed on https instead, where that differs. */
  readonly expectedOnHttps?: readonly Outcome[];
  /** Owed for a request smaller than `bodyBytes`, where that differs. */
  readonly expectedOfSmall?: readonly Outcome[];
  /** Owed for the requests after the first, where that differs. */
  readonly expectedLater?: readonly Outcome[];
}

/** What a sender owes in one case. @param nth of the request at this server, from 0 */
export function owedBy(behaviour: HostileBehaviour, request: { scheme: Scheme; bodyBytes: number; nth: number }): readonly Outcome[] {
  const { bodyBytes = 0, expected, expectedOnHttps, expectedOfSmall, expectedLater } = behaviour;
  if (request.nth > 0 && expectedLater !== undefined) return expectedLater;
  if (request.bodyBytes < bodyBytes && expectedOfSmall !== undefined) return expectedOfSmall;
  return request.scheme === 'https' ? (expectedOnHttps ?? expected) : expected;
}
