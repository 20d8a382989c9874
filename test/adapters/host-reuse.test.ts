import { describe, expect, it } from 'vitest';
import { HostReuse } from '../../lambdas/shared/adapters/host-reuse.ts';

describe('HostReuse', () => {
  it('counts the requests to each host, and those of them over a socket that was used before', () => {
    const reuse = new HostReuse(10);
    for (const [host, reused] of [['a:443', false], ['a:443', true], ['b:443', false], ['a:443', true]] as const) reuse.count(host, reused);
    expect(reuse.byHost()).toEqual({ 'a:443': { requests: 3, reused: 2 }, 'b:443': { requests: 1, reused: 0 } });
  });

  it('forgets the host asked for longest ago when there are too many', () => {
    const reuse = new HostReuse(2);
    for (const host of ['a', 'b', 'a', 'c']) reuse.count(host, false);
    expect(reuse.byHost()).toEqual({ a: { requests: 2, reused: 0 }, c: { requests: 1, reused: 0 } });
    for (let i = 0; i < 1_000; i++) reuse.count(`h${i}`, true);
    expect(reuse.byHost()).toEqual({ h998: { requests: 1, reused: 1 }, h999: { requests: 1, reused: 1 } });
  });
});
