import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inFlight } from '../../lambdas/shared/core/lane.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;

beforeAll(async () => {
  embedded = await startEmbedded({ concurrency: 3 });
  consumer = await startRecorder(embedded.authority);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const events = 200;
const kills = 10;
/** Whichever of the two sends: what found no room is sent by the drain. */
const senders = ['deliver', 'drain'] as const;
const ids: string[] = [];

async function sendMore(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const id = `evt_kill_${ids.length}`;
    ids.push(id);
    await embedded.send(messageBody('killed', id));
  }
}

async function busy(): Promise<{ pid: number; fn: (typeof senders)[number] }[]> {
  const found = await Promise.all(senders.map(async (fn) => (await embedded.environments(fn)).filter((e) => e.busy).map(({ pid }) => ({ pid, fn }))));
  return found.flat();
}

/** Kills every busy worker while the consumer has requests that are not answered yet. True where one of them was theirs. */
async function killWhileSending(): Promise<boolean> {
  const orphaned = consumer.orphaned();
  // One that has just ended by itself is no fault of this test.
  await Promise.all((await busy()).map(({ pid, fn }) => embedded.kill(pid, fn).catch(() => undefined)));
  // On a busy machine the answers may have been quicker than the signal.
  await until('what was open is answered or orphaned', () => consumer.open() === 0);
  return consumer.orphaned() > orphaned;
}

/** Starts the next wave of what waits without cutting an invocation short; where nothing waits any more, there are more events. */
async function passTimeIfIdle(): Promise<void> {
  if (consumer.open() > 0 || (await busy()).length > 0) return;
  const { idle, ready, hidden, wakeUps } = await embedded.look();
  const isHolding = (await embedded.registry.get('killed'))?.lane.holding !== undefined;
  if (idle && ready + hidden + wakeUps === 0 && !isHolding) await sendMore(50);
  else await embedded.advance(20_000);
}

describe('SIGKILL of whoever sends while requests are in flight (U4, L1)', () => {
  it(`${kills} times in ${events} events or more: all end, lanes heal, and no request is without its ambiguous attempt`, { timeout: 240_000 }, async () => {
    await embedded.register('killed', consumer.url(), { retry: { baseS: 5, factor: 1, attempts: 25 } });
    consumer.reply(() => ({ status: 200, afterMs: 120 }));
    await sendMore(events);

    for (let done = 0; done < kills; ) {
      if (consumer.open() > 0) {
        if (await killWhileSending()) done++;
      } else {
        await passTimeIfIdle();
      }
    }
    await embedded.drainQueue(200_000);

    const records = await Promise.all(ids.map((id) => embedded.record('killed', id)));
    expect(records.filter((r) => r?.state !== 'delivered')).toEqual([]);
    const extra = ids.map((id, i) => ({
      id,
      requests: consumer.requests.filter((r) => r.eventId === id).length,
      ambiguous: records[i]?.ambiguous ?? 0,
    }));
    // Per event, not in sum: an ambiguous attempt of one must not excuse a duplicate of another.
    expect(extra.filter((e) => e.requests > 1 + e.ambiguous)).toEqual([]);
    const ambiguous = extra.reduce((sum, e) => sum + e.ambiguous, 0);
    expect(ambiguous).toBeGreaterThanOrEqual(consumer.orphaned());
    console.log(`${ids.length} events, ${kills} kills: ${consumer.requests.length} requests, ${ambiguous} ambiguous attempts`);

    // Every repeat of what may have arrived says so.
    const repeats = consumer.requests.filter((r, i) => consumer.requests.findIndex((o) => o.eventId === r.eventId) < i);
    expect(repeats.filter((r) => r.headers['sluice-possible-duplicate'] !== 'true')).toEqual([]);
  });

  it('the lane is whole again once somebody needs the room', async () => {
    const before = (await embedded.registry.get('killed'))?.lane;
    expect(before?.claims.size).toBe(0);
    expect((before?.avail ?? 0) + [...(before?.leases.values() ?? [])].reduce((sum, l) => sum + l.slots, 0)).toBe(before?.slots);

    consumer.reply(() => ({ status: 200, afterMs: 1_500 }));
    const ids = Array.from({ length: 30 }, (_, i) => `evt_after_${i}`);
    await Promise.all(ids.map((id) => embedded.send(messageBody('killed', id))));
    await until('the lane is used to its full width', () => consumer.open() === before?.slots);
    await embedded.drainQueue();
    const after = await until('the last give-back', async () => {
      const lane = (await embedded.registry.get('killed'))?.lane;
      return lane !== undefined && inFlight(lane, Number.MAX_SAFE_INTEGER) === 0 && lane.leases.size === 0 ? lane : undefined;
    });
    expect(after).toMatchObject({ avail: 8, slots: 8 });
  });
});
