import type { Lane } from '../core/lane.ts';
import type { EndpointConfig } from '../limits/endpoint-schema.ts';

/** How an endpoint stands, as its consumer may ask. */
export interface Standing {
  readonly lane: Lane;
  readonly status: EndpointConfig['status'];
  readonly maxPerDay: EndpointConfig['maxPerDay'];
}

/** What a consumer's question is answered from. Each rejects where it cannot be read. */
export interface Standings {
  /** Of the token that an endpoint is asked with; undefined where none was made. */
  tokenHash(endpointId: string): Promise<string | undefined>;
  /** Undefined of an endpoint that there is not. */
  read(endpointId: string): Promise<Standing | undefined>;
}
