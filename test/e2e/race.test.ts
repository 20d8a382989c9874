/** More workers than the lane has slots, some of which die: the lane holds, whoever lives. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

const workers = 8;
const slots = 4;
const events = 500;
const kills = 20;
const answerAfterMs = 200;
/** Lets what was shed come back together, for the race is between them. */
const beyondMs = 10_000;
/** Short, so that what a dead worker held is soon free, and that the deadline is met in earnest too. */
const budgetsMs = { connection: 300, setup: 500, write: 500, read: 1_000, total: 2_000 };
const stage = { deliver: { timeoutS: 5, settleMarginMs: 1_500, admitMarginMs: 1_000, maxConcurrency: workers }, budgetsMs };

let embedded: Embedded;
let consumer: Recorder;
beforeAll(async () => {
  embedded = await startEmbedded({ concurrency: workers, args: ['--stage-config', JSON.stringify(stage)] });
  consumer = await startRecorder(embedded.authority);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

/** Kills one of the busy workers, another one each time. */
async function killOne(nth: number): Promise<boolean> {
  const busy = (await embedded.environments()).filter((e) => e.busy);
  const one = busy[nth % Math.max(1, busy.length)];
  if (one === undefined) return false;
  // One that has just ended by itself is no fault of this test.
  return embedded.kill(one.pid).then(() => true, () => false);
}

describe(`${workers} workers for a lane of ${slots} (L1, U4)`, () => {
  it(`${events} events, ${kills} kills: never more than ${slots} requests of workers that live, all delivered`, { timeout: 400_000 }, async () => {
    await embedded.register('raced', consumer.url(), { maxInFlight: slots, budgetsMs, retry: { baseS: 5, factor: 1, attempts: 25 } });
    consumer.reply(() => ({ status: 200, afterMs: answerAfterMs }));
    const ids = Array.from({ length: events }, (_, i) => `evt_race_${i}`);
    for (const id of ids) await embedded.send(messageBody('raced', id));

    let killed = 0;
    await until(`${kills} kills`, async () => {
      // Spread over the run, and only while somebody has a request open.
      const isDue = consumer.open() > 0 && consumer.requests.length >= (killed * events) / (kills + 5);
      if (isDue && (await killOne(killed))) killed++;
      await embedded.skip({ beyondMs, waitMs: 0 });
      return killed === kills;
    }, 300_000);
    await embedded.drainQueue(300_000);
    console.log(`${events} events, ${kills} kills: ${consumer.requests.length} requests, ${consumer.mostLive()} live at most, ${consumer.orphaned()} orphaned`);

    const records = await Promise.all(ids.map((id) => embedded.record('raced', id)));
    expect(records.filter((record) => record?.state !== 'delivered')).toEqual([]);
    expect(consumer.mostLive()).toBe(slots);
    expect(consumer.orphaned()).toBeGreaterThan(0);
    const counts = ids.map((id, i) => ({ id, requests: consumer.requests.filter((r) => r.eventId === id).length, ambiguous: records[i]?.ambiguous ?? 0 }));
    expect(counts.filter(({ requests, ambiguous }) => requests > 1 + ambiguous)).toEqual([]);

    const lane = (await embedded.registry.get('raced'))?.lane;
    const leased = [...(lane?.leases.values() ?? [])].reduce((sum, lease) => sum + lease.slots, 0);
    expect({ sum: (lane?.avail ?? 0) + leased, claims: lane?.claims.size }).toEqual({ sum: slots, claims: 0 });
    for (const queue of ['deadLetterQueueUrl', 'faultQueueUrl'] as const) {
      expect(await depth(embedded.sqs, embedded.output(outputs[queue]))).toEqual({ ready: 0, hidden: 0 });
    }
  });
});
