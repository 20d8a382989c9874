import { createHash } from 'node:crypto';
import { ConflictException, CreateScheduleCommand, ResourceNotFoundException, UpdateScheduleCommand, type SchedulerClient } from '@aws-sdk/client-scheduler';
import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { hold as limits } from '../limits/numbers.ts';
import type { WakeUps } from '../ports/index.ts';

export interface WakeUpTarget {
  readonly drainQueueUrl: string;
  readonly drainQueueArn: string;
  readonly group: string;
  readonly roleArn: string;
}

/**
 * Soon, a message of the drain queue with a delay; later, one one-time schedule for each endpoint, which a newer order replaces
 * and which deletes itself. Either carries the endpoint's id and nothing else.
 */
export function createWakeUps(sqs: SQSClient, scheduler: SchedulerClient, target: WakeUpTarget): WakeUps {
  return {
    async order(endpointId, atEpochMs, nowEpochMs) {
      const waitMs = Math.max(0, atEpochMs - nowEpochMs);
      if (waitMs <= limits.directMs) return sendWakeUp(sqs, target.drainQueueUrl, endpointId, Math.ceil(waitMs / 1_000));
      const schedule = {
        Name: scheduleName(endpointId),
        GroupName: target.group,
        ScheduleExpression: `at(${new Date(Math.ceil(atEpochMs / 1_000) * 1_000).toISOString().slice(0, 19)})`,
        ScheduleExpressionTimezone: 'UTC',
        FlexibleTimeWindow: { Mode: 'OFF' },
        ActionAfterCompletion: 'DELETE',
        Target: { Arn: target.drainQueueArn, RoleArn: target.roleArn, Input: wakeUpBody(endpointId) },
      } as const;
      if (await isDone(() => scheduler.send(new CreateScheduleCommand(schedule)), ConflictException)) return;
      if (await isDone(() => scheduler.send(new UpdateScheduleCommand(schedule)), ResourceNotFoundException)) return;
      // It fired between the two, and has deleted itself.
      await scheduler.send(new CreateScheduleCommand(schedule));
    },
  };
}

/** False where it was refused by an error of that class. */
async function isDone(send: () => Promise<unknown>, refusal: new (...args: never[]) => Error): Promise<boolean> {
  try {
    await send();
    return true;
  } catch (error) {
    if (error instanceof refusal) return false;
    throw error;
  }
}

/** Wakes the drain for one endpoint. Rejects if it is not known to be sent. */
export async function sendWakeUp(sqs: SQSClient, drainQueueUrl: string, endpointId: string, delayS = 0): Promise<void> {
  await sqs.send(
    new SendMessageCommand({ QueueUrl: drainQueueUrl, MessageBody: wakeUpBody(endpointId), DelaySeconds: delayS }),
  );
}

const wakeUpBody = (endpointId: string): string => JSON.stringify({ endpointId });

/** An endpoint's id may be longer than a schedule's name. */
export function scheduleName(endpointId: string): string {
  return createHash('sha256').update(endpointId).digest('base64url');
}
