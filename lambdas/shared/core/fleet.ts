import type { EndpointConfig } from '../limits/endpoint-schema.ts';

/** The switch of a whole installation: when sending was stopped, and started again. */
export interface Fleet {
  readonly pauses: EndpointConfig['pauses'];
}

export function isStopped({ pauses }: Fleet): boolean {
  return pauses.at(-1)?.toEpochMs === null;
}

/** An endpoint's configuration as the fleet's switch leaves it: while it is off, who is delivered to is paused. */
export function underFleet(config: EndpointConfig, fleet: Fleet): EndpointConfig {
  const status = config.status === 'enabled' && isStopped(fleet) ? 'paused' : config.status;
  return { ...config, status, pauses: [...config.pauses, ...fleet.pauses] };
}
