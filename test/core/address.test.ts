import { describe, expect, it } from 'vitest';
import { addressProblem, destinationProblem, isSameAddress } from '../../lambdas/shared/core/address.ts';
import type { EgressRules } from '../../lambdas/shared/limits/egress.ts';

const publicOnly = { allow: [], deny: [] };

const refused: readonly (readonly [string, string])[] = [
  ['loopback', '127.0.0.1'],
  ['loopback, not the first', '127.255.255.254'],
  ['loopback IPv6', '::1'],
  ['loopback, mapped', '::ffff:127.0.0.1'],
  ['loopback, mapped, in hexadecimal', '::ffff:7f00:1'],
  ['loopback, IPv4-compatible', '::127.0.0.1'],
  ['loopback, IPv4-translated', '::ffff:0:127.0.0.1'],
  ['loopback through NAT64', '64:ff9b::7f00:1'],
  ['loopback through local NAT64', '64:ff9b:1::7f00:1'],
  ['loopback through 6to4', '2002:7f00:1::'],
  ['loopback in octal', '0177.0.0.1'],
  ['loopback as a number', '2130706433'],
  ['Teredo', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
  ['private 10/8', '10.1.2.3'],
  ['private 172.16/12', '172.31.255.255'],
  ['private 192.168/16', '192.168.0.1'],
  ['private, mapped', '::ffff:10.0.0.1'],
  ['link-local, EC2 metadata', '169.254.169.254'],
  ['link-local, ECS credentials', '169.254.170.2'],
  ['link-local, mapped', '::ffff:169.254.169.254'],
  ['link-local through NAT64', '64:ff9b::a9fe:a9fe'],
  ['link-local IPv6', 'fe80::1'],
  ['link-local IPv6 with a zone', 'fe80::1%eth0'],
  ['unique-local, EC2 metadata', 'fd00:ec2::254'],
  ['unique-local', 'fc00::1'],
  ['site-local', 'fec0::1'],
  ['carrier-grade NAT', '100.64.0.1'],
  ['carrier-grade NAT, last', '100.127.255.255'],
  ['multicast', '224.0.0.1'],
  ['multicast IPv6', 'ff02::1'],
  ['unspecified', '0.0.0.0'],
  ['this network', '0.1.2.3'],
  ['unspecified IPv6', '::'],
  ['broadcast', '255.255.255.255'],
  ['reserved', '240.0.0.1'],
  ['benchmarking', '198.18.0.1'],
  ['benchmarking, last', '198.19.255.255'],
  ['documentation 1', '192.0.2.1'],
  ['documentation 2', '198.51.100.7'],
  ['documentation 3', '203.0.113.5'],
  ['documentation IPv6', '2001:db8::1'],
  ['documentation IPv6, new', '3fff::1'],
  ['protocol assignments', '192.0.0.8'],
  ['6to4 anycast', '192.88.99.1'],
  ['discard', '100::1'],
  ['segment routing', '5f00::1'],
  ['ORCHID', '2001:20::1'],
  ['Azure host', '168.63.129.16'],
  ['a host name', 'localhost'],
  ['nothing', ''],
  ['an address with a port', '8.8.8.8:443'],
  ['an IPv6 address in brackets', '[2606:4700::1111]'],
];

describe('addressProblem', () => {
  it.each(refused)('refuses %s: %s', (_why, address) => {
    expect(addressProblem(address, publicOnly)).toEqual(expect.any(String));
  });

  it.each(['8.8.8.8', '1.1.1.1', '172.15.0.1', '172.32.0.1', '100.63.255.255', '100.128.0.1', '192.0.1.1', '198.17.0.1', '223.255.255.255', '169.253.1.1',
    '2606:4700::1111', '2a00:1450:4001:82a::200e', '2001:4860:4860::8888', '::ffff:8.8.8.8'])('lets public %s through', (address) => {
    expect(addressProblem(address, publicOnly)).toBeUndefined();
  });

  it('lets through what a block allows, and nothing beside it', () => {
    const allowed = { allow: ['127.0.0.0/8', '::1/128', '10.2.0.0/16'], deny: [] };
    expect(['127.0.0.1', '::1', '10.2.3.4', '::ffff:127.0.0.1', '8.8.8.8'].map((a) => addressProblem(a, allowed))).toEqual(Array(5).fill(undefined));
    for (const address of ['10.3.0.1', '169.254.169.254', '::', '::2', '2002:7f00:1::', '64:ff9b::7f00:1']) {
      expect(addressProblem(address, allowed)).toEqual(expect.any(String));
    }
  });

  it('refuses what a block denies, however the address is written, and whatever allows it', () => {
    const rules = { allow: ['127.0.0.0/8'], deny: ['8.8.8.0/24', '2606:4700::/32', '127.0.0.2/32'] };
    for (const address of ['8.8.8.8', '::ffff:8.8.8.8', '::ffff:808:808', '2606:4700::1111', '127.0.0.2']) {
      expect(addressProblem(address, rules)).toMatch(/^inside .* which this stage denies$/);
    }
    expect(['8.8.4.4', '2a00:1450:4001:82a::200e', '127.0.0.1'].map((a) => addressProblem(a, rules))).toEqual(Array(3).fill(undefined));
  });
});

describe('destinationProblem', () => {
  const rules = { allow: [], deny: ['8.8.4.0/24'], ports: [443, 8443], http: false };

  it.each<[string, Partial<EgressRules>, string | undefined]>([
    ['https://hooks.example.com/in', {}, undefined],
    ['https://hooks.example.com/in', { ports: [443] }, undefined],
    ['https://hooks.example.com:8443/in', {}, undefined],
    ['https://hooks.example.com:444/in', {}, 'must use port 443 or 8443, not 444: this stage allows no other'],
    ['https://hooks.example.com:444/in', { ports: [] }, undefined],
    ['http://hooks.example.com/in', {}, 'must be https, not http'],
    ['http://hooks.example.com/in', { http: true }, 'must use port 443 or 8443, not 80: this stage allows no other'],
    ['http://hooks.example.com/in', { http: true, ports: [] }, undefined],
    ['ftp://hooks.example.com/in', { http: true, ports: [] }, 'must be https or http, not ftp'],
    ['https://127.0.0.1/', {}, 'must not lead to 127.0.0.1: loopback'],
    ['https://127.0.0.1/', { allow: ['127.0.0.0/8'] }, undefined],
    // The URL parser has undone every disguise by then.
    ['https://0x7f.1/', {}, 'must not lead to 127.0.0.1: loopback'],
    ['https://2130706433/', {}, 'must not lead to 127.0.0.1: loopback'],
    ['https://0177.0.0.1./', {}, 'must not lead to 127.0.0.1: loopback'],
    ['https://[::ffff:a9fe:a9fe]/', {}, 'must not lead to ::ffff:a9fe:a9fe: linkLocal'],
    ['https://8.8.4.4/', {}, 'must not lead to 8.8.4.4: inside 8.8.4.0/24, which this stage denies'],
    ['https://8.8.8.8/', {}, undefined],
  ])('%s under %o: %s', (url, more, problem) => {
    expect(destinationProblem(new URL(url), { ...rules, ...more })).toBe(problem);
  });
});

describe('isSameAddress', () => {
  it.each<[string, string, boolean]>([
    ['127.0.0.1', '127.0.0.1', true],
    // As a socket of IPv6 names a peer of IPv4, and as a resolver may have written it.
    ['::ffff:127.0.0.1', '127.0.0.1', true],
    ['::ffff:127.0.0.1', '::ffff:7f00:1', true],
    ['2606:4700::1111', '2606:4700:0:0:0:0:0:1111', true],
    ['2606:4700::a', '2606:4700::A', true],
    ['127.0.0.1', '127.0.0.2', false],
    ['::1', '127.0.0.1', false],
    // A socket that is gone by now has no peer.
    ['', '127.0.0.1', false],
    ['127.0.0.1', '', false],
    ['', '', false],
  ])('of %j and %j is %s', (one, other, same) => {
    expect(isSameAddress(one, other)).toBe(same);
  });
});
