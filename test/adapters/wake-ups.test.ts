/** Orders of the drain: soon a message, later a schedule, which a newer order replaces and which deletes itself. */
import { ConflictException, CreateScheduleCommand, ResourceNotFoundException, SchedulerClient, UpdateScheduleCommand } from '@aws-sdk/client-scheduler';
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { mockClient } from 'aws-sdk-client-mock';
import { beforeEach, describe, expect, it } from 'vitest';
import { createWakeUps, scheduleName, sendWakeUp } from '../../lambdas/shared/adapters/wake-ups.ts';
import { hold as limits } from '../../lambdas/shared/limits/numbers.ts';
import { t0EpochMs } from '../support/builders.ts';

const target = { drainQueueUrl: 'https://sqs/drain', drainQueueArn: 'arn:drain', group: 'wake-ups', roleArn: 'arn:role' };
const sqs = mockClient(SQSClient);
const scheduler = mockClient(SchedulerClient);
beforeEach(() => {
  sqs.reset();
  scheduler.reset();
});

const order = (inMs: number, endpointId = 'acme') => createWakeUps(new SQSClient({ region: 'x' }), new SchedulerClient({ region: 'x' }), target).order(endpointId, t0EpochMs + inMs, t0EpochMs);
const refusal = { $metadata: {}, Message: 'x', message: 'x' };
const conflict = () => new ConflictException(refusal);
const notFound = () => new ResourceNotFoundException(refusal);
const calls = () => scheduler.calls().map(({ args: [command] }) => command.constructor.name);

describe('a wake-up that is due soon', () => {
  it.each([
    ['past', -5_000, 0],
    ['now', 0, 0],
    ['in a part of a second', 1, 1],
    ['in some seconds', 12_300, 13],
    ['as late as a message brings it', limits.directMs, limits.directMs / 1_000],
  ])('is a message of the drain queue with a delay: %s', async (_when, inMs, DelaySeconds) => {
    await order(inMs);
    expect(sqs.commandCalls(SendMessageCommand).map(({ args: [{ input }] }) => input)).toEqual([
      { QueueUrl: target.drainQueueUrl, MessageBody: '{"endpointId":"acme"}', DelaySeconds },
    ]);
    expect(calls()).toEqual([]);
  });

  it('rejects where it is not known to be sent', async () => {
    sqs.on(SendMessageCommand).rejects(new Error('away'));
    await expect(order(0)).rejects.toThrow('away');
    await expect(sendWakeUp(new SQSClient({ region: 'x' }), target.drainQueueUrl, 'acme')).rejects.toThrow('away');
  });
});

describe('a wake-up that is due later', () => {
  const later = limits.directMs + 1;

  it('is a schedule for that very second or the next, which deletes itself', async () => {
    await order(later);
    expect(calls()).toEqual(['CreateScheduleCommand']);
    expect(scheduler.commandCalls(CreateScheduleCommand)[0]?.args[0].input).toEqual({
      Name: scheduleName('acme'), GroupName: 'wake-ups', ScheduleExpression: 'at(2026-01-05T10:01:01)', ScheduleExpressionTimezone: 'UTC',
      FlexibleTimeWindow: { Mode: 'OFF' }, ActionAfterCompletion: 'DELETE', Target: { Arn: 'arn:drain', RoleArn: 'arn:role', Input: '{"endpointId":"acme"}' },
    });
    expect(sqs.calls()).toEqual([]);
  });

  it('replaces an older one', async () => {
    scheduler.on(CreateScheduleCommand).rejects(conflict());
    await order(later);
    expect(calls()).toEqual(['CreateScheduleCommand', 'UpdateScheduleCommand']);
    const [created, updated] = scheduler.calls().map(({ args: [command] }) => command.input);
    expect(updated).toEqual(created);
  });

  it('is made anew where the older one fired between', async () => {
    scheduler.on(CreateScheduleCommand).rejectsOnce(conflict()).resolves({});
    scheduler.on(UpdateScheduleCommand).rejects(notFound());
    await order(later);
    expect(calls()).toEqual(['CreateScheduleCommand', 'UpdateScheduleCommand', 'CreateScheduleCommand']);
  });

  it('rejects where it is not known to be ordered', async () => {
    scheduler.on(CreateScheduleCommand).rejects(new Error('away'));
    await expect(order(later)).rejects.toThrow('away');
    scheduler.on(CreateScheduleCommand).rejects(conflict());
    scheduler.on(UpdateScheduleCommand).rejects(new Error('update away'));
    await expect(order(later)).rejects.toThrow('update away');
    scheduler.on(UpdateScheduleCommand).rejects(notFound());
    await expect(order(later)).rejects.toThrow(ConflictException);
  });

  it('has a name that Scheduler takes, of its own for each endpoint, however long that one\'s is', () => {
    const ids = ['acme', 'a'.repeat(128), `${'a'.repeat(127)}b`, 'A'.repeat(128), 'x.y:z_-'];
    const names = ids.map(scheduleName);
    for (const name of names) expect(name).toMatch(/^[0-9a-zA-Z_.-]{1,64}$/);
    expect(new Set(names).size).toBe(ids.length);
  });
});
