import { shortHash, recordKeyOf } from '../shared/core/keys.ts';
import { parseMessage, type Message, type Parsed } from '../shared/core/parse.ts';
import type { ReceivedMessage } from '../shared/ports/index.ts';
import { buryMalformed } from './bury.ts';
import { deliverGroup } from './deliver-group.ts';
import { putBack, putBackFaulted } from './retain.ts';
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
    const parsed = parsedOrFault(deps, received);
    if (parsed?.ok === true) {
      const { endpointId } = parsed.message;
      groups.set(endpointId, [...(groups.get(endpointId) ?? []), copyOf(received, parsed.message)]);
    } else {
      const run = async () => new Map([[received.messageId, await (parsed === undefined ? putBack(deps, received) : buryMalformed(deps, received, parsed))]]);
      work.push(orPutBack(deps, [received], invocation, run));
    }
  }
  for (const copies of groups.values()) {
    work.push(orPutBack(deps, copies.map((copy) => copy.received), invocation, () => deliverGroup(deps, copies, invocation)));
  }

  const exits = new Map((await Promise.all(work)).flatMap((map) => [...map]));
  return { retained: batch.map((m) => m.messageId).filter((id) => exits.get(id)?.kind !== 'ack') };
}

/** A parser that throws is a bug of ours: the message stays, and its batch goes on. */
function parsedOrFault(deps: DeliverDeps, received: ReceivedMessage): Parsed | undefined {
  try {
    return parseMessage(received.body);
  } catch (error) {
    deps.telemetry.fault('parse-failed', error, { messageId: received.messageId });
    return undefined;
  }
}

/** A received copy of a well-formed message. */
export function copyOf(received: ReceivedMessage, message: Message): Copy {
  const { endpointId, claimKey, payloadHash } = message;
  return { received, message, claimKey, recordKey: recordKeyOf(endpointId, claimKey), shortHash: shortHash(payloadHash) };
}

/** A bug or an outage inside one piece of work keeps that piece's messages, and tells somebody. */
async function orPutBack(
  deps: DeliverDeps,
  messages: readonly ReceivedMessage[],
  invocation: Invocation,
  run: () => Promise<ReadonlyMap<string, Exit>>,
): Promise<ReadonlyMap<string, Exit>> {
  try {
    return await run();
  } catch (error) {
    deps.telemetry.fault('group-failed', error, { messages: messages.length });
    return new Map(await Promise.all(messages.map(async (m): Promise<[string, Exit]> => [m.messageId, await putBackFaulted(deps, m, invocation)])));
  }
}
