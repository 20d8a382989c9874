import { describe, expect, it } from 'vitest';
import { candidatesOf, generationFrom, verdictOf, type CopyVerdict } from '../../lambdas/shared/core/dead-letter.ts';
import { dropped } from '../../lambdas/shared/core/decide.ts';
import { hashOf, isSyntheticKey, syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { DeadReason, DeadRecord, DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { bodyOf, deadOf, deliveredOf, droppedOf, namesOf, waitingOf } from '../support/builders.ts';

const body = bodyOf();
const conflictKey = syntheticKeyOf('acme', 'conflict', body);
const malformedKey = syntheticKeyOf('acme', 'malformed', body);
/** A record that was made from a body. */
const synthetic = (recordKey: string, reason: DeadReason, from: string, generation = 0): DeadRecord => ({ ...deadOf('buried', { generation }, reason), recordKey, payloadHash: hashOf(Buffer.from(from)) });
const conflict = synthetic(conflictKey, 'conflict', body, 1);
const droppedAs = (record: DeadRecord) => dropped(record, { why: 'x', by: 'y', nowEpochMs: 1, leaseId: 'l' });

function verdict(records: readonly DeliveryRecord[], generation: number | undefined, unread: readonly string[] = [], of = body): CopyVerdict {
  return verdictOf({ body: of, generation }, { found: new Map(records.map((r) => [r.recordKey, r])), unread: new Set(unread) });
}

const own = (make: (at: { generation: number }) => DeliveryRecord) => make({ generation: 1 });
const states: readonly (readonly [string, DeliveryRecord, { below: CopyVerdict; equal: CopyVerdict }])[] = [
  // The message of a redrive, which carries the generation before, may have been given up by the delivery queue and by the fault queue.
  ['waiting', own((at) => waitingOf(at)), { below: 'current', equal: 'current' }],
  ['held', own((at) => waitingOf({ ...at, home: 'held' })), { below: 'stale', equal: 'current' }],
  ['delivered', own((at) => deliveredOf(at)), { below: 'stale', equal: 'stale' }],
  ['burying', own((at) => deadOf('burying', at)), { below: 'current', equal: 'current' }],
  ['buried', own((at) => deadOf('buried', at)), { below: 'stale', equal: 'current' }],
  ['dropped', own((at) => droppedOf(at)), { below: 'stale', equal: 'stale' }],
];

describe('what a copy in the dead-letter queue is worth', () => {
  it.each(states)('%s: below the record\'s generation and of the same as the state says, above it kept', (_state, record, { below, equal }) => {
    expect([verdict([record], 0), verdict([record], 1), verdict([record], 2)]).toEqual([below, equal, 'current']);
  });

  it.each(states)('%s: without a generation, or where anything that it may belong to is unread, nothing is known', (_state, record) => {
    expect(verdict([record], undefined)).toBe('unknown');
    for (const { recordKey } of candidatesOf(body)) expect(verdict([record], 0, [recordKey])).toBe('unknown');
  });

  it('without a record nothing is known', () => {
    expect(verdict([], 0)).toBe('unknown');
    expect(verdict([{ ...deliveredOf(), recordKey: 'acme#other' }], 0)).toBe('unknown');
  });

  it('another payload\'s record does not speak for it, whatever became of that', () => {
    for (const record of [deliveredOf({ generation: 4 }), droppedOf({ generation: 4 })]) expect(verdict([{ ...record, payloadHash: 'other' }], 0)).toBe('unknown');
  });

  it('a conflict stays while it is dead, although its event was delivered', () => {
    const event = { ...deliveredOf({ generation: 3 }), payloadHash: 'other' };
    expect([verdict([event, conflict], 0), verdict([event, conflict], 1)]).toEqual(['stale', 'current']);
    expect(verdict([event, droppedAs(conflict)], 1)).toBe('stale');
    // The record that it contradicted is gone, and its own payload was delivered since under the same key.
    expect(verdict([deliveredOf({ generation: 3 }), conflict], 1)).toBe('current');
  });

  it('of the event stays while that is dead, although a conflict of the same body has gone on', () => {
    expect(verdict([deadOf('buried'), conflict], 0)).toBe('current');
  });

  it('malformed: by the record that was made from its body, also where a newer parser takes it', () => {
    for (const text of ['no json', '{"endpointId":"acme","eventId":"evt_1"}']) {
      const [candidate] = candidatesOf(text);
      const record = synthetic(candidate?.recordKey ?? '', 'malformed', text);
      expect([verdict([record], 0, [], text), verdict([droppedAs(record)], 0, [], text), verdict([{ ...record, generation: 1 }], 0, [], text)]).toEqual(['current', 'stale', 'stale']);
    }
    const old = synthetic(malformedKey, 'malformed', body);
    expect([verdict([old], 0), verdict([{ ...old, generation: 1 }], 0)]).toEqual(['current', 'stale']);
    // Taken up as a new delivery, whose generation is the next one: its old record is dead for ever, and keeps the copy.
    expect(verdict([old, deliveredOf({ generation: 1 })], 0)).toBe('current');
  });
});

describe('candidatesOf', () => {
  it('the delivery\'s record by its payload, and those made from the body by the body', () => {
    const { recordKey, payloadHash } = namesOf();
    const byBody = hashOf(Buffer.from(body));
    expect(candidatesOf(body)).toEqual([
      { recordKey, payloadHash }, { recordKey: conflictKey, payloadHash: byBody }, { recordKey: malformedKey, payloadHash: byBody },
      { recordKey: syntheticKeyOf(undefined, 'malformed', body), payloadHash: byBody },
    ]);
    expect(candidatesOf(body).map(({ recordKey: key }) => isSyntheticKey(key))).toEqual([false, true, true, true]);
    // With a `!` in it: the part of a claim key has none.
    expect(isSyntheticKey(namesOf({ eventId: '!malformed!x' }).recordKey)).toBe(false);
  });

  it('of no message only the malformed one, under its endpoint if that is legible', () => {
    expect(candidatesOf('x').map(({ recordKey }) => recordKey)).toEqual([syntheticKeyOf(undefined, 'malformed', 'x')]);
    const legible = '{"endpointId":"acme"}';
    expect(candidatesOf(legible).map(({ recordKey }) => recordKey)).toEqual([syntheticKeyOf('acme', 'malformed', legible)]);
  });
});

describe('generationFrom', () => {
  it.each([['0', 0], ['12', 12], ['999999999', 999_999_999]])('%s', (text, generation) => {
    expect(generationFrom(text)).toBe(generation);
  });
  it.each([undefined, '', ' 1', '-1', '1.0', '1e3', '0x1', 'NaN', '1000000000'])('%s is none', (text) => {
    expect(generationFrom(text)).toBeUndefined();
  });
});
