import { parseMessage } from '../shared/core/parse.ts';
import type { DeadRecord } from '../shared/core/record.ts';
import { readBodies, type Outcomes } from './move.ts';
import type { Outcome } from './tally.ts';
import type { ReplayDeps } from './types.ts';

/**
 * Messages that were malformed or in conflict go through the delivery queue again: this version may read them, or the record in their
 * way may have ended. A repeat is harmless, for the receive compares the generation.
 */
export async function sendBatchAgain(deps: ReplayDeps, batch: readonly DeadRecord[]): Promise<Outcomes> {
  const { bodies, outcomes } = await readBodies(deps, batch);
  await Promise.all(batch.map(async (record) => {
    const body = bodies.get(record.recordKey);
    if (body !== undefined) outcomes.set(record.recordKey, await send(deps, record, body));
  }));
  return outcomes;
}

async function send(deps: ReplayDeps, { generation }: DeadRecord, body: string): Promise<Outcome> {
  const parsed = parseMessage(body);
  try {
    await deps.sendAgain(body, parsed.ok ? parsed.message.endpointId : undefined, generation);
    return { kind: 'sentAgain' };
  } catch (error) {
    return { kind: 'busy', why: `could not be sent again: ${error instanceof Error ? error.message : String(error)}` };
  }
}
