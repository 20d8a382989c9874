import { isStopped, underFleet, type Fleet } from '../shared/core/fleet.ts';
import { perObject } from '../shared/core/per-object.ts';
import type { EndpointConfig } from '../shared/limits/endpoint-schema.ts';
import { fleet as limits } from '../shared/limits/numbers.ts';
import type { Clock, StoredEndpoint, Telemetry } from '../shared/ports/index.ts';
import type { EndpointCache } from './types.ts';

/**
 * Endpoints as the installation's switch leaves them: while it is off, all are paused. Looked at every few seconds; where it cannot
 * be read, what was last known holds.
 */
export function underSwitch(endpoints: EndpointCache, read: () => Promise<Fleet>, clock: Clock, telemetry: Pick<Telemetry, 'fault'>): EndpointCache {
  let looked = { ms: -Infinity, epochMs: -Infinity };
  let last: Promise<View> = Promise.resolve(viewOf({ pauses: [] }));
  const view = (): Promise<View> => {
    const now = { ms: clock.monotonicMs(), epochMs: clock.nowEpochMs() };
    // By either clock: one that was set back must not keep it from looking.
    if (Math.max(now.ms - looked.ms, now.epochMs - looked.epochMs) < limits.lookMs) return last;
    looked = now;
    const before = last;
    last = read().then(
      async (fleet) => ((await before).isOf(fleet) ? before : viewOf(fleet)),
      (error: unknown) => {
        telemetry.fault('switch-unread', error);
        return before;
      },
    );
    return last;
  };
  const seen = async (reading: Promise<StoredEndpoint | undefined>) => {
    const [endpoint, { of }] = await Promise.all([reading, view()]);
    return endpoint?.config === undefined ? endpoint : { ...endpoint, config: of(endpoint.config) };
  };
  return { get: (endpointId) => seen(endpoints.get(endpointId)), refresh: (endpointId) => seen(endpoints.refresh(endpointId)) };
}

interface View {
  /** The same object for the same configuration: what is derived from it is kept with it. */
  readonly of: (config: EndpointConfig) => EndpointConfig;
  readonly isOf: (fleet: Fleet) => boolean;
}

function viewOf(fleet: Fleet): View {
  return {
    of: fleet.pauses.length === 0 ? (config) => config : perObject((config: EndpointConfig) => underFleet(config, fleet)),
    isOf: (other) => other.pauses.length === fleet.pauses.length && isStopped(other) === isStopped(fleet),
  };
}
