/** What `npm start` must find again after it was stopped, or killed. */
import * as D from '@aws-sdk/client-dynamodb';
import * as E from '@aws-sdk/client-scheduler';
import * as Q from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Subject, startSubject, until } from '../support/fidelity-subject.ts';

describe.skipIf(process.env['SLUICE_FIDELITY_AWS'] === '1').each(['stop', 'kill'] as const)('after a %s', (how) => {
  let subject: Subject;
  beforeEach(async () => void (subject = await startSubject({ isPersistent: true })));
  afterEach(() => subject.close());

  const sqs = () => new Q.SQSClient(subject.config());
  const urlOf = async () => (await sqs().send(new Q.GetQueueUrlCommand({ QueueName: 'q' }))).QueueUrl;
  const receive = async (more: Partial<Q.ReceiveMessageCommandInput> = {}) => {
    const request = { QueueUrl: await urlOf(), MaxNumberOfMessages: 10, MessageSystemAttributeNames: ['All' as const], MessageAttributeNames: ['All'] };
    return (await sqs().send(new Q.ReceiveMessageCommand({ ...request, ...more }))).Messages ?? [];
  };
  const send = async (MessageBody: string, more: Partial<Q.SendMessageCommandInput> = {}) =>
    sqs().send(new Q.SendMessageCommand({ QueueUrl: await urlOf(), MessageBody, ...more }));
  const counts = async () => {
    const answer = await sqs().send(new Q.GetQueueAttributesCommand({ QueueUrl: await urlOf(), AttributeNames: ['All'] }));
    return (['', 'NotVisible', 'Delayed'] as const).map((suffix) => Number(answer.Attributes?.[`ApproximateNumberOfMessages${suffix}`]));
  };

  it('messages are where they were: visible, hidden, delayed, counted, with their attributes and receipts', async () => {
    await sqs().send(new Q.CreateQueueCommand({ QueueName: 'q', Attributes: { VisibilityTimeout: '600' } }));
    await send('hidden', { MessageGroupId: 'g', MessageAttributes: { a: { DataType: 'String', StringValue: 'x' } } });
    const [hidden] = await receive();
    await send('shown');
    const [shown] = await receive();
    const QueueUrl = await urlOf();
    await sqs().send(new Q.ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle: shown?.ReceiptHandle, VisibilityTimeout: 0 }));
    await send('delayed', { DelaySeconds: 900 });
    await subject.restart(how);
    expect(await counts()).toEqual([1, 1, 1]);
    const [again] = await receive();
    expect([again?.Body, again?.Attributes?.['ApproximateReceiveCount']]).toEqual(['shown', '2']);
    await sqs().send(new Q.ChangeMessageVisibilityCommand({ QueueUrl: await urlOf(), ReceiptHandle: hidden?.ReceiptHandle, VisibilityTimeout: 0 }));
    const [received] = await receive();
    expect(received).toMatchObject({ Body: 'hidden', Attributes: { MessageGroupId: 'g', ApproximateReceiveCount: '2' }, MessageAttributes: { a: { StringValue: 'x' } } });
    await sqs().send(new Q.DeleteMessageCommand({ QueueUrl: await urlOf(), ReceiptHandle: received?.ReceiptHandle }));
    await subject.restart(how);
    await subject.pass(901_000);
    const bodies = [];
    for (const message of await receive()) bodies.push(message.Body);
    expect(bodies.toSorted()).toEqual(['delayed', 'shown']);
  });

  it('the clock, items, time to live and schedules are as they were', async () => {
    const dynamodb = () => new D.DynamoDBClient(subject.config());
    const TableName = 'records';
    await dynamodb().send(new D.CreateTableCommand({
      TableName, BillingMode: 'PAY_PER_REQUEST', KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
      AttributeDefinitions: [{ AttributeName: 'pk', AttributeType: 'S' }],
    }));
    await until(async () => (await dynamodb().send(new D.DescribeTableCommand({ TableName }))).Table?.TableStatus === 'ACTIVE');
    await dynamodb().send(new D.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: { Enabled: true, AttributeName: 'ttl' } }));
    await subject.pass(86_400_000);
    const { nowMs } = await subject.post<{ nowMs: number }>('/_sluice/clock', { advanceMs: 0 });
    const item = (pk: string, ttlS: number) => ({ pk: { S: pk }, ttl: { N: String(Math.floor(nowMs / 1000) + ttlS) } });
    const Put = (pk: string, ttlS: number) => ({ Put: { TableName, Item: item(pk, ttlS) } });
    await dynamodb().send(new D.TransactWriteItemsCommand({ TransactItems: [Put('short', 60), Put('long', 86_400)] }));
    await new E.SchedulerClient(subject.config()).send(new E.CreateScheduleCommand({
      Name: 'wake', ScheduleExpression: `at(${new Date(nowMs + 3_600_000).toISOString().slice(0, 19)})`, FlexibleTimeWindow: { Mode: 'OFF' },
      Target: { Arn: 'arn:aws:lambda:eu-west-1:000000000000:function:t', RoleArn: 'arn:aws:iam::000000000000:role/r', Input: '"wake"' },
    }));
    // The file of schedules is written at the end of the turn in which the call was answered.
    await subject.get('/_sluice/calls');
    await subject.restart(how);
    expect((await subject.post<{ nowMs: number }>('/_sluice/clock', { advanceMs: 0 })).nowMs).toBeGreaterThanOrEqual(nowMs);
    await subject.pass(3_601_000);
    await subject.post('/_sluice/ttl-sweep', {});
    const { Items } = await dynamodb().send(new D.ScanCommand({ TableName }));
    expect(Items?.map(({ pk }) => pk?.S)).toEqual(['long']);
    await until(async () => (await subject.get<{ input: string }[]>('/_sluice/invocations')).some(({ input }) => input === '"wake"'));
  });
});
