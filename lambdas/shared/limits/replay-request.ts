import { z } from 'zod';
import { eventTypeSchema, idSchema } from './message-schema.ts';
import { replay } from './numbers.ts';
import { formatProblem, problemsOf } from './problems.ts';

/** Reasons by which dead deliveries may be selected; a test event that failed is no dead letter. */
export const replayReasons = [
  'malformed', 'unknown-endpoint', 'conflict', 'disabled', 'rejected', 'redirected', 'unauthorized', 'not-found', 'gone', 'payload-refused',
  'exhausted', 'expired', 'invalid-configuration', 'hold-limit', 'payload-missing',
] as const;

const epochMs = z.int().min(0);

const selectSchema = z.strictObject({
  endpointId: idSchema.optional(),
  /** With an endpoint, deliveries of these events are read by their keys; without one, all that is dead is looked through. */
  eventIds: z.array(idSchema).min(1).max(replay.maxEventIds).optional(),
  reason: z.enum(replayReasons).optional(),
  eventType: eventTypeSchema.optional(),
  /** When it died: from, inclusive. */
  fromEpochMs: epochMs.optional(),
  /** When it died: to, exclusive. Fixed by the first call, its own time at the latest, so that what dies again is not taken again by the calls after it. */
  toEpochMs: epochMs.optional(),
});

/** What the replay function is asked for. Defaults are filled in. */
const requestSchema = z
  .strictObject({
    select: selectSchema.default({}),
    /** Needed where nothing is selected: everything that is dead. */
    all: z.boolean().default(false),
    dryRun: z.boolean().default(false),
    /** Deliveries a second, over all calls that follow each other. */
    perSecond: z.int().min(1).max(replay.maxPerSecond).default(replay.perSecond),
    /** Deliveries at most, over all calls of one cursor. */
    max: z.int().min(1).optional(),
    /** How long this call goes on. */
    forMs: z.int().min(replay.minForMs).max(replay.maxForMs).default(replay.forMs),
    /** Of the answer before. */
    cursor: z.string().max(replay.maxCursorLength).optional(),
  })
  .refine(({ all, select }) => all || Object.entries(select).some(([name, value]) => name !== 'toEpochMs' && value !== undefined), {
    error: 'needs a selection, or all: true for everything that is dead',
    path: ['select'],
  });

export type ReplayRequest = z.infer<typeof requestSchema>;
export type ReplaySelect = ReplayRequest['select'];
/** As a caller may write it. */
export type ReplayAsk = z.input<typeof requestSchema>;

/** @throws Error named InvalidReplayRequest with each field, its value and its bound; then nothing was done. */
export function parseReplayRequest(input: unknown): ReplayRequest {
  const parsed = requestSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw invalidReplayRequest(problemsOf(parsed.error.issues, input).map(formatProblem).join('; '));
}

export function invalidReplayRequest(message: string): Error {
  return Object.assign(new Error(message), { name: 'InvalidReplayRequest' });
}

/** Deliveries by what became of them. Every selected one that is not left for a later call is in one of the others. */
export interface ReplayCounts {
  selected: number;
  /** Held again, with fresh attempts. */
  replayed: number;
  /** Malformed, or in conflict: the message was sent again. */
  sentAgain: number;
  /** Buried by an older version, whose body only the dead-letter queue has. */
  noPayload: number;
  noEndpoint: number;
  /** The endpoint is disabled, or cannot be used as it is stored: it would only die again. */
  disabled: number;
  /** Replayed so often already that only its event's name replays it. */
  capped: number;
  /** Somebody else's claim is on it, or DynamoDB could not be asked: repeat. */
  busy: number;
  /** Somebody else has replayed, redriven or dropped it meanwhile. */
  gone: number;
}

export interface ReplayProblem {
  readonly endpointId: string;
  readonly eventId: string | undefined;
  readonly why: string;
}

export interface ReplayAnswer extends ReplayCounts {
  /** The first of them. */
  readonly problems: readonly ReplayProblem[];
  /** The end of the selection, as the first call has fixed it. */
  readonly toEpochMs: number;
  /** For the next call; absent at the end. */
  readonly cursor?: string;
}
