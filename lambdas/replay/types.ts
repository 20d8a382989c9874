import type { Clock, DeadIndex, Endpoints, Lanes, Payloads, Random, Records, Replays, Telemetry } from '../shared/ports/index.ts';

export interface ReplayDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  pause(ms: number): Promise<unknown>;
  readonly dead: DeadIndex;
  readonly records: Pick<Records, 'read'>;
  readonly payloads: Payloads;
  readonly endpoints: Endpoints;
  readonly lanes: Pick<Lanes, 'reapClaim'>;
  readonly replays: Replays;
  /** Wakes the drain now. Rejects if that is not known to be ordered. */
  wake(endpointId: string): Promise<void>;
  /** Sends a message again, as one of this generation. Rejects if it is not known to be sent. */
  sendAgain(body: string, groupId: string | undefined, generation: number): Promise<void>;
}
