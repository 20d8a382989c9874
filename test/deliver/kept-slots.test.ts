/** Slots that are left to the drain while anything is held, beside a lease whose owner is dead. */
import { expect, it } from 'vitest';
import { bodyOf, t0EpochMs } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';

it('live traffic clears an expired lease when its slots are what it lacks beside those that are left to the drain', async () => {
  const h = await Harness.create({ maxInFlight: 4 });
  await h.claimElsewhere({ eventId: 'other' }, t0EpochMs - 1);
  await h.store.lanes.admit({ endpointId: 'acme', cfg: 'V1', leaseId: 'dead', expiresEpochMs: t0EpochMs - 1, wanted: [{ claimKey: 'k', shortHash: 's' }] });
  await h.store.lanes.hold('acme', { count: 1, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs + 3_600_000, isReady: true });
  expect(await h.lane()).toMatchObject({ avail: 2 });
  expect(await h.runOne(bodyOf())).toMatchObject({ exit: 'ack' });
  expect(h.http.sent).toEqual(['evt_1']);
  expect(h.store.held()).toEqual([]);
});
