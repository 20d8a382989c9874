import middy from '@middy/core';
import { answer, type UrlAnswer, type UrlRequest } from './answer.ts';
import { createDeps } from './deps.ts';

const deps = createDeps();

/** Behind the function URL: one consumer asks how it stands. */
export const handler = middy<UrlRequest, UrlAnswer>({ timeoutEarlyInMillis: 0 })
  .use({ after: () => deps.telemetry.flush(), onError: () => deps.telemetry.flush() })
  .handler((request) => answer(deps, request));
