import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SchedulerClient } from '@aws-sdk/client-scheduler';
import { SNSClient } from '@aws-sdk/client-sns';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { awsCallLimits } from '../core/budgets.ts';
import { awsCalls } from '../limits/numbers.ts';
import { notingAttempts } from './attempts.ts';

type CallLimits = ReturnType<typeof awsCallLimits>;

/** Limits of every AWS client; none is left to the SDK's defaults, some of which are "none" (C1). */
function settings(limits: CallLimits) {
  return {
    maxAttempts: limits.maxAttempts,
    requestHandler: {
      connectionTimeout: limits.connectMs,
      requestTimeout: limits.requestMs,
      throwOnRequestTimeout: true,
      httpsAgent: { keepAlive: true, maxSockets: awsCalls.maxSockets },
      httpAgent: { keepAlive: true, maxSockets: awsCalls.maxSockets },
    },
  };
}

/** Region, credentials and endpoint come from the environment, as for any AWS SDK. */
export function createDynamoDb(limits: CallLimits): DynamoDBClient {
  return notingAttempts(new DynamoDBClient(settings(limits)));
}

export function createSqs(limits: CallLimits): SQSClient {
  return new SQSClient(settings(limits));
}

export function createSns(limits: CallLimits): SNSClient {
  return new SNSClient(settings(limits));
}

export function createScheduler(limits: CallLimits): SchedulerClient {
  return new SchedulerClient(settings(limits));
}
