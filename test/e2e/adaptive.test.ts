/** Read budgets that follow what is measured (T5), through the whole stack, on real sockets. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCli } from '../support/cli.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder, type Reply } from '../support/recorder.ts';

let embedded: Embedded;
let consumers: Recorder[];
beforeAll(async () => {
  embedded = await startEmbedded();
  consumers = await Promise.all([startRecorder(embedded.authority), startRecorder(embedded.authority)]);
});
afterAll(async () => {
  await Promise.all(consumers.map((consumer) => consumer.close()));
  await embedded.stop();
});

const adaptiveRead = { minMs: 3_000, maxMs: 15_000 };
const budgetOf = async (endpointId: string) => {
  const answer = await runCli(embedded.localFile, ['status', endpointId, '--json']);
  expect(answer.code).toBe(0);
  return answer.json<{ evidence: { readBudgetMs: number } }>().evidence.readBudgetMs;
};
const delivered = (endpointId: string, eventIds: readonly string[]) =>
  until(`all of ${endpointId} are delivered`, async () => (await Promise.all(eventIds.map((id) => embedded.record(endpointId, id)))).every((record) => record?.state === 'delivered'), 90_000);
/** One after the other, so that only one is in flight. */
async function singly(endpointId: string, n: number): Promise<void> {
  for (let i = 0; i < n; i++) {
    await embedded.send(messageBody(endpointId, `calm_${i}`));
    await delivered(endpointId, [`calm_${i}`]);
  }
}

/** Serves one request at a time: the last of twenty waits for the nineteen before it. */
function oneAtATime(ms: number): () => Reply {
  let freeAtMs = 0;
  return () => {
    const nowMs = performance.now();
    freeAtMs = Math.max(freeAtMs, nowMs) + ms;
    return { status: 200, afterMs: freeAtMs - nowMs };
  };
}

it('an endpoint that slows from 200 ms to 4 s under its own load is not cut off', { timeout: 180_000 }, async () => {
  const consumer = consumers[0] as Recorder;
  consumer.reply(oneAtATime(200));
  await embedded.register('serial', consumer.url(), { maxInFlight: 20, adaptiveRead });
  await singly('serial', 25);
  const calmMs = await budgetOf('serial');
  // Three times the measured 200 ms would be the shortest; a full lane is thought of. How much more it is depends on the machine.
  expect(calmMs).toBeGreaterThan(9_000);
  const burst = [...Array(60).keys()].map((i) => `burst_${i}`);
  await Promise.all(burst.map((eventId) => embedded.send(messageBody('serial', eventId))));
  await until('all have come', async () => {
    await embedded.skip({ beyondMs: 20_000, toWakeUps: true });
    return burst.every((eventId) => consumer.requests.some((request) => request.eventId === eventId));
  }, 90_000);
  await delivered('serial', burst);
  expect(consumer.mostLive()).toBeGreaterThanOrEqual(15);
  expect(consumer.requests).toHaveLength(25 + burst.length);
});

it('one answer that hangs is given up early, and tried again with the longest time', { timeout: 90_000 }, async () => {
  const consumer = consumers[1] as Recorder;
  consumer.reply(() => ({ status: 200 }));
  await embedded.register('quick', consumer.url(), { maxInFlight: 1, adaptiveRead });
  await singly('quick', 20);
  expect(await budgetOf('quick')).toBe(3_000);
  // The first is never answered within any budget, the second later than the early one.
  consumer.reply((_request, nth) => ({ status: 200, afterMs: nth === 1 ? 30_000 : 4_500 }));
  await embedded.send(messageBody('quick', 'hangs'));
  await embedded.passDue('quick', 'hangs', 1);
  await delivered('quick', ['hangs']);
  const record = await embedded.record('quick', 'hangs');
  expect(record?.history.map(({ outcome, detail }) => `${outcome}: ${detail}`)).toEqual(['ambiguous: headers timeout', expect.stringMatching(/^answered/)]);
  // Between the early budget and the longest, however slow this machine is.
  expect(record?.history[0]?.durationMs).toBeGreaterThanOrEqual(2_900);
  expect(record?.history[0]?.durationMs).toBeLessThan(14_000);
});
