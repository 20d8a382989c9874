import { describe, expect, it } from 'vitest';
import { decideReceive, type ReceiveDecision } from '../../lambdas/shared/core/receive.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { deadOf, deliveredOf, droppedOf, everyState, namesOf, t0EpochMs, waitingOf } from '../support/builders.ts';

const now = t0EpochMs;
const { eventId, payloadHash } = namesOf();

interface Copy {
  resend?: number;
  gen?: number;
  eventId?: string;
  payloadHash?: string;
}

function decide(record: DeliveryRecord | undefined, copy: Copy = {}): ReceiveDecision {
  const received = { eventId: copy.eventId ?? eventId, payloadHash: copy.payloadHash ?? payloadHash, resend: copy.resend ?? 0, deadLetterGeneration: copy.gen };
  return decideReceive(received, record, now);
}

const due = waitingOf({ dueEpochMs: now, generation: 1 });
const early = waitingOf({ dueEpochMs: now + 1, generation: 1 });
const delivered = deliveredOf({ generation: 1, resend: 2 });
const burying = deadOf('burying', { generation: 1, resend: 2 });
const buried = deadOf('buried', { generation: 1, resend: 2 });
const dropped = droppedOf({ generation: 1, resend: 2 });
const proceed = { kind: 'proceed' };
const earlyAt = { kind: 'early', dueEpochMs: now + 1 };

const table: readonly (readonly [string, DeliveryRecord | undefined, Copy, object])[] = [
  ['no record', undefined, {}, proceed],
  ['no record, resend', undefined, { resend: 5 }, proceed],
  ['no record, redrive', undefined, { gen: 0 }, { kind: 'done', why: 'redrive-without-record' }],
  ['no record, redrive and resend', undefined, { gen: 3, resend: 9 }, { kind: 'done', why: 'redrive-without-record' }],
  ['waiting, due', due, {}, proceed],
  ['waiting, due, larger resend', due, { resend: 9 }, proceed],
  ['waiting, due, redrive of the past generation', due, { gen: 0 }, proceed],
  ['waiting, early', early, {}, earlyAt],
  ['waiting, early, larger resend', early, { resend: 9 }, earlyAt],
  ['waiting, early, redrive', early, { gen: 1 }, earlyAt],
  ['delivered', delivered, {}, { kind: 'done', why: 'delivered' }],
  ['delivered, resend as large as before', delivered, { resend: 2 }, { kind: 'done', why: 'delivered' }],
  ['delivered, larger resend', delivered, { resend: 3 }, { kind: 'renew', why: 'resend' }],
  ['delivered, redrive', delivered, { gen: 1 }, { kind: 'done', why: 'delivered' }],
  ['burying', burying, {}, { kind: 'buryAgain' }],
  ['burying, larger resend', burying, { resend: 3 }, { kind: 'buryAgain' }],
  ['burying, redrive', burying, { gen: 1 }, { kind: 'buryAgain' }],
  ['buried', buried, {}, { kind: 'done', why: 'stale-dead' }],
  ['buried, resend as large as before', buried, { resend: 2 }, { kind: 'done', why: 'stale-dead' }],
  ['buried, larger resend', buried, { resend: 3 }, { kind: 'renew', why: 'resend' }],
  ['buried, redrive of this generation', buried, { gen: 1 }, { kind: 'renew', why: 'redrive' }],
  ['buried, redrive of a past generation', buried, { gen: 0 }, { kind: 'done', why: 'stale-dead' }],
  ['buried, redrive of a generation to come', buried, { gen: 2 }, { kind: 'done', why: 'stale-dead' }],
  ['buried, stale redrive with a larger resend', buried, { gen: 0, resend: 3 }, { kind: 'renew', why: 'resend' }],
  ['dropped', dropped, {}, { kind: 'done', why: 'dropped' }],
  ['dropped, larger resend', dropped, { resend: 3 }, { kind: 'done', why: 'dropped' }],
  ['dropped, redrive of this generation', dropped, { gen: 1 }, { kind: 'done', why: 'dropped' }],
  ['dropped, redrive of a past generation', dropped, { gen: 0 }, { kind: 'done', why: 'dropped' }],
  ['dropped, redrive of a generation to come, with a larger resend', dropped, { gen: 2, resend: 9 }, { kind: 'done', why: 'dropped' }],
];

describe('decideReceive', () => {
  it.each(table)('%s', (_why, record, copy, decision) => {
    expect(decide(record, copy)).toEqual(decision);
  });

  it.each(everyState().map((record) => [record.state === 'dead' ? record.phase : record.state, record] as const))(
    'another payload or event id is a conflict when %s, whatever else the copy says',
    (_state, record) => {
      for (const more of [{}, { resend: 9 }, { gen: 0 }]) {
        expect(decide(record, { payloadHash: 'other', ...more })).toEqual({ kind: 'conflict', detail: 'the same event id came with another payload' });
        expect(decide(record, { eventId: 'evt_2', ...more })).toEqual({ kind: 'conflict', detail: 'another event id has the same key' });
      }
    },
  );
});
