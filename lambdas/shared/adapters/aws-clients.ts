import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { awsCalls } from '../limits/numbers.ts';

/** Limits of every AWS client; none is left to the SDK's defaults, some of which are "none" (C1). */
const limits = {
  maxAttempts: awsCalls.maxAttempts,
  requestHandler: {
    connectionTimeout: awsCalls.connectMs,
    requestTimeout: awsCalls.requestMs,
    throwOnRequestTimeout: true,
    httpsAgent: { keepAlive: true, maxSockets: awsCalls.maxSockets },
    httpAgent: { keepAlive: true, maxSockets: awsCalls.maxSockets },
  },
};

/** Region, credentials and endpoint come from the environment, as for any AWS SDK. */
export function createDynamoDb(): DynamoDBClient {
  return new DynamoDBClient(limits);
}

export function createSqs(): SQSClient {
  return new SQSClient(limits);
}
