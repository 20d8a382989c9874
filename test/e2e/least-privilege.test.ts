import { PutItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { claimKeyOf, shortHash } from '../../lambdas/shared/core/keys.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import type { CallEntry } from '../../local/call-log.ts';
import type { RoleSpec } from '../../local/template.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { audit } from '../support/iam.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
let role: RoleSpec;
let calls: CallEntry[];

/** Drives the function through every kind of call it can make, then reads what it called from the wire. */
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

  const found = (await embedded.stack()).roles.find((r) => r.name.includes('Deliver')) ?? role;
  role = { ...found, statements: found.statements.flatMap(withoutHeld) };
  calls = (await embedded.calls()).filter((c) => c.caller === role.name);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

/** Without what holding a delivery needs: nothing above holds one. */
function withoutHeld(statement: RoleSpec['statements'][number]): RoleSpec['statements'] {
  const resources = statement.resources.filter((resource) => !/QueuesDrain|TablesPayloads|:schedule\/|WakeUpsRole/.test(resource));
  return resources.length === 0 ? [] : [{ ...statement, resources }];
}

/** What a worker leaves that was killed: a claim whose lease is past. */
async function leaveClaim(eventId: string, payloadHash: string): Promise<void> {
  await embedded.db.send(
    new UpdateItemCommand({
      TableName: embedded.output(outputs.endpointsTable),
      Key: marshall({ pk: 'iam', sk: 'lane' }),
      UpdateExpression: 'SET claims.#k = :c',
      ExpressionAttributeNames: { '#k': claimKeyOf(eventId) },
      ExpressionAttributeValues: marshall({ ':c': ['lease-of-the-dead', shortHash(payloadHash)] }),
    }),
  );
}

describe('the deliver role', () => {
  it('was used for every kind of call', () => {
    expect([...new Set(calls.map((c) => c.operation))].sort()).toEqual([
      'BatchGetItem', 'ChangeMessageVisibility', 'CreateLogStream', 'DeleteMessageBatch', 'GetItem', 'GetQueueAttributes',
      'PutLogEvents', 'ReceiveMessage', 'SendMessage', 'TransactWriteItems', 'UpdateItem',
    ]);
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
        { ...statement, actions: [...statement.actions, 'dynamodb:DeleteItem'] },
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
