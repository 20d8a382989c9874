import { aws, putBack } from '../limits/numbers.ts';

/**
 * Seconds for which a message that could not be tried now stays invisible (L4). Jittered under a ceiling that rises with
 * the receives: a few seconds at first, for a lane is rarely full for long, a minute by the 4th, then doubling up to an
 * hour, so that a day of outage costs few of them, and to four hours past the 50th. `random` is in [0, 1).
 */
export function putBackS(receiveCount: number, random: number): number {
  const nth = Number.isFinite(receiveCount) ? Math.max(1, Math.floor(receiveCount)) : 1;
  const early = putBack.earlyCeilingsS[nth - 1];
  const doublings = Math.min(16, nth - putBack.earlyCeilingsS.length);
  const capS = nth > putBack.lateReceive ? putBack.lateCapS : putBack.doublingCapS;
  const ceilingS = early ?? Math.min(capS, putBack.maxS * 2 ** doublings);
  // Past the early ones the lower half is cut off: full jitter would halve what the doubling is for.
  const floorS = early === undefined ? ceilingS / 2 : putBack.minS;
  return Math.round(floorS + random * (ceilingS - floorS));
}

/**
 * Seconds until `dueEpochMs`, rounded up, as a visibility timeout that SQS accepts: never negative, and never beyond
 * what is left of its 12 h, which count from the receive.
 */
export function visibilityUntilS(dueEpochMs: number, receivedEpochMs: number, nowEpochMs: number): number {
  const elapsedS = Math.max(0, Math.ceil((nowEpochMs - receivedEpochMs) / 1_000));
  const mostS = aws.sqsMaxVisibilityS - elapsedS - putBack.visibilityMarginS;
  const wantedS = Math.ceil((dueEpochMs - nowEpochMs) / 1_000);
  return Math.max(0, Math.min(mostS, Number.isFinite(wantedS) ? wantedS : mostS));
}

/** Seconds for which a message that found its lane full stays invisible: short, and jittered; after two of them it is held (L4). */
export function fullPutBackS(receiveCount: number, random: number): number {
  const ceilingS = putBack.fullCeilingsS[receiveCount - 1];
  if (ceilingS === undefined) return putBackS(receiveCount, random);
  return Math.round(putBack.minS + random * (ceilingS - putBack.minS));
}
