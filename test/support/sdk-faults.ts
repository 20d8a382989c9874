/** A request handler for an SDK client that loses answers and throttles, request by request. */
import { Readable } from 'node:stream';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';

/**
 * What becomes of one request on the wire:
 * `lost`: performed, and its answer does not arrive; `dropped`: neither arrives; `throttled`: refused without effect.
 */
export type Fate = 'through' | 'lost' | 'dropped' | 'throttled' | 'conflict';

type Inner = DynamoDBClient['config']['requestHandler'];

export class FaultyHandler {
  /** Fates of the next requests; after them all go through. */
  fates: Fate[] = [];
  requests = 0;
  readonly #inner: Inner = new DynamoDBClient({ region: 'eu-west-1' }).config.requestHandler;

  /** Sets the fates of the requests to come, and counts them anew. */
  next(...fates: Fate[]): void {
    this.fates = fates;
    this.requests = 0;
  }

  async handle(...args: Parameters<Inner['handle']>): ReturnType<Inner['handle']> {
    this.requests++;
    const fate = this.fates.shift() ?? 'through';
    if (fate === 'throttled') return refusal('ThrottlingException', 'com.amazon.coral.availability');
    if (fate === 'conflict') return refusal('TransactionConflictException', 'com.amazonaws.dynamodb.v20120810');
    if (fate === 'dropped') throw connectionReset();
    const answer = await this.#inner.handle(...args);
    if (fate === 'through') return answer;
    await drain(answer.response as { body: AsyncIterable<Buffer> });
    throw connectionReset();
  }

  destroy(): void {
    this.#inner.destroy?.();
  }

  updateHttpClientConfig(): void {
    // Nothing to configure: the limits of these tests are the ones of the inner handler.
  }

  httpHandlerConfigs() {
    return {};
  }
}

/** Reads an answer to its end, so that the service has certainly done its work. */
async function drain({ body }: { body: AsyncIterable<Buffer> }): Promise<void> {
  for await (const _chunk of body);
}

function connectionReset(): Error {
  return Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
}

function refusal(code: string, namespace: string) {
  const headers = { 'content-type': 'application/x-amz-json-1.0' };
  const body = Readable.from([Buffer.from(JSON.stringify({ __type: `${namespace}#${code}`, message: 'slow down' }))]);
  return { response: { statusCode: 400, headers, body } };
}
