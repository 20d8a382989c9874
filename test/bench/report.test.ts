import { describe, expect, it } from 'vitest';
import { judge, type Report } from '../../bench/bench.ts';
import { missed, toJson, toText } from '../../bench/report.ts';

const report: Report = {
  name: 'demo',
  rows: [
    { table: 'speed', what: 'ours', eventsPerS: 12.34567, costUsd: 2 },
    { table: 'speed', what: 'the other', eventsPerS: 100, costUsd: 0.875 },
    { table: 'sizes', bytes: 90 },
  ],
  ceilings: [
    judge({ name: 'cost', max: 1.3, source: 'O8' }, 1.2),
    judge({ name: 'share', min: 0.7, source: 'O8' }, 0.65),
  ],
  notes: ['Left out: nothing.'],
};

describe('a limit', () => {
  it.each([
    [{ max: 3.2 }, 3.2, true],
    [{ max: 3.2 }, 3.3, false],
    [{ max: 3.2 }, Number.NaN, false],
    [{ min: 0.7 }, 0.7, true],
    [{ min: 0.7 }, 0.69, false],
    [{ min: 0.7 }, Number.NaN, false],
  ])('%j with %d: %s', (bound, value, ok) => {
    expect(judge({ name: 'x', source: 'y', ...bound }, value)).toEqual({ name: 'x', source: 'y', ...bound, value, ok });
  });
});

describe('a report', () => {
  it('is one JSON object of name, rows and ceilings', () => {
    expect(JSON.parse(toJson(report))).toEqual({
      name: 'demo',
      rows: report.rows,
      ceilings: [
        { name: 'cost', value: 1.2, max: 1.3, ok: true },
        { name: 'share', value: 0.65, min: 0.7, ok: false },
      ],
    });
  });

  it('is tables for people: words to the left, numbers to the right, dollars to a tenth of a cent', () => {
    expect(toText(report)).toBe(
      [
        'speed',
        '  what       events per s  cost usd',
        '  ours            12.3457     2.000',
        '  the other           100     0.875',
        '',
        'sizes',
        '  bytes',
        '     90',
        '',
        'ceilings',
        '  name   value  bound         result  source',
        '  cost     1.2  at most 1.3   ok      O8',
        '  share   0.65  at least 0.7  MISSED  O8',
        '',
        'notes',
        '  - Left out: nothing.',
      ].join('\n'),
    );
  });

  it('says which limits were missed', () => {
    expect(missed(report.ceilings)).toEqual(['share: 0.65, must be at least 0.7']);
  });
});
