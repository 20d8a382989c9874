import { ChangeMessageVisibilityBatchCommand, SendMessageCommand, SQSClient, type MessageAttributeValue } from '@aws-sdk/client-sqs';
import { mockClient } from 'aws-sdk-client-mock';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { createSqsQueues, deadLetterAttributes } from '../../lambdas/shared/adapters/sqs-queues.ts';
import { dead } from '../../lambdas/shared/core/decide.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import { aws, message } from '../../lambdas/shared/limits/numbers.ts';
import { bodyOf, receivedOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { FakeTelemetry } from '../support/fake-telemetry.ts';

const sqs = mockClient(SQSClient);
afterEach(() => sqs.reset());

const urls = { delivery: 'https://sqs/delivery', deadLetter: 'https://sqs/dead' };

function queuesOf(telemetry = new FakeTelemetry()) {
  return { telemetry, queues: createSqsQueues(new SQSClient({ region: 'eu-west-1' }), urls, telemetry) };
}

const history = [{ atEpochMs: 1, durationMs: 2, generation: 3, outcome: 'answered' as const, detail: '422' }];
const record: DeadRecord = dead(waitingOf({ generation: 3, attempt: 2, history, lastEpochMs: t0EpochMs + 1_000 }), 'rejected', 'status 422');
const anonymous: DeadRecord = { ...dead(waitingOf(), 'malformed', 'body is not JSON'), endpointId: '' };

describe('delay', () => {
  const entries = () => sqs.commandCalls(ChangeMessageVisibilityBatchCommand).map((call) => call.args[0].input.Entries?.map((e) => [e.ReceiptHandle, e.VisibilityTimeout]));

  it('hides the message by its receipt', async () => {
    sqs.on(ChangeMessageVisibilityBatchCommand).resolves({});
    const received = receivedOf(bodyOf());
    await queuesOf().queues.delay(received, 17);
    const [call] = sqs.commandCalls(ChangeMessageVisibilityBatchCommand);
    expect(call?.args[0].input).toEqual({ QueueUrl: urls.delivery, Entries: [{ Id: '0', ReceiptHandle: received.receiptHandle, VisibilityTimeout: 17 }] });
  });

  it('hides what is put back together by one request, ten at a time, each for its own time', async () => {
    sqs.on(ChangeMessageVisibilityBatchCommand).resolves({});
    const { queues } = queuesOf();
    const handles = Array.from({ length: 12 }, (_, i) => `r${i}`);
    await Promise.all(handles.map((receiptHandle, i) => queues.delay(receivedOf(bodyOf(), { receiptHandle }), i)));
    await queues.delay(receivedOf(bodyOf(), { receiptHandle: 'later' }), 5);
    const wanted = handles.map((handle, i) => [handle, i]);
    expect(entries()).toEqual([wanted.slice(0, 10), wanted.slice(10), [['later', 5]]]);
  });

  it('keeps a request within the bytes that SQS takes', async () => {
    sqs.on(ChangeMessageVisibilityBatchCommand).resolves({});
    const { queues } = queuesOf();
    await Promise.all(['a', 'b', 'c'].map((name) => queues.delay(receivedOf(bodyOf(), { receiptHandle: name.repeat(100_000) }), 1)));
    expect(entries().map((batch) => batch?.map(([handle]) => String(handle).charAt(0)))).toEqual([['a', 'b'], ['c']]);
  });

  it('swallows a refusal, of the request or of one of its entries, and says so', async () => {
    sqs.on(ChangeMessageVisibilityBatchCommand)
      .rejectsOnce(Object.assign(new Error('away'), { name: 'ServiceUnavailable' }))
      .resolvesOnce({ Successful: [{ Id: '0' }], Failed: [{ Id: '1', Code: 'InvalidParameterValue', SenderFault: true }] });
    const { queues, telemetry } = queuesOf();
    await expect(queues.delay(receivedOf(bodyOf()), 43_200)).resolves.toBeUndefined();
    await expect(Promise.all([1, 43_200].map((seconds) => queues.delay(receivedOf(bodyOf()), seconds)))).resolves.toHaveLength(2);
    expect(telemetry.events).toEqual(['ServiceUnavailable', 'InvalidParameterValue'].map((cause) => ({ name: 'delay-failed', fields: { cause } })));
  });
});

describe('bury', () => {
  it('sends the untouched body with everything that is known of it, grouped by endpoint', async () => {
    sqs.on(SendMessageCommand).resolves({});
    const body = bodyOf({ payload: '{"n": 1.0,"é":7615917337495251231}' });
    await queuesOf().queues.bury(body, record);
    const [call] = sqs.commandCalls(SendMessageCommand);
    expect(call?.args[0].input).toEqual({
      QueueUrl: urls.deadLetter,
      MessageBody: body,
      MessageGroupId: 'acme',
      MessageAttributes: {
        'sluice-gen': { DataType: 'Number', StringValue: '3' },
        'sluice-reason': { DataType: 'String', StringValue: 'rejected' },
        'sluice-attempts': { DataType: 'Number', StringValue: '2' },
        'sluice-first-at': { DataType: 'String', StringValue: '2026-01-05T10:00:00.000Z' },
        'sluice-last-at': { DataType: 'String', StringValue: '2026-01-05T10:00:01.000Z' },
        'sluice-last-outcome': { DataType: 'String', StringValue: '422' },
        'sluice-endpoint': { DataType: 'String', StringValue: 'acme' },
      },
    });
  });

  it('has neither group nor endpoint where none was legible, for SQS refuses empty ones', async () => {
    sqs.on(SendMessageCommand).resolves({});
    await queuesOf().queues.bury('nonsense', anonymous);
    const input = sqs.commandCalls(SendMessageCommand)[0]?.args[0].input;
    expect(input).not.toHaveProperty('MessageGroupId');
    expect(Object.keys(input?.MessageAttributes ?? {})).not.toContain('sluice-endpoint');
    expect(Object.values(input?.MessageAttributes ?? {}).every((a) => a.StringValue !== '')).toBe(true);
  });

  it('rejects where the send fails', async () => {
    sqs.on(SendMessageCommand).rejects(new Error('no queue'));
    await expect(queuesOf().queues.bury('x', record)).rejects.toThrow('no queue');
  });
});

/** As SQS counts: body, and name, type and value of each attribute. */
function bytesOf(body: string, attributes: Record<string, MessageAttributeValue>): number {
  const texts = Object.entries(attributes).flatMap(([name, a]) => [name, a.DataType ?? '', a.StringValue ?? '']);
  return Buffer.byteLength(body) + texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}

describe('deadLetterAttributes', () => {
  const all = deadLetterAttributes('', record);
  const room = message.maxBytes - bytesOf('', all);

  it('are at most what SQS takes', () => {
    expect(Object.keys(all).length).toBeLessThanOrEqual(aws.sqsMessageAttributes);
  });

  it('are all there to the last byte that a redrive can carry, and then only the generation', () => {
    expect(Object.keys(deadLetterAttributes('x'.repeat(room), record))).toHaveLength(7);
    expect(Object.keys(deadLetterAttributes('x'.repeat(room + 1), record))).toEqual(['sluice-gen']);
  });

  it('count the body in bytes', () => {
    expect(Object.keys(deadLetterAttributes('é'.repeat(Math.ceil((room + 1) / 2)), record))).toEqual(['sluice-gen']);
  });

  it('never make a message that the delivery queue refuses, unless the body alone leaves no room for the generation', () => {
    fc.assert(
      fc.property(fc.integer({ min: message.maxBytes - 400, max: message.maxBytes - 30 }), (length) => {
        const body = 'x'.repeat(length);
        const attributes = deadLetterAttributes(body, record);
        expect(bytesOf(body, attributes)).toBeLessThanOrEqual(message.maxBytes);
        expect(attributes['sluice-gen']?.StringValue).toBe('3');
      }),
    );
  });
});
