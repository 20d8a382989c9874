/** What an operator makes of an unknown delivery: looked for anew, known to be delivered, sent again. */
import { describe, expect, it } from 'vitest';
import { resent } from '../../lambdas/shared/core/decide.ts';
import { afterLook, knownToBeDelivered, leftToPerson, lookedForAnew, looksOf, mustLook, type Found } from '../../lambdas/shared/core/reconcile.ts';
import { assertTransition, type UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { configOf, t0EpochMs, unknownOf } from '../support/builders.ts';

const lookupOf = (more: Record<string, unknown> = {}) => {
  const { lookup } = configOf({ onAmbiguous: 'reconcile', lookup: { url: 'https://hooks.example.com/o/{eventId}', match: { '$.id': 'eventId' }, delaysS: [60, 300], ...more } });
  if (lookup === null) throw new Error('no lookup');
  return lookup;
};
const nowEpochMs = t0EpochMs + 3_600_000;
const failed: Found = { kind: 'failed', detail: 'look failed: status 503' };
function lookedAt(record: UnknownRecord, found: Found = failed, lookup = lookupOf()): UnknownRecord {
  const to = afterLook(record, found, lookup, { startedEpochMs: nowEpochMs, nowEpochMs, leaseId: 'l1' });
  if (to.state !== 'unknown') throw new Error(to.state);
  assertTransition(record, to);
  return to;
}
const exhausted = () => lookedAt(lookedAt(unknownOf()));

describe('looked for anew', () => {
  it('it is due now, and has its whole schedule before it', () => {
    expect(exhausted()).toMatchObject({ stuck: 'look-failed', nextLookEpochMs: undefined });
    const anew = lookedForAnew(exhausted(), nowEpochMs, 'look-1');
    assertTransition(exhausted(), anew);
    expect(anew).toMatchObject({ stuck: undefined, nextLookEpochMs: nowEpochMs, sinceEpochMs: t0EpochMs, lastLease: { leaseId: 'look-1', kind: 'settled' } });
    expect(looksOf(anew)).toBe(0);
    const first = lookedAt(anew);
    expect([looksOf(first), first.stuck, first.nextLookEpochMs]).toEqual([1, undefined, nowEpochMs + 300_000]);
    const second = lookedAt(first);
    expect([looksOf(second), second.stuck]).toEqual([2, 'look-failed']);
  });

  it('never has the `looks` of anything before it: what was found by an earlier look, and is still to be written, loses', () => {
    const before: UnknownRecord[] = [unknownOf()];
    const steps = [lookedAt, (r: UnknownRecord) => lookedForAnew(r, nowEpochMs, 'look-1'), (r: UnknownRecord) => lookedForAnew(r, nowEpochMs, 'look-2'), lookedAt, (r: UnknownRecord) => leftToPerson(r, { stuck: 'no-endpoint', detail: 'gone' }, nowEpochMs, 'l2'), (r: UnknownRecord) => lookedForAnew(r, nowEpochMs, 'look-3'), lookedAt, lookedAt];
    for (const step of steps) before.push(step(before.at(-1) ?? unknownOf()));
    const looks = before.map((record) => record.looks);
    expect(looks).toEqual([...new Set(looks)].sort((a, b) => a - b));
  });

  it('an absence proves as much as before: the last look waits for that', () => {
    const lookup = lookupOf({ absenceProvesAfterS: 86_400 });
    const anew = lookedForAnew(unknownOf({ looks: 1 }), nowEpochMs, 'look-1');
    const first = lookedAt(anew, { kind: 'absent', detail: 'absent: 404' }, lookup);
    expect(first.nextLookEpochMs).toBeGreaterThan(t0EpochMs + 86_400_000);
    expect(lookedAt(anew, failed, lookupOf({ absenceProvesAfterS: 86_400, delaysS: [60, 300, 600] })).nextLookEpochMs).toBe(nowEpochMs + 300_000);
  });

  it('leaves nothing of it in what follows', () => {
    const found = afterLook(lookedForAnew(unknownOf(), nowEpochMs, 'look-1'), { kind: 'matches', reference: 'ord_1', detail: 'found: 200' }, lookupOf(), { startedEpochMs: nowEpochMs, nowEpochMs, leaseId: 'l1' });
    expect(found).toMatchObject({ state: 'delivered', via: 'lookup', reference: 'ord_1' });
    expect(found).not.toHaveProperty('anewFrom');
  });
});

describe('resolved', () => {
  const said = { why: 'asked', by: 'ada', atEpochMs: nowEpochMs };

  it('as resend it is held in its next generation, due now, with fresh attempts and age, and nothing left to look for', () => {
    const record = unknownOf({ attempt: 3, ambiguous: 2, cleared: 1, resend: 4, reference: 'ord_1' });
    const to = resent(record, { as: 'resend', ...said }, 'resend-1');
    assertTransition(record, to);
    expect(to).toMatchObject({
      state: 'waiting', home: 'held', generation: 1, attempt: 0, ambiguous: 2, cleared: 2, resend: 4, dueEpochMs: nowEpochMs, firstEpochMs: nowEpochMs, reference: 'ord_1',
      resolved: { as: 'resend', ...said }, lastLease: { leaseId: 'resend-1', kind: 'settled' },
    });
    expect(mustLook(to, configOf({ onAmbiguous: 'reconcile' }))).toBe(false);
  });

  it('as delivered it keeps an id that nobody has told better', () => {
    const record = unknownOf({ reference: 'ord_1' });
    const to = knownToBeDelivered(record, { as: 'delivered', ...said }, 'delivered-1', undefined);
    assertTransition(record, to);
    expect(to).toMatchObject({ state: 'delivered', via: 'operator', reference: 'ord_1', resolved: { as: 'delivered', ...said } });
    expect(knownToBeDelivered(record, { as: 'delivered', ...said }, 'delivered-1', 'ord_2').reference).toBe('ord_2');
  });
});
