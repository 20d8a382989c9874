import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { fairnessWith, type Variant } from '../../bench/fairness.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';

/** Times the usual latency: the defects below make seconds of hundredths, on a quiet machine. */
const muchMore = 2;
/** Short runs on a machine that does other work: a turn in which that hides a defect is made again. */
const retry = 3;

describe('the check of fairness fails', { retry }, () => {
  const shared = { endpointId: 'everybody', version: ulid(Date.now(), randomBytes(10)) };
  const globalLane: Variant = {
    // The key of every write to a lane.
    defects: [{ passage: 'pk: endpointId, sk: sk.lane }),\n', replacement: `pk: "${shared.endpointId}", sk: sk.lane }),\n` }],
    shared,
  };
  const slowLaneInDeliver: Variant = {
    defects: [{ passage: '? !isQuickAgain(known) : isTooSlow(known)', replacement: '? false : false' }],
  };

  it.each([
    ['where all endpoints share one lane', globalLane],
    ['where deliver serves a slow endpoint as any other', slowLaneInDeliver],
  ])('%s', async (_, variant) => {
    const { rows, ceilings } = await fairnessWith(variant).run(() => undefined);
    expect(ceilings).toMatchObject([{ max: 1.2, ok: false }]);
    const [quick, sick] = rows.map(({ p50 }) => Number(p50));
    expect(sick).toBeGreaterThan(muchMore * (quick ?? NaN));
  });
});
