import { describe, expect, it } from 'vitest';
import { CallLog, type NewCallEntry } from '../../local/call-log.ts';

const entry = (action: string): NewCallEntry => ({
  atMs: 0, caller: 'c', service: 's', action, operation: action, resource: '*', outcome: 'ok', durationMs: 0, requestBytes: 0,
});

describe('CallLog', () => {
  it('numbers calls, not entries, and gives what came after a number', () => {
    const log = new CallLog();
    log.record(entry('a'), entry('b'));
    const before = log.last;
    log.record(entry('c'));
    expect(log.since(0).map(({ seq, action }) => [seq, action])).toEqual([[1, 'a'], [1, 'b'], [2, 'c']]);
    expect(log.since(before).map(({ action }) => action)).toEqual(['c']);
    expect(log.since(log.last)).toEqual([]);
  });

  it('forgets the oldest beyond its capacity and keeps its numbers', () => {
    const log = new CallLog(100);
    for (let i = 1; i <= 1_000; i++) log.record(entry(String(i)));
    const kept = log.since(0);
    expect(kept.length).toBeGreaterThanOrEqual(100);
    expect(kept.length).toBeLessThanOrEqual(125);
    expect(kept.at(-1)?.seq).toBe(1_000);
    expect(log.since(998).map(({ seq }) => seq)).toEqual([999, 1_000]);
  });
});
