import { shortHash, recordKeyOf } from '../shared/core/keys.ts';
import { parseMessage } from '../shared/core/parse.ts';
import type { ReceivedMessage } from '../shared/ports/index.ts';
import { buryMalformed } from './bury.ts';
import { deliverGroup } from './deliver-group.ts';
import type { Copy, DeliverDeps, Exit, Invocation } from './types.ts';

/**
 * The path of one batch: parse, group by endpoint, deliver each group, answer per message. Start reading here.
 *
 * Returns the ids of the messages that must stay in the queue. A fault in one group or one body never decides about the
 * others; whatever is not known to have a durable home stays.
 */
export async function deliverBatch(
  deps: DeliverDeps,
  batch: readonly ReceivedMessage[],
  invocation: Invocation,
): Promise<{ retained: string[] }> {
  const groups = new Map<string, Copy[]>();
  const work: Promise<ReadonlyMap<string, Exit>>[] = [];

  for (const received of batch) {
    const parsed = parseMessage(received.body);
    if (parsed.ok) {
      const { message } = parsed;
      const recordKey = recordKeyOf(message.endpointId, message.claimKey);
      const copy: Copy = { received, message, recordKey, claimKey: message.claimKey, shortHash: shortHash(message.payloadHash) };
      groups.set(message.endpointId, [...(groups.get(message.endpointId) ?? []), copy]);
    } else {
      work.push(orRetain(deps, [received], async () => new Map([[received.messageId, await buryMalformed(deps, received, parsed)]])));
    }
  }
  for (const copies of groups.values()) {
    work.push(orRetain(deps, copies.map((copy) => copy.received), () => deliverGroup(deps, copies, invocation)));
  }

  const exits = new Map((await Promise.all(work)).flatMap((map) => [...map]));
  return { retained: batch.map((m) => m.messageId).filter((id) => exits.get(id)?.kind !== 'ack') };
}

/** A bug or an outage inside one piece of work keeps that piece's messages, and tells somebody. */
async function orRetain(
  deps: DeliverDeps,
  messages: readonly ReceivedMessage[],
  run: () => Promise<ReadonlyMap<string, Exit>>,
): Promise<ReadonlyMap<string, Exit>> {
  try {
    return await run();
  } catch (error) {
    deps.telemetry.fault('group-failed', error, { messages: messages.length });
    return new Map(messages.map((m) => [m.messageId, { kind: 'retain' }]));
  }
}
