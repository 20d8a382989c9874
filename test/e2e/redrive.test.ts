/** The console's redrive of a dead letter, and copies of the message that come at the wrong time (R10). */
import { GetQueueAttributesCommand, ListMessageMoveTasksCommand, StartMessageMoveTaskCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { deadLettersOf, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const url = (output: string) => embedded.output(output);
const arnOf = async (QueueUrl: string) => (await embedded.sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }))).Attributes?.['QueueArn'] ?? '';
const requests = (eventId: string) => consumer.requests.filter((request) => request.eventId === eventId);
const record = (eventId: string) => embedded.record('acme', eventId);

/** What the console does, with the delivery queue as custom destination. */
async function redrive(): Promise<void> {
  // A copy that the sweep looks at just then would not be moved.
  await deadLettersOf(embedded);
  const SourceArn = await arnOf(url(outputs.deadLetterQueueUrl));
  await embedded.sqs.send(new StartMessageMoveTaskCommand({ SourceArn, DestinationArn: await arnOf(url(outputs.deliveryQueueUrl)) }));
  await until('the move task has ended', async () => (await embedded.sqs.send(new ListMessageMoveTasksCommand({ SourceArn }))).Results?.[0]?.Status === 'COMPLETED');
}

async function die(eventId: string, body: string): Promise<void> {
  consumer.reply(() => ({ status: 422 }));
  await embedded.send(body);
  await until(`${eventId} is buried`, async () => {
    const found = await record(eventId);
    return found?.state === 'dead' && found.phase === 'buried';
  });
  await embedded.drainQueue();
}

it('delivers a dead letter; a duplicate of the original, before and after, delivers nothing', async () => {
  await embedded.register('acme', consumer.url());
  const body = messageBody('acme', 'evt_dead', '{"n":1.0}');
  await die('evt_dead', body);
  // SQS hands a message out twice, or late.
  await embedded.send(body);
  await embedded.drainQueue();
  expect([requests('evt_dead').length, await record('evt_dead')]).toMatchObject([1, { state: 'dead', generation: 0 }]);
  expect(await deadLettersOf(embedded)).toBe(1);

  consumer.reply(() => ({ status: 200 }));
  await redrive();
  await until('it is delivered', async () => (await record('evt_dead'))?.state === 'delivered');
  await embedded.send(body);
  await embedded.send(body, { generation: 0 });
  await embedded.drainQueue();
  expect(requests('evt_dead').map((request) => request.body.toString())).toEqual(['{"n":1.0}', '{"n":1.0}']);
  expect(await record('evt_dead')).toMatchObject({ state: 'delivered', generation: 1, attempt: 1 });
  expect(await deadLettersOf(embedded)).toBe(0);
});

it('of what still fails makes the dead letter of the next generation, which can be redriven again', async () => {
  const body = messageBody('acme', 'evt_twice');
  await die('evt_twice', body);
  await redrive();
  await until('it is dead again', async () => {
    const found = await record('evt_twice');
    return found?.state === 'dead' && found.phase === 'buried' && found.generation === 1;
  });
  await embedded.drainQueue();
  // The copy of the generation before says nothing any more.
  consumer.reply(() => ({ status: 200 }));
  await embedded.send(body, { generation: 0 });
  await embedded.drainQueue();
  expect([requests('evt_twice').length, await record('evt_twice')]).toMatchObject([2, { state: 'dead', generation: 1 }]);
  await redrive();
  await until('it is delivered', async () => (await record('evt_twice'))?.state === 'delivered');
  expect(requests('evt_twice')).toHaveLength(3);
});
