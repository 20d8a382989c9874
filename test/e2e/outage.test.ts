import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { deadLettersOf, depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
beforeAll(async () => {
  embedded = await startEmbedded({ concurrency: 1 });
  consumer = await startRecorder(embedded.authority);
});
afterEach(() => embedded.heal());
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const dayMs = 86_400_000;
/** 33 to 40 by the design (putBack in limits/numbers.ts); the queue gives up on a message at 100. */
const mostReceives = 50;

/** Lets each message come back as soon as it is visible, for a day. @returns the highest receive count. */
async function passDay(): Promise<number> {
  const { nowEpochMs: startEpochMs } = await embedded.look();
  return until('a day has passed', async () => {
    const { idle, nowEpochMs } = await embedded.look();
    if (!idle) return false;
    const skipped = await embedded.skip({ limitMs: startEpochMs + dayMs - nowEpochMs });
    return skipped.nowEpochMs >= startEpochMs + dayMs && skipped.idle ? skipped.mostReceives : false;
  }, 500_000);
}

const inQueue = (queue: keyof typeof outputs) => depth(embedded.sqs, embedded.output(outputs[queue]));
const empty = { ready: 0, hidden: 0 };

// In this order: the refusals of the first use up what the SDK allows itself of retries, which it would space out by half a
// second each when it is throttled. The function meets both kinds either way: refused after retries, and refused at once.
const codes = ['InternalServerError', 'ThrottlingException'];

describe('a DynamoDB that refuses every call for a day', () => {
  it.each(codes)('with %s: nothing is lost, sent, or taken for a fault of the messages', { timeout: 600_000 }, async (code) => {
    const [known, unseen] = [`known-${code}`, `unseen-${code}`];
    await embedded.register(known, consumer.url());
    await embedded.register(unseen, consumer.url());
    // The function has the configuration of one endpoint in its cache: that one's outage begins at the lane.
    await embedded.send(messageBody(known, `before-${code}`));
    await embedded.drainQueue();
    const requests = consumer.requests.length;
    const deadLetters = await deadLettersOf(embedded);

    await embedded.refuse({ service: 'dynamodb', code, function: 'deliver' });
    await embedded.send(messageBody(known, `evt-${code}`));
    await embedded.send(messageBody(unseen, `evt-${code}`));
    await embedded.send(`{"endpointId":"${known}"}`);
    expect(await passDay()).toBeLessThanOrEqual(mostReceives);
    expect(await inQueue('faultQueueUrl')).toEqual(empty);
    expect(await deadLettersOf(embedded)).toBe(deadLetters);
    expect(consumer.requests).toHaveLength(requests);

    await embedded.heal();
    await embedded.drainQueue();
    for (const endpointId of [known, unseen]) {
      expect(await embedded.record(endpointId, `evt-${code}`)).toMatchObject({ state: 'delivered', attempt: 1, ambiguous: 0 });
    }
    expect(consumer.requests).toHaveLength(requests + 2);
    expect(await deadLettersOf(embedded)).toBe(deadLetters + 1);
    expect(await inQueue('faultQueueUrl')).toEqual(empty);
  });
});
