import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import { CreateQueueCommand, DeleteMessageCommand, GetQueueAttributesCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startDynamoDb } from '../../local/dynamodb.ts';
import { startScheduler } from '../../local/scheduler.ts';
import { startSqs } from '../../local/sqs.ts';
import { type Wire, startWire } from '../../local/wire.ts';

let wire: Wire;
let close: () => Promise<unknown>;
let worker: SQSClient;
let eventSource: SQSClient;
let operator: SQSClient;
let db: DynamoDBClient;
let QueueUrl = '';

beforeAll(async () => {
  const dynamodb = await startDynamoDb();
  const sqs = startSqs();
  const scheduler = startScheduler({ invoke: () => Promise.resolve() });
  wire = await startWire({ dynamodb, sqs, scheduler, clock: { nowMs: () => Date.now() } });
  const config = (accessKeyId: string, sessionToken?: string) => ({
    endpoint: wire.endpoint, region: 'eu-west-1', maxAttempts: 1,
    credentials: { accessKeyId, secretAccessKey: 's', ...(sessionToken === undefined ? {} : { sessionToken }) },
  });
  worker = new SQSClient(config('Role', 'process-1'));
  eventSource = new SQSClient(config('Role'));
  operator = new SQSClient(config('operator'));
  db = new DynamoDBClient(config('Role', 'process-1'));
  QueueUrl = (await operator.send(new CreateQueueCommand({ QueueName: 'q' }))).QueueUrl ?? '';
  close = () => Promise.all([wire.close(), dynamodb.close(), sqs.close(), scheduler.close()]);
});
afterAll(async () => {
  for (const client of [worker, eventSource, operator, db]) client.destroy();
  await close();
});
beforeEach(() => {
  wire.interference.disarm();
  wire.interference.clearFaults();
});

const send = (client: SQSClient, MessageBody: string) => client.send(new SendMessageCommand({ QueueUrl, MessageBody }));
const depth = async () => {
  const { Attributes } = await operator.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }));
  return Number(Attributes?.['ApproximateNumberOfMessages']) + Number(Attributes?.['ApproximateNumberOfMessagesNotVisible']);
};
/** Of one operation only, where one is named. */
const armAt = (operation: string, killed: string[] = []) => {
  wire.interference.arm({ role: 'Role', call: 1, operation, when: 'before', kill: (id) => Promise.resolve(void killed.push(id)) });
  return killed;
};
const arm = (call: number, when: 'before' | 'after', killed: string[] = []) => {
  wire.interference.arm({ role: 'Role', call, when, kill: (id) => Promise.resolve(void killed.push(id)) });
  return killed;
};

describe('a stop', () => {
  it('of one operation leaves all others alone', async () => {
    const killed = armAt('ListTables');
    await send(worker, 'one');
    await expect(db.send(new ListTablesCommand({}))).rejects.toThrow(/socket hang up|ECONNRESET/);
    expect(killed).toEqual(['process-1']);
    expect(wire.interference.stopState()).toMatchObject({ counted: [{ operation: 'ListTables' }], stopped: { operation: 'ListTables' } });
  });

  it.each([['before', 0], ['after', 1]] as const)('%s the second call kills the process that makes it, and answers nobody', async (when, performed) => {
    const [before, killed] = [await depth(), arm(2, when)];
    await send(worker, 'one');
    // Others are neither counted nor stopped.
    await send(operator, 'other');
    await expect(send(worker, 'two')).rejects.toThrow(/socket hang up|ECONNRESET/);
    expect(killed).toEqual(['process-1']);
    expect(await depth()).toBe(before + 2 + performed);
    const call = { service: 'sqs', operation: 'SendMessage', resource: 'arn:aws:sqs:eu-west-1:000000000000:q' };
    expect(wire.interference.stopState()).toEqual({ counted: [call, call], stopped: call });
    // It strikes once.
    await send(worker, 'three');
    expect(killed).toHaveLength(1);
  });

  it.each([['before', 0], ['after', 1]] as const)('%s an acknowledgement of the event source is an error there; its polls do not count', async (when, deleted) => {
    await send(operator, 'acknowledged');
    const killed = arm(1, when);
    const { Messages } = await eventSource.send(new ReceiveMessageCommand({ QueueUrl }));
    const before = await depth();
    await expect(eventSource.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: Messages?.[0]?.ReceiptHandle }))).rejects.toThrow('lost');
    expect(killed).toEqual([]);
    expect(await depth()).toBe(before - deleted);
    expect(wire.interference.stopState().stopped).toMatchObject({ operation: 'DeleteMessage' });
  });

  it('that is never reached only counts, and is gone once it is disarmed', async () => {
    arm(0, 'before');
    await send(worker, 'one');
    expect(wire.interference.stopState()).toMatchObject({ counted: [{ operation: 'SendMessage' }], stopped: undefined });
    arm(1, 'before');
    wire.interference.disarm();
    await send(worker, 'two');
    expect(wire.interference.stopState().stopped).toBeUndefined();
  });
});

describe('a fault', () => {
  it('refuses what matches, without effect, as the service would', async () => {
    wire.interference.refuse({ service: 'sqs', code: 'InternalFailure', operation: 'SendMessage', role: 'Role' });
    const before = await depth();
    await expect(send(worker, 'refused')).rejects.toMatchObject({ name: 'InternalFailure', $metadata: { httpStatusCode: 500 } });
    await send(operator, 'others go through');
    expect(await depth()).toBe(before + 1);
    await db.send(new ListTablesCommand({}));

    wire.interference.refuse({ service: 'dynamodb', code: 'ThrottlingException' });
    await expect(db.send(new ListTablesCommand({}))).rejects.toMatchObject({ name: 'ThrottlingException', $metadata: { httpStatusCode: 400 } });
    expect(wire.calls.since(0).at(-1)).toMatchObject({ operation: 'ListTables', outcome: 'ThrottlingException' });
    wire.interference.clearFaults();
    await db.send(new ListTablesCommand({}));
  });
});

describe('messages that were handed out', () => {
  it('are counted by caller', async () => {
    const before = wire.handedTo('Role');
    await send(operator, 'x');
    const { Messages = [] } = await eventSource.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
    expect(wire.handedTo('Role')).toBe(before + Messages.length);
    expect(Messages.length).toBeGreaterThan(0);
  });
});
