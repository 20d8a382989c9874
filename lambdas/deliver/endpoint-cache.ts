import type { Endpoint, Endpoints, StoredEndpoint } from '../shared/ports/index.ts';
import type { EndpointCache } from './types.ts';

/** An endpoint that is delivered to. */
type EnabledEndpoint = Endpoint & { readonly config: { readonly status: 'enabled' } };

/** False for one that does not exist, is disabled, or whose stored configuration cannot be used. */
export function isEnabled(endpoint: StoredEndpoint | undefined): endpoint is EnabledEndpoint {
  return endpoint?.config?.status === 'enabled';
}

/** True for one whose deliveries are kept until it is resumed. */
export function isPaused(endpoint: StoredEndpoint | undefined): boolean {
  return endpoint?.config?.status === 'paused';
}

/**
 * Configuration of the endpoints that this environment has seen. It needs no expiry: the admission write compares the
 * version, so a stale entry is found out by the next delivery. Bounded; the entry used longest ago goes first.
 */
export function createEndpointCache(endpoints: Endpoints, maxEntries: number): EndpointCache {
  const cached = new Map<string, StoredEndpoint>();

  const keep = (endpointId: string, endpoint: StoredEndpoint | undefined): StoredEndpoint | undefined => {
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
      // One that is not delivered to is read anew: nothing but a read would ever find it enabled or repaired.
      return isEnabled(endpoint) ? keep(endpointId, endpoint) : refresh(endpointId);
    },
  };
}
