import middy from '@middy/core';
import { parseReplayRequest, type ReplayAnswer } from '../shared/limits/replay-request.ts';
import { createDeps } from './deps.ts';
import { replay } from './replay.ts';

const deps = createDeps();

/** Invoked by operators: one call of a replay. Fails as a whole, and with nothing done, on a request that is none. */
export const handler = middy<unknown, ReplayAnswer>({ timeoutEarlyInMillis: 0 })
  .use({ after: () => deps.telemetry.flush(), onError: () => deps.telemetry.flush() })
  .handler((event) => replay(deps, parseReplayRequest(event)));
