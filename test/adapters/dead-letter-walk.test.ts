/** The walk that clears the dead-letter queue, on the embedded SQS and DynamoDB. */
import {
  CancelMessageMoveTaskCommand, CreateQueueCommand, DeleteMessageCommand, GetQueueAttributesCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient,
  StartMessageMoveTaskCommand, type Message,
} from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { tidyDeadLetters, type WalkDeps } from '../../lambdas/shared/adapters/dead-letter-walk.ts';
import { createSqsDeadLetters } from '../../lambdas/shared/adapters/sqs-dead-letters.ts';
import { deadLetterAttributes } from '../../lambdas/shared/adapters/sqs-queues.ts';
import { held, renewed } from '../../lambdas/shared/core/decide.ts';
import { hashOf, syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { DeadRecord, DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import type { DeadLetterQueue, Records } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, deadOf, deliveredOf, droppedOf, namesOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { startDynamoSubject, type DynamoSubject } from '../support/dynamo-subject.ts';
import { until } from '../support/embedded.ts';

let subject: DynamoSubject;
let sqs: SQSClient;
beforeAll(async () => {
  subject = await startDynamoSubject();
  sqs = new SQSClient({ endpoint: subject.endpoint, region: 'eu-west-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' } });
});
afterAll(async () => {
  sqs.destroy();
  await subject.close();
});

let tests = 0;
let url: string;
let arn: string;
let elsewhereArn: string;
let endpointId: string;
beforeEach(async () => {
  const n = ++tests;
  endpointId = `tidy-${n}`;
  const create = async (name: string, Attributes: Record<string, string> = {}) => {
    const { QueueUrl = '' } = await sqs.send(new CreateQueueCommand({ QueueName: `${name}-${n}`, Attributes }));
    const found = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }));
    return { url: QueueUrl, arn: found.Attributes?.['QueueArn'] ?? '' };
  };
  ({ url, arn } = await create('dead'));
  // What makes it a dead-letter queue to SQS.
  elsewhereArn = (await create('elsewhere', { RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: 5 }) })).arn;
});

const queueOf = (lookS = 600): DeadLetterQueue => createSqsDeadLetters(sqs, url, { lookS, waitS: 0 });
const depsOf = (more: Partial<DeadLetterQueue> = {}, records: Pick<Records, 'read'> = subject.world.records): WalkDeps => ({ queue: { ...queueOf(), ...more }, records });
const tidy = (deps = depsOf(), options = {}) => tidyDeadLetters(deps, { mayGoOn: () => true, ...options });

const own = <R extends DeliveryRecord>(record: R, eventId: string): R => ({ ...record, ...keysOf(eventId) });
function keysOf(eventId: string) {
  const { recordKey, payloadHash } = namesOf({ endpointId, eventId });
  return { endpointId, eventId, recordKey, payloadHash };
}
const write = async (record: DeliveryRecord) => expect(await subject.world.records.write(undefined, record)).toBe('written');

/** Puts a copy into the queue as a burial does. */
async function bury(eventId: string, generation = 0, body = bodyOf({ endpointId, eventId })): Promise<void> {
  const record: DeadRecord = own(deadOf('buried', { generation }), eventId);
  await sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: body, MessageAttributes: deadLetterAttributes(body, record), MessageGroupId: endpointId }));
}

interface Seen {
  readonly MessageId: string;
  readonly event: string;
  readonly whole: unknown;
}

/** All that can be received now, by event; what it was received with, whole. */
async function visible(): Promise<Seen[]> {
  const found: Message[] = [];
  for (;;) {
    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({
      QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 600, MessageAttributeNames: ['All'], MessageSystemAttributeNames: ['MessageGroupId', 'SentTimestamp'],
    }));
    if (Messages.length === 0) break;
    found.push(...Messages);
  }
  await queueOf().putBack(found.map(({ ReceiptHandle = '' }) => ReceiptHandle));
  const eventOf = (body: string) => /"eventId":"(\w+)"/.exec(body)?.[1] ?? body;
  return found
    .map(({ ReceiptHandle: _handle, ...whole }) => ({ MessageId: whole.MessageId ?? '', event: eventOf(whole.Body ?? ''), whole }))
    .toSorted((a, b) => (a.event < b.event ? -1 : Number(a.event > b.event)));
}
const events = async () => (await visible()).map(({ event }) => event);

/** One stale copy and one of everything that stays. */
async function mixture(): Promise<void> {
  for (const [eventId, record] of [
    ['delivered', deliveredOf({ generation: 1 })], ['dropped', droppedOf()], ['dead', deadOf('buried')], ['burying', deadOf('burying')], ['waiting', waitingOf()],
  ] as const) await write(own(record, eventId));
  await write(own(deadOf('buried', { generation: 1 }), 'renewed'));
  for (const eventId of ['delivered', 'dropped', 'dead', 'dead', 'burying', 'waiting', 'recordless']) await bury(eventId);
  await bury('renewed', 0);
  await bury('renewed', 1);
  await sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: bodyOf({ endpointId, eventId: 'nogeneration' }) }));
}
const staying = ['burying', 'dead', 'dead', 'nogeneration', 'recordless', 'renewed', 'waiting'];

describe('a walk over the dead-letter queue', () => {
  it('deletes what is stale, and lets the rest be received again, byte for byte', async () => {
    await mixture();
    const before = await visible();
    expect(await tidy()).toEqual({ looked: 10, stale: 3, deleted: 3, kept: 5, unknown: 2, stop: 'end', hidden: 0, oldestSentEpochMs: expect.any(Number) as number });
    const after = await visible();
    expect(after.map(({ event }) => event)).toEqual(staying);
    expect(after).toEqual(before.filter(({ MessageId }) => after.some((copy) => copy.MessageId === MessageId)));
    expect(await tidy()).toMatchObject({ looked: 7, stale: 0, deleted: 0 });
  });

  it('only counts in a dry run', async () => {
    await mixture();
    const before = await visible();
    expect(await tidy(depsOf(), { isDryRun: true })).toMatchObject({ looked: 10, stale: 3, deleted: 0, kept: 5, unknown: 2 });
    expect(await visible()).toEqual(before);
  });

  it('never deletes a conflict because the event that it names was delivered', async () => {
    const body = bodyOf({ endpointId, eventId: 'twin', payload: '{"amount":2}' });
    await write(own(deliveredOf({ generation: 2 }), 'twin'));
    await write({ ...own(deadOf('buried', {}, 'conflict'), 'twin'), recordKey: syntheticKeyOf(endpointId, 'conflict', body), payloadHash: hashOf(Buffer.from(body)) });
    await bury('twin', 0, body);
    await bury('twin', 0);
    expect(await tidy()).toMatchObject({ looked: 2, stale: 1, deleted: 1, kept: 1 });
    expect((await visible()).map(({ whole }) => (whole as Message).Body)).toEqual([body]);
  });

  it('gets past what it keeps: nothing is put back before its end', async () => {
    const ids = Array.from({ length: 34 }, (_, i) => `evt_${i}`);
    for (const [i, eventId] of ids.entries()) {
      await write(own(i % 3 === 0 ? deliveredOf() : deadOf('buried'), eventId));
      await bury(eventId);
    }
    const pages: number[] = [];
    expect(await tidy(depsOf(), { onPage: ({ looked }: { looked: number }) => pages.push(looked) })).toMatchObject({ looked: 34, stale: 12, deleted: 12, kept: 22 });
    expect(pages.slice(0, 4)).toEqual([10, 20, 30, 34]);
    expect(await visible()).toHaveLength(22);
  });

  it('says when the oldest was sent of those that it has seen and left', async () => {
    const daysAgo = (days: number) => t0EpochMs - days * 86_400_000;
    await write(own(deliveredOf(), 'stale'));
    await write(own(deadOf('buried'), 'kept'));
    for (const eventId of ['stale', 'unknown', 'kept']) await bury(eventId);
    const days: Record<string, number> = { stale: 13, unknown: 11, kept: 4 };
    const queue = queueOf(0);
    const dated = (seen: readonly string[]): Partial<DeadLetterQueue> => ({
      receive: async () => (await queue.receive()).flatMap((copy) => {
        const eventId = seen.find((one) => copy.body.includes(`"${one}"`));
        return eventId === undefined ? [] : [{ ...copy, sentEpochMs: daysAgo(days[eventId] ?? 0) }];
      }),
    });
    expect(await tidy(depsOf(dated(['kept'])))).toMatchObject({ looked: 1, oldestSentEpochMs: daysAgo(4) });
    expect(await tidy(depsOf(dated(['stale', 'unknown', 'kept'])), { isDryRun: true })).toMatchObject({ looked: 3, oldestSentEpochMs: daysAgo(11) });
    expect(await tidy(depsOf(dated(['stale'])))).toMatchObject({ looked: 1, deleted: 1, oldestSentEpochMs: undefined });
    expect(await tidy(depsOf({ receive: () => Promise.resolve([]) }))).toMatchObject({ looked: 0, oldestSentEpochMs: undefined });
  });

  it('knows from SQS when a copy was sent', async () => {
    const fromEpochMs = Date.now();
    await bury('now');
    const { oldestSentEpochMs = 0 } = await tidy();
    expect(oldestSentEpochMs).toBeGreaterThanOrEqual(fromEpochMs - 1_000);
    expect(oldestSentEpochMs).toBeLessThanOrEqual(Date.now() + 1_000);
  });

  it('ends at its bound, with everything put back', async () => {
    for (const n of Array.from({ length: 25 }, (_, i) => i)) await bury(`evt_${n}`);
    let pages = 0;
    expect(await tidy(depsOf(), { mayGoOn: () => pages++ < 2 })).toMatchObject({ looked: 20, unknown: 20, stop: 'bound' });
    expect(await visible()).toHaveLength(25);
  });

  it('takes copies that it has seen before, by a look that ended under it, for no others', async () => {
    await bury('again');
    await write(own(deadOf('buried'), 'again'));
    const queue = queueOf(0);
    expect(await tidy(depsOf({ receive: () => queue.receive() }))).toMatchObject({ looked: 1, kept: 1, stop: 'end' });
  });

  it('counts what could not be deleted, and puts it back', async () => {
    await mixture();
    expect(await tidy(depsOf({ remove: (copies) => Promise.resolve(copies) }))).toMatchObject({ stale: 3, deleted: 0, hidden: 0 });
    expect(await visible()).toHaveLength(10);
  });

  it('knows nothing of what it could not read', async () => {
    await mixture();
    const unread = { read: (keys: readonly string[]) => Promise.resolve({ found: new Map(), unread: new Set(keys) }) };
    expect(await tidy(depsOf({}, unread))).toMatchObject({ stale: 0, deleted: 0, unknown: 10 });
    expect(await visible()).toHaveLength(10);
  });
});

describe('beside a move task of SQS', () => {
  const start = () => sqs.send(new StartMessageMoveTaskCommand({ SourceArn: arn, DestinationArn: elsewhereArn, MaxNumberOfMessagesPerSecond: 1 }));

  it('receives nothing, and goes on when that has ended', async () => {
    await mixture();
    const { TaskHandle } = await start();
    let receives = 0;
    const queue = queueOf();
    expect(await tidy(depsOf({ receive: () => (receives++, queue.receive()) }))).toMatchObject({ looked: 0, stop: 'moving' });
    expect(receives).toBe(0);
    await sqs.send(new CancelMessageMoveTaskCommand({ TaskHandle }));
    expect(await tidy()).toMatchObject({ stop: 'end' });
  });

  it('stops at its next page where one begins under it, and leaves nothing hidden', async () => {
    for (const n of Array.from({ length: 15 }, (_, i) => i)) await bury(`evt_${n}`);
    const queue = queueOf();
    let handle: string | undefined;
    const receive: DeadLetterQueue['receive'] = async () => {
      const page = await queue.receive();
      handle ??= (await start()).TaskHandle;
      return page;
    };
    expect(await tidy(depsOf({ receive }))).toMatchObject({ looked: 10, stop: 'moving', hidden: 0 });
    await sqs.send(new CancelMessageMoveTaskCommand({ TaskHandle: handle }));
    expect(await visible()).toHaveLength(15);
    expect(await queueOf().isMoving()).toBe(false);
  });

  it('does nothing where nobody can say whether one runs', async () => {
    await mixture();
    const before = await visible();
    await expect(tidy(depsOf({ isMoving: () => Promise.reject(new Error('SQS is away')) }))).rejects.toThrow('SQS is away');
    expect(await visible()).toEqual(before);
  });
});

describe('an interruption half way', () => {
  it('that throws puts everything back that was not deleted', async () => {
    const ids = Array.from({ length: 25 }, (_, i) => `evt_${i}`);
    for (const eventId of ids) {
      await write(own(eventId === 'evt_0' ? deliveredOf() : deadOf('buried'), eventId));
      await bury(eventId);
    }
    let reads = 0;
    const records = { read: (keys: readonly string[]) => (++reads === 2 ? Promise.reject(new Error('a bug')) : subject.world.records.read(keys)) };
    await expect(tidy(depsOf({}, records))).rejects.toThrow('a bug');
    expect(await events()).toEqual(ids.filter((id) => id !== 'evt_0').toSorted());
  });

  it('that is a death leaves copies hidden until their look is over', async () => {
    await bury('hidden');
    await write(own(deadOf('buried'), 'hidden'));
    const short = createSqsDeadLetters(sqs, url, { lookS: 1, waitS: 0 });
    expect(await tidy({ queue: { ...short, putBack: (handles) => Promise.resolve(handles.length) }, records: subject.world.records })).toMatchObject({ kept: 1, hidden: 1 });
    await until('it can be received again', async () => (await events()).includes('hidden'));
  });
});

describe('a delivery that goes on between the read and the deletion', () => {
  /** What a replay writes as soon as the records were read. */
  const movingOn = (before: DeadRecord): Pick<Records, 'read'> => ({
    read: async (keys) => {
      const read = await subject.world.records.read(keys);
      expect(await subject.world.records.write(before, held(renewed(before, t0EpochMs, 0), 0))).toBe('written');
      return read;
    },
  });

  it('its past copy is stale all the same; the one that was replayed stays for this walk, and is stale for the next', async () => {
    const dead = own(deadOf('buried', { generation: 1 }), 'moving');
    await write(dead);
    await bury('moving', 0);
    await bury('moving', 1);
    expect(await tidy(depsOf({}, movingOn(dead)))).toMatchObject({ looked: 2, stale: 1, deleted: 1, kept: 1 });
    expect((await visible()).map(({ whole }) => (whole as Message).MessageAttributes?.['sluice-gen']?.StringValue)).toEqual(['1']);
    expect(await tidy()).toMatchObject({ looked: 1, stale: 1, deleted: 1 });
  });

  it('a copy that somebody else has deleted meanwhile is no failure', async () => {
    await write(own(deliveredOf(), 'gone'));
    await bury('gone');
    const queue = queueOf();
    const remove: DeadLetterQueue['remove'] = async (copies) => {
      for (const { receiptHandle } of copies) await sqs.send(new DeleteMessageCommand({ QueueUrl: url, ReceiptHandle: receiptHandle }));
      return queue.remove(copies);
    };
    expect(await tidy(depsOf({ remove }))).toMatchObject({ stale: 1, deleted: 1, hidden: 0 });
  });
});
