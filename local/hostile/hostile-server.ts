/** Starts a hostile behaviour on a port of its own. */
import type { SecureContextOptions } from 'node:tls';
import type { HostileBehaviour, Scheme } from './behaviour.ts';
import { redirectPath } from './behaviours-answers.ts';
import { behaviourNamed } from './behaviours.ts';
import type { Certificates } from './certificates.ts';
import { type Address, startBlackHole, startRefusing } from './no-listener.ts';
import { type ScriptedServer, startScripted } from './scripted-server.ts';

export interface HostileOptions {
  /** Needed on https. */
  readonly certificates?: Certificates;
  /** Default: https where the behaviour can be and there are certificates, else http. */
  readonly scheme?: Scheme;
  /** Address to listen on, and in the URL; default 127.0.0.1. */
  readonly host?: string;
}

/** What one connection sent. */
export interface Received {
  /** The first 64 KiB. */
  readonly prefix: Buffer;
  readonly bytes: number;
}

export interface HostileServer {
  readonly behaviour: HostileBehaviour;
  readonly scheme: Scheme;
  readonly port: number;
  /** Of the endpoint, with the path `/in`. */
  readonly url: string;
  /** Connections that were accepted: of a port that accepts none, 0. */
  connections(): number;
  /** By connection, in their order. */
  received(): readonly Received[];
  /** True once somebody asked for the address that a redirect named. */
  followed(): boolean;
  /** Ends all connections, and the helpers of ports that accept none. */
  close(): Promise<void>;
}

/** @throws Error if the behaviour is not known, or cannot be had on this scheme with what is given */
export async function startHostile(which: string | HostileBehaviour, options: HostileOptions = {}): Promise<HostileServer> {
  const behaviour = typeof which === 'string' ? behaviourNamed(which) : which;
  const scheme = schemeOf(behaviour, options);
  const host = options.host ?? '127.0.0.1';
  const server = await listen(behaviour, scheme, host, options.certificates);
  const peers = 'peers' in server ? server.peers : [];
  return {
    behaviour,
    scheme,
    port: server.port,
    url: `${scheme}://${host.includes(':') ? `[${host}]` : host}:${server.port}/in`,
    connections: () => peers.length,
    received: () => peers.map((peer) => ({ prefix: peer.received, bytes: peer.receivedBytes })),
    followed: () => peers.some((peer) => peer.received.includes(` ${redirectPath} `)),
    close: () => server.close(),
  };
}

function schemeOf(behaviour: HostileBehaviour, { scheme, certificates }: HostileOptions): Scheme {
  const { name, scheme: possible } = behaviour;
  const chosen = scheme ?? (possible !== 'both' ? possible : certificates === undefined ? 'http' : 'https');
  if (possible !== 'both' && possible !== chosen) throw new Error(`${name} can only be had on ${possible}`);
  return chosen;
}

async function listen(behaviour: HostileBehaviour, scheme: Scheme, host: string, certificates?: Certificates): Promise<Address | ScriptedServer> {
  const { listener = 'scripted', script = {} } = behaviour;
  switch (listener) {
    case 'refusing':
      return startRefusing(host);
    case 'blackHole':
      return startBlackHole(host);
    case 'withoutTls':
      return startScripted(script, { host });
    case 'scripted':
      return startScripted(script, { host, ...(scheme === 'https' ? { tls: await tlsOf(behaviour, certificates) } : {}) });
  }
}

async function tlsOf({ name, certificate = 'good', tlsVersion }: HostileBehaviour, certificates?: Certificates): Promise<SecureContextOptions> {
  if (certificates === undefined) throw new Error(`${name} on https needs certificates`);
  const pair = await certificates(certificate);
  if (tlsVersion === undefined) return pair;
  // OpenSSL has what these versions need at its lowest security level only.
  return { ...pair, minVersion: tlsVersion, maxVersion: tlsVersion, ciphers: 'DEFAULT@SECLEVEL=0' };
}
