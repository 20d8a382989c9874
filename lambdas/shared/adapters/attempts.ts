import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

/** Names of the errors of all attempts of one request, on the error that its caller gets. */
const attemptErrors = Symbol('attemptErrors');

interface Noted {
  [attemptErrors]?: string[];
}

/**
 * Lets a client's errors tell how each of their attempts ended. The SDK shows only the last: a throttle that answers its
 * third attempt would hide that the first one was applied and lost its answer, or that all three changed nothing.
 */
export function notingAttempts(client: DynamoDBClient): DynamoDBClient {
  client.middlewareStack.addRelativeTo(noteAttempt, { name: 'noteAttempt', relation: 'after', toMiddleware: 'retryMiddleware' });
  return client;
}

/** Runs once for each attempt; the context is the request's. */
function noteAttempt<Args, Result>(next: (args: Args) => Promise<Result>, context: object) {
  return async (args: Args): Promise<Result> => {
    try {
      return await next(args);
    } catch (error) {
      const names = ((context as Noted)[attemptErrors] ??= []);
      names.push(error instanceof Error ? error.name : typeof error);
      if (error instanceof Error) (error as Noted)[attemptErrors] = names;
      throw error;
    }
  };
}

/** How each attempt of a failed request ended; of a client that does not note them, what can be known. */
export function attemptsOf(error: Error): readonly string[] {
  const noted = (error as Noted)[attemptErrors];
  if (noted !== undefined) return noted;
  const attempts = (error as { $metadata?: { attempts?: number } }).$metadata?.attempts ?? Infinity;
  return attempts <= 1 ? [error.name] : ['unknown', error.name];
}
