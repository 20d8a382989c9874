import { describe, expect, it } from 'vitest';
import { createEndpointCache } from '../../lambdas/deliver/endpoint-cache.ts';
import type { StoredEndpoint } from '../../lambdas/shared/ports/index.ts';
import { endpointOf } from '../support/builders.ts';

function cacheOf(maxEntries = 10) {
  const stored = new Map<string, StoredEndpoint>();
  const reads: string[] = [];
  const read = (id: string) => {
    reads.push(id);
    return Promise.resolve(stored.get(id));
  };
  return { stored, reads, cache: createEndpointCache({ read }, maxEntries) };
}

describe('the endpoint cache', () => {
  it('reads an endpoint once, and anew when asked to', async () => {
    const { stored, reads, cache } = cacheOf();
    stored.set('a', endpointOf({ endpointId: 'a' }));
    for (let i = 0; i < 3; i++) expect(await cache.get('a')).toBe(stored.get('a'));
    expect(reads).toEqual(['a']);
    stored.set('a', endpointOf({ endpointId: 'a' }, 'V2'));
    expect((await cache.refresh('a'))?.version).toBe('V2');
    expect((await cache.get('a'))?.version).toBe('V2');
    expect(reads).toEqual(['a', 'a']);
  });

  it('caches neither a miss nor one that is not delivered to', async () => {
    const { stored, reads, cache } = cacheOf();
    stored.set('off', endpointOf({ endpointId: 'off', status: 'disabled' }));
    const { version, secrets, bodySecret } = endpointOf();
    stored.set('odd', { config: undefined, endpointId: 'odd', problem: 'url: is not a URL', document: {}, version, secrets, bodySecret });
    for (const id of ['none', 'none', 'off', 'off', 'odd', 'odd']) await cache.get(id);
    expect(reads).toEqual(['none', 'none', 'off', 'off', 'odd', 'odd']);
  });

  it('forgets what was removed', async () => {
    const { stored, cache } = cacheOf();
    stored.set('a', endpointOf({ endpointId: 'a' }));
    await cache.get('a');
    stored.delete('a');
    await cache.refresh('a');
    expect(await cache.get('a')).toBeUndefined();
  });

  it('is bounded: the entry used longest ago goes first', async () => {
    const { stored, reads, cache } = cacheOf(2);
    for (const id of ['a', 'b', 'c']) stored.set(id, endpointOf({ endpointId: id }));
    for (const id of ['a', 'b', 'a', 'c', 'a', 'b']) await cache.get(id);
    expect(reads).toEqual(['a', 'b', 'c', 'b']);
  });
});
