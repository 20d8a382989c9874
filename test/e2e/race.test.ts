/** More workers than the lane has slots, some of which die: the lane holds, whoever lives. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

const workers = 8;
const slots = 4;
const events = 500;
const kills = 20;
/** So many more are sent whenever no more are left. */
const lastEvents = 50;
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

/** Kills one of the busy workers, another one each time: of both functions, for what finds no room is soon the drain's. */
async function killOne(nth: number): Promise<boolean> {
  const both = await Promise.all((['deliver', 'drain'] as const).map(async (fn) => (await embedded.environments(fn)).map((e) => ({ ...e, fn }))));
  const busy = both.flat().filter((e) => e.busy);
  const one = busy[nth % Math.max(1, busy.length)];
  if (one === undefined) return false;
  // One that has just ended by itself is no fault of this test.
  return embedded.kill(one.pid, one.fn).then(() => true, () => false);
}

describe(`${workers} workers for a lane of ${slots} (L1, U4)`, () => {
  it(`${events} events, ${kills} kills: never more than ${slots} requests of workers that live, all delivered`, { timeout: 400_000 }, async () => {
    await embedded.register('raced', consumer.url(), { maxInFlight: slots, budgetsMs, retry: { baseS: 5, factor: 1, attempts: 25 } });
    let killed = 0;
    const isDue = () => killed < kills && consumer.requests.length >= (killed * events) / (kills + 5);
    // Who is to be killed has a request open for as long as a loaded machine may take to do it.
    consumer.reply(() => ({ status: 200, afterMs: isDue() ? budgetsMs.read - answerAfterMs : answerAfterMs }));
    const ids: string[] = [];
    const send = async (n: number) => {
      for (const end = ids.length + n; ids.length < end;) await embedded.send(messageBody('raced', ids[ids.push(`evt_race_${ids.length}`) - 1] ?? ''));
    };
    await send(events);

    await until(`${kills} kills`, async () => {
      // Spread over the run, and only while somebody has a request open.
      if (consumer.open() > 0 && isDue() && (await killOne(killed))) killed++;
      // A machine that is slow to kill must not run out of what to kill for.
      if (killed < kills && consumer.requests.length > ids.length - lastEvents) await send(lastEvents);
      await embedded.skip({ beyondMs, waitMs: 0 });
      return killed === kills;
    }, 300_000);
    await embedded.drainQueue(300_000);
    console.log(`${ids.length} events, ${kills} kills: ${consumer.requests.length} requests, ${consumer.mostLive()} live at most, ${consumer.orphaned()} orphaned`);

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
