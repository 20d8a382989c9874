/** What a stage lets its senders reach, beside what the egress guard always refuses (T8). Stage configuration; in the function's environment and in the stack's outputs as JSON. */
export interface EgressRules {
  /** CIDR blocks that are let through although they are not public unicast. Default none; a stage for AWS cannot open loopback or private space. */
  readonly allow: readonly string[];
  /** CIDR blocks that are refused although they are public; wins over `allow`. Default none. */
  readonly deny: readonly string[];
  /** Ports that endpoints may use; empty, the default, means any. */
  readonly ports: readonly number[];
  /** True where plain http is allowed beside https. Default false. */
  readonly http: boolean;
}

export const defaultEgress: EgressRules = { allow: [], deny: [], ports: [], http: false };

const defaultPorts: Readonly<Record<string, number>> = { 'https:': 443, 'http:': 80 };

/** The port that a URL leads to, named or not. */
export function portOf({ protocol, port }: URL): number {
  return port === '' ? (defaultPorts[protocol] ?? 0) : Number(port);
}

/** Why a stage's rules forbid a URL whatever its host resolves to, or undefined. For registration, and again before each send. */
export function urlProblem(url: URL, rules: EgressRules): string | undefined {
  if (url.protocol !== 'https:' && !(rules.http && url.protocol === 'http:')) {
    const allowed = rules.http ? 'https or http' : 'https';
    return `must be ${allowed}, not ${url.protocol.slice(0, -1)}`;
  }
  const port = portOf(url);
  if (rules.ports.length > 0 && !rules.ports.includes(port)) return `must use port ${rules.ports.join(' or ')}, not ${port}: this stage allows no other`;
  return undefined;
}
