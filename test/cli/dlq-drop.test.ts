/** `sluice dlq drop`: dead letters that are given up for good. */
import { spawn } from 'node:child_process';
import { userInfo } from 'node:os';
import { UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { readDead } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { claimKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { records as limits } from '../../lambdas/shared/limits/numbers.ts';
import { cliProcess, runCli } from '../support/cli.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
const sluice = (...args: string[]) => runCli(embedded.localFile, args);
const drop = (...args: string[]) => sluice('dlq', 'drop', '--why', 'closed their account', ...args);
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
});
beforeEach(() => consumer.reply(() => ({ status: 400 })));
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const deadOf = (endpointId?: string): Promise<DeadRecord[]> => readDead(embedded.db, embedded.output(outputs.deliveriesTable), endpointId);
async function kill(endpointId: string, ...eventIds: string[]): Promise<void> {
  await embedded.register(endpointId, consumer.url());
  const buried = async () => (await deadOf(endpointId)).filter(({ phase }) => phase === 'buried').length;
  const [first, ...rest] = eventIds;
  if (first !== undefined) await embedded.send(messageBody(endpointId, first));
  // The oldest of them.
  await until(`${first ?? ''} is dead`, async () => (await buried()) === 1);
  for (const eventId of rest) await embedded.send(messageBody(endpointId, eventId));
  await until(`${eventIds.join()} are dead`, async () => (await buried()) === eventIds.length);
}
const requestsOf = (eventId: string) => consumer.requests.filter((r) => r.eventId === eventId).length;

describe('dlq drop', () => {
  it('drops what is selected, says by whom and why, and is safe to repeat', async () => {
    await kill('acme', 'evt_1', 'evt_2', 'evt_3');
    expect((await drop('--endpoint', 'acme', '--dry-run', '--json')).json()).toEqual({ selected: 3, dropped: 0 });
    expect(await deadOf('acme')).toHaveLength(3);
    const result = await drop('--endpoint', 'acme', '--reason', 'rejected', '--max', '1', '--yes', '--json');
    expect(result).toMatchObject({ code: 0, stderr: expect.stringContaining('Target: local') as string });
    expect(result.stderr).toContain('Dropped 1 of 1');
    expect(result.json()).toEqual({ selected: 1, dropped: 1, busy: 0, moved: 0 });

    const record = await embedded.record('acme', 'evt_1');
    expect(record).toMatchObject({ state: 'dropped', reason: 'rejected', detail: 'status 400', why: 'closed their account', by: userInfo().username, generation: 0, attempt: 1 });
    const shown = await sluice('show', 'acme', 'evt_1');
    expect(shown.stdout).toMatch(new RegExp(`dropped by ${userInfo().username} at 20.*Z \\(closed their account\\); it was dead \\(rejected: status 400\\)`));
    expect(shown.stdout).toMatch(/answered\s+400/);

    expect((await sluice('dlq', 'ls', '--endpoint', 'acme', '--json')).json<{ eventId: string }[]>().map(({ eventId }) => eventId).sort()).toEqual(['evt_2', 'evt_3']);
    expect((await drop('--event', 'evt_1', '--yes', '--json')).json()).toEqual({ selected: 0, dropped: 0 });
    expect((await drop('--event', 'evt_3', '--by', 'ada', '--yes', '--json')).json()).toMatchObject({ dropped: 1 });
    expect(await embedded.record('acme', 'evt_3')).toMatchObject({ state: 'dropped', by: 'ada' });
  });

  it('whatever comes of it afterwards is acknowledged, and never sent', async () => {
    await kill('quiet', 'evt_quiet');
    expect((await drop('--endpoint', 'quiet', '--yes')).code).toBe(0);
    consumer.reply(() => ({ status: 200 }));
    await embedded.send(messageBody('quiet', 'evt_quiet'));
    await embedded.send(messageBody('quiet', 'evt_quiet'), { generation: 0 });
    await embedded.send(messageBody('quiet', 'evt_quiet', undefined, { resend: 7 }));
    await embedded.drainQueue();
    expect([requestsOf('evt_quiet'), (await embedded.record('quiet', 'evt_quiet'))?.state]).toEqual([1, 'dropped']);
    expect(await sluice('send', 'quiet', '--event', 'evt_quiet', '--data', '{"n":1}', '--resend', '9', '--wait')).toMatchObject({ code: 1, stderr: expect.stringContaining('was dropped by') as string });
  });

  it('removes the payload of what was held', async () => {
    await kill('kept', 'evt_kept', 'evt_other');
    const payloads = createDynamoDbPayloads(embedded.db, embedded.output(outputs.payloadsTable));
    const all = await deadOf('kept');
    for (const record of all) await payloads.put(record, messageBody('kept', record.eventId ?? ''), Date.now());
    expect((await drop('--event', 'evt_kept', '--yes')).code).toBe(0);
    const { found } = await payloads.read(all);
    expect([...found.keys()]).toEqual(all.filter(({ eventId }) => eventId === 'evt_other').map(({ recordKey }) => recordKey));
  });

  it('where there is no endpoint, or was none to be found in the message', async () => {
    await embedded.send(messageBody('nobody', 'evt_nobody'));
    await embedded.send('no json');
    await embedded.send('{"endpointId":"acme","eventId":"evt_bad"}');
    await until('three are dead', async () => (await deadOf()).filter((r) => ['unknown-endpoint', 'malformed'].includes(r.reason) && r.phase === 'buried').length === 3);
    expect((await drop('--reason', 'unknown-endpoint', '--yes', '--json')).json()).toMatchObject({ dropped: 1, busy: 0 });
    expect((await drop('--reason', 'malformed', '--yes', '--json')).json()).toMatchObject({ selected: 2, dropped: 2, busy: 0 });
    // Another copy of the same text is of what was dropped.
    await embedded.send('no json');
    await embedded.drainQueue();
    expect((await deadOf()).filter((r) => r.reason === 'malformed')).toEqual([]);
  });

  it('a conflict, and not the delivery that it contradicts', async () => {
    consumer.reply(() => ({ status: 200 }));
    await embedded.register('twins', consumer.url());
    await embedded.send(messageBody('twins', 'evt_twin', '{"which":"A"}'));
    await until('A is delivered', async () => (await embedded.record('twins', 'evt_twin'))?.state === 'delivered');
    await embedded.send(messageBody('twins', 'evt_twin', '{"which":"B"}'));
    await until('B is a conflict', async () => (await deadOf('twins')).some(({ phase }) => phase === 'buried'));
    expect((await drop('--endpoint', 'twins', '--yes', '--json')).json()).toMatchObject({ selected: 1, dropped: 1 });
    expect((await embedded.record('twins', 'evt_twin'))?.state).toBe('delivered');
  });

  it('leaves alone what a claim covers, says so, and may be repeated', async () => {
    await kill('claimed', 'evt_claimed', 'evt_free');
    const onClaim = async (UpdateExpression: string, values?: Record<string, unknown>) => embedded.db.send(new UpdateItemCommand({
      TableName: embedded.output(outputs.endpointsTable), Key: marshall({ pk: 'claimed', sk: 'lane' }), UpdateExpression,
      ExpressionAttributeNames: { '#k': claimKeyOf('evt_claimed') }, ...(values === undefined ? {} : { ExpressionAttributeValues: marshall(values) }),
    }));
    await onClaim('SET claims.#k = :c, leases.theirs = :l', { ':c': ['theirs', 'x'], ':l': [0, Date.now() * 2] });
    const busy = await drop('--endpoint', 'claimed', '--yes', '--json');
    expect(busy).toMatchObject({ code: 3, stderr: expect.stringContaining('Repeat') as string });
    expect(busy.json()).toEqual({ selected: 2, dropped: 1, busy: 1, moved: 0 });
    expect(await embedded.record('claimed', 'evt_claimed')).toMatchObject({ state: 'dead', phase: 'buried' });
    // Its worker died: nobody else would come for the claim.
    await onClaim('SET claims.#k = :c REMOVE leases.theirs', { ':c': ['theirs', 'x'] });
    expect((await drop('--endpoint', 'claimed', '--yes', '--json')).json()).toMatchObject({ selected: 1, dropped: 1, busy: 0 });
  });

  it('goes on where it was interrupted, and two at once drop each of them once', async () => {
    const ids = Array.from({ length: 24 }, (_, i) => `evt_many${i}`);
    await kill('many', ...ids);
    const droppedNow = async () => (await Promise.all(ids.map((id) => embedded.record('many', id)))).filter((r) => r?.state === 'dropped').length;
    const { file, args, env } = cliProcess(embedded.localFile, ['dlq', 'drop', '--endpoint', 'many', '--why', 'x', '--yes']);
    const child = spawn(file, args, { env, stdio: 'ignore' });
    await until('it has begun', async () => (await droppedNow()) > 0);
    child.kill('SIGKILL');
    const before = await deadOf('many');
    const results = await Promise.all(['ada', 'bob'].map((by) => drop('--endpoint', 'many', '--by', by, '--yes', '--json')));
    const counts = results.map((r) => r.json<{ dropped: number; busy?: number }>());
    // What one of the two found in the way of the other is left to a repeat.
    if (counts.some(({ busy }) => (busy ?? 0) > 0)) await drop('--endpoint', 'many', '--yes');
    expect(await droppedNow()).toBe(ids.length);
    expect(counts.reduce((sum, { dropped }) => sum + dropped, 0)).toBeLessThanOrEqual(before.length);
    expect(results.every(({ code }) => code === 0 || code === 3)).toBe(true);
  });

  it('asks before, and refuses what it cannot keep', async () => {
    await kill('asked', 'evt_asked');
    expect(await drop('--endpoint', 'asked')).toMatchObject({ code: 2, stderr: expect.stringMatching(/Drop 1 dead deliveries of endpoint asked on local\? They cannot be replayed afterwards\./) as string });
    for (const args of [
      ['--why', 'x', '--yes'], ['--endpoint', 'asked', '--yes'], ['--endpoint', 'asked', '--why', '  ', '--yes'], ['--endpoint', 'asked', '--why', 'x'.repeat(limits.maxDetailLength + 1), '--yes'],
      ['--endpoint', 'asked', '--why', 'x', '--by', '', '--yes'], ['--endpoint', 'asked', '--why', 'x', '--max', '0', '--yes'],
    ]) expect(await sluice('dlq', 'drop', ...args), args.join(' ')).toMatchObject({ code: 2 });
    expect(await embedded.record('asked', 'evt_asked')).toMatchObject({ state: 'dead' });
  });
});
