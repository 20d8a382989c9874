import { DeleteScheduleCommand, GetScheduleCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { scheduleName } from '../../lambdas/shared/adapters/wake-ups.ts';
import { env, outputs } from '../../lambdas/shared/limits/names.ts';
import { sweep as limits } from '../../lambdas/shared/limits/numbers.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
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
