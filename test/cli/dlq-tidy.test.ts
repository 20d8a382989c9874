/** `sluice dlq tidy`: copies in the dead-letter queue that deliver nothing any more. */
import { CancelMessageMoveTaskCommand, CreateQueueCommand, GetQueueAttributesCommand, SendMessageCommand, StartMessageMoveTaskCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { runCli } from '../support/cli.ts';
import { depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
const sluice = (...args: string[]) => runCli(embedded.localFile, args);
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  // The sweep, which does the same each minute, must leave it to the command.
  await embedded.refuse({ service: 'sqs', code: 'AccessDeniedException', operation: 'ListMessageMoveTasks', function: 'sweep' });
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const queueUrl = () => embedded.output(outputs.deadLetterQueueUrl);
const inQueue = () => depth(embedded.sqs, queueUrl());

/** Five dead ones, of which one is dropped; a copy of one that was delivered; a text that nobody knows. */
async function mixture(id: string): Promise<void> {
  await embedded.register(id, consumer.url());
  consumer.reply(() => ({ status: 400 }));
  for (const n of [1, 2, 3, 4, 5]) await embedded.send(messageBody(id, `evt_${n}`));
  await until('five are dead', async () => (await sluice('dlq', 'ls', '--endpoint', id, '--json')).json<unknown[]>().length === 5);
  expect((await sluice('dlq', 'drop', '--endpoint', id, '--event', 'evt_1', '--why', 'x', '--yes')).code).toBe(0);
  consumer.reply(() => ({ status: 200 }));
  await embedded.send(messageBody(id, 'evt_ok'));
  await until('one is delivered', async () => (await embedded.record(id, 'evt_ok'))?.state === 'delivered');
  const copy = (MessageBody: string) => embedded.sqs.send(new SendMessageCommand({ QueueUrl: queueUrl(), MessageBody, MessageAttributes: { 'sluice-gen': { DataType: 'Number', StringValue: '0' } } }));
  await copy(messageBody(id, 'evt_ok'));
  await copy('by hand');
}

describe('dlq tidy', () => {
  it('counts with --dry-run, deletes what is stale, and leaves what a replay sends', async () => {
    await mixture('tidy');
    const before = await inQueue();
    const dry = await sluice('dlq', 'tidy', '--dry-run', '--json');
    expect(dry).toMatchObject({ code: 0, stderr: expect.stringContaining('Target: local') as string });
    expect(dry.json()).toEqual({ looked: 7, stale: 2, deleted: 0, kept: 4, unknown: 1 });
    expect(await inQueue()).toEqual(before);

    const tidied = await sluice('dlq', 'tidy', '--json');
    expect(tidied.stderr).toContain('Looked at 7 copies, deleted 2');
    expect(tidied.json()).toEqual({ looked: 7, stale: 2, deleted: 2, kept: 4, unknown: 1 });
    expect(await inQueue()).toEqual({ ready: 5, hidden: 0 });
    expect((await sluice('dlq', 'tidy')).stdout).toContain('5 copies: 0 stale (0 deleted), 4 kept for a replay, 1 kept because no record tells what they are.');

    expect((await sluice('dlq', 'replay', '--endpoint', 'tidy', '--yes')).code).toBe(0);
    await until('all four are delivered', async () => {
      const records = await Promise.all([2, 3, 4, 5].map((n) => embedded.record('tidy', `evt_${n}`)));
      return records.every((record) => record?.state === 'delivered');
    });
  });

  it('does nothing while SQS moves messages out of the queue, and says what to do', async () => {
    await mixture('moving');
    const [{ QueueUrl = '' }, { Attributes = {} }] = await Promise.all([
      embedded.sqs.send(new CreateQueueCommand({ QueueName: 'parking' })),
      embedded.sqs.send(new GetQueueAttributesCommand({ QueueUrl: queueUrl(), AttributeNames: ['QueueArn'] })),
    ]);
    const parking = await embedded.sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }));
    const start = new StartMessageMoveTaskCommand({ SourceArn: Attributes['QueueArn'], DestinationArn: parking.Attributes?.['QueueArn'], MaxNumberOfMessagesPerSecond: 1 });
    const { TaskHandle } = await embedded.sqs.send(start);
    const refused = await sluice('dlq', 'tidy', '--json');
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/moving messages out of the dead-letter queue.*Repeat when it has ended/) as string });
    expect(refused.json()).toMatchObject({ looked: 0, deleted: 0 });
    expect((await inQueue()).hidden).toBe(0);
    await embedded.sqs.send(new CancelMessageMoveTaskCommand({ TaskHandle }));
    expect((await sluice('dlq', 'tidy')).code).toBe(0);
  });
});
