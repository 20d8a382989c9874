import { aws, putBack } from '../limits/numbers.ts';

/**
 * Seconds for which a message that could not be tried now stays invisible (L4). Jittered between 1 s and 60 s; from the
 * 5th receive the ceiling doubles up to an hour, so that a day of outage costs few receives. `random` is in [0, 1).
 */
export function putBackS(receiveCount: number, random: number): number {
  const doublings = Math.min(16, Math.max(0, receiveCount - putBack.doublesFromReceive + 1));
  const ceilingS = Math.min(putBack.doublingCapS, putBack.maxS * 2 ** doublings);
  // From the 5th receive the lower half is cut off: full jitter would halve what the doubling is for.
  const floorS = doublings === 0 ? putBack.minS : ceilingS / 2;
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
