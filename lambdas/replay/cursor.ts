import { z } from 'zod';
import { invalidReplayRequest, type ReplayRequest } from '../shared/limits/replay-request.ts';
import type { DeadKey } from '../shared/ports/index.ts';

/** Where a replay stands between two calls. */
export interface Place {
  /** Everything up to and with this one has been dealt with. */
  readonly after: DeadKey | undefined;
  readonly toEpochMs: number;
  /** Deliveries that the calls before have selected. */
  readonly selected: number;
}

const schema = z.tuple([z.literal(1), z.int(), z.int(), z.tuple([z.string(), z.string(), z.number()]).nullable()]);

/** Where a call begins: where the one before has ended, else at the oldest. @throws Error named InvalidReplayRequest */
export function placeOf(request: ReplayRequest, nowEpochMs: number): Place {
  // What dies in this very millisecond is not of the past yet; with a later end what dies again would be taken again.
  if (request.cursor === undefined) return { after: undefined, toEpochMs: Math.min(request.select.toEpochMs ?? nowEpochMs, nowEpochMs), selected: 0 };
  const parsed = schema.safeParse(decoded(request.cursor));
  if (!parsed.success) throw invalidReplayRequest('cursor: is none of this function');
  const [, toEpochMs, selected, after] = parsed.data;
  return { toEpochMs, selected, after: after === null ? undefined : { partition: after[0], recordKey: after[1], lastEpochMs: after[2] } };
}

export function cursorOf({ after, toEpochMs, selected }: Place): string {
  const value: z.input<typeof schema> = [1, toEpochMs, selected, after === undefined ? null : [after.partition, after.recordKey, after.lastEpochMs]];
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function decoded(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return undefined;
  }
}
