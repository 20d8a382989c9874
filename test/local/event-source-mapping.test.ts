import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startDynamoDb } from '../../local/dynamodb.ts';
import { EventSourceMapping } from '../../local/event-source-mapping.ts';
import { sqsSourceQueue } from '../../local/event-source.ts';
import { LambdaApi } from '../../local/lambda-api.ts';
import type { InvokeResult } from '../../local/lambda-host.ts';
import { startScheduler } from '../../local/scheduler.ts';
import { type Sqs, startSqs } from '../../local/sqs.ts';
import { startWire, type Wire } from '../../local/wire.ts';
import { until } from '../support/embedded.ts';

const region = 'eu-west-1';
const ok: InvokeResult = { kind: 'ok', payload: null, durationMs: 1, cold: false };
const spec = {
  logicalId: 'Source', queueArn: `arn:aws:sqs:${region}:000000000000:q`, functionName: 'fn',
  batchSize: 10, windowS: 0, maxConcurrency: 20, reportBatchItemFailures: true, enabled: true,
};

let sqs: Sqs;
let wire: Wire;
let mapping: EventSourceMapping;
let close: () => Promise<unknown>;
/** Bodies that the function was given, and what it answers. */
const served: string[] = [];
let answer: () => Promise<InvokeResult>;

beforeEach(async () => {
  served.length = 0;
  answer = () => Promise.resolve(ok);
  const dynamodb = await startDynamoDb();
  sqs = startSqs();
  const scheduler = startScheduler({ invoke: () => Promise.resolve() });
  const lambda = new LambdaApi();
  wire = await startWire({ dynamodb, sqs, scheduler, lambda, clock: { nowMs: () => Date.now() } });
  await sqs.call('CreateQueue', { QueueName: 'q' });
  mapping = new EventSourceMapping({
    spec,
    queue: sqsSourceQueue({ endpoint: wire.endpoint, region, queueUrl: `${wire.endpoint}/000000000000/q`, roleName: 'Role' }),
    queueName: 'q',
    roleName: 'Role',
    functionArn: `arn:aws:lambda:${region}:000000000000:function:fn`,
    wire,
    concurrencyCap: 2,
    invoke: ({ Records }) => {
      served.push(...Records.map(({ body }) => body));
      return answer();
    },
    onError: () => undefined,
  });
  lambda.add(mapping);
  await mapping.enable();
  close = async () => {
    await mapping.stop();
    mapping.destroy();
    await Promise.all([wire.close(), dynamodb.close(), sqs.close(), scheduler.close()]);
  };
});
afterEach(() => close());

const send = (MessageBody: string) => sqs.call('SendMessage', { QueueUrl: 'q', MessageBody });
const request = async (method: string, body?: object, id = 'Source') => {
  const response = await fetch(`${wire.endpoint}/2015-03-31/event-source-mappings/${id}`, { method, ...(body ? { body: JSON.stringify(body) } : {}) });
  return { status: response.status, type: response.headers.get('x-amzn-errortype'), ...((await response.json()) as { State?: string }) };
};
const isState = (state: string) => until(`the mapping is ${state}`, async () => (await request('GET')).State === state);

describe('an event source mapping', () => {
  it('is described as Lambda does', async () => {
    expect(await request('GET')).toMatchObject({
      status: 200, UUID: 'Source', State: 'Enabled', EventSourceArn: spec.queueArn, BatchSize: 10,
      FunctionArn: `arn:aws:lambda:${region}:000000000000:function:fn`, ScalingConfig: { MaximumConcurrency: 20 },
    });
    expect(wire.calls.since(0).at(-1)).toMatchObject({
      action: 'lambda:GetEventSourceMapping', resource: `arn:aws:lambda:${region}:000000000000:event-source-mapping:Source`,
    });
    expect(await request('GET', undefined, 'Other')).toMatchObject({ status: 404, type: 'ResourceNotFoundException' });
  });

  it('takes nothing while it is switched off, and all of it when it is on again', async () => {
    await send('one');
    await until('it is served', () => served.length === 1);
    expect(await request('PUT', { Enabled: false })).toMatchObject({ status: 200, State: expect.stringMatching(/^Disabl/) as string });
    await isState('Disabled');
    // Again is no error.
    expect(await request('PUT', { Enabled: false })).toMatchObject({ State: 'Disabled' });
    await send('two');
    await sleep(300);
    expect([served, sqs.stateOf('q').ready, mapping.isPolling]).toEqual([['one'], 1, false]);

    expect(await request('PUT', { Enabled: true })).toMatchObject({ status: 200, State: 'Enabled' });
    await until('the other is served', () => served.length === 2);
    await until('both are gone', () => sqs.stateOf('q').hidden === 0);
    expect([mapping.inFlight, mapping.begun, wire.handedTo('Role')]).toEqual([0, 2, 2]);
  });

  it('serves what it has begun before it is off, and is not changed meanwhile', async () => {
    const ended = Promise.withResolvers<InvokeResult>();
    answer = () => ended.promise;
    await send('one');
    await until('it is served', () => served.length === 1);
    expect(await request('PUT', { Enabled: false })).toMatchObject({ State: 'Disabling' });
    expect(await request('PUT', { Enabled: true })).toMatchObject({ status: 400, type: 'ResourceInUseException' });
    expect([mapping.inFlight, (await request('GET')).State]).toEqual([1, 'Disabling']);
    ended.resolve(ok);
    await isState('Disabled');
    expect([mapping.inFlight, sqs.stateOf('q').hidden]).toEqual([0, 0]);
  });

  it('changes nothing else', async () => {
    expect(await request('PUT', { BatchSize: 5 })).toMatchObject({ status: 400, type: 'InvalidParameterValueException' });
    expect(await request('PUT', {})).toMatchObject({ status: 200, State: 'Enabled' });
  });
});
