import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { claimKeyOf, hashOf, shortHash } from '../../lambdas/shared/core/keys.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import type { Embedded } from './embedded.ts';

export interface Occupation {
  readonly endpointId: string;
  readonly eventId: string;
  /** The bytes that the claim speaks for; default: those of messageBody. */
  readonly payload?: string;
  readonly expiresEpochMs: number;
}

/** Takes one slot of a lane, as a worker would that is not there, with the claim of one event. @returns gives it back. */
export async function occupySlot(embedded: Embedded, { endpointId, eventId, payload = '{"n":1}', expiresEpochMs }: Occupation): Promise<() => Promise<void>> {
  const lanes = createDynamoDbLanes(embedded.db, { endpoints: embedded.output(outputs.endpointsTable), deliveries: embedded.output(outputs.deliveriesTable) });
  const cfg = (await embedded.registry.get(endpointId))?.endpoint.version ?? '';
  const [leaseId, claimKey] = [`held-${endpointId}`, claimKeyOf(eventId)];
  const wanted = [{ claimKey, shortHash: shortHash(hashOf(Buffer.from(payload))) }];
  const answer = await lanes.admit({ endpointId, cfg, leaseId, expiresEpochMs, wanted });
  if (answer.kind !== 'granted') throw new Error(`the slot of ${endpointId}: ${answer.kind}`);
  return async () => {
    const given = await lanes.giveBack({ endpointId, leaseId, expiresEpochMs, slots: 1, release: [claimKey], keep: [], successes: 0, failures: 0 });
    if (given !== 'done') throw new Error(`the slot of ${endpointId}: ${given}`);
  };
}
