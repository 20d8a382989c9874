import type { Remembered } from '../core/attention.ts';
import type { Lane } from '../core/lane.ts';
import type { EndedWindow } from '../core/statistics.ts';

/** An endpoint's lane, as the sweep reads it. */
export interface SeenLane {
  readonly endpointId: string;
  readonly lane: Lane;
}

/** What the run before has left. */
export interface Memory {
  readonly endpoints: ReadonlyMap<string, Remembered>;
  /** Rises with every write. */
  readonly version: number;
}

/** What the sweep looks at to find endpoints that need somebody. Each rejects where it cannot be read or written. */
export interface Attention {
  /** All lanes, page by page; eventually consistent. `unreadable`: those of a page that are no lanes, by what was wrong with them. */
  lanes(): AsyncIterable<{ readonly lanes: readonly SeenLane[]; readonly unreadable: ReadonlyMap<string, unknown> }>;
  /** When the delivery was sent that is held and due first; undefined where nothing is held, or it is just leaving. */
  heldSince(endpointId: string): Promise<number | undefined>;
  /** By endpoint, since when its oldest delivery is unknown; of the oldest few hundred of the installation. */
  unknownSince(): Promise<ReadonlyMap<string, number>>;
  remembered(): Promise<Memory>;
  /** Writes what is to be remembered, if it is still that of `from`; false where another run was quicker. */
  remember(all: Memory['endpoints'], from: Memory): Promise<boolean>;
}

/** Windows that have ended, by endpoint, kept for weeks (T11). */
export interface Windows {
  put(endpointId: string, window: EndedWindow): Promise<void>;
  /** The newest first. */
  newest(endpointId: string, limit: number): Promise<EndedWindow[]>;
}
