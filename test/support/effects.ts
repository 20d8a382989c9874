import { vi } from 'vitest';
import { Webhook } from 'standardwebhooks';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { testSecret, until, type Embedded } from './embedded.ts';
import type { Recorded, Recorder, Reply } from './recorder.ts';

export interface Effect {
  readonly id: string;
  readonly eventId: string;
  readonly amount: unknown;
}

/** A payload with something to compare, as source text. */
export const payload = '{"amount":4200}';

/** What events have done at a consumer: one effect for each commit, also of an event that has one already. */
export class Effects {
  readonly #all: Effect[] = [];

  commit({ eventId, body }: Pick<Recorded, 'eventId' | 'body'>): Effect {
    const effect = { id: `eff_${this.#all.length + 1}`, eventId, amount: (JSON.parse(body.toString()) as { amount?: unknown }).amount };
    this.#all.push(effect);
    return effect;
  }

  of(eventId: string): readonly Effect[] {
    return this.#all.filter((effect) => effect.eventId === eventId);
  }

  /** The answer to a look. */
  shown(eventId: string): Reply {
    const [effect] = this.of(eventId);
    return { status: effect === undefined ? 404 : 200, body: JSON.stringify(effect ?? {}) };
  }
}

/** A look-up at the recorder. Its waits are the shortest that there are. */
export function lookupAt(consumer: Recorder, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { url: consumer.url('/effects/{eventId}'), match: { '$.eventId': 'eventId', '$.amount': '$.amount' }, reference: '$.id', delaysS: [5, 5], ...more };
}

export const isLook = ({ method }: Pick<Recorded, 'method'>): boolean => method === 'GET';

export const postsOf = (consumer: Recorder, eventId: string): Recorded[] => consumer.requests.filter((r) => r.eventId === eventId && !isLook(r));
export const looksOf = (consumer: Recorder, eventId: string): Recorded[] => consumer.requests.filter((r) => r.eventId === eventId && isLook(r));

/** Passes time until the record is as wanted. */
export function passUntil(embedded: Embedded, [endpointId, eventId]: readonly [string, string], what: string, isWanted: (record: DeliveryRecord) => boolean): Promise<DeliveryRecord> {
  return until(`${endpointId} ${eventId} is ${what}`, async () => {
    const record = await embedded.record(endpointId, eventId);
    if (record !== undefined && isWanted(record)) return record;
    await embedded.skip();
    return undefined;
  }, 100_000);
}

/** @throws where the signature is not of these bytes; the library's clock is the request's own, for that of the installation has been moved */
export function verifySignature({ headers, body }: Recorded): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Number(headers['webhook-timestamp']) * 1_000 });
  try {
    new Webhook(testSecret).verify(body.toString(), { ...headers });
  } finally {
    vi.useRealTimers();
  }
}
