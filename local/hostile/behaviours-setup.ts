/** Consumers to which no connection can be made, or not the one that was asked for. */
import type { HostileBehaviour } from './behaviour.ts';
import { ambiguous, unsent } from './outcomes.ts';
import { ok, response } from './writing.ts';

export const setupBehaviours: readonly HostileBehaviour[] = [
  {
    name: 'refused',
    summary: 'nothing listens on the port',
    scheme: 'both',
    listener: 'refusing',
    expected: [unsent('connect')],
  },
  {
    name: 'syn-black-hole',
    summary: 'drops the SYN: a connect neither succeeds nor fails',
    scheme: 'both',
    listener: 'blackHole',
    expected: [unsent('connect')],
  },
  {
    name: 'rst-on-accept',
    summary: 'resets the connection as soon as it is accepted',
    scheme: 'both',
    script: { onAccept: (raw) => raw.resetAndDestroy() },
    // The reset may be found by the connect, by the first write, or only once the small request is the kernel's.
    expected: [unsent('write'), unsent('connect'), ambiguous('write'), ambiguous('headers')],
    expectedOnHttps: [unsent('tls'), unsent('connect')],
  },
  {
    name: 'tls-stall',
    summary: 'accepts TCP and never answers the ClientHello',
    scheme: 'https',
    listener: 'withoutTls',
    script: { onConnect: ({ socket }) => void socket.pause() },
    expected: [unsent('tls')],
  },
  {
    name: 'tls-reset',
    summary: 'answers the ClientHello by RST',
    scheme: 'https',
    listener: 'withoutTls',
    script: { onBegin: (peer) => peer.reset() },
    expected: [unsent('tls')],
  },
  {
    name: 'plain-http',
    summary: 'speaks plain HTTP where the URL says https',
    scheme: 'https',
    listener: 'withoutTls',
    script: { onBegin: ({ socket }) => socket.end(response('400 Bad Request', 'TLS?', 'Connection: close\r\n')) },
    expected: [unsent('tls')],
  },
  ...([
    ['cert-expired', 'its certificate has expired', 'expired'],
    ['cert-not-yet-valid', 'its certificate is not valid yet', 'notYetValid'],
    ['cert-self-signed', 'its certificate vouches for itself', 'selfSigned'],
    ['cert-wrong-host', 'its certificate is for another host', 'wrongHost'],
    ['cert-untrusted', 'its certificate is of an authority that nobody trusts', 'untrusted'],
  ] as const).map(([name, summary, certificate]): HostileBehaviour => ({
    name,
    summary,
    scheme: 'https',
    certificate,
    script: { onRequest: ({ socket }) => void socket.write(ok) },
    expected: [unsent('tls')],
  })),
  ...([['tls-1.0', 'TLSv1'], ['tls-1.1', 'TLSv1.1']] as const).map(([name, tlsVersion]): HostileBehaviour => ({
    name: name.replace('.', '-'),
    summary: `speaks ${name.replace('tls-', 'TLS ')} only`,
    scheme: 'https',
    tlsVersion,
    script: { onRequest: ({ socket }) => void socket.write(ok) },
    expected: [unsent('tls')],
  })),
];
