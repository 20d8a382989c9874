import { z } from 'zod';
import { message } from './numbers.ts';

/**
 * Ids travel in the signed string and in keys: a dot would make the signed string ambiguous, a separator would let
 * two keys collide.
 */
export const idPattern = /^[A-Za-z0-9_-]{1,128}$/;

export const idSchema = z.string().regex(idPattern, `must match [A-Za-z0-9_-]{1,${message.maxIdLength}}`);

/** Full-stop-delimited names such as `invoice.paid`. */
export const eventTypeSchema = z
  .string()
  .regex(/^[A-Za-z0-9_.:/-]+$/, 'may hold letters, digits and _ . : / - only')
  .max(message.maxEventTypeLength);

/**
 * The message of the delivery queue, without its payload: the payload is cut out of the source text, never taken from
 * parsed JSON, so that it keeps its bytes.
 */
export const messageFieldsSchema = z
  .strictObject({
    v: z.literal(message.version).optional(),
    endpointId: idSchema,
    eventId: idSchema,
    eventType: eventTypeSchema.optional(),
    occurredAt: z.iso.datetime({ offset: true }).optional(),
    resend: z.int().min(1).max(1_000_000).optional(),
    payload: z
      .union([z.string(), z.array(z.unknown()), z.looseObject({})], { error: 'must be an object, an array or a string' })
      .optional(),
    payloadBase64: z.string().optional(),
  })
  .refine((m) => (m.payload === undefined) !== (m.payloadBase64 === undefined), {
    error: 'needs exactly one of payload and payloadBase64',
    path: ['payload'],
  });

export type MessageFields = z.infer<typeof messageFieldsSchema>;
