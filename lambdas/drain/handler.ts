import middy from '@middy/core';
import type { Context, SQSEvent } from 'aws-lambda';
import { invocationOf } from '../deliver/invocation.ts';
import { createDeps } from './deps.ts';
import { drainBatch } from './drain-batch.ts';

const deps = createDeps();

/**
 * SQS hands over wake-ups, each for one endpoint. A message that stays would only come back as another wake-up, and the lane says
 * when the drain is to come again: so each is acknowledged, whatever became of its run. middy's early timeout is off, as in deliver.
 */
export const handler = middy<SQSEvent, void>({ timeoutEarlyInMillis: 0 })
  .use({ after: () => deps.telemetry.flush(), onError: () => deps.telemetry.flush() })
  .handler(async (event: SQSEvent, context: Context): Promise<void> => {
    await drainBatch(deps, event.Records.map((record) => record.body), invocationOf(deps, context));
  });
