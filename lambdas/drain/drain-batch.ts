import type { Invocation } from '../deliver/types.ts';
import { idPattern } from '../shared/limits/message-schema.ts';
import { drainEndpoint } from './drain-endpoint.ts';
import type { DrainDeps } from './types.ts';

/** The endpoints of one batch of wake-ups, side by side. Never rejects: an endpoint whose run fails is found by the sweep. */
export async function drainBatch(deps: DrainDeps, bodies: readonly string[], invocation: Invocation): Promise<void> {
  const endpointIds = new Set(bodies.map((body) => endpointIdIn(deps, body)).filter((id) => id !== undefined));
  await Promise.all(
    [...endpointIds].map(async (endpointId) => {
      try {
        await drainEndpoint(deps, endpointId, invocation);
      } catch (error) {
        // Its lane says until when this run was to last: after that the sweep orders another.
        deps.telemetry.fault('drain-failed', error, { endpointId });
      }
    }),
  );
}

/** The drain queue is ours alone, but anyone who may write to it can. */
function endpointIdIn(deps: DrainDeps, body: string): string | undefined {
  try {
    const { endpointId } = JSON.parse(body) as { endpointId?: unknown };
    if (typeof endpointId === 'string' && idPattern.test(endpointId)) return endpointId;
  } catch {
    // Said below.
  }
  deps.telemetry.event('wake-up-malformed', { bytes: Buffer.byteLength(body) });
  return undefined;
}
