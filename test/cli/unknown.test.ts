/** `sluice unknown`: deliveries that may have arrived, and what operators decide of them. */
import { userInfo } from 'node:os';
import { UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { claimKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { DeliveryRecord, UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { lookup as lookups, records as limits } from '../../lambdas/shared/limits/numbers.ts';
import { runCli } from '../support/cli.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder, type Reply } from '../support/recorder.ts';

const payload = '{"card":"4111111111111111"}';
let embedded: Embedded;
let consumer: Recorder;
let answers: { post: Reply; look: Reply };
const sluice = (...args: string[]) => runCli(embedded.localFile, args);
const resolve = (as: string, ...args: string[]) => sluice('unknown', 'resolve', '--as', as, '--why', 'asked their support', ...args);
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  consumer.reply((request) => (request.path === '/hooks' ? answers.post : answers.look));
});
beforeEach(() => {
  answers = { post: { status: 500, hangUp: true }, look: { status: 503 } };
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const payloads = () => createDynamoDbPayloads(embedded.db, embedded.output(outputs.payloadsTable));
const isKept = async (record: DeliveryRecord) => (await payloads().read([record])).found.has(record.recordKey);
const postsOf = (eventId: string) => consumer.requests.filter((r) => r.eventId === eventId && r.path === '/hooks');
const looksFor = (eventId: string) => consumer.requests.filter((r) => r.eventId === eventId && r.path !== '/hooks').length;
const register = (id: string, lookup: Record<string, unknown> | null = null, more: Record<string, unknown> = {}) =>
  embedded.register(id, consumer.url(), { onAmbiguous: 'reconcile', lookup: lookup === null ? null : { url: `${consumer.url('/orders/')}{eventId}`, match: { '$.id': 'eventId' }, ...lookup }, ...more });
async function unknownNow(id: string, eventId: string): Promise<UnknownRecord> {
  return until(`${eventId} is unknown`, async () => {
    const record = await embedded.record(id, eventId);
    return record?.state === 'unknown' && record;
  });
}
/** One after the other, so that their order is known. */
async function doubt(id: string, ...eventIds: string[]): Promise<UnknownRecord[]> {
  const records = [];
  for (const eventId of eventIds) {
    await embedded.send(messageBody(id, eventId, payload));
    records.push(await unknownNow(id, eventId));
    await listed(id, eventId);
  }
  return records;
}
const listed = (id: string, eventId: string) => until(`${eventId} is listed`, async () => (await listOf('--endpoint', id)).some((r) => r.eventId === eventId));
const listOf = async (...args: string[]) => (await sluice('unknown', 'ls', '--json', ...args)).json<UnknownRecord[]>();
async function onClaim(id: string, eventId: string, UpdateExpression: string, values?: Record<string, unknown>): Promise<void> {
  await embedded.db.send(new UpdateItemCommand({
    TableName: embedded.output(outputs.endpointsTable), Key: marshall({ pk: id, sk: 'lane' }), UpdateExpression,
    ExpressionAttributeNames: { '#k': claimKeyOf(eventId) }, ...(values === undefined ? {} : { ExpressionAttributeValues: marshall(values) }),
  }));
}
/** Of a worker that is alive, until it is `orphaned`: then of one that died. */
const claim = (id: string, eventId: string) => onClaim(id, eventId, 'SET claims.#k = :c, leases.theirs = :l', { ':c': ['theirs', 'x'], ':l': [0, Date.now() * 2] });
const orphan = (id: string, eventId: string) => onClaim(id, eventId, 'SET claims.#k = :c REMOVE leases.theirs', { ':c': ['theirs', 'x'] });

describe('what is unknown', () => {
  it('is listed, the oldest first, with whom it waits for; and shown with what resolves it', async () => {
    expect(await sluice('unknown', 'ls')).toMatchObject({ code: 0, stdout: 'No unknown deliveries.\n' });
    await register('alone');
    await register('asked', { delaysS: [3_600] });
    await doubt('alone', 'evt_b');
    await doubt('asked', 'evt_looked');
    await doubt('alone', 'evt_a');

    const { stdout } = await sluice('unknown', 'ls');
    const rows = stdout.trim().split('\n');
    expect(rows[0]).toMatch(/^ENDPOINT\s+EVENT\s+SINCE\s+ATTEMPTS\s+LOOKS\s+NEXT LOOK\s+WAITS FOR\s+DETAIL$/);
    expect(rows[1]).toMatch(/^alone\s+evt_b\s+20\S+Z\s+1\s+0\s+-\s+a person: no-lookup\s+\S/);
    expect(rows[2]).toMatch(/^asked\s+evt_looked\s+20\S+Z\s+1\s+0\s+20\S+Z\s+a look\s+\S/);
    expect(rows[3]).toMatch(/^alone\s+evt_a\s/);
    expect(rows).toHaveLength(4);
    expect((await listOf('--endpoint', 'alone')).map((r) => r.eventId)).toEqual(['evt_b', 'evt_a']);
    expect((await listOf('--stuck')).map((r) => r.eventId)).toEqual(['evt_b', 'evt_a']);
    expect(await sluice('unknown', 'ls', '--endpoint', 'asked', '--stuck')).toMatchObject({ code: 0, stdout: 'No unknown deliveries wait for a person.\n' });
    expect(await sluice('unknown', 'ls', '--endpoint', 'misspelt')).toMatchObject({ code: 1, stderr: expect.stringContaining('no endpoint misspelt') as string });

    const shown = await sluice('unknown', 'show', 'alone', 'evt_b');
    expect(shown).toMatchObject({ code: 0 });
    expect(shown.stdout).toMatch(/^alone evt_b: unknown since 20\S+Z \(.+\); generation 0, 1 attempts\nLooks made: 0\. A person must decide \(no-lookup\): the endpoint declares no look-up\n/);
    for (const as of ['delivered', 'resend', 'drop']) expect(shown.stdout).toContain(`sluice unknown resolve alone evt_b --as ${as} --why TEXT`);
    expect(shown.stdout).not.toContain('sluice unknown look');
    const looked = await sluice('unknown', 'show', 'asked', 'evt_looked');
    expect(looked.stdout).toMatch(/Looks made: 0\. The next one: 20\S+Z\n/);
    expect(looked.stdout).toContain('sluice unknown look asked evt_looked');
    expect((await sluice('show', 'asked', 'evt_looked')).stdout).toMatch(/The next one: 20/);
    expect([stdout, shown.stdout, looked.stdout, JSON.stringify(await listOf())].join('')).not.toContain('4111');

    const { endpoints } = (await sluice('status', '--json')).json<{ endpoints: { endpointId: string; unknown: number }[] }>();
    expect(Object.fromEntries(endpoints.map((e) => [e.endpointId, e.unknown]))).toEqual({ alone: 2, asked: 1 });
    expect((await sluice('status', 'alone')).stdout).toMatch(/UNKNOWN\nalone\s.*\s2\n/);
  });

  it('is no more than what it is now: a delivery that is known is shown as what it is', async () => {
    answers.post = { status: 200 };
    await register('known');
    await embedded.send(messageBody('known', 'evt_known'));
    await until('it is delivered', async () => (await embedded.record('known', 'evt_known'))?.state === 'delivered');
    expect(await sluice('unknown', 'show', 'known', 'evt_known')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^known evt_known: delivered; [^]*It is not unknown/) as string });
    expect(await sluice('unknown', 'show', 'known', 'evt_never')).toMatchObject({ code: 1, stderr: expect.stringContaining('No record of event evt_never') as string });
    expect((await sluice('unknown', 'ls', '--endpoint', 'known')).stdout).toBe('No unknown deliveries.\n');
  });

  it('ends a send that waits', async () => {
    await register('waited');
    const sent = await sluice('send', 'waited', '--event', 'evt_waited', '--data', payload, '--wait');
    expect(sent).toMatchObject({ code: 1, stderr: expect.stringMatching(/evt_waited may have arrived: .*sluice unknown show waited evt_waited/) as string });
    expect(sent.stdout).toMatch(/unknown since/);
  });
});

describe('resolve', () => {
  it('as delivered: the record says who knows it, and nothing is sent', async () => {
    await register('paid');
    const [before, other] = await doubt('paid', 'evt_paid', 'evt_other');
    expect((await resolve('delivered', 'paid', 'evt_paid', '--dry-run', '--json')).json()).toEqual({ as: 'delivered', selected: 1, resolved: 0, busy: 0, moved: 0, noPayload: 0, notUnknown: 0 });
    expect(await embedded.record('paid', 'evt_paid')).toEqual(before);
    const result = await resolve('delivered', 'paid', 'evt_paid', '--reference', 'ord_4711', '--yes', '--json');
    expect(result).toMatchObject({ code: 0, stderr: expect.stringMatching(/Target: local\n[^]*Resolved 1 of 1/) as string });
    expect(result.json()).toEqual({ as: 'delivered', selected: 1, resolved: 1, busy: 0, moved: 0, noPayload: 0, notUnknown: 0 });

    const record = await embedded.record('paid', 'evt_paid');
    expect(record).toMatchObject({
      state: 'delivered', via: 'operator', reference: 'ord_4711', generation: 0, attempt: 1, ambiguous: 1,
      resolved: { as: 'delivered', why: 'asked their support', by: userInfo().username, atEpochMs: expect.any(Number) as number },
    });
    const shown = (await sluice('show', 'paid', 'evt_paid')).stdout;
    expect(shown).toMatch(/delivered \(no answer came; an operator says so\)/);
    expect(shown).toContain('ord_4711');
    expect(shown).toMatch(new RegExp(`Known to be delivered: by ${userInfo().username} at 20\\S+Z \\(asked their support\\)`));
    expect(await Promise.all([before, other].map(async (r) => r !== undefined && (await isKept(r))))).toEqual([false, true]);

    // Another copy changes nothing, and a repeat of the command has nothing left to do.
    await embedded.send(messageBody('paid', 'evt_paid', payload));
    await embedded.drainQueue(undefined, { ignoreWakeUps: true });
    expect(postsOf('evt_paid')).toHaveLength(1);
    expect(await resolve('resend', 'paid', 'evt_paid', '--yes')).toMatchObject({ code: 1, stderr: expect.stringContaining('paid evt_paid is not unknown: it is delivered') as string });
    expect(await embedded.record('paid', 'evt_paid')).toEqual(record);
    expect(await embedded.record('paid', 'evt_other')).toEqual(other);
  });

  it('as drop: it is never sent, whatever comes of it', async () => {
    await register('dropped');
    const [before] = await doubt('dropped', 'evt_dropped');
    expect(await resolve('drop', 'dropped', 'evt_dropped', '--by', 'ada', '--yes')).toMatchObject({ code: 0, stdout: 'Dropped: 1 of 1.\n' });
    expect(await embedded.record('dropped', 'evt_dropped')).toMatchObject({ state: 'dropped', reason: 'unknown', why: 'asked their support', by: 'ada', attempt: 1 });
    expect((await sluice('show', 'dropped', 'evt_dropped')).stdout).toMatch(/dropped by ada at 20\S+Z \(asked their support\); it was unknown \(/);
    expect(before !== undefined && (await isKept(before))).toBe(false);
    await embedded.send(messageBody('dropped', 'evt_dropped', payload, { resend: 3 }));
    await embedded.drainQueue(undefined, { ignoreWakeUps: true });
    expect(postsOf('evt_dropped')).toHaveLength(1);
  });

  it('as resend: sent once more, as a possible duplicate, with fresh attempts', async () => {
    await register('again');
    const [before] = await doubt('again', 'evt_again');
    answers.post = { status: 200 };
    const result = await resolve('resend', 'again', 'evt_again', '--yes');
    expect(result).toMatchObject({ code: 0, stdout: 'Held again, to be sent: 1 of 1. They are sent at the pace of the endpoint\'s lane. See: sluice status again\n' });
    await until('it is delivered', async () => (await embedded.record('again', 'evt_again'))?.state === 'delivered');
    await embedded.drainQueue();
    expect(postsOf('evt_again').map(({ headers, body }) => [headers['sluice-attempt'], headers['sluice-possible-duplicate'], body.toString()])).toEqual([
      ['1', undefined, payload], ['1', 'true', payload],
    ]);
    const record = await embedded.record('again', 'evt_again');
    expect(record).toMatchObject({ state: 'delivered', via: 'response', generation: 1, attempt: 1, ambiguous: 1, cleared: 1, resolved: { as: 'resend', why: 'asked their support', by: userInfo().username } });
    expect((await sluice('show', 'again', 'evt_again')).stdout).toMatch(/Sent again although it may have arrived: by \S+ at 20\S+Z \(asked their support\)/);
    for (const each of [before, record]) await until('no payload is left', async () => each !== undefined && !(await isKept(each)));
    expect(await resolve('resend', 'again', 'evt_again', '--yes')).toMatchObject({ code: 1, stderr: expect.stringContaining('Nothing was changed') as string });
  });

  it('by two at once: each delivery is sent once more', async () => {
    await register('twice');
    const ids = ['evt_t1', 'evt_t2', 'evt_t3', 'evt_t4'];
    await doubt('twice', ...ids);
    answers.post = { status: 200 };
    const results = await Promise.all(['ada', 'bob'].map((by) => resolve('resend', 'twice', '--all', '--by', by, '--yes', '--json')));
    expect(results.every(({ code }) => code === 0 || code === 3)).toBe(true);
    // What one of the two found in the way of the other is left to a repeat.
    if (results.some(({ code }) => code === 3)) await resolve('resend', 'twice', '--all', '--yes');
    await until('all are delivered', async () => (await Promise.all(ids.map((id) => embedded.record('twice', id)))).every((r) => r?.state === 'delivered'));
    await embedded.drainQueue();
    expect(ids.map((id) => postsOf(id).length)).toEqual([2, 2, 2, 2]);
    expect((await Promise.all(ids.map((id) => embedded.record('twice', id)))).map((r) => r?.generation)).toEqual([1, 1, 1, 1]);
  });

  it('several, or all of an endpoint; what is known already is said', async () => {
    await register('many');
    await register('beside');
    await doubt('many', 'evt_1', 'evt_2', 'evt_3');
    const [beside] = await doubt('beside', 'evt_1');
    expect((await resolve('delivered', 'many', 'evt_1', 'evt_2', 'evt_1', '--yes', '--json')).json()).toMatchObject({ selected: 2, resolved: 2 });
    const rest = await resolve('drop', 'many', 'evt_1', 'evt_3', '--yes');
    expect(rest).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Dropped: 1 of 1\.\nmany evt_1 is not unknown: it is delivered/) as string });
    await doubt('many', 'evt_4', 'evt_5');
    expect((await resolve('delivered', 'many', '--all', '--yes', '--json')).json()).toMatchObject({ selected: 2, resolved: 2 });
    expect(await resolve('delivered', 'many', '--all', '--yes')).toMatchObject({ code: 0, stdout: '0 unknown deliveries match; nothing was changed.\n' });
    expect(await embedded.record('beside', 'evt_1')).toEqual(beside);
  });

  it('asks before, and says what a resend may do', async () => {
    await register('careful');
    const [before] = await doubt('careful', 'evt_careful');
    const asked = await resolve('resend', 'careful', '--all');
    expect(asked).toMatchObject({ code: 2, stdout: '' });
    expect(asked.stderr).toMatch(/Send 1 unknown deliveries of endpoint careful again on local\?\nThe consumer gets what did arrive a second time: .*sluice-possible-duplicate: true/);
    for (const as of ['delivered', 'drop']) expect(await resolve(as, 'careful', 'evt_careful')).toMatchObject({ code: 2, stderr: expect.stringContaining('on local?') as string });
    expect(await embedded.record('careful', 'evt_careful')).toEqual(before);
  });

  it('refuses what cannot be meant', async () => {
    await register('strict');
    const [before] = await doubt('strict', 'evt_strict');
    const named = ['unknown', 'resolve', 'strict', 'evt_strict'];
    for (const args of [
      [...named, '--as', 'delivered', '--yes'], [...named, '--as', 'delivered', '--why', ' ', '--yes'], [...named, '--as', 'drop', '--why', 'gone \u001b[2J', '--yes'], [...named, '--as', 'drop', '--why', 'x', '--by', 'a\u009b2J', '--yes'], [...named, '--as', 'delivered', '--why', 'x'.repeat(limits.maxDetailLength + 1), '--yes'],
      [...named, '--why', 'x', '--yes'], [...named, '--as', 'sent', '--why', 'x', '--yes'], [...named, '--as', 'drop', '--why', 'x', '--by', ' ', '--yes'],
      [...named, '--all', '--as', 'drop', '--why', 'x', '--yes'], ['unknown', 'resolve', 'strict', '--as', 'drop', '--why', 'x', '--yes'],
      [...named, '--as', 'drop', '--reference', 'r', '--why', 'x', '--yes'], [...named, 'evt_2', '--as', 'delivered', '--reference', 'r', '--why', 'x', '--yes'],
      ['unknown', 'resolve', 'strict', '--all', '--as', 'delivered', '--reference', 'r', '--why', 'x', '--yes'],
      ...['', '..', 'a b', 'x'.repeat(lookups.maxReferenceLength + 1)].map((reference) => [...named, '--as', 'delivered', '--reference', reference, '--why', 'x', '--yes']),
      ['unknown', 'resolve', 'no/id', 'evt_strict', '--as', 'drop', '--why', 'x', '--yes'], ['unknown', 'look', 'strict'],
    ]) expect(await sluice(...args), args.join(' ')).toMatchObject({ code: 2 });
    expect(await resolve('drop', 'strict', 'evt_strict', 'evt_never', '--yes')).toMatchObject({ code: 1, stderr: expect.stringContaining('No record of event evt_never') as string });
    expect(await resolve('drop', 'misspelt', '--all', '--yes')).toMatchObject({ code: 1, stderr: expect.stringContaining('no endpoint misspelt') as string });
    expect(await embedded.record('strict', 'evt_strict')).toEqual(before);
  });

  it.each(['delivered', 'resend', 'drop'])('as %s leaves alone what a worker has a claim on, and may be repeated', async (as) => {
    const id = `claimed-${as}`;
    await register(id);
    const [before] = await doubt(id, 'evt_claimed', 'evt_free');
    await claim(id, 'evt_claimed');
    answers.post = { status: 200 };
    const busy = await resolve(as, id, '--all', '--yes', '--json');
    expect(busy).toMatchObject({ code: 3, stderr: expect.stringContaining('Repeat') as string });
    expect(busy.json()).toMatchObject({ selected: 2, resolved: 1, busy: 1, moved: 0 });
    expect(await embedded.record(id, 'evt_claimed')).toEqual(before);
    expect((await resolve(as, id, 'evt_claimed', '--yes')).stdout).toMatch(new RegExp(`Not resolved: ${id} evt_claimed: a worker has a claim on it`));
    // Its worker died: on what is unknown it owes nothing.
    await orphan(id, 'evt_claimed');
    expect((await resolve(as, id, '--all', '--yes', '--json')).json()).toMatchObject({ selected: 1, resolved: 1, busy: 0 });
    expect((await embedded.record(id, 'evt_claimed'))?.state).not.toBe('unknown');
    // What is sent again is claimed by the drain, for a while.
    await until('its claim is gone', async () => (await embedded.registry.get(id))?.lane.claims.has(claimKeyOf('evt_claimed')) === false);
  });

  it('sends nothing again whose payload is gone: it can be known as delivered, or dropped', async () => {
    await register('lost');
    const [before] = await doubt('lost', 'evt_lost');
    if (before !== undefined) await payloads().remove(before);
    const refused = await resolve('resend', 'lost', 'evt_lost', '--yes', '--json');
    expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining('they stay unknown.\n') as string });
    expect(refused.json()).toMatchObject({ selected: 1, resolved: 0, busy: 0, noPayload: 1 });
    expect((await resolve('resend', 'lost', 'evt_lost', '--yes')).stdout).toMatch(/payload is gone.*only be resolved as delivered or drop/);
    expect(await embedded.record('lost', 'evt_lost')).toEqual(before);
    expect((await embedded.registry.get('lost'))?.lane.holding).toBeUndefined();
    expect((await resolve('delivered', 'lost', 'evt_lost', '--yes')).code).toBe(0);
  });

  it('sends nothing to an endpoint that is sent nothing; what is known of its deliveries is kept', async () => {
    await register('closed');
    const [before] = await doubt('closed', 'evt_c1', 'evt_c2', 'evt_c3');
    const resendAll = () => resolve('resend', 'closed', '--all', '--yes');
    await register('closed', null, { status: 'disabled' });
    expect(await resendAll()).toMatchObject({ code: 1, stderr: expect.stringContaining('closed is disabled') as string });
    await embedded.db.send(new UpdateItemCommand({ TableName: embedded.output(outputs.endpointsTable), Key: marshall({ pk: 'closed', sk: 'config' }), UpdateExpression: 'SET config.maxInFlight = :x', ExpressionAttributeValues: marshall({ ':x': 'many' }) }));
    expect(await resendAll()).toMatchObject({ code: 1, stderr: expect.stringMatching(/cannot be used as it is stored: maxInFlight/) as string });
    expect((await resolve('delivered', 'closed', 'evt_c2', '--yes')).code).toBe(0);
    await embedded.registry.remove('closed');
    expect(await resendAll()).toMatchObject({ code: 1, stderr: expect.stringContaining('There is no endpoint closed') as string });
    expect(await embedded.record('closed', 'evt_c1')).toEqual(before);
    expect((await sluice('unknown', 'show', 'closed', 'evt_c1')).stdout).not.toContain('--as resend');
    expect((await resolve('drop', 'closed', '--all', '--yes', '--json')).json()).toMatchObject({ selected: 2, resolved: 2 });
    expect(postsOf('evt_c1')).toHaveLength(1);
  });
});

describe('look', () => {
  const found = (eventId: string): Reply => ({ status: 200, body: JSON.stringify({ id: eventId }) });
  const delivered = (id: string, eventId: string) => until('it is found', async () => {
    const record = await embedded.record(id, eventId);
    return record?.state === 'delivered' && record;
  });

  it('has the drain look now, for what it would look for in an hour', async () => {
    await register('mended', { delaysS: [3_600] });
    await doubt('mended', 'evt_mended');
    answers.look = found('evt_mended');
    expect(await sluice('unknown', 'look', 'mended', 'evt_mended', '--json')).toMatchObject({ code: 0, stdout: `${JSON.stringify({ selected: 1, asked: 1, busy: 0, moved: 0, notUnknown: 0 })}\n` });
    expect(await delivered('mended', 'evt_mended')).toMatchObject({ via: 'lookup', generation: 0 });
    expect([postsOf('evt_mended').length, looksFor('evt_mended')]).toEqual([1, 1]);
    expect((await sluice('show', 'mended', 'evt_mended')).stdout).toMatch(/delivered \(no answer came; a look has found it\)/);
  });

  it('of what was left to a person begins the whole schedule anew', async () => {
    await register('stuck', { delaysS: [3_600, 3_600] });
    await doubt('stuck', 'evt_stuck');
    answers.look = { status: 200, body: '{"id":"another"}' };
    await sluice('unknown', 'look', 'stuck', '--all');
    await until('it is left to a person', async () => (await unknownNow('stuck', 'evt_stuck')).stuck === 'different');
    expect((await sluice('unknown', 'show', 'stuck', 'evt_stuck')).stdout).toMatch(/Looks made in this round: 1\. A person must decide \(different\)/);
    answers.look = { status: 503 };
    expect((await sluice('unknown', 'look', 'stuck', '--all')).stdout).toMatch(/^Looked for again from now on: 1 of 1\./);
    await until('it is looked for', () => looksFor('evt_stuck') === 2);
    // The first of two: the second comes in an hour.
    const again = await until('that is written', async () => {
      const record = await unknownNow('stuck', 'evt_stuck');
      return record.detail === 'look failed: status 503' && record;
    });
    expect([again.stuck, again.nextLookEpochMs !== undefined]).toEqual([undefined, true]);
    expect((await listOf('--endpoint', 'stuck', '--stuck'))).toEqual([]);
  });

  it('is refused where nobody could look, and waits for nobody', async () => {
    await register('blind');
    const [before] = await doubt('blind', 'evt_blind');
    expect(await sluice('unknown', 'look', 'blind', '--all')).toMatchObject({ code: 1, stderr: expect.stringContaining('blind declares no look-up') as string });
    await register('blind', { delaysS: [3_600] }, { status: 'disabled' });
    expect(await sluice('unknown', 'look', 'blind', '--all')).toMatchObject({ code: 1, stderr: expect.stringContaining('is disabled') as string });
    expect(await embedded.record('blind', 'evt_blind')).toEqual(before);
    await register('blind', { delaysS: [3_600] });
    await claim('blind', 'evt_blind');
    expect(await sluice('unknown', 'look', 'blind', '--all')).toMatchObject({ code: 3, stdout: expect.stringContaining('a worker has a claim on it') as string });
    await orphan('blind', 'evt_blind');
    answers.look = found('evt_blind');
    expect((await sluice('unknown', 'look', 'blind', '--all')).code).toBe(0);
    await delivered('blind', 'evt_blind');
    expect(await sluice('unknown', 'look', 'blind', 'evt_blind')).toMatchObject({ code: 1, stderr: expect.stringContaining('is not unknown: it is delivered') as string });
  });
});
