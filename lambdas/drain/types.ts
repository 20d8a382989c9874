import type { DeliverDeps } from '../deliver/types.ts';
import type { HeldIndex, Payloads } from '../shared/ports/index.ts';

/** The delivery flow, for what is held: a put-back leaves a delivery where it is. */
export interface DrainDeps extends DeliverDeps {
  readonly serves: 'held';
  readonly held: HeldIndex;
  readonly payloads: Payloads;
  /** Waits within a run; no slot is held meanwhile. */
  pause(ms: number): Promise<void>;
}
