import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { renewed } from '../../lambdas/shared/core/decide.ts';
import { assertTransition, stateName, transitions, type DeliveryRecord, type StateName } from '../../lambdas/shared/core/record.ts';
import { deadOf, deliveredOf, t0EpochMs, waitingOf } from '../support/builders.ts';

const states: readonly StateName[] = ['absent', 'waiting', 'delivered', 'burying', 'buried'];
const written = ['waiting', 'delivered', 'burying', 'buried'] as const;

function recordIn(state: (typeof written)[number], generation: number, attempt: number): DeliveryRecord {
  if (state === 'waiting') return waitingOf({ generation, attempt });
  return state === 'delivered' ? deliveredOf({ generation, attempt }) : deadOf(state, { generation, attempt });
}

function isLegal(from: DeliveryRecord | undefined, to: DeliveryRecord): boolean {
  try {
    assertTransition(from, to);
    return true;
  } catch (error) {
    expect(String(error)).toContain('illegal transition');
    return false;
  }
}

/** Copied from the design, not from the code: what may follow what within a generation, and what may start one. */
const onward = new Set(['absent waiting', 'absent delivered', 'absent burying', 'waiting waiting', 'waiting delivered', 'waiting burying', 'burying buried']);
const fresh = new Set(['delivered waiting', 'delivered burying', 'buried waiting', 'buried burying']);

describe('assertTransition', () => {
  it('allows the pairs of the design and no other, with the generation and the attempts that go with them', () => {
    for (const before of states) {
      for (const after of written) {
        const pair = `${before} ${after}`;
        const from = before === 'absent' ? undefined : recordIn(before, 3, 2);
        const [generation, attempt] = from === undefined ? [0, 0] : [3, 2];
        expect([pair, isLegal(from, recordIn(after, generation, attempt))]).toEqual([pair, onward.has(pair)]);
        expect([pair, isLegal(from, recordIn(after, generation, attempt + 1))]).toEqual([pair, onward.has(pair)]);
        // Without a record any generation may begin: a redriven copy's starts beyond the one that it carries.
        const begins = from === undefined ? onward.has(pair) : fresh.has(pair);
        expect([pair, isLegal(from, recordIn(after, generation + 1, 0))]).toEqual([pair, begins]);
      }
    }
  });

  it('never lets attempts fall, leap or generations be skipped', () => {
    fc.assert(
      fc.property(fc.constantFrom(...written), fc.constantFrom(...written), fc.nat(3), fc.nat(3), fc.integer({ min: -2, max: 3 }), fc.integer({ min: -2, max: 3 }), (a, b, generation, attempt, up, more) => {
        const legal = isLegal(recordIn(a, generation, attempt), recordIn(b, generation + up, attempt + more));
        if (!legal) return;
        if (up === 0) expect([0, 1]).toContain(more);
        else expect([up, attempt + more]).toEqual([1, 0]);
      }),
      { numRuns: 1_000 },
    );
  });

  it('knows every state', () => {
    expect(Object.keys(transitions).sort()).toEqual([...states].sort());
    expect([undefined, ...written.map((state) => recordIn(state, 0, 0))].map(stateName)).toEqual(states);
  });
});

describe('renewed', () => {
  it.each([deliveredOf({ generation: 2, attempt: 5, ambiguous: 1, resend: 3 }), deadOf('buried', { generation: 2, attempt: 5, ambiguous: 1, resend: 3 })])(
    'starts the next generation of a terminal record with fresh attempts and age ($state)',
    (record) => {
      const next = renewed(record, t0EpochMs + 5, 4);
      assertTransition(record, next);
      expect(next).toMatchObject({ state: 'waiting', generation: 3, attempt: 0, ambiguous: 1, resend: 4, firstEpochMs: t0EpochMs + 5, dueEpochMs: t0EpochMs + 5 });
      expect(next.history).toBe(record.history);
      expect(renewed(record, 0, 1).resend).toBe(3);
      expect(Object.keys(next)).not.toContain('reason');
    },
  );
});
