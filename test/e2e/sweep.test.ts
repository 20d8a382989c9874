import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { DeleteScheduleCommand, GetScheduleCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { scheduleName } from '../../lambdas/shared/adapters/wake-ups.ts';
import { env, outputs } from '../../lambdas/shared/limits/names.ts';
import { sweep as limits } from '../../lambdas/shared/limits/numbers.ts';
import { metricsOf } from '../support/alarm-evaluator.ts';
import { depth, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { runCli } from '../support/cli.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
let scheduler: SchedulerClient;
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  const { endpoint, region, credentials } = embedded.local;
  scheduler = new SchedulerClient({ endpoint, region, credentials });
});
afterAll(async () => {
  scheduler.destroy();
  await consumer.close();
  await embedded.stop();
});

describe('a wake-up whose schedule was deleted behind our back', () => {
  it('is found by the sweep within its period', { timeout: 60_000 }, async () => {
    await embedded.register('lost', consumer.url());
    const lanes = createDynamoDbLanes(embedded.db, { endpoints: embedded.output(outputs.endpointsTable), deliveries: embedded.output(outputs.deliveriesTable) });
    const untilEpochMs = (await embedded.look()).nowEpochMs + 300_000;
    await lanes.moveBreaker('lost', undefined, { state: 'open', round: 1, cause: 'failing', untilEpochMs, trips: 5, canary: undefined });
    await embedded.send(messageBody('lost', 'evt'));
    await until('it is held', async () => (await embedded.record('lost', 'evt')) !== undefined && (await embedded.look()).wakeUps === 1);

    const variables = (await embedded.stack()).functions.find(({ name }) => name === embedded.output(outputs.deliverFunction))?.env ?? {};
    const schedule = { Name: scheduleName('lost'), GroupName: variables[env.wakeUpGroup] };
    // One-time, in whole seconds of UTC, gone by itself; and nothing but the endpoint's id in it.
    expect(await scheduler.send(new GetScheduleCommand(schedule))).toMatchObject({
      ScheduleExpression: `at(${new Date(Math.ceil(untilEpochMs / 1_000) * 1_000).toISOString().slice(0, 19)})`,
      ScheduleExpressionTimezone: 'UTC', ActionAfterCompletion: 'DELETE', Target: { Input: '{"endpointId":"lost"}' },
    });
    await scheduler.send(new DeleteScheduleCommand(schedule));

    const idle = () => until('nothing is under way', async () => (await embedded.look()).idle);
    await embedded.advance(untilEpochMs - (await embedded.look()).nowEpochMs);
    await idle();
    expect(consumer.requests).toEqual([]);
    for (let passedMs = 0; passedMs < limits.periodS * 1_000 + limits.graceMs && consumer.requests.length === 0; passedMs += 5_000) {
      await embedded.advance(5_000);
      await idle();
    }
    await until('it is delivered', async () => (await embedded.record('lost', 'evt'))?.state === 'delivered');
    expect(embedded.logsOf('sweep')).toContain('"message":"wake-up-lost"');
  });
});

describe('the dead-letter queue', () => {
  const QueueUrl = () => embedded.output(outputs.deadLetterQueueUrl);
  const isDead = async (eventId: string) => {
    const record = await embedded.record('dead', eventId);
    return record?.state === 'dead' && record.phase === 'buried';
  };
  const tidied = () => embedded.logsOf('sweep').split('\n').filter((line) => line.includes('"message":"tidied"')).map((line) => JSON.parse(line) as Record<string, unknown>);

  it('loses the copies of what was dropped or has gone on, and no other', { timeout: 60_000 }, async () => {
    await embedded.refuse({ service: 'sqs', code: 'AccessDeniedException', operation: 'ListMessageMoveTasks', function: 'sweep' });
    await embedded.register('dead', consumer.url());
    consumer.reply(() => ({ status: 400 }));
    for (const eventId of ['evt_keep', 'evt_drop', 'evt_resent']) await embedded.send(messageBody('dead', eventId));
    await until('three are dead', async () => (await Promise.all(['evt_keep', 'evt_drop', 'evt_resent'].map(isDead))).every((dead) => dead));
    consumer.reply(() => ({ status: 200 }));
    await embedded.send(messageBody('dead', 'evt_resent', undefined, { resend: 1 }));
    await until('one is delivered by a resend', async () => (await embedded.record('dead', 'evt_resent'))?.state === 'delivered');
    expect(await runCli(embedded.localFile, ['dlq', 'drop', '--event', 'evt_drop', '--why', 'x', '--yes'])).toMatchObject({ code: 0 });
    await embedded.sqs.send(new SendMessageCommand({ QueueUrl: QueueUrl(), MessageBody: 'by hand' }));

    // While nobody can say whether SQS moves messages out of the queue, nothing is deleted.
    const idle = () => until('the sweep has ended', async () => (await embedded.look()).idle);
    await embedded.advance(limits.periodS * 1_000);
    await until('it has tried', () => embedded.logsOf('sweep').includes('"message":"tidy-failed"'));
    await idle();
    // In embedded metric format, as the log group takes it.
    expect(embedded.logsOf('sweep')).toMatch(new RegExp(`"Namespace":"${embedded.output(outputs.metricNamespace)}".*"Name":"oldest_unknown_age","Unit":"Seconds".*"oldest_unknown_age":0`));
    expect(await depth(embedded.sqs, QueueUrl())).toEqual({ ready: 4, hidden: 0 });
    await embedded.heal();
    await embedded.advance(limits.periodS * 1_000);
    await until('both stale copies are deleted', () => tidied().some((line) => line['deleted'] === 2));
    await idle();
    expect(tidied().at(-1)).toMatchObject({ looked: 4, stale: 2, deleted: 2, kept: 1, unknown: 1 });
    const ages = metricsOf(embedded.logsOf('sweep')).filter(({ name }) => name === 'oldest_dead_letter_age').flatMap(({ values }) => values);
    expect(ages.at(-1)).toBeGreaterThanOrEqual(2 * limits.periodS);
    expect(ages.at(-1)).toBeLessThan(10 * limits.periodS);
    expect(await depth(embedded.sqs, QueueUrl())).toEqual({ ready: 2, hidden: 0 });
    expect(await runCli(embedded.localFile, ['dlq', 'replay', '--endpoint', 'dead', '--yes'])).toMatchObject({ code: 0 });
    await until('what was kept is delivered', async () => (await embedded.record('dead', 'evt_keep'))?.state === 'delivered');
    expect(consumer.requests.filter(({ eventId }) => eventId === 'evt_drop')).toHaveLength(1);
  });
});
