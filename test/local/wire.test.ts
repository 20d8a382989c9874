import { BatchGetItemCommand, CreateTableCommand, DynamoDBClient, GetItemCommand, PutItemCommand, QueryCommand, TransactWriteItemsCommand } from '@aws-sdk/client-dynamodb';
import { CreateScheduleCommand, GetScheduleCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { CreateQueueCommand, ListQueuesCommand, ReceiveMessageCommand, SQSClient, SendMessageBatchCommand, StartMessageMoveTaskCommand } from '@aws-sdk/client-sqs';
import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startDynamoDb } from '../../local/dynamodb.ts';
import { AwsError } from '../../local/emulator.ts';
import { startScheduler } from '../../local/scheduler.ts';
import { startSqs } from '../../local/sqs.ts';
import { type Wire, startWire } from '../../local/wire.ts';

const clock = { nowMs: () => Date.now() };

async function startAll() {
  const dynamodb = await startDynamoDb();
  const sqs = startSqs();
  const scheduler = startScheduler({ invoke: () => Promise.resolve() });
  const wire = await startWire({ dynamodb, sqs, scheduler, clock });
  return { wire, close: () => Promise.all([wire.close(), dynamodb.close(), sqs.close(), scheduler.close()]) };
}

const config = (wire: Wire, accessKeyId: string) => ({
  endpoint: wire.endpoint, region: 'eu-west-1', credentials: { accessKeyId, secretAccessKey: 's' }, maxAttempts: 1,
});

describe('the wire', () => {
  let all: Awaited<ReturnType<typeof startAll>>;
  let wire: Wire;
  let sqs: SQSClient;
  let dynamodb: DynamoDBClient;
  beforeAll(async () => {
    all = await startAll();
    wire = all.wire;
    sqs = new SQSClient(config(wire, 'DeliverRole'));
    dynamodb = new DynamoDBClient(config(wire, 'DrainRole'));
    await dynamodb.send(new CreateTableCommand({
      TableName: 'records', BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: ['pk', 'g'].map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
      KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
      GlobalSecondaryIndexes: [{ IndexName: 'attention', KeySchema: [{ AttributeName: 'g', KeyType: 'HASH' }], Projection: { ProjectionType: 'KEYS_ONLY' } }],
    }));
  });
  afterAll(async () => {
    sqs.destroy();
    dynamodb.destroy();
    await all.close();
  });

  const table = 'arn:aws:dynamodb:eu-west-1:000000000000:table/records';
  const noted = async (call: Promise<unknown>) => {
    const before = wire.calls.last;
    await call.catch(() => undefined);
    return wire.calls.since(before);
  };

  it('listens on loopback only', async () => {
    const port = new URL(wire.endpoint).port;
    const others = Object.values(networkInterfaces()).flat().filter((address) => address && !address.internal && address.family === 'IPv4');
    for (const address of others) await expect(fetch(`http://${address?.address}:${port}/`)).rejects.toThrow();
    expect(wire.endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });

  it('gives queue URLs on its own endpoint', async () => {
    const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: 'one' }));
    expect(QueueUrl).toBe(`${wire.endpoint}/000000000000/one`);
    expect((await sqs.send(new ListQueuesCommand({}))).QueueUrls).toContain(QueueUrl);
  });

  it('notes caller, IAM action, resource and size, and a batch as its single form', async () => {
    const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: 'two' }));
    const [entry] = await noted(sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries: [{ Id: 'a', MessageBody: 'x' }] })));
    expect(entry).toMatchObject({
      caller: 'DeliverRole', service: 'sqs', action: 'sqs:SendMessage', operation: 'SendMessageBatch', outcome: 'ok',
      resource: 'arn:aws:sqs:eu-west-1:000000000000:two',
    });
    expect(entry?.requestBytes).toBeGreaterThan(50);
  });

  it('notes the code of a refusal', async () => {
    const [entry] = await noted(sqs.send(new ReceiveMessageCommand({ QueueUrl: `${wire.endpoint}/000000000000/none` })));
    expect(entry).toMatchObject({ action: 'sqs:ReceiveMessage', outcome: 'QueueDoesNotExist' });
    const scheduler = new SchedulerClient(config(wire, 'SweepRole'));
    const [missing] = await noted(scheduler.send(new GetScheduleCommand({ Name: 'none', GroupName: 'default' })));
    expect(missing).toMatchObject({
      caller: 'SweepRole', action: 'scheduler:GetSchedule', outcome: 'ResourceNotFoundException',
      resource: 'arn:aws:scheduler:eu-west-1:000000000000:schedule/default/none',
    });
    scheduler.destroy();
  });

  it('notes everything that a move task is allowed by', async () => {
    const arn = (name: string) => `arn:aws:sqs:eu-west-1:000000000000:${name}`;
    const entries = await noted(sqs.send(new StartMessageMoveTaskCommand({ SourceArn: arn('one'), DestinationArn: arn('two') })));
    expect(entries.map(({ action, resource }) => [action, resource])).toEqual([
      ...['StartMessageMoveTask', 'ReceiveMessage', 'DeleteMessage', 'GetQueueAttributes'].map((name) => [`sqs:${name}`, arn('one')]),
      ['sqs:SendMessage', arn('two')],
    ]);
    expect(new Set(entries.map(({ seq }) => seq)).size).toBe(1);
  });

  it('notes members of a transaction and tables of a batch, with their units', async () => {
    const item = (pk: string) => ({ pk: { S: pk }, g: { S: 'held' } });
    const entries = await noted(dynamodb.send(new TransactWriteItemsCommand({
      TransactItems: [
        { Put: { TableName: 'records', Item: item('a') } },
        { ConditionCheck: { TableName: 'records', Key: { pk: { S: 'b' } }, ConditionExpression: 'attribute_not_exists(pk)' } },
      ],
    })));
    expect(entries.map(({ action, resource }) => [action, resource])).toEqual([
      ['dynamodb:PutItem', table], ['dynamodb:ConditionCheckItem', table],
    ]);
    // Two for the item, two for its index entry, two for the check.
    expect(entries.map(({ capacityUnits }) => capacityUnits)).toEqual([6, undefined]);
    const [read] = await noted(dynamodb.send(new BatchGetItemCommand({ RequestItems: { records: { Keys: [{ pk: { S: 'a' } }] } } })));
    expect(read).toMatchObject({ action: 'dynamodb:BatchGetItem', resource: table, capacityUnits: 0.5 });
  });

  it('notes the role that a schedule is given as handed on by its maker', async () => {
    const scheduler = new SchedulerClient(config(wire, 'DeliverRole'));
    const RoleArn = 'arn:aws:iam::000000000000:role/WakeUps';
    const entries = await noted(
      scheduler.send(
        new CreateScheduleCommand({
          Name: 'wake', ScheduleExpression: 'rate(1 hour)', FlexibleTimeWindow: { Mode: 'OFF' },
          Target: { Arn: 'arn:aws:sqs:eu-west-1:000000000000:q', RoleArn },
        }),
      ),
    );
    scheduler.destroy();
    expect(entries.map(({ action, resource }) => [action, resource])).toEqual([
      ['scheduler:CreateSchedule', 'arn:aws:scheduler:eu-west-1:000000000000:schedule/default/wake'],
      ['iam:PassRole', RoleArn],
    ]);
  });

  it('meters what the caller did not ask to see, and does not show it', async () => {
    const query = { TableName: 'records', IndexName: 'attention', KeyConditionExpression: 'g = :g', ExpressionAttributeValues: { ':g': { S: 'held' } } };
    const before = wire.calls.last;
    const answer = await dynamodb.send(new QueryCommand(query));
    expect([answer.Count, answer.ConsumedCapacity]).toEqual([1, undefined]);
    expect(wire.calls.since(before)[0]).toMatchObject({ resource: `${table}/index/attention`, capacityUnits: 0.5, caller: 'DrainRole' });
    const asked = await dynamodb.send(new QueryCommand({ ...query, ReturnConsumedCapacity: 'TOTAL' }));
    expect(asked.ConsumedCapacity?.CapacityUnits).toBe(0.5);
  });

  it('meters a write that its condition refused', async () => {
    const big = { pk: { S: 'big' }, body: { S: 'x'.repeat(2_000) } };
    await dynamodb.send(new PutItemCommand({ TableName: 'records', Item: big }));
    const [entry] = await noted(dynamodb.send(new PutItemCommand({ TableName: 'records', Item: big, ConditionExpression: 'attribute_not_exists(pk)' })));
    expect(entry).toMatchObject({ outcome: 'ConditionalCheckFailedException', capacityUnits: 2 });
  });

  it('mounts control routes', async () => {
    wire.route('POST', '/_sluice/echo', (body, { url }) => ({ body, query: url.searchParams.get('q') }));
    wire.route('GET', '/_sluice/fails', () => {
      throw new AwsError('ValidationException', 'no');
    });
    const echo = await fetch(`${wire.endpoint}/_sluice/echo?q=1`, { method: 'POST', body: '{"a":1}' });
    expect(await echo.json()).toEqual({ body: { a: 1 }, query: '1' });
    expect((await fetch(`${wire.endpoint}/_sluice/fails`)).status).toBe(400);
  });

  it('refuses what is no JSON, and services it does not have', async () => {
    const post = (target: string, body: string) => fetch(wire.endpoint, { method: 'POST', headers: { 'x-amz-target': target }, body });
    expect(await (await post('AmazonSQS.SendMessage', '{')).text()).toContain('SerializationException');
    expect((await post('Logs_20140328.PutLogEvents', '{}')).status).toBe(404);
    expect((await post('AmazonSQS.NoSuchThing', '{}')).status).toBe(400);
    expect((await post('DynamoDB_20120810.ExecuteStatement', '{}')).status).toBe(400);
  });
});

describe('closing the wire', () => {
  it('ends long polls promptly', async () => {
    const { wire, close } = await startAll();
    const client = new SQSClient(config(wire, 'DeliverRole'));
    const { QueueUrl } = await client.send(new CreateQueueCommand({ QueueName: 'q' }));
    const waiting = client.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20 })).catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 100));
    const startMs = performance.now();
    await close();
    await waiting;
    expect(performance.now() - startMs).toBeLessThan(2_000);
    client.destroy();
  });

  it('can be followed by a start on the same port', async () => {
    const first = await startAll();
    const port = Number(new URL(first.wire.endpoint).port);
    const client = new DynamoDBClient(config(first.wire, 'x'));
    await client.send(new GetItemCommand({ TableName: 'none', Key: { pk: { S: 'a' } } })).catch(() => undefined);
    await first.close();
    const dynamodb = await startDynamoDb();
    const sqs = startSqs();
    const scheduler = startScheduler({ invoke: () => Promise.resolve() });
    const wire = await startWire({ dynamodb, sqs, scheduler, clock, port });
    expect(new URL(wire.endpoint).port).toBe(String(port));
    await Promise.all([wire.close(), dynamodb.close(), sqs.close(), scheduler.close()]);
    client.destroy();
  });
});
