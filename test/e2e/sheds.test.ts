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

const daysS = 2 * 86_400;
const empty = { ready: 0, hidden: 0 };

describe('a lane whose only slot is taken', () => {
  it('is found full twice by a message, which is then held for days without a step towards a dead letter, and delivered (L3, L4)', { timeout: 120_000 }, async () => {
    await embedded.register('full', consumer.url(), { maxInFlight: 1, retry: { maxAgeS: 604_800 } });
    const { nowEpochMs } = await embedded.look();
    const giveBack = await occupySlot(embedded, { endpointId: 'full', eventId: 'evt_other', expiresEpochMs: nowEpochMs + 604_800_000 });
    const since = (await embedded.calls()).at(-1)?.seq ?? 0;
    await embedded.send(messageBody('full', 'evt_shed'));

    await until('two days have passed', async () => {
      const { idle, nowEpochMs: now } = await embedded.skip({ beyondMs: 3_600_000 });
      if (!idle) return false;
      for (const queue of ['deadLetterQueueUrl', 'faultQueueUrl'] as const) expect(await depth(embedded.sqs, embedded.output(outputs[queue]))).toEqual(empty);
      return now > nowEpochMs + daysS * 1_000;
    }, 100_000);
    const receives = (await embedded.calls(since)).filter((call) => call.caller.includes('Deliver') && call.action === 'dynamodb:UpdateItem' && call.outcome === 'ConditionalCheckFailedException');
    expect(receives).toHaveLength(3);
    expect(embedded.logs().match(/"message":"shed"/g)).toHaveLength(3);
    expect(await embedded.record('full', 'evt_shed')).toMatchObject({ state: 'waiting', home: 'held', attempt: 0 });
    expect(consumer.requests).toEqual([]);
    expect((await embedded.registry.get('full'))?.lane).toMatchObject({ avail: 0, failures: 0, breaker: undefined, holding: { count: 1 } });

    await giveBack();
    await until('it is delivered', async () => {
      await embedded.skip();
      return (await embedded.record('full', 'evt_shed'))?.state === 'delivered';
    });
    await embedded.drainQueue();
    expect(await embedded.record('full', 'evt_shed')).toMatchObject({ state: 'delivered', attempt: 1, ambiguous: 0 });
    expect((await embedded.registry.get('full'))?.lane).toMatchObject({ slots: 1, avail: 1, failures: 0, leases: new Map(), claims: new Map(), holding: undefined });
    for (const queue of ['deadLetterQueueUrl', 'faultQueueUrl'] as const) expect(await depth(embedded.sqs, embedded.output(outputs[queue]))).toEqual(empty);
  });
});
