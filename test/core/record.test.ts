import { readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dropped, renewed } from '../../lambdas/shared/core/decide.ts';
import { assertTransition, stateName, transitions, type DeliveryRecord, type StateName } from '../../lambdas/shared/core/record.ts';
import { deadOf, deliveredOf, droppedOf, t0EpochMs, unknownOf, waitingOf } from '../support/builders.ts';

const states: readonly StateName[] = ['absent', 'waiting', 'held', 'unknown', 'delivered', 'burying', 'buried', 'dropped'];
const written = ['waiting', 'held', 'unknown', 'delivered', 'burying', 'buried', 'dropped'] as const;

function recordIn(state: (typeof written)[number], generation: number, attempt: number): DeliveryRecord {
  if (state === 'waiting') return waitingOf({ generation, attempt });
  if (state === 'held') return waitingOf({ generation, attempt, home: 'held' });
  if (state === 'unknown') return unknownOf({ generation, attempt });
  if (state === 'dropped') return droppedOf({ generation, attempt });
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

/** Copied from the design, not from the code: what may follow what, and whether it starts a generation. */
const designed = [
  'absent waiting same', 'absent delivered same', 'absent burying same', 'waiting waiting same', 'waiting delivered same', 'waiting burying same',
  'absent held same', 'waiting held same', 'held held same', 'held delivered same', 'held burying same', 'held buried same', 'buried held next', 'delivered held next',
  'burying buried same', 'delivered waiting next', 'delivered burying next', 'buried waiting next', 'buried burying next', 'buried dropped same',
  'absent unknown same', 'waiting unknown same', 'held unknown same', 'unknown unknown same', 'unknown delivered same', 'unknown held same', 'unknown held next', 'unknown dropped same',
];

describe('the table of transitions', () => {
  it('is the one of the design', () => {
    expect(transitions.map((row) => `${row.from} ${row.to} ${row.generation}`).sort()).toEqual([...designed].sort());
  });

  it('is the diagram of docs/architecture.md', () => {
    const text = readFileSync(path.join(import.meta.dirname, '../../docs/architecture.md'), 'utf8');
    const diagram = /```mermaid\nstateDiagram-v2\n([^`]*)```/.exec(text)?.[1] ?? '';
    const arrows = [...diagram.matchAll(/^ *(\[\*\]|\w+) --> (\w+)/gm)].map(([, from, to]) => `${from === '[*]' ? 'absent' : (from ?? '')} ${to ?? ''}`);
    expect(arrows.sort()).toEqual(transitions.map((row) => `${row.from} ${row.to}`).sort());
  });

  it('ends every attempt that was counted: nothing is delivered without one, and nothing counts twice', () => {
    for (const row of transitions) {
      // What a look or an operator finds delivered was sent before.
      if (row.to === 'delivered') expect(row.attempts).toEqual(row.from === 'unknown' ? [0] : [1]);
      expect(row.attempts.length === 0).toBe(row.generation === 'next');
    }
  });
});

describe('assertTransition', () => {
  const grid = [-1, 0, 1, 2];
  it.each(states.flatMap((before) => written.map((after) => [before, after] as const)))('%s to %s: what the table says, and nothing else', (before, after) => {
    const rows = transitions.filter((r) => r.from === before && r.to === after);
    const from = before === 'absent' ? undefined : recordIn(before, 3, 2);
    for (const up of grid) {
      for (const more of grid) {
        // Without a record any generation may begin: a redriven copy's starts beyond the one that it carries.
        const sameGeneration = from === undefined || up === 0;
        const expected = rows.some((row) => (row.generation === 'next' ? up === 1 && (from?.attempt ?? 0) + more === 0 : sameGeneration && row.attempts.some((a) => a === more)));
        const to = recordIn(after, 3 + up, (from?.attempt ?? 0) + more);
        expect([up, more, isLegal(from, to)]).toEqual([up, more, expected]);
      }
    }
    if (rows.some((row) => row.generation === 'next')) expect(isLegal(from, recordIn(after, 4, 0))).toBe(true);
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
    // Nothing follows what was dropped.
    expect([...new Set(transitions.map((row) => row.from)), 'dropped'].sort()).toEqual([...states].sort());
    expect([undefined, ...written.map((state) => recordIn(state, 0, 0))].map(stateName)).toEqual(states);
  });
});

describe('renewed', () => {
  it.each([deliveredOf({ generation: 2, attempt: 5, ambiguous: 1, resend: 3 }), deadOf('buried', { generation: 2, attempt: 5, ambiguous: 1, resend: 3 })])(
    'starts the next generation of a terminal record with fresh attempts and age ($state)',
    (record) => {
      const next = renewed(record, t0EpochMs + 5, 4);
      assertTransition(record, next);
      expect(next).toMatchObject({ state: 'waiting', generation: 3, attempt: 0, ambiguous: 1, cleared: 1, resend: 4, firstEpochMs: t0EpochMs + 5, dueEpochMs: t0EpochMs + 5 });
      expect(next.history).toBe(record.history);
      expect(renewed(record, 0, 1).resend).toBe(3);
      expect(Object.keys(next)).not.toContain('reason');
    },
  );
});

describe('dropped', () => {
  it('says who, when and why, and keeps what it died of; age, attempts and history stay', () => {
    const buried = deadOf('buried', { generation: 2, attempt: 5, resend: 3, lastEpochMs: t0EpochMs + 1 }, 'exhausted');
    const record = dropped(buried, { why: 'ticket 4711', by: 'ada', nowEpochMs: t0EpochMs + 9, leaseId: 'd1' });
    assertTransition(buried, record);
    const { phase: _phase, ...kept } = buried;
    expect(record).toEqual({ ...kept, state: 'dropped', why: 'ticket 4711', by: 'ada', droppedEpochMs: t0EpochMs + 9, lastLease: { leaseId: 'd1', kind: 'settled' } });
  });
});
