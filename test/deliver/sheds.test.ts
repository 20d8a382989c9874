import { describe, expect, it } from 'vitest';
import { bodyOf, t0EpochMs } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';

const weekMs = 7 * 86_400_000;

describe('a lane that stays full', () => {
  it('sheds a message 1,500 times, and that is no attempt, no failure, and no step towards a dead letter (L3)', async () => {
    const h = await Harness.create({ maxInFlight: 1, retry: { maxAgeS: 604_800 } });
    await h.claimElsewhere({ eventId: 'x' }, t0EpochMs + weekMs);
    for (let receiveCount = 1; receiveCount <= 1_500; receiveCount++) {
      expect(await h.runOne(bodyOf(), { receiveCount, sentEpochMs: t0EpochMs })).toMatchObject({ exit: 'retain' });
      // In steps that leave all of them within the age limit.
      h.clock.advance(400_000);
    }
    expect(h.telemetry.count('shed')).toBe(1_500);
    expect(h.http.sent).toEqual([]);
    expect(h.record()).toBeUndefined();
    expect(h.queues.buried).toEqual([]);
    expect(await h.lane()).toMatchObject({ avail: 0, failures: 0 });

    await h.store.lanes.giveBack({ endpointId: 'acme', leaseId: 'elsewhere', expiresEpochMs: 0, slots: 1, release: [], keep: [], successes: 0, failures: 0 });
    expect(await h.runOne(bodyOf(), { receiveCount: 1_501, sentEpochMs: t0EpochMs })).toMatchObject({ exit: 'ack' });
    expect(h.record()).toMatchObject({ state: 'delivered', attempt: 1 });
  });
});
