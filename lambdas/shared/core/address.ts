import ipaddr from 'ipaddr.js';
import { urlProblem, type EgressRules } from '../limits/egress.ts';

/** IPv6 blocks that carry an IPv4 address for a router to unwrap, or are otherwise no public destination. */
const refusedV6 = ['2002::/16', '2001::/23', '2001:db8::/32', '3fff::/20'];
/** All that is assigned for public IPv6 unicast; NAT64, IPv4-compatible and whatever comes next lie outside. */
const publicV6 = '2000::/3';
const refusedV4 = ['192.88.99.0/24', '192.0.0.0/24', '198.18.0.0/15', '168.63.129.16/32'];

/**
 * Why an address must not be dialled, or undefined if it may be: only public unicast may, unless the stage allows more or
 * less (T8). IPv4-mapped addresses are judged as the IPv4 address that the kernel would dial.
 */
export function addressProblem(text: string, { allow, deny }: Pick<EgressRules, 'allow' | 'deny'>): string | undefined {
  if (!ipaddr.isValid(text)) return 'not an IP address';
  const address = ipaddr.process(text);
  const denied = deny.find((block) => inBlock(address, block));
  if (denied !== undefined) return `inside ${denied}, which this stage denies`;
  if (allow.some((block) => inBlock(address, block))) return undefined;
  const range = address.range();
  if (range !== 'unicast') return range;
  if (address.kind() === 'ipv6' && !inBlock(address, publicV6)) return `outside ${publicV6}`;
  const refused = address.kind() === 'ipv6' ? refusedV6 : refusedV4;
  const block = refused.find((b) => inBlock(address, b));
  return block === undefined ? undefined : `inside ${block}`;
}

/**
 * Why an endpoint must not be registered with a URL, or undefined: the stage forbids it, or its host is an address that
 * would be refused at every send. A name is judged when it is resolved.
 */
export function destinationProblem(url: URL, rules: EgressRules): string | undefined {
  const problem = urlProblem(url, rules);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (problem !== undefined || !ipaddr.isValid(host)) return problem;
  const refusal = addressProblem(host, rules);
  return refusal === undefined ? undefined : `must not lead to ${host}: ${refusal}`;
}

/** True where both texts name one address: a peer is given as the kernel writes it, which may be IPv4-mapped. */
export function isSameAddress(one: string, other: string): boolean {
  return ipaddr.isValid(one) && ipaddr.isValid(other) && ipaddr.process(one).toString() === ipaddr.process(other).toString();
}

function inBlock(address: ipaddr.IPv4 | ipaddr.IPv6, block: string): boolean {
  const [base, bits] = ipaddr.parseCIDR(block);
  return base.kind() === address.kind() && address.match([base, bits] as [ipaddr.IPv4, number] & [ipaddr.IPv6, number]);
}
