import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { putBackS, visibilityUntilS } from '../../lambdas/shared/core/put-back.ts';
import { aws, retry } from '../../lambdas/shared/limits/numbers.ts';

const almostOne = 1 - Number.EPSILON / 2;
const chance = fc.double({ min: 0, max: almostOne, noNaN: true });

describe('putBackS', () => {
  it('costs about forty receives in a day of refusals, and more than any age limit until the hundredth (ADR 6)', () => {
    let [receives, inADay, passedS] = [0, 0, 0];
    // At the hundredth receive the queue has given up.
    while (receives < 99) {
      passedS += putBackS(++receives, 0.5);
      if (passedS < 86_400) inADay = receives;
    }
    expect(inADay).toBeGreaterThan(35);
    expect(inADay).toBeLessThan(45);
    expect(passedS).toBeGreaterThan(retry.maxMaxAgeS);
  });

  it.each([
    [1, 1, 5],
    [2, 1, 15],
    [3, 1, 30],
    [4, 1, 60],
    [5, 60, 120],
    [6, 120, 240],
    [9, 960, 1_920],
    [10, 1_800, 3_600],
    [11, 1_800, 3_600],
    [50, 1_800, 3_600],
    [51, 7_200, 14_400],
    [100, 7_200, 14_400],
    [5_000, 7_200, 14_400],
    [0, 1, 5],
    [NaN, 1, 5],
  ])('at receive %d it waits between %d s and %d s', (receive, least, most) => {
    expect([putBackS(receive, 0), putBackS(receive, almostOne)]).toEqual([least, most]);
  });

  it('is always an integer that SQS accepts', () => {
    fc.assert(
      fc.property(fc.oneof(fc.integer(), fc.double()), chance, (receive, random) => {
        const waitS = putBackS(receive, random);
        expect(Number.isInteger(waitS) && waitS >= 1 && waitS <= 14_400).toBe(true);
      }),
    );
  });

  it('costs a day of outage about 33 receives', () => {
    let [receives, waitedS] = [0, 0];
    while (waitedS < 86_400) waitedS += putBackS(++receives, 0.5);
    expect(receives).toBeLessThanOrEqual(45);
    expect(receives).toBeGreaterThan(20);
  });
});

describe('visibilityUntilS', () => {
  it.each([
    ['a second from now', 1_000, 0, 0, 1],
    ['a part of a second is rounded up', 1, 0, 0, 1],
    ['past', -5_000, 0, 0, 0],
    ['now', 0, 0, 0, 0],
    ['the most that SQS takes, less the margin', 1e12, 0, 0, 43_140],
    ['12 h received a minute ago', 43_200_000 + 60_000, 0, 60_000, 43_080],
    ['12 h received 60.001 s ago', 1e12, 0, 60_001, 43_079],
    ['received 12 h ago', 1e12, 0, 43_200_000, 0],
    ['received longer ago than SQS allows', 1e12, 0, 1e9, 0],
    ['a clock that went back', 1e12, 10_000, 0, 43_140],
    ['never', Infinity, 0, 0, 43_140],
  ])('%s', (_why, due, received, now, expected) => {
    expect(visibilityUntilS(due, received, now)).toBe(expected);
  });

  it('is an integer within 0..43200, and with the elapsed time never more than 43200', () => {
    const epoch = fc.oneof(fc.integer({ min: 0, max: 4e12 }), fc.double({ min: 0, max: 4e12, noNaN: true }));
    const elapsedMs = fc.oneof(fc.integer({ min: 0, max: 43_200_000 }), fc.double({ min: 0, max: 43_200_000, noNaN: true }));
    const anyDue = fc.oneof(epoch, fc.double());
    fc.assert(
      fc.property(anyDue, epoch, elapsedMs, (due, received, elapsed) => {
        const waitS = visibilityUntilS(due, received, received + elapsed);
        expect(Number.isInteger(waitS) && waitS >= 0 && waitS <= aws.sqsMaxVisibilityS).toBe(true);
        expect(elapsed / 1_000 + waitS).toBeLessThanOrEqual(aws.sqsMaxVisibilityS);
      }),
      { numRuns: 1_000 },
    );
  });

  it('never ends before the due time unless SQS forbids', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 43_000_000 }), fc.integer({ min: 0, max: 100_000 }), (waitMs, elapsedMs) => {
        const waitS = visibilityUntilS(elapsedMs + waitMs, 0, elapsedMs);
        expect(waitS * 1_000).toBeGreaterThanOrEqual(waitMs);
        expect(waitS * 1_000).toBeLessThan(waitMs + 1_000);
      }),
    );
  });
});
