import { PurgeQueueCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { PutItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { readRecord } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { createStatusTokens } from '../../lambdas/shared/adapters/dynamodb-status-tokens.ts';
import { claimKeyOf, shortHash, syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import { tokenHash } from '../../lambdas/shared/core/status-token.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import type { CallEntry } from '../../local/call-log.ts';
import type { RoleSpec } from '../../local/template.ts';
import { callReplay, keepBody } from '../support/dead-letters.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { audit } from '../support/iam.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
/** By the function's name in the template. */
const roles = new Map<string, { role: RoleSpec; calls: CallEntry[] }>();

/** Drives the functions through every kind of call they can make, then reads what they called from the wire. */
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  await embedded.register('iam', consumer.url(), { retry: { attempts: 3 } });

  await embedded.send(messageBody('iam', 'evt_plain'));
  await embedded.send(messageBody('nobody', 'evt_unknown'));
  await until('a delivery', async () => (await embedded.record('iam', 'evt_plain'))?.state === 'delivered');
  await until('a dead letter', async () => (await embedded.record('nobody', 'evt_unknown'))?.state === 'dead');
  consumer.reply((_r, nth) => ({ status: nth === 1 ? 503 : 200 }));
  await embedded.send(messageBody('iam', 'evt_retry'));
  await embedded.passDue('iam', 'evt_retry', 1);

  // A worker that settled, and died before its give-back: the claim is reaped beside an unchanged record.
  await leaveClaim('evt_plain', (await embedded.record('iam', 'evt_plain'))?.payloadHash ?? '');
  await embedded.send(messageBody('iam', 'evt_plain'));
  // A worker that died while it was sending: one ambiguous attempt is recorded with the reap.
  await leaveClaim('evt_retry', (await embedded.record('iam', 'evt_retry'))?.payloadHash ?? '');
  await embedded.send(messageBody('iam', 'evt_retry'));
  await embedded.drainQueue();
  // One that is gone is disabled; a redrive takes its body away from beside the record.
  consumer.reply(() => ({ status: 410 }));
  await embedded.send(messageBody('iam', 'evt_gone'));
  await until('it is disabled', async () => (await embedded.registry.get('iam'))?.endpoint.config?.status === 'disabled');
  await embedded.register('iam', consumer.url());
  consumer.reply(() => ({ status: 200 }));
  await embedded.send(messageBody('iam', 'evt_gone'), { generation: 0 });
  await until('it is delivered', async () => (await embedded.record('iam', 'evt_gone'))?.state === 'delivered');
  await embedded.drainQueue();
  await holdAndDrain();
  await leaveStaleCopy();
  await until('the sweep has ended', async () => (await embedded.look()).idle);
  await replayDead();
  await askStatus();

  const all = await embedded.calls();
  const found = (await embedded.stack()).roles;
  for (const name of ['Deliver', 'Drain', 'Sweep', 'Replay', 'Status']) {
    const role = found.find((r) => r.name.includes(`${name}Function`) || r.name.includes(`${name}Role`));
    if (role === undefined) throw new Error(`no role of ${name} among ${found.map((r) => r.name).join()}`);
    roles.set(name, { role, calls: all.filter((c) => c.caller === role.name) });
  }
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

/** Held with a wake-up soon, one late, and one that becomes earlier; then canaries, a rejection, and what the sweep has to find. */
async function holdAndDrain(): Promise<void> {
  await embedded.register('held', consumer.url(), { retry: { attempts: 3 } });
  const lanes = createDynamoDbLanes(embedded.db, { endpoints: embedded.output(outputs.endpointsTable), deliveries: embedded.output(outputs.deliveriesTable) });
  const laneOf = async () => (await embedded.registry.get('held'))?.lane;
  const open = async (forMs: number) => {
    const { nowEpochMs } = await embedded.look();
    const breaker = (await laneOf())?.breaker;
    await lanes.moveBreaker('held', breaker, { state: 'open', round: (breaker?.round ?? 0) + 1, cause: 'failing', untilEpochMs: nowEpochMs + forMs, trips: 5, canary: undefined });
  };
  const hold = async (eventId: string) => {
    await embedded.send(messageBody('held', eventId));
    await until(`${eventId} is held`, async () => (await embedded.record('held', eventId))?.state === 'waiting' && (await embedded.look()).idle);
  };
  await open(400_000);
  await hold('evt_late');
  await open(200_000);
  await hold('evt_earlier');
  await open(30_000);
  await hold('evt_soon');
  // Each canary opens it for longer than a delay of the queue can be.
  const answers = [503, 503, 422];
  consumer.reply(() => ({ status: answers.shift() ?? 200 }));
  await until('everything is sent', async () => {
    await embedded.skip();
    return (await Promise.all(['evt_late', 'evt_earlier', 'evt_soon'].map((id) => embedded.record('held', id)))).every((r) => r?.state === 'delivered' || (r?.state === 'dead' && r.phase === 'buried'));
  });
  await embedded.drainQueue();

  // Asked for less by its second answer, the drain comes again some seconds later.
  await open(30_000);
  await hold('evt_first');
  await hold('evt_less');
  answers.push(200, 429);
  await until('both are delivered', async () => {
    await embedded.skip();
    return (await Promise.all(['evt_first', 'evt_less'].map((id) => embedded.record('held', id)))).every((r) => r?.state === 'delivered');
  });
  await embedded.drainQueue();

  // Given up by the drain without an attempt, after a dead run's claim is cleared.
  await open(30_000);
  await hold('evt_disabled');
  await leaveClaim('evt_disabled', (await embedded.record('held', 'evt_disabled'))?.payloadHash ?? '', 'held');
  await embedded.register('held', consumer.url(), { status: 'disabled' });
  await embedded.drainQueue();
  // Found by the sweep: the one without its wake-up, the other without its lane's word.
  await embedded.register('held', consumer.url(), {});
  await open(30_000);
  await hold('evt_lost');
  await embedded.sqs.send(new PurgeQueueCommand({ QueueUrl: embedded.output(outputs.drainQueueUrl) }));
  await embedded.advance(121_000);
  await until('the lost one is delivered', async () => (await embedded.record('held', 'evt_lost'))?.state === 'delivered');
  await embedded.drainQueue();
  await open(30_000);
  await hold('evt_unknown');
  await embedded.sqs.send(new PurgeQueueCommand({ QueueUrl: embedded.output(outputs.drainQueueUrl) }));
  await embedded.db.send(new UpdateItemCommand({ TableName: embedded.output(outputs.endpointsTable), Key: marshall({ pk: 'held', sk: 'lane' }), UpdateExpression: 'REMOVE holding, wakeAt, heldAt, held' }));
  // Somebody is told of one that refuses.
  await lanes.flag('held', { why: 'not-found', sinceEpochMs: 1 });
  // All of the index is looked through once an hour, a part a minute.
  await until('the unknown one is delivered', async () => {
    await embedded.advance(60_000);
    await until('the sweep has run', async () => (await embedded.look()).idle);
    return (await embedded.record('held', 'evt_unknown'))?.state === 'delivered';
  }, 100_000);
  await embedded.drainQueue();
}

/** A copy of a delivery that was delivered: the sweep deletes it, and puts back the others. */
async function leaveStaleCopy(): Promise<void> {
  const QueueUrl = embedded.output(outputs.deadLetterQueueUrl);
  const MessageAttributes = { 'sluice-gen': { DataType: 'Number', StringValue: '0' } };
  await embedded.sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: messageBody('iam', 'evt_plain'), MessageAttributes }));
  await embedded.advance(60_000);
  await until('the stale copy is deleted', () => embedded.logsOf('sweep').includes('"deleted":1'));
}

/** Of one endpoint and of all; one under a dead worker's claim, and a message that can only be sent again. */
async function replayDead(): Promise<void> {
  await embedded.register('nobody', consumer.url());
  const dead = await embedded.record('nobody', 'evt_unknown');
  if (dead?.state !== 'dead') throw new Error('evt_unknown is not dead');
  await keepBody(embedded, dead, messageBody('nobody', 'evt_unknown'));
  await leaveClaim('evt_unknown', dead.payloadHash, 'nobody');
  expect(await callReplay(embedded, { select: { endpointId: 'nobody' } })).toMatchObject({ selected: 1, replayed: 1 });
  const body = 'no message';
  await embedded.send(body);
  const recordKey = syntheticKeyOf(undefined, 'malformed', body);
  const malformed = await until('it is malformed', async () => {
    const found = await readRecord(embedded.db, embedded.output(outputs.deliveriesTable), recordKey);
    return found?.state === 'dead' && found.phase === 'buried' ? found : undefined;
  });
  await keepBody(embedded, malformed, body);
  expect(await callReplay(embedded, { all: true, select: { reason: 'malformed' } })).toMatchObject({ selected: 1, sentAgain: 1 });
  await embedded.drainQueue();
}

/** As a consumer does that has its token. */
async function askStatus(): Promise<void> {
  await createStatusTokens(embedded.db, embedded.output(outputs.endpointsTable)).put('iam', tokenHash('a-token'), 1);
  expect((await fetch(`${embedded.output(outputs.statusUrl)}iam`, { headers: { authorization: 'Bearer a-token' } })).status).toBe(200);
}

/** What a worker leaves that was killed: a claim whose lease is past. */
async function leaveClaim(eventId: string, payloadHash: string, endpointId = 'iam'): Promise<void> {
  await embedded.db.send(
    new UpdateItemCommand({
      TableName: embedded.output(outputs.endpointsTable),
      Key: marshall({ pk: endpointId, sk: 'lane' }),
      UpdateExpression: 'SET claims.#k = :c',
      ExpressionAttributeNames: { '#k': claimKeyOf(eventId) },
      ExpressionAttributeValues: marshall({ ':c': ['lease-of-the-dead', shortHash(payloadHash)] }),
    }),
  );
}

const used: Record<string, string[]> = {
  Deliver: [
    'BatchGetItem', 'ChangeMessageVisibilityBatch', 'CreateLogStream', 'CreateSchedule', 'DeleteItem', 'DeleteMessageBatch', 'GetItem', 'GetQueueAttributes',
    'PutItem', 'PutLogEvents', 'ReceiveMessage', 'SendMessage', 'TransactWriteItems', 'UpdateItem', 'UpdateSchedule',
  ],
  Drain: [
    'BatchGetItem', 'CreateLogStream', 'CreateSchedule', 'DeleteItem', 'DeleteMessageBatch', 'GetItem', 'GetQueueAttributes',
    'PutLogEvents', 'Query', 'ReceiveMessage', 'SendMessage', 'TransactWriteItems', 'UpdateItem', 'UpdateSchedule',
  ],
  Replay: [
    'BatchGetItem', 'CreateLogStream', 'DeleteItem', 'GetItem', 'PutItem', 'PutLogEvents', 'Query', 'Scan', 'SendMessage', 'TransactWriteItems', 'UpdateItem',
  ],
  Sweep: [
    'BatchGetItem', 'ChangeMessageVisibilityBatch', 'CreateLogStream', 'DeleteMessageBatch', 'GetItem', 'GetQueueAttributes', 'ListMessageMoveTasks', 'Publish',
    'PutItem', 'PutLogEvents', 'Query', 'ReceiveMessage', 'Scan', 'SendMessage', 'UpdateItem',
  ],
  Status: ['CreateLogStream', 'GetItem', 'PutLogEvents', 'Query'],
};

describe.each(Object.keys(used))('the role of %s', (name) => {
  let role: RoleSpec;
  let calls: CallEntry[];
  beforeAll(() => {
    const found = roles.get(name);
    if (found === undefined) throw new Error(`no role ${name}`);
    ({ role, calls } = found);
  });

  it('was used for every kind of call', () => {
    expect([...new Set(calls.map((c) => c.operation))].sort()).toEqual(used[name]);
  });

  it('is allowed all that it called, no more, and nothing broad', () => {
    expect(audit(role.statements, calls)).toEqual({ denied: [], unused: [], broad: [] });
  });

  it('would be refused something if any statement, action or resource were taken away', () => {
    for (const [i, statement] of role.statements.entries()) {
      expect(audit(role.statements.toSpliced(i, 1), calls).denied, statement.actions.join()).not.toEqual([]);
      for (const action of statement.actions) {
        const less = { ...statement, actions: statement.actions.filter((a) => a !== action) };
        expect(audit(role.statements.toSpliced(i, 1, less), calls).denied, action).not.toEqual([]);
      }
    }
  });

  it('would be found broad if any resource or action were widened', () => {
    for (const [i, statement] of role.statements.entries()) {
      const wider = [
        { ...statement, resources: ['*'] },
        { ...statement, resources: statement.resources.map((r) => `${r.slice(0, -4)}*`) },
        { ...statement, resources: [...statement.resources, `${statement.resources[0] ?? ''}-other`] },
        { ...statement, actions: [...statement.actions, 'dynamodb:DeleteTable'] },
        { ...statement, actions: [`${statement.actions[0]?.split(':')[0] ?? ''}:*`] },
      ];
      for (const widened of wider) {
        const found = audit(role.statements.toSpliced(i, 1, widened), calls);
        expect([...found.unused, ...found.broad], JSON.stringify(widened)).not.toEqual([]);
      }
    }
  });

  it('could not write where it has no business', async () => {
    // The wire checks no policy, so the audit must: a call outside of the policies is seen as denied.
    await embedded.db.send(new PutItemCommand({ TableName: embedded.output(outputs.endpointsTable), Item: marshall({ pk: 'x', sk: 'y' }) }));
    const stray = (await embedded.calls()).filter((c) => c.operation === 'PutItem').map((c) => ({ ...c, caller: role.name }));
    expect(audit(role.statements, [...calls, ...stray]).denied).not.toEqual([]);
  });
});
