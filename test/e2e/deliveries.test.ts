import { createHmac } from 'node:crypto';
import { ReceiveMessageCommand, SetQueueAttributesCommand, type Message } from '@aws-sdk/client-sqs';
import { verify } from '@octokit/webhooks-methods';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { depth, messageBody, startEmbedded, testSecret, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;

beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
});
afterEach(() => consumer.reply(() => ({ status: 200 })));
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const of = (eventId: string) => consumer.requests.filter((r) => r.eventId === eventId);
const settled = (endpointId: string, eventId: string) =>
  until(`${endpointId} ${eventId} settled`, async () => {
    const record = await embedded.record(endpointId, eventId);
    if (record?.state === 'delivered') return record;
    return record?.state === 'dead' && record.phase === 'buried' ? record : undefined;
  });

/** Takes copies out of the dead-letter queue until one matches. */
async function deadLetter(matches: (message: Message) => boolean): Promise<Message> {
  return until('a dead letter', async () => {
    const { Messages = [] } = await embedded.sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: embedded.output(outputs.deadLetterQueueUrl),
        MaxNumberOfMessages: 10,
        MessageAttributeNames: ['All'],
        VisibilityTimeout: 0,
      }),
    );
    return Messages.find(matches);
  });
}
const reasonOf = (message: Message) => message.MessageAttributes?.['sluice-reason']?.StringValue;

describe('a delivery', () => {
  it('is signed so that two independent libraries verify it (R6)', async () => {
    await embedded.register('signed', consumer.url('/in?x=1'), { headers: { 'X-Team': 'blue' } });
    await embedded.send(messageBody('signed', 'evt_signed', '{"name":"José 東京"}', { eventType: 'demo.hello' }));
    const record = await settled('signed', 'evt_signed');
    const [request] = of('evt_signed');
    expect(record).toMatchObject({ state: 'delivered', attempt: 1, generation: 0, eventType: 'demo.hello' });
    expect(request?.path).toBe('/in?x=1');
    expect(request?.headers).toMatchObject({ 'x-team': 'blue', 'sluice-attempt': '1', 'content-type': 'application/json' });
    const body = request?.body.toString() ?? '';
    expect(new StandardWebhook(testSecret).verify(body, { ...request?.headers })).toEqual({ name: 'José 東京' });
    // Answers by throwing, or not.
    new SvixWebhook(testSecret).verify(body, { ...request?.headers });
    const other = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
    for (const Webhook of [StandardWebhook, SvixWebhook]) {
      expect(() => new Webhook(other).verify(body, { ...request?.headers })).toThrow();
    }
  });

  it('is signed as the receivers of before the migration verify it, beside the standard signature (R6)', async () => {
    const old = "It's a Secret to Everybody";
    const signing = [{ scheme: 'hmac-body', header: 'X-Acme-Signature', prefix: 'v0:', encoding: 'base64' }, { scheme: 'hub256' }, { scheme: 'standard' }];
    await embedded.register('migrating', consumer.url(), { signing }, old);
    await embedded.send(messageBody('migrating', 'evt_migrating', '{"name":"José 東京"}'));
    await settled('migrating', 'evt_migrating');
    const [{ body, headers } = { body: Buffer.alloc(0), headers: {} as Record<string, string> }] = of('evt_migrating');
    expect(await verify(old, body.toString(), headers['x-hub-signature-256'] ?? '')).toBe(true);
    expect(await verify('another', body.toString(), headers['x-hub-signature-256'] ?? '')).toBe(false);
    expect(headers['x-acme-signature']).toBe(`v0:${createHmac('sha256', old).update(body).digest('base64')}`);
    expect(new StandardWebhook(testSecret).verify(body.toString(), { ...headers })).toEqual({ name: 'José 東京' });
  });

  it('is logged with the time of each phase and the socket it had, by a sender that says at its start what limits it (C1)', async () => {
    await embedded.register('timed', consumer.url());
    for (const eventId of ['evt_timed_1', 'evt_timed_2']) {
      await embedded.send(messageBody('timed', eventId));
      await settled('timed', eventId);
    }
    const lines = embedded.logs().split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>);
    const attempts = lines.filter((line) => line['message'] === 'attempt' && line['endpointId'] === 'timed');
    expect(attempts).toHaveLength(2);
    for (const { phasesMs, reused, host } of attempts) {
      const setup = reused === 0 ? ['dns', 'connect', 'tls'] : [];
      expect([Object.keys(phasesMs as object), host]).toEqual([['connection', ...setup, 'write', 'headers', 'body'], new URL(consumer.url()).host]);
    }
    const limits = lines.find((line) => line['message'] === 'started')?.['http'] as Record<string, unknown>;
    expect(limits).toMatchObject({ total: 200, perHost: 8, headersTimeout: 40_000, bodyTimeout: 40_000, maxHeaderSize: 16_384, egress: { allow: ['127.0.0.0/8', '::1/128'], http: false } });
    expect(Object.values(limits)).not.toContain(null);
  });

  const payload = '{ "id": 7615917337495251231, "2":"b", "1":"a", "a":1,"a" : 2, "e":"\\u00e9\\/\\ud83d\\ude00", "x":"😀 東京", "f":1.0, "z":-0 }';
  it.each([
    ['object', payload, payload],
    ['array', '[1.0,\t{"b":1,"a":7615917337495251231}]', '[1.0,\t{"b":1,"a":7615917337495251231}]'],
    ['string', JSON.stringify(payload), payload],
  ])('arrives byte for byte from the %s form', async (form, source, expected) => {
    await embedded.register('bytes', consumer.url());
    await embedded.send(messageBody('bytes', `evt_bytes_${form}`, source));
    await settled('bytes', `evt_bytes_${form}`);
    expect(of(`evt_bytes_${form}`)[0]?.body.equals(Buffer.from(expected))).toBe(true);
  });

  it.each([
    ['text', Buffer.from(payload)],
    ['binary', Buffer.from([0, 255, 10, 13, 128, 195, 40])],
  ])('arrives byte for byte from base64 of %s', async (form, bytes) => {
    await embedded.register('bytes', consumer.url());
    const eventId = `evt_b64_${form}`;
    await embedded.send(JSON.stringify({ endpointId: 'bytes', eventId, payloadBase64: bytes.toString('base64') }));
    await settled('bytes', eventId);
    expect(of(eventId)[0]?.body.equals(bytes)).toBe(true);
  });

  it('keeps its bytes through the dead-letter queue and a replay', async () => {
    await embedded.register('bytes', consumer.url());
    consumer.reply((_r, nth) => ({ status: nth === 1 ? 400 : 200 }));
    const body = messageBody('bytes', 'evt_bytes_dead', payload);
    await embedded.send(body);
    await settled('bytes', 'evt_bytes_dead');
    const copy = await deadLetter((m) => m.Body === body);
    await embedded.send(copy.Body ?? '', { generation: Number(copy.MessageAttributes?.['sluice-gen']?.StringValue) });
    await until('the replay is delivered', async () => (await embedded.record('bytes', 'evt_bytes_dead'))?.state === 'delivered');
    expect(of('evt_bytes_dead').map((r) => r.body.toString())).toEqual([payload, payload]);
  });

  it('keeps id and bytes over its attempts, and signs each anew (FAULTS 4, 45)', async () => {
    await embedded.register('twice', consumer.url(), { retry: { baseS: 60, attempts: 5 } });
    consumer.reply((_r, nth) => ({ status: nth === 1 ? 503 : 200 }));
    await embedded.send(messageBody('twice', 'evt_twice'));
    await embedded.passDue('twice', 'evt_twice', 1);
    const record = await settled('twice', 'evt_twice');
    const [first, second] = of('evt_twice');
    expect(record.history.map((h) => h.detail)).toEqual(['503', '200']);
    expect(second?.body.equals(first?.body ?? Buffer.alloc(0))).toBe(true);
    expect(second?.headers['sluice-attempt']).toBe('2');
    expect(Number(second?.headers['webhook-timestamp'])).toBeGreaterThanOrEqual(Number(first?.headers['webhook-timestamp']));
    expect(second?.headers['webhook-signature']).not.toBe(first?.headers['webhook-signature']);
    expect(second?.headers['sluice-possible-duplicate']).toBeUndefined();
  });

  it('that may have arrived is repeated under the same id and marked (T2, U3)', async () => {
    await embedded.register('ambiguous', consumer.url(), { retry: { baseS: 60 } });
    consumer.reply((_r, nth) => (nth === 1 ? { status: 200, hangUp: true } : { status: 200 }));
    await embedded.send(messageBody('ambiguous', 'evt_ambiguous'));
    await embedded.passDue('ambiguous', 'evt_ambiguous', 1);
    const record = await settled('ambiguous', 'evt_ambiguous');
    expect(record.ambiguous).toBe(1);
    expect(record.history[0]).toMatchObject({ outcome: 'ambiguous', detail: 'headers UND_ERR_SOCKET' });
    expect(of('evt_ambiguous').map((r) => r.headers['sluice-possible-duplicate'])).toEqual([undefined, 'true']);
  });
});

describe('the cost', () => {
  /** Units and requests of the function since a call, as metered at the wire. */
  async function metered(since: number) {
    const calls = (await embedded.calls(since)).filter((c) => c.caller.includes('Deliver'));
    const units = (operation: string) => calls.filter((c) => c.operation === operation).reduce((sum, c) => sum + (c.capacityUnits ?? 0), 0);
    return { writeUnits: units('UpdateItem'), readUnits: units('BatchGetItem') + units('GetItem') };
  }

  it('of one delivery to a known endpoint is three write units and one read unit', async () => {
    await embedded.register('cost', consumer.url());
    // Each environment reads the configuration once; one message at a time keeps to the one that was used last.
    for (const n of [1, 2, 3]) {
      await embedded.send(messageBody('cost', `evt_cost_warm${n}`));
      await settled('cost', `evt_cost_warm${n}`);
      await embedded.drainQueue();
    }
    const since = (await embedded.calls()).at(-1)?.seq ?? 0;
    await embedded.send(messageBody('cost', 'evt_cost'));
    await settled('cost', 'evt_cost');
    await embedded.drainQueue();
    expect(await metered(since)).toEqual({ writeUnits: 3, readUnits: 1 });
  });
});

describe('the same event again', () => {
  it('sent three times reaches the consumer once (U1)', async () => {
    await embedded.register('thrice', consumer.url());
    const body = messageBody('thrice', 'evt_thrice');
    await Promise.all([embedded.send(body), embedded.send(body), embedded.send(body)]);
    await settled('thrice', 'evt_thrice');
    await embedded.drainQueue();
    expect(of('evt_thrice')).toHaveLength(1);
  });

  it('delivered twice by SQS while the first copy is in flight reaches the consumer once', async () => {
    const QueueUrl = embedded.output(outputs.deliveryQueueUrl);
    const visibility = (seconds: number) => embedded.sqs.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: { VisibilityTimeout: String(seconds) } }));
    await embedded.register('duplicate', consumer.url());
    consumer.reply(() => ({ status: 200, afterMs: 3_000 }));
    const before = (await embedded.calls()).at(-1)?.seq ?? 0;
    await visibility(1);
    await embedded.send(messageBody('duplicate', 'evt_duplicate'));
    // The second worker is refused by the live claim, and puts its copy of the message back beyond the claim.
    await until('a refused admission', async () => (await embedded.calls(before)).some((c) => c.action === 'dynamodb:UpdateItem' && c.outcome === 'ConditionalCheckFailedException'));
    await visibility(180);
    await settled('duplicate', 'evt_duplicate');
    await embedded.drainQueue();
    expect(of('evt_duplicate')).toHaveLength(1);
  });

  it('with other bytes is a conflict: dead-lettered, never sent, the record untouched (U2)', async () => {
    await embedded.register('conflict', consumer.url());
    await embedded.send(messageBody('conflict', 'evt_conflict', '{"amount":1}'));
    const before = await settled('conflict', 'evt_conflict');
    const other = messageBody('conflict', 'evt_conflict', '{"amount":2}');
    await embedded.send(other);
    const copy = await deadLetter((m) => reasonOf(m) === 'conflict');
    await embedded.drainQueue();
    expect(copy.Body).toBe(other);
    expect(of('evt_conflict')).toHaveLength(1);
    expect(await embedded.record('conflict', 'evt_conflict')).toEqual(before);
  });

  it('asked for with a larger resend is sent once more', async () => {
    await embedded.register('resend', consumer.url());
    await embedded.send(messageBody('resend', 'evt_resend'));
    await settled('resend', 'evt_resend');
    const again = messageBody('resend', 'evt_resend', '{"n":1}', { resend: 1 });
    await Promise.all([embedded.send(again), embedded.send(again)]);
    await until('the second generation is delivered', async () => {
      const record = await embedded.record('resend', 'evt_resend');
      return record?.state === 'delivered' && record.generation === 1;
    });
    await embedded.drainQueue();
    expect(of('evt_resend')).toHaveLength(2);
  });
});

describe('bad input', () => {
  const refused: [string, string, string][] = [
    ['malformed JSON', '{"endpointId":"good",', 'malformed'],
    ['a number as payload', '{"endpointId":"good","eventId":"evt_num","payload":1}', 'malformed'],
    ['an id with a dot', '{"endpointId":"good","eventId":"a.b","payload":{}}', 'malformed'],
    ['an unknown field', '{"endpointId":"good","eventId":"evt_x","payload":{},"extra":1}', 'malformed'],
    ['a lone surrogate', '{"endpointId":"good","eventId":"evt_s","payload":"\\ud800"}', 'malformed'],
    ['no endpoint of that name', '{"endpointId":"nobody","eventId":"evt_n","payload":{}}', 'unknown-endpoint'],
  ];
  it.each(refused)('%s is dead-lettered once, the body unchanged, and its batch goes on', async (name, body, reason) => {
    await embedded.register('good', consumer.url());
    const eventId = `evt_beside_${name.replaceAll(/\W/g, '_')}`;
    await Promise.all([embedded.send(body), embedded.send(messageBody('good', eventId))]);
    expect((await settled('good', eventId)).state).toBe('delivered');
    const copy = await deadLetter((m) => m.Body === body);
    expect(reasonOf(copy)).toBe(reason);
    await embedded.drainQueue();
  });

  it('over 256 KiB is refused by SQS itself', async () => {
    await expect(embedded.send(messageBody('good', 'evt_big', JSON.stringify('x'.repeat(262_144))))).rejects.toThrow(/262144|shorter/);
  });

  it('leaves one dead letter for each bad body, and nothing in the fault queue', async () => {
    const bodies: (string | undefined)[] = [];
    await until('all of them are found', async () => {
      const { Messages = [] } = await embedded.sqs.send(
        new ReceiveMessageCommand({ QueueUrl: embedded.output(outputs.deadLetterQueueUrl), MaxNumberOfMessages: 10, VisibilityTimeout: 600 }),
      );
      bodies.push(...Messages.map((m) => m.Body));
      // The sweep may look at some just now.
      return Messages.length === 0 && refused.every(([, body]) => bodies.includes(body));
    });
    for (const [name, body] of refused) expect(bodies.filter((b) => b === body), name).toHaveLength(1);
    expect(await depth(embedded.sqs, embedded.output(outputs.faultQueueUrl))).toEqual({ ready: 0, hidden: 0 });
  });
});

describe('giving up', () => {
  it('dead-letters what a consumer rejects, with reason, history and the body unchanged (R4, R9)', async () => {
    await embedded.register('reject', consumer.url());
    consumer.reply(() => ({ status: 422, body: 'bad field' }));
    const body = messageBody('reject', 'evt_reject', '{"a" : 1}');
    await embedded.send(body);
    const record = await settled('reject', 'evt_reject');
    expect(record).toMatchObject({ state: 'dead', reason: 'rejected', attempt: 1 });
    expect(record.history[0]).toMatchObject({ detail: '422', bodyExcerpt: 'bad field' });
    const copy = await deadLetter((m) => m.Body === body);
    expect(copy.MessageAttributes?.['sluice-endpoint']?.StringValue).toBe('reject');
    expect(copy.MessageAttributes?.['sluice-gen']?.StringValue).toBe('0');
  });

  it('does not follow a redirect, and sends nothing to a disabled endpoint', async () => {
    await embedded.register('redirect', consumer.url());
    consumer.reply(() => ({ status: 302, headers: { location: consumer.url('/elsewhere') } }));
    await embedded.send(messageBody('redirect', 'evt_redirect'));
    expect(await settled('redirect', 'evt_redirect')).toMatchObject({ state: 'dead', reason: 'redirected' });
    expect(consumer.requests.some((r) => r.path === '/elsewhere')).toBe(false);

    await embedded.register('redirect', consumer.url(), { status: 'disabled' });
    await embedded.send(messageBody('redirect', 'evt_disabled'));
    expect(await settled('redirect', 'evt_disabled')).toMatchObject({ state: 'dead', reason: 'disabled' });
    expect(of('evt_disabled')).toHaveLength(0);
  });

  it('stops after the attempts that the policy allows', async () => {
    await embedded.register('exhaust', consumer.url(), { retry: { baseS: 5, attempts: 3 } });
    consumer.reply(() => ({ status: 500 }));
    await embedded.send(messageBody('exhaust', 'evt_exhaust'));
    for (const attempt of [1, 2]) await embedded.passDue('exhaust', 'evt_exhaust', attempt);
    expect(await settled('exhaust', 'evt_exhaust')).toMatchObject({ reason: 'exhausted', attempt: 3 });
    expect(of('evt_exhaust')).toHaveLength(3);
  });

  it('counts a refused connection as an attempt that sent nothing (FAULTS 39)', async () => {
    const closed = await startRecorder(embedded.authority);
    const url = closed.url();
    await closed.close();
    await embedded.register('closed', url, { retry: { attempts: 1 } });
    await embedded.send(messageBody('closed', 'evt_closed'));
    const record = await settled('closed', 'evt_closed');
    expect(record).toMatchObject({ state: 'dead', reason: 'exhausted', ambiguous: 0 });
    expect(record.history[0]).toMatchObject({ outcome: 'unsent', detail: 'connect ECONNREFUSED' });
  });
});
