import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { occupySlot } from '../support/occupied-lane.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
beforeAll(async () => {
  embedded = await startEmbedded({ concurrency: 1 });
  consumer = await startRecorder(embedded.authority);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

/** The queue gives up on a message at 100. */
const sheds = 90;
const weekS = 604_800;
const empty = { ready: 0, hidden: 0 };

describe('a lane whose only slot is taken', () => {
  it(`sheds one message ${sheds} times without a step towards a dead letter, and then delivers it (L3)`, async () => {
    await embedded.register('full', consumer.url(), { maxInFlight: 1, retry: { maxAgeS: weekS } });
    const { nowEpochMs } = await embedded.look();
    const giveBack = await occupySlot(embedded, { endpointId: 'full', eventId: 'evt_other', expiresEpochMs: nowEpochMs + weekS * 1_000 });
    const since = (await embedded.calls()).at(-1)?.seq ?? 0;
    await embedded.send(messageBody('full', 'evt_shed'));

    await until(`${sheds} receives`, async () => {
      const { idle, mostReceives } = await embedded.look();
      if (!idle) return false;
      for (const queue of ['deadLetterQueueUrl', 'faultQueueUrl'] as const) expect(await depth(embedded.sqs, embedded.output(outputs[queue]))).toEqual(empty);
      if (mostReceives === sheds) return true;
      await embedded.skip();
      return false;
    });
    const calls = (await embedded.calls(since)).filter((call) => call.caller.includes('Deliver') && call.action === 'dynamodb:UpdateItem');
    expect(calls.map((call) => call.outcome)).toEqual(Array(sheds).fill('ConditionalCheckFailedException'));
    expect(calls.filter((call) => call.resource.endsWith(embedded.output(outputs.deliveriesTable)))).toEqual([]);
    expect(embedded.logs().match(/"message":"shed"/g)).toHaveLength(sheds);
    expect(await embedded.record('full', 'evt_shed')).toBeUndefined();
    expect(consumer.requests).toEqual([]);

    await giveBack();
    await embedded.drainQueue();
    expect(await embedded.record('full', 'evt_shed')).toMatchObject({ state: 'delivered', attempt: 1, ambiguous: 0 });
    expect((await embedded.registry.get('full'))?.lane).toMatchObject({ slots: 1, avail: 1, failures: 0, leases: new Map(), claims: new Map() });
    for (const queue of ['deadLetterQueueUrl', 'faultQueueUrl'] as const) expect(await depth(embedded.sqs, embedded.output(outputs[queue]))).toEqual(empty);
  });
});
