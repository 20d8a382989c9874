import type { Endpoint, Endpoints } from '../shared/ports/index.ts';
import type { EndpointCache } from './types.ts';

/**
 * Configuration of the endpoints that this environment has seen. It needs no expiry: the admission write compares the
 * version, so a stale entry is found out by the next delivery. Bounded; the entry used longest ago goes first.
 */
export function createEndpointCache(endpoints: Endpoints, maxEntries: number): EndpointCache {
  const cached = new Map<string, Endpoint>();

  const keep = (endpointId: string, endpoint: Endpoint | undefined): Endpoint | undefined => {
    cached.delete(endpointId);
    if (endpoint === undefined) return undefined;
    cached.set(endpointId, endpoint);
    const oldest = cached.size > maxEntries ? cached.keys().next().value : undefined;
    if (oldest !== undefined) cached.delete(oldest);
    return endpoint;
  };
  const refresh = async (endpointId: string) => keep(endpointId, await endpoints.read(endpointId));

  return {
    refresh,
    get: async (endpointId) => {
      const endpoint = cached.get(endpointId);
      // One that is not delivered to is read anew: nothing but a read would ever find it enabled again.
      return endpoint?.config.status === 'enabled' ? keep(endpointId, endpoint) : refresh(endpointId);
    },
  };
}
