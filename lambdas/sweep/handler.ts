import middy from '@middy/core';
import { createDeps } from './deps.ts';
import { sweep } from './sweep.ts';

const deps = createDeps();

/** Once a minute, by a schedule. What one run does not get done the next one finds. */
export const handler = middy<unknown, void>({ timeoutEarlyInMillis: 0 })
  .use({ after: () => deps.telemetry.flush(), onError: () => deps.telemetry.flush() })
  .handler(async () => {
    await sweep(deps);
  });
