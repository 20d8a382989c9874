/** Lambda's Invoke at the wire: the answer, the function's error as an answer, and what IAM sees. */
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startDynamoDb } from '../../local/dynamodb.ts';
import { LambdaApi } from '../../local/lambda-api.ts';
import { type InvokeResult, throttledType } from '../../local/lambda-host.ts';
import { startScheduler } from '../../local/scheduler.ts';
import { startSqs } from '../../local/sqs.ts';
import { startWire, type Wire } from '../../local/wire.ts';

let wire: Wire;
let client: LambdaClient;
let close: () => Promise<unknown>;
const events: unknown[] = [];
let result: InvokeResult;

beforeAll(async () => {
  const [dynamodb, sqs, scheduler, lambda] = [await startDynamoDb(), startSqs(), startScheduler({ invoke: () => Promise.resolve() }), new LambdaApi()];
  lambda.addFunction('Replay', {
    invoke: (event) => {
      events.push(event);
      return Promise.resolve(result);
    },
  });
  wire = await startWire({ dynamodb, sqs, scheduler, lambda, clock: { nowMs: () => Date.now() } });
  client = new LambdaClient({ endpoint: wire.endpoint, region: 'eu-west-1', credentials: { accessKeyId: 'operator', secretAccessKey: 'x' }, maxAttempts: 1 });
  close = async () => {
    client.destroy();
    await wire.close();
    await Promise.all([dynamodb.close(), sqs.close(), scheduler.close()]);
  };
});
afterAll(() => close());

const ok = (payload: unknown): InvokeResult => ({ kind: 'ok', payload, durationMs: 1, cold: false });
const invoke = async (FunctionName: string, event: unknown, more: { InvocationType?: 'Event' | 'DryRun' | 'RequestResponse' } = {}) => {
  const answer = await client.send(new InvokeCommand({ FunctionName, Payload: JSON.stringify(event), ...more }));
  return { ...answer, payload: JSON.parse(Buffer.from(answer.Payload ?? []).toString()) as unknown };
};

describe('Invoke', () => {
  it.each([{ n: 1, text: 'é' }, [1, 2], 'text', null, 7])('hands the event over and answers with %j', async (value) => {
    result = ok(value);
    expect(await invoke('Replay', { ask: value })).toMatchObject({ StatusCode: 200, ExecutedVersion: '$LATEST', payload: value });
    expect(events.at(-1)).toEqual({ ask: value });
  });

  it('answers with nothing as null', async () => {
    result = ok(undefined);
    expect((await invoke('Replay', {})).payload).toBeNull();
  });

  it('marks an error of the function, which is an answer', async () => {
    result = { kind: 'error', errorType: 'Runtime.ExitError', errorMessage: 'signal: SIGKILL', durationMs: 1, cold: false };
    expect(await invoke('Replay', {})).toMatchObject({ StatusCode: 200, FunctionError: 'Unhandled', payload: { errorType: 'Runtime.ExitError', errorMessage: 'signal: SIGKILL' } });
  });

  it.each(['Replay', 'arn:aws:lambda:eu-west-1:000000000000:function:Replay'])('is noted as what IAM checks, asked for as %s', async (name) => {
    result = ok(1);
    const before = wire.calls.last;
    await invoke(name, {});
    expect(wire.calls.since(before)).toMatchObject([
      { caller: 'operator', service: 'lambda', operation: 'Invoke', action: 'lambda:InvokeFunction', resource: 'arn:aws:lambda:eu-west-1:000000000000:function:Replay', outcome: 'ok' },
    ]);
  });

  it('answers a throttle as an error of its own', async () => {
    result = { kind: 'error', errorType: throttledType, errorMessage: 'Rate Exceeded.', durationMs: 0, cold: false };
    await expect(invoke('Replay', {})).rejects.toMatchObject({ name: 'TooManyRequestsException', $metadata: { httpStatusCode: 429 } });
  });

  it('refuses a function that is not there, and to go without an answer', async () => {
    await expect(invoke('Other', {})).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
    const before = events.length;
    await expect(invoke('Replay', {}, { InvocationType: 'Event' })).rejects.toMatchObject({ name: 'InvalidParameterValueException' });
    expect(events.length).toBe(before);
  });
});
