/** The words and numbers of `dlq replay`. */
import { describe, expect, it } from 'vitest';
import { inWords, timeOf } from '../../bin/cli/dlq-selection.ts';
import { duration, progressBar } from '../../bin/cli/progress.ts';
import { t0EpochMs } from '../support/builders.ts';

describe('timeOf', () => {
  it.each([
    ['90s', t0EpochMs - 90_000], ['90m', t0EpochMs - 5_400_000], ['2h', t0EpochMs - 7_200_000], ['3d', t0EpochMs - 259_200_000], ['0s', t0EpochMs],
    ['2026-01-05T10:00:00Z', t0EpochMs], ['2026-01-05T10:00Z', t0EpochMs], ['2026-01-05T11:00:00.000+01:00', t0EpochMs], ['2026-01-05', t0EpochMs - 36_000_000],
  ])('reads %s', (text, expected) => {
    expect(timeOf('--since', text, t0EpochMs)).toBe(expected);
  });

  // Without a zone it would mean another time on another machine.
  it.each(['', '2', 'h', '-2h', '2.5h', '2w', '2026-01-05T10:00:00', '2026-13-01', '05.01.2026', '1767607200000'])('refuses %j', (text) => {
    expect(() => timeOf('--since', text, t0EpochMs)).toThrow(`(got ${text})`);
  });
});

describe('inWords', () => {
  it('says all that is selected', () => {
    expect(inWords({ endpointId: 'acme', eventIds: ['e1'], reason: 'exhausted', eventType: 'a.b', fromEpochMs: t0EpochMs, toEpochMs: t0EpochMs + 1_000 })).toBe(
      'of endpoint acme, of event e1, with reason exhausted, of type a.b, dead since 2026-01-05T10:00:00.000Z, dead before 2026-01-05T10:00:01.000Z',
    );
    expect([inWords({}), inWords({ eventIds: ['a', 'b'] })]).toEqual(['', 'of 2 events']);
  });
});

describe('the progress', () => {
  it.each([
    [0, 500, 0, '[----------] 0/500'],
    [250, 500, 5_100, '[#####-----] 250/500 49/s, 6 s left'],
    [499, 500, 10_000, '[#########-] 499/500 50/s, 1 s left'],
    [500, 500, 10_000, '[##########] 500/500 50/s, 0 s left'],
    [0, 0, 10, '[##########] 0/0'],
    [600, 500, 6_000, '[##########] 600/500 100/s, 0 s left'],
  ])('of %i of %i after %i ms is %s', (done, total, forMs, expected) => {
    expect(progressBar(done, total, forMs)).toBe(expected);
  });

  it.each([[0, '0 s'], [1, '1 s'], [119_000, '119 s'], [120_000, '2 min'], [7_199_000, '120 min'], [7_200_000, '2 h'], [36_000_000, '10 h']])('%i ms are %s', (ms, expected) => {
    expect(duration(ms)).toBe(expected);
  });
});
