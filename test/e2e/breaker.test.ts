import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { closedPort } from '../support/hostile-server.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let healthy: Recorder;
let recovered: Recorder | undefined;
beforeAll(async () => {
  embedded = await startEmbedded();
  healthy = await startRecorder(embedded.authority);
});
afterAll(async () => {
  await Promise.all([healthy.close(), recovered?.close()]);
  await embedded.stop();
});

const events = Array.from({ length: 300 }, (_, i) => `evt_${i}`);

async function sendAll(endpointId: string): Promise<void> {
  for (let i = 0; i < events.length; i += 10) {
    const Entries = events.slice(i, i + 10).map((eventId) => ({ Id: eventId, MessageBody: messageBody(endpointId, eventId) }));
    await embedded.sqs.send(new SendMessageBatchCommand({ QueueUrl: embedded.output(outputs.deliveryQueueUrl), Entries }));
  }
}

const said = () => embedded.logs().split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>);
const attemptsOf = (endpointId: string) => said().filter((line) => line['message'] === 'attempt' && line['endpointId'] === endpointId);

describe('an endpoint whose host refuses connections', () => {
  it('is left alone but for a canary now and then, and gets everything when it is back (R7)', { timeout: 180_000 }, async () => {
    const port = await closedPort();
    await embedded.register('dead', `https://localhost:${port}/in`);
    await embedded.register('healthy', healthy.url());
    await sendAll('dead');
    await embedded.send(messageBody('healthy', 'evt_other'));
    const { nowEpochMs: startEpochMs } = await embedded.look();
    await until('a quarter of an hour has passed', async () => {
      const { idle, nowEpochMs } = await embedded.look();
      if (idle) await embedded.skip({ beyondMs: 20_000 });
      return idle && nowEpochMs >= startEpochMs + 900_000;
    }, 120_000);

    expect(healthy.requests.map((request) => request.eventId)).toEqual(['evt_other']);
    // At most a lane of eight when it fails first, five canaries in fifteen minutes, and those of the senders who come late.
    const before = attemptsOf('dead');
    expect(before.length).toBeGreaterThanOrEqual(5 + 4);
    expect(before.length).toBeLessThanOrEqual(60);
    expect((await embedded.registry.get('dead'))?.lane.breaker).toMatchObject({ state: 'open' });

    recovered = await startRecorder(embedded.authority, port);
    await embedded.drainQueue(120_000);
    const delivered = attemptsOf('dead').filter((line) => line['state'] === 'delivered');
    expect(delivered).toHaveLength(events.length);
    expect(recovered.requests.map((request) => request.eventId).sort()).toEqual(events.toSorted());
    expect((await embedded.registry.get('dead'))?.lane).toMatchObject({ avail: 8, leases: new Map(), claims: new Map(), breaker: { state: 'closed' } });
    for (const queue of ['deadLetterQueueUrl', 'faultQueueUrl'] as const) expect(await depth(embedded.sqs, embedded.output(outputs[queue]))).toEqual({ ready: 0, hidden: 0 });
  });
});
