import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { verify as verifyHub } from '@octokit/webhooks-methods';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { createChangeStatus } from '../../lambdas/shared/adapters/dynamodb-status.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import { openBreaker } from '../support/builders.ts';
import { runCli, type CliResult } from '../support/cli.ts';
import { keepBody } from '../support/dead-letters.ts';
import { deadLettersOf, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
const sluice = (...args: string[]) => runCli(embedded.localFile, args);

beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

/** The body beside a dead record, as each burial leaves it; and without it, as older versions did. */
async function keep(endpointId: string, eventId: string, payload?: string): Promise<void> {
  await keepBody(embedded, await deadRecord(endpointId, eventId), messageBody(endpointId, eventId, payload));
}
async function forget(endpointId: string, eventId: string): Promise<void> {
  await createDynamoDbPayloads(embedded.db, embedded.output(outputs.payloadsTable)).remove(await deadRecord(endpointId, eventId));
}
async function deadRecord(endpointId: string, eventId: string): Promise<DeadRecord> {
  const record = await embedded.record(endpointId, eventId);
  if (record?.state !== 'dead') throw new Error(`${eventId} is not dead`);
  return record;
}

describe('endpoint', () => {
  it('put creates, shows a generated secret once, and the secret is the one that signs', async () => {
    const created = await sluice('endpoint', 'put', 'acme', '--url', consumer.url(), '--json');
    expect(created).toMatchObject({ code: 0 });
    expect(created.stderr).toContain('Target: local');
    const { secret } = created.json<{ secret: string }>();
    expect(secret).toMatch(/^whsec_/);
    const sent = await sluice('send', 'acme', '--data', '{"n":1}', '--wait', '--json');
    expect(sent.code).toBe(0);
    const request = consumer.requests.at(-1);
    new Webhook(secret).verify(request?.body.toString() ?? '', { ...request?.headers });
    for (const args of [['endpoint', 'get', 'acme'], ['endpoint', 'ls'], ['endpoint', 'put', 'acme', '--set', 'maxInFlight=3']]) {
      const later = await sluice(...args, '--json');
      expect(later.code).toBe(0);
      expect(later.stdout + later.stderr).not.toContain(secret);
    }
  });

  it('--set changes one field and keeps the rest; --url replaces the document, and keeps the secret', async () => {
    await sluice('endpoint', 'put', 'fields', '--url', consumer.url('/a'), '--set', 'retry.attempts=5', '--set', 'maxInFlight=2', '--short-retries');
    await sluice('endpoint', 'put', 'fields', '--set', 'retry.baseS=7', '--short-retries');
    const changed = (await sluice('endpoint', 'get', 'fields', '--json')).json<{ retry: object; maxInFlight: number; version: string }>();
    expect(changed).toMatchObject({ retry: { attempts: 5, baseS: 7 }, maxInFlight: 2 });
    await sluice('endpoint', 'put', 'fields', '--url', consumer.url('/b'));
    const replaced = (await sluice('endpoint', 'get', 'fields', '--json')).json<{ url: string; version: string }>();
    expect(replaced).toMatchObject({ url: consumer.url('/b'), retry: { attempts: 12, baseS: 5 }, maxInFlight: 8, secrets: 1 });
    expect(replaced.version > changed.version).toBe(true);
  });

  const refusals: [string[], RegExp][] = [
    [['--url', 'http://example.test/'], /url: must be https, not http/],
    [['--url', 'https://user:pw@example.test/'], /url: must not carry a user name/],
    [['--url', 'https://example.test/', '--set', 'maxInFlight=33'], /maxInFlight: .*32.*\(got 33\)/],
    [['--url', 'https://example.test/', '--set', 'maxInFlght=3'], /maxInFlght: unknown key \(got 3\)/],
    [['--url', 'https://example.test/', '--set', 'retry.attempts=26'], /retry.attempts: .*25.*\(got 26\)/],
    [['--url', 'https://example.test/', '--set', 'retry.atempts=2'], /retry.atempts: unknown key/],
    [['--url', 'https://example.test/', '--set', 'headers={"Webhook-Id":"x"}'], /headers.*reserved/],
    [['--url', 'https://example.test/', '--set', 'headers={"x-a":"a\\r\\nb"}'], /headers.x-a: may hold visible ASCII/],
    [['--url', 'https://example.test/', '--set', 'maxPerSecond=0'], /maxPerSecond: .*0\.01.*\(got 0\)/],
    [['--url', 'https://example.test/', '--set', 'breaker.openS=1'], /breaker.openS: .*5.*\(got 1\)/],
    [['--url', 'https://example.test/', '--set', 'adaptiveRead={"minMs":1}'], /adaptiveRead.minMs: .*100.*\(got 1\)/],
    [['--url', 'https://example.test/', '--set', 'budgetsMs.read=19000'], /setup 3000.*19000/],
    [['--url', 'https://example.test/', '--secret', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], /--secret: give @FILE or -/],
    [['--url', 'https://example.test/', '--set', 'headers={"Authorization":"Bearer MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\\u00e9"}'], /headers.Authorization: may hold visible ASCII/],
    [['--url', 'https://example.test/', '--set', 'budgetsMs.total=900'], /budgetsMs.setup 3000.*900/],
    [['--url', 'https://example.test:0/'], /url: must not name port 0/],
    [['--set', 'maxInFlight=3'], /There is no endpoint bad to change/],
    [[], /Nothing to put/],
  ];
  it.each(refusals)('put %j is refused with field, value and bound', async (args, message) => {
    const result = await sluice('endpoint', 'put', 'bad', ...args);
    expect(result.code).toBeGreaterThan(0);
    expect(result.stderr).toMatch(message);
    expect(result.stderr).not.toContain('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
    expect((await sluice('endpoint', 'get', 'bad')).code).toBe(1);
  });

  it('put makes a lane that sizes itself, which keeps its size while other fields change, until it is given one', async () => {
    const lane = async () => (await embedded.registry.get('sized'))?.lane;
    const put = async (...args: string[]) => (await sluice('endpoint', 'put', 'sized', ...args, '--json')).json<{ changed: string[] }>().changed;
    const get = async () => (await sluice('endpoint', 'get', 'sized', '--json')).json<{ maxInFlight: unknown }>().maxInFlight;
    await put('--url', consumer.url());
    expect(await put('--set', 'maxInFlight=auto')).toEqual(['maxInFlight']);
    expect([await get(), await lane()]).toMatchObject(['auto', { slots: 8, isAuto: true }]);
    const found = await embedded.registry.get('sized');
    const change = createChangeStatus(embedded.db, embedded.output(outputs.endpointsTable));
    await change({ endpointId: 'sized', version: found?.endpoint.version ?? '' }, { fields: { maxInFlight: 3 }, slots: { from: 8, to: 3 }, atEpochMs: Date.now() });
    expect(await put('--set', 'retry.attempts=11')).toEqual(['retry']);
    expect([await get(), await lane()]).toMatchObject(['auto', { slots: 3, isAuto: true }]);
    expect(await put('--set', 'maxInFlight=5')).toEqual(['maxInFlight']);
    expect([await get(), await lane()]).toMatchObject([5, { slots: 5, avail: 5, isAuto: false }]);
  });

  it('imports a secret from standard input, checks it, and never prints it', async () => {
    const put = (secret: string) => runCli(embedded.localFile, ['endpoint', 'put', 'imported', '--url', consumer.url(), '--secret', '-'], secret);
    const wrong = await put('v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('secret: must start with whsec_') as string });
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    const right = await put(`${secret}\n`);
    expect(right.code).toBe(0);
    for (const { stdout, stderr } of [wrong, right]) expect(stdout + stderr).not.toContain('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
    await sluice('send', 'imported', '--data', '{}', '--wait');
    new Webhook(secret).verify('{}', { ...consumer.requests.at(-1)?.headers });
  });

  describe('with a body secret', () => {
    const bodySecret = "It's a Secret to Everybody";
    const signing = 'signing=[{"scheme":"hmac-body","header":"X-Acme-Signature"},{"scheme":"standard"}]';
    const put = (args: string[], input = '') => runCli(embedded.localFile, ['endpoint', 'put', ...args, '--json'], input);
    const get = async (id: string) => (await sluice('endpoint', 'get', id, '--json')).json<{ secrets: number; bodySecret: boolean; signing: object[]; version: string }>();
    const sent = async (id: string) => {
      expect((await sluice('send', id, '--data', 'Hello, World!', '--wait')).code).toBe(0);
      return { ...consumer.requests.at(-1)?.headers };
    };

    it('hub256 has one made, which is shown once and signs; --body-secret replaces it', async () => {
      const created = await put(['hub', '--url', consumer.url(), '--set', 'signing=[{"scheme":"hub256"}]']);
      const made = created.json<{ secret?: string; bodySecret: string }>();
      expect(made.bodySecret).toMatch(/^[0-9a-f]{64}$/);
      expect(made.secret).toBeUndefined();
      expect(await get('hub')).toMatchObject({ secrets: 0, bodySecret: true });
      expect(await verifyHub(made.bodySecret, 'Hello, World!', (await sent('hub'))['x-hub-signature-256'] ?? '')).toBe(true);

      const replaced = await put(['hub', '--body-secret', '-'], `${bodySecret}\n`);
      expect(replaced).toMatchObject({ code: 0 });
      expect(replaced.json()).toMatchObject({ changed: [] });
      expect((await sent('hub'))['x-hub-signature-256']).toBe('sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17');
      for (const { stdout, stderr } of [replaced, await sluice('endpoint', 'get', 'hub'), await sluice('endpoint', 'ls', '--json')]) {
        expect(stdout + stderr).not.toMatch(new RegExp(`${bodySecret}|${made.bodySecret}`));
      }
    });

    it('hmac-body needs it imported; beside standard both sign, each with its own', async () => {
      const without = await put(['own', '--url', consumer.url(), '--set', signing]);
      expect(without).toMatchObject({ code: 2, stderr: expect.stringMatching(/bodySecret: .*import it with --body-secret/) as string });
      expect((await sluice('endpoint', 'get', 'own')).code).toBe(1);
      const created = await put(['own', '--url', consumer.url(), '--set', signing, '--body-secret', '-'], bodySecret);
      const { secret } = created.json<{ secret: string }>();
      expect(created.json()).not.toHaveProperty('bodySecret');
      expect(await get('own')).toMatchObject({ secrets: 1, bodySecret: true, signing: [{ header: 'X-Acme-Signature', prefix: '', encoding: 'hex' }, { scheme: 'standard' }] });
      const headers = await sent('own');
      const atEpochS = Number(headers['webhook-timestamp']);
      expect(headers['webhook-signature']).toBe(new Webhook(secret).sign(headers['webhook-id'] ?? '', new Date(atEpochS * 1_000), 'Hello, World!'));
      expect(headers['x-acme-signature']).toBe('757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17');
    });

    it('is kept when signing changes, and none is there where nothing needs it', async () => {
      const plain = await put(['plain', '--url', consumer.url()]);
      expect(plain.json()).not.toHaveProperty('bodySecret');
      expect(await get('plain')).toMatchObject({ secrets: 1, bodySecret: false });
      const hub = (await put(['plain', '--set', 'signing=[{"scheme":"hub256"}]'])).json<{ secret?: string; bodySecret?: string }>();
      expect([hub.secret, hub.bodySecret]).toEqual([undefined, expect.any(String)]);
      const back = (await put(['plain', '--url', consumer.url()])).json<{ secret?: string; bodySecret?: string; changed: string[] }>();
      expect([back.secret, back.bodySecret, back.changed]).toEqual([undefined, undefined, ['signing']]);
      expect(await get('plain')).toMatchObject({ secrets: 1, bodySecret: true });
    });

    it.each<[string, string[], string, RegExp]>([
      ['as an argument', ['--body-secret', 'topsecret'], '', /--body-secret: give @FILE or -/],
      ['of two lines', ['--body-secret', '-'], 'topsecret\nmore', /bodySecret: must not hold control characters/],
      ['that is empty', ['--body-secret', '-'], '\n', /bodySecret: holds 0 bytes; between 1 and 256 are allowed/],
      ['of the other kind', ['--body-secret', '-'], 'whsec_topsecret', /bodySecret: must not start with whsec_/],
      ['and a signing secret from one standard input', ['--secret', '-', '--body-secret', '-'], 'topsecret', /- \(standard input\) can be read only once/],
      ['and two signing secrets from one standard input', ['--secret', '-', '--secret', '-'], 'topsecret', /can be read only once/],
      ['and a document from one standard input', ['--file', '-', '--body-secret', '-'], 'topsecret', /can be read only once/],
      ['beside an odd signing secret', ['--body-secret', '-', '--secret', '@/dev/null'], 'topsecret', /secret: must start with whsec_/],
      ['from a file that is not there', ['--body-secret', '@/nonexistent'], '', /--body-secret .*nonexistent/],
    ])('%s is refused, nothing is written, nothing quoted', async (_why, args, input, message) => {
      await sluice('endpoint', 'put', 'refused', '--url', consumer.url());
      const before = await get('refused');
      const result = await put(['refused', '--set', 'signing=[{"scheme":"hub256"}]', ...args], input);
      expect(result).toMatchObject({ code: 2, stderr: expect.stringMatching(message) as string });
      expect(result.stdout + result.stderr).not.toContain('topsecret');
      expect(await get('refused')).toEqual(before);
    });
  });

  it('that answers 410 is shown as disabled, and why, until it is enabled again', async () => {
    await sluice('endpoint', 'put', 'gone', '--url', consumer.url());
    consumer.reply(() => ({ status: 410 }));
    expect(await sluice('send', 'gone', '--data', '{}', '--wait')).toMatchObject({ code: 1, stderr: expect.stringContaining('dead: gone') as string });
    expect((await sluice('status', 'gone')).stdout).toMatch(/gone\s+disabled \(gone\)/);
    expect((await sluice('status', 'gone', '--json')).json<{ endpoints: object[] }>().endpoints).toMatchObject([{ state: 'disabled', disabledFor: 'gone' }]);
    consumer.reply(() => ({ status: 200 }));
    expect(await sluice('send', 'gone', '--data', '{}', '--wait')).toMatchObject({ code: 1, stderr: expect.stringContaining('dead: disabled') as string });
    expect((await sluice('endpoint', 'put', 'gone', '--set', 'maxInFlight=4', '--json')).json()).toMatchObject({ changed: ['maxInFlight'] });
    expect((await sluice('status', 'gone')).stdout).toMatch(/gone\s+disabled \(gone\)/);
    expect((await sluice('endpoint', 'put', 'gone', '--set', 'status=enabled', '--json')).json()).toMatchObject({ changed: ['status'] });
    expect((await sluice('send', 'gone', '--data', '{}', '--wait')).code).toBe(0);
    expect((await sluice('status', 'gone')).stdout).toMatch(/gone\s+ok\s/);
  });

  it('that answers 404 is flagged until it answers 2xx; one that says when to come again shows until when', async () => {
    await sluice('endpoint', 'put', 'moved', '--url', consumer.url());
    consumer.reply(() => ({ status: 404 }));
    await sluice('send', 'moved', '--data', '{}', '--wait');
    expect((await sluice('status', 'moved')).stdout).toMatch(/moved\s+failing \(not-found\)/);
    consumer.reply(() => ({ status: 200 }));
    await sluice('send', 'moved', '--data', '{}', '--wait');
    expect((await sluice('status', 'moved')).stdout).toMatch(/moved\s+ok\s+-/);

    consumer.reply(() => ({ status: 503, headers: { 'retry-after': '7200' } }));
    await sluice('send', 'moved', '--data', '{}', '--event', 'evt_later');
    await until('it is held', async () => {
      const record = await embedded.record('moved', 'evt_later');
      return record?.state === 'waiting' && record.home === 'held';
    });
    expect((await sluice('show', 'moved', 'evt_later')).stdout).toContain('503, asks for 7200 s');
    expect((await sluice('status', 'moved')).stdout).toMatch(/moved\s+failing\s+20\d\d-/);
    // As it was measured: three attempts, two of them failed, the last with 503.
    const shown = (await sluice('status', 'moved')).stdout;
    expect(shown).toMatch(/Measured: +3 attempts in 1 min, 2 failed \(last: 503\)\nLatency: +p50 \d+ ms, p95 \d+ ms, p99 \d+ ms;/);
    expect(shown).toMatch(/Sustainable: .* a second \(lane ÷ p95\)\nWaiting: +1\n95 of 100 requests end within \d+ ms; 8 at a time are then [\d.]+ a second\. [\d.]+ a (second|minute) are offered, which the lane allows, but \d of \d attempts failed\./);
    expect((await sluice('status', 'moved', '--json')).json<{ evidence: object }>().evidence).toMatchObject({ window: { attempts: 3, failed: 2, lastFailure: '503' }, slots: 8, backlog: 1, says: expect.stringMatching('2 of 3 attempts failed') as string });
    expect((await sluice('status', '--json')).json()).not.toHaveProperty('evidence');
    consumer.reply(() => ({ status: 200 }));
    // Whoever asks it out of turn is answered, and whoever puts it anew need not wait.
    expect(await sluice('endpoint', 'ping', 'moved')).toMatchObject({ code: 0 });
    await sluice('endpoint', 'put', 'moved', '--set', 'maxInFlight=4');
    expect(await sluice('send', 'moved', '--data', '{}', '--wait')).toMatchObject({ code: 0 });
  });

  it.each<[string[], number, RegExp]>([
    [['--set', 'retry.attempts=3'], 2, /retry: 3 attempts × 17 s \+ 12.5 s.*must be at least a third of maxAgeS.*--short-retries/],
    [['--set', 'retry.attempts=3', '--short-retries'], 0, /^/],
    [['--set', 'retry.attempts=25'], 2, /retry: 25 attempts .*must be at most maxAgeS, 259200 s/],
    [['--set', 'retry.attempts=25', '--short-retries'], 2, /must be at most maxAgeS/],
  ])('whose retries do not fit their window is refused, with the sum: %j (T4)', async (args, code, said) => {
    const result = await sluice('endpoint', 'put', 'window', '--url', consumer.url(), ...args);
    expect([result.code, result.stderr]).toEqual([code, expect.stringMatching(said)]);
    // One that is stored so may change in all else.
    if (code === 0) expect((await sluice('endpoint', 'put', 'window', '--set', 'maxInFlight=3')).code).toBe(0);
  });

  describe('whose stored configuration cannot be used', () => {
    const spoil = async (id: string, name: string, value: unknown) => {
      await embedded.db.send(new UpdateItemCommand({
        TableName: embedded.output(outputs.endpointsTable),
        Key: marshall({ pk: id, sk: 'config' }),
        UpdateExpression: 'SET #c.#n = :v',
        ExpressionAttributeNames: { '#c': 'config', '#n': name },
        ExpressionAttributeValues: marshall({ ':v': value }),
      }));
    };

    it('is shown with its problem by get, ls and status; put repairs it and keeps its secret', async () => {
      const { secret, version } = (await sluice('endpoint', 'put', 'spoilt', '--url', consumer.url(), '--json')).json<{ secret: string; version: string }>();
      await spoil('spoilt', 'maxInFlight', 99);
      const shown = (await sluice('endpoint', 'get', 'spoilt', '--json')).json();
      expect(shown).toMatchObject({ endpointId: 'spoilt', problem: 'maxInFlight: Too big: expected number to be <=32 (got 99)', stored: { maxInFlight: 99 }, version, secrets: 1 });
      expect((await sluice('endpoint', 'ls')).stdout).toMatch(/spoilt\s+invalid\s+8\s+maxInFlight: Too big/);
      expect((await sluice('endpoint', 'ls', '--json')).json<{ endpointId: string }[]>().map((e) => e.endpointId)).toEqual(expect.arrayContaining(['acme', 'spoilt']));
      expect((await sluice('status')).stdout).toMatch(/spoilt\s+invalid\s+-\s+0\/8/);

      const sent = await sluice('send', 'spoilt', '--data', '{}', '--event', 'evt_spoilt', '--wait');
      expect(sent).toMatchObject({ code: 1, stderr: expect.stringContaining('dead: invalid-configuration') as string });
      expect((await sluice('show', 'spoilt', 'evt_spoilt')).stdout).toContain('maxInFlight: Too big: expected number to be <=32 (got 99)');

      expect(await sluice('endpoint', 'put', 'spoilt', '--set', 'retry.attempts=3')).toMatchObject({ code: 2, stderr: expect.stringContaining('maxInFlight: Too big') as string });
      const repaired = await sluice('endpoint', 'put', 'spoilt', '--set', 'maxInFlight=4', '--json');
      expect(repaired.json()).toMatchObject({ created: false, changed: ['maxInFlight'] });
      expect(repaired.json()).not.toHaveProperty('secret');
      await keep('spoilt', 'evt_spoilt', '{}');
      expect(await sluice('dlq', 'replay', '--endpoint', 'spoilt', '--yes')).toMatchObject({ code: 0 });
      await until('it is delivered', async () => (await embedded.record('spoilt', 'evt_spoilt'))?.state === 'delivered');
      new Webhook(secret).verify('{}', { ...consumer.requests.findLast((r) => r.eventId === 'evt_spoilt')?.headers });
    });

    it('is replaced whole by --url, and removed by rm', async () => {
      await sluice('endpoint', 'put', 'odd', '--url', consumer.url());
      await spoil('odd', 'colour', 'blue');
      const replaced = await sluice('endpoint', 'put', 'odd', '--url', consumer.url(), '--json');
      expect(replaced.json()).toMatchObject({ created: false, changed: ['colour'] });
      await spoil('odd', 'url', 'ftp://x');
      expect((await sluice('endpoint', 'rm', 'odd', '--yes')).code).toBe(0);
      expect((await sluice('endpoint', 'get', 'odd')).code).toBe(1);
    });
  });

  it('put says which fields a replacement changed', async () => {
    await sluice('endpoint', 'put', 'changes', '--url', consumer.url(), '--set', 'maxInFlight=2', '--set', 'status=disabled');
    const replaced = await sluice('endpoint', 'put', 'changes', '--url', consumer.url());
    expect(replaced.stdout).toContain('Changed: status, maxInFlight');
  });

  it('put takes a whole document from standard input', async () => {
    const document = JSON.stringify({ endpointId: 'piped', url: consumer.url(), tenantId: 'acme' });
    expect((await runCli(embedded.localFile, ['endpoint', 'put', 'piped', '--file', '-'], document)).code).toBe(0);
    expect((await sluice('endpoint', 'get', 'piped', '--json')).json()).toMatchObject({ tenantId: 'acme' });
    const other = await runCli(embedded.localFile, ['endpoint', 'put', 'other', '--file', '-'], document);
    expect(other).toMatchObject({ code: 2, stderr: expect.stringContaining('endpointId: must be other') as string });
  });

  it('rm asks first: without a terminal only --yes removes', async () => {
    await sluice('endpoint', 'put', 'gone', '--url', consumer.url());
    expect(await sluice('endpoint', 'rm', 'gone')).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') as string });
    expect((await sluice('endpoint', 'get', 'gone')).code).toBe(0);
    expect((await sluice('endpoint', 'rm', 'gone', '--yes')).code).toBe(0);
    expect((await sluice('endpoint', 'get', 'gone')).code).toBe(1);
  });
});

describe('send and show', () => {
  it('sends the exact text of JSON, and other text as it is', async () => {
    await sluice('endpoint', 'put', 'exact', '--url', consumer.url());
    for (const data of ['{ "id": 7615917337495251231 }', 'plain text ✓', '"a JSON string"', '12']) {
      expect((await sluice('send', 'exact', '--data', data, '--wait')).code).toBe(0);
      expect(consumer.requests.at(-1)?.body.toString()).toBe(data);
    }
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'sluice-cli-')), 'data.json');
    writeFileSync(file, '{"from":"file"}');
    expect((await sluice('send', 'exact', '--data', `@${file}`, '--wait')).code).toBe(0);
    expect(consumer.requests.at(-1)?.body.toString()).toBe('{"from":"file"}');
    writeFileSync(file, Buffer.from('7b2261223a22e9227d', 'hex'));
    expect(await sluice('send', 'exact', '--data', `@${file}`)).toMatchObject({ code: 2, stderr: expect.stringContaining('is not UTF-8') as string });
  });

  it('refuses what SQS or the parser would refuse, before anything is sent', async () => {
    const before = (await embedded.calls()).filter((c) => c.action === 'sqs:SendMessage').length;
    const big = await runCli(embedded.localFile, ['send', 'exact', '--data', '-'], randomBytes(140_000).toString('hex'));
    expect(big).toMatchObject({ code: 2, stderr: expect.stringMatching(/at most 262144/) as string });
    const results = await Promise.all([
      sluice('send', 'exact', '--data', '{}', '--event', 'a.b'),
      sluice('send', 'exact', '--data', '{}', '--occurred-at', 'yesterday'),
      sluice('send', 'exact', '--data', '{}', '--timeout', '0'),
      sluice('send', 'exact', '--data', '{}', '--resend', 'abc'),
      sluice('send', 'nobody', '--data', '{}'),
      sluice('send', 'exact'),
    ]);
    expect(results.map((r) => r.code)).toEqual([2, 2, 2, 2, 1, 2]);
    expect(results[0]?.stderr).toContain('eventId: must match');
    expect((await embedded.calls()).filter((c) => c.action === 'sqs:SendMessage')).toHaveLength(before);
  });

  it('send --wait fails when the event dies; show tells why, attempt by attempt', async () => {
    consumer.reply(() => ({ status: 400, body: 'bad field' }));
    const sent = await sluice('send', 'exact', '--data', '{}', '--event', 'evt_dies', '--wait');
    consumer.reply(() => ({ status: 200 }));
    expect(sent).toMatchObject({ code: 1, stderr: expect.stringContaining('dead: rejected') as string });
    const shown = await sluice('show', 'exact', 'evt_dies');
    expect(shown.stdout).toMatch(/dead \(rejected: status 400\), buried/);
    expect(shown.stdout).toMatch(/answered\s+400\s+\d+ ms\s+bad field/);
    expect((await sluice('show', 'exact', 'evt_none')).code).toBe(1);
  });

  it('shows what a stranger answered without obeying it', async () => {
    consumer.reply(() => ({ status: 400, body: '\u001b]0;title\u0007\u001b[2J\nnext' }));
    await sluice('send', 'exact', '--data', '{}', '--event', 'evt_escape', '--wait');
    consumer.reply(() => ({ status: 200 }));
    const { stdout } = await sluice('show', 'exact', 'evt_escape');
    expect(stdout).toContain('\\x1b]0;title\\x07\\x1b[2J\\nnext');
    expect(stdout).not.toContain('\u001b');
  });
});

describe('log', () => {
  it('shows the deliveries that the functions have logged, of the endpoint that is asked for alone', async () => {
    for (const id of ['logged', 'logged-2']) await sluice('endpoint', 'put', id, '--url', consumer.url());
    expect(await sluice('log', 'logged')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Nothing is logged of endpoint logged since 20.* --since 3d/) as string });
    consumer.reply((r) => ({ status: r.body.toString().includes('bad') ? 400 : 200 }));
    const sent: [id: string, eventId: string, data: string][] = [['logged', 'evt_ok', '{}'], ['logged-2', 'evt_other', '{}'], ['logged', 'evt_bad', '{"bad":1}']];
    for (const [id, eventId, data] of sent) await sluice('send', id, '--data', data, '--event', eventId, '--wait');
    consumer.reply(() => ({ status: 200 }));
    const shown = await until('the last one is logged', async () => {
      const result = await sluice('log', 'logged');
      return / dead /.test(result.stdout) && result;
    });
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(shown.stdout.trimEnd().split('\n').slice(1).map((row) => row.replace(/^\S+Z +/, '').replaceAll(/\d+ ms/g, 'n ms').split(/ {2,}/))).toEqual([
      ['evt_ok', '1', 'answered', '200', 'n ms', 'delivered'],
      ['evt_bad', '1', 'answered', '400', 'n ms', 'dead'],
      ['evt_bad', '-', 'dead', 'reason=rejected', '-', '-'],
    ]);
    const failed = (await sluice('log', 'logged', '--failed', '--event', 'evt_bad', '--limit', '1', '--json')).json<{ matched: number; lines: object[] }>();
    expect(failed).toMatchObject({ matched: 2, lines: [{ message: 'dead', eventId: 'evt_bad', endpointId: 'logged' }] });
    expect(await sluice('log', 'lgoged')).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('There is no endpoint lgoged') as string });
  });
});

describe('dlq', () => {
  const dead = () => deadLettersOf(embedded);
  const eventsOf = (result: CliResult) => result.json<{ eventId: string }[]>().map(({ eventId }) => eventId);
  const isBuried = (endpointId: string, eventId: string) => until(`${eventId} is dead`, async () => {
    const record = await embedded.record(endpointId, eventId);
    return record?.state === 'dead' && record.phase === 'buried';
  });
  const isDelivered = (endpointId: string, eventId: string) => until(`${eventId} is delivered`, async () => (await embedded.record(endpointId, eventId))?.state === 'delivered');

  it('lists, counts with --dry-run, replays what is selected, and is safe to repeat (R10)', async () => {
    await sluice('endpoint', 'put', 'replay', '--url', consumer.url());
    consumer.reply((r) => ({ status: r.body.toString().includes('bad') ? 400 : 500 }));
    await sluice('endpoint', 'put', 'replay', '--set', 'retry.attempts=1', '--short-retries');
    for (const n of [1, 2, 3]) await sluice('send', 'replay', '--data', '{"bad":1}', '--event', `evt_r${n}`, '--type', n === 1 ? 'a.first' : 'a.later', '--wait');
    await sluice('send', 'replay', '--data', '{}', '--event', 'evt_x1', '--wait');
    for (const n of [1, 2, 3]) await keep('replay', `evt_r${n}`, '{"bad":1}');
    await keep('replay', 'evt_x1', '{}');
    consumer.reply(() => ({ status: 200 }));

    const ls = (...args: string[]) => sluice('dlq', 'ls', '--endpoint', 'replay', '--json', ...args);
    expect(eventsOf(await ls())).toEqual(['evt_r1', 'evt_r2', 'evt_r3', 'evt_x1']);
    expect(eventsOf(await ls('--type', 'a.later'))).toEqual(['evt_r2', 'evt_r3']);
    expect(eventsOf(await ls('--event', 'evt_x1', '--event', 'evt_r3'))).toEqual(['evt_r3', 'evt_x1']);
    expect(eventsOf(await ls('--since', '1h', '--max', '2'))).toEqual(['evt_r1', 'evt_r2']);
    expect(eventsOf(await ls('--until', '1h'))).toEqual([]);
    const [, second] = (await ls()).json<{ lastEpochMs: number }[]>();
    expect(eventsOf(await ls('--since', new Date(second?.lastEpochMs ?? 0).toISOString()))).toEqual(['evt_r2', 'evt_r3', 'evt_x1']);

    // What was stale before must not be found so in between.
    await sluice('dlq', 'tidy');
    const before = await dead();
    const dry = await sluice('dlq', 'replay', '--endpoint', 'replay', '--reason', 'rejected', '--dry-run', '--json');
    expect(dry.json()).toMatchObject({ dryRun: true, selected: 3, replayed: 0 });
    expect(await dead()).toEqual(before);
    expect((await sluice('dlq', 'replay')).code).toBe(2);
    const asked = await sluice('dlq', 'replay', '--endpoint', 'replay', '--reason', 'rejected', '--rate', '2');
    expect(asked.code).toBe(2);
    expect(asked.stderr).toContain('Replay 3 dead deliveries of endpoint replay, with reason rejected on local?\nThey are moved in about 2 s (2 a second), and sent at the pace of each endpoint\'s lane.');

    const replayed = await sluice('dlq', 'replay', '--endpoint', 'replay', '--reason', 'rejected', '--yes', '--json');
    expect(replayed).toMatchObject({ code: 0, stderr: expect.stringMatching(/\[##########\] 3\/3 \d+\/s, 0 s left/) as string });
    expect(replayed.json()).toEqual({
      dryRun: false, interrupted: false, selected: 3, replayed: 3, sentAgain: 0, noPayload: 0, noEndpoint: 0, disabled: 0, capped: 0, busy: 0, gone: 0, problems: [],
    });
    await until('all three are delivered', async () => {
      const records = await Promise.all([1, 2, 3].map((n) => embedded.record('replay', `evt_r${n}`)));
      return records.every((r) => r?.state === 'delivered' && r.generation === 1 && r.attempt === 1);
    });
    const again = await sluice('dlq', 'replay', '--endpoint', 'replay', '--reason', 'rejected', '--yes', '--json');
    expect([again.code, again.json()]).toMatchObject([0, { selected: 0 }]);
    const rest = await sluice('dlq', 'replay', '--event', 'evt_x1', '--yes', '--json');
    expect(rest.json()).toMatchObject({ selected: 1, replayed: 1 });
    await embedded.drainQueue();
    expect(consumer.requests.filter((r) => r.eventId === 'evt_r1')).toHaveLength(2);
    // No copy is taken here; those of the four, and no others, the sweep may have found stale meanwhile.
    expect(await dead()).toBeGreaterThanOrEqual(before - 4);
  });

  it('replays what was selected, not the conflict that names the same event', async () => {
    await sluice('endpoint', 'put', 'twins', '--url', consumer.url(), '--set', 'retry.baseS=20');
    consumer.reply(() => ({ status: 503 }));
    await embedded.send(messageBody('twins', 'evt_twin', '{"which":"A"}'));
    await until('A waits', async () => (await embedded.record('twins', 'evt_twin'))?.attempt === 1);
    await embedded.send(messageBody('twins', 'evt_twin', '{"which":"B"}'));
    await until('B is a conflict', async () => (await sluice('dlq', 'ls', '--endpoint', 'twins', '--json')).json<unknown[]>().length === 1);
    consumer.reply(() => ({ status: 400 }));
    await embedded.passDue('twins', 'evt_twin', 1);
    await until('A is dead', async () => (await embedded.record('twins', 'evt_twin'))?.state === 'dead');
    await embedded.drainQueue();
    await keep('twins', 'evt_twin', '{"which":"A"}');
    consumer.reply(() => ({ status: 200 }));
    const result = await sluice('dlq', 'replay', '--endpoint', 'twins', '--reason', 'rejected', '--yes', '--json');
    expect(result.json()).toMatchObject({ selected: 1, replayed: 1 });
    await isDelivered('twins', 'evt_twin');
    expect(consumer.requests.filter((r) => r.eventId === 'evt_twin').at(-1)?.body.toString()).toBe('{"which":"A"}');
    const conflicting = await sluice('send', 'twins', '--event', 'evt_twin', '--data', '{"which":"C"}', '--wait');
    expect(conflicting).toMatchObject({ code: 1, stderr: expect.stringContaining('conflict') as string });
  });

  it('says of what it leaves why, and what to do', async () => {
    await sluice('endpoint', 'put', 'mixed', '--url', consumer.url());
    consumer.reply(() => ({ status: 400 }));
    for (const eventId of ['evt_kept', 'evt_old']) {
      await embedded.send(messageBody('mixed', eventId));
      await isBuried('mixed', eventId);
    }
    await keep('mixed', 'evt_kept');
    await forget('mixed', 'evt_old');
    consumer.reply(() => ({ status: 200 }));
    const partly = await sluice('dlq', 'replay', '--endpoint', 'mixed', '--yes');
    expect(partly).toMatchObject({ code: 3, stderr: expect.stringContaining('1 were not replayed; they stay dead.') as string });
    expect(partly.stdout).toMatch(/^Replayed 1 of 2\.\n1 are held again.*\n1 were buried by an older version.*redrive their copies in the SQS console.*\nNot replayed: mixed evt_old: /);
    // As the console does it.
    await embedded.send(messageBody('mixed', 'evt_old'), { generation: 0 });
    for (const eventId of ['evt_kept', 'evt_old']) await isDelivered('mixed', eventId);

    consumer.reply(() => ({ status: 400 }));
    await embedded.send(messageBody('mixed', 'evt_off'));
    await isBuried('mixed', 'evt_off');
    await keep('mixed', 'evt_off');
    consumer.reply(() => ({ status: 200 }));
    await sluice('endpoint', 'put', 'mixed', '--set', 'status=disabled');
    const disabled = await sluice('dlq', 'replay', '--endpoint', 'mixed', '--yes', '--json');
    expect([disabled.code, disabled.json()]).toMatchObject([3, { selected: 1, disabled: 1, replayed: 0, problems: [{ endpointId: 'mixed', eventId: 'evt_off', why: 'endpoint mixed is disabled' }] }]);
    await sluice('endpoint', 'put', 'mixed', '--set', 'status=enabled');
    expect((await sluice('dlq', 'replay', '--endpoint', 'mixed', '--yes')).code).toBe(0);
    await isDelivered('mixed', 'evt_off');
  });

  it('says when the function cannot be asked, or fails', async () => {
    await embedded.refuse({ service: 'lambda', code: 'AccessDeniedException', operation: 'Invoke' });
    const refused = await sluice('dlq', 'replay', '--all', '--yes');
    await embedded.heal();
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('Nothing was moved.') as string });
    await embedded.refuse({ service: 'dynamodb', code: 'AccessDeniedException', function: 'replay' });
    const failed = await sluice('dlq', 'replay', '--all', '--yes');
    await embedded.heal();
    expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('The replay function failed: AccessDeniedException') as string });
  });

  it.each([
    [['--reason', 'exausted'], '--reason: must be one of malformed,'],
    [['--since', 'yesterday'], '--since: must be a time such as'],
    [['--since', '1h', '--until', '2h'], 'that selects nothing'],
    [['--all', '--rate', '0'], '--rate: must be a whole number of at least 1 and at most 1000 (got 0)'],
    [['--all', '--max', '1.5'], '--max: must be a whole number of at least 1 (got 1.5)'],
    [['--endpoint', 'a.b'], 'a.b'],
    [['--type', 'a b'], 'select.eventType'],
  ])('refuses %j', async (args, message) => {
    expect(await sluice('dlq', 'replay', ...args)).toMatchObject({ code: 2, stderr: expect.stringContaining(message) as string });
  });

  it('a dead letter of an unknown endpoint is delivered once the endpoint exists', async () => {
    await embedded.send('{"endpointId":"late","eventId":"evt_late","payload":{}}');
    await isBuried('late', 'evt_late');
    await keep('late', 'evt_late', '{}');
    expect((await sluice('dlq', 'replay', '--endpoint', 'late', '--yes')).stdout).toContain('1 belong to an endpoint that does not exist: sluice endpoint put');
    await sluice('endpoint', 'put', 'late', '--url', consumer.url());
    expect((await sluice('dlq', 'replay', '--endpoint', 'late', '--yes')).code).toBe(0);
    await isDelivered('late', 'evt_late');
  });

  it('an original that arrives again before or after a replay delivers nothing more, nor does a late redrive', async () => {
    await sluice('endpoint', 'put', 'stale', '--url', consumer.url());
    consumer.reply(() => ({ status: 400 }));
    const body = '{"endpointId":"stale","eventId":"evt_stale","payload":{}}';
    await embedded.send(body);
    await isBuried('stale', 'evt_stale');
    await keep('stale', 'evt_stale', '{}');
    consumer.reply(() => ({ status: 200 }));
    await embedded.send(body);
    await embedded.drainQueue();
    expect((await embedded.record('stale', 'evt_stale'))?.state).toBe('dead');
    await sluice('dlq', 'replay', '--endpoint', 'stale', '--yes');
    await isDelivered('stale', 'evt_stale');
    await embedded.send(body);
    await embedded.send(body, { generation: 0 });
    await embedded.drainQueue();
    expect(consumer.requests.filter((r) => r.eventId === 'evt_stale')).toHaveLength(2);
  });
});

describe('the program', () => {
  it('teaches with --help, and answers wrong use with exit code 2', async () => {
    const help = await sluice('--help');
    expect(help).toMatchObject({ code: 0 });
    for (const word of ['endpoint', 'send', 'show', 'status', 'dlq', 'Exit codes']) expect(help.stdout).toContain(word);
    expect((await sluice('--version')).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect((await sluice('endpoint', 'put', '--help')).stdout).toContain('Examples');
    for (const args of [['nonsense'], ['endpoint', 'put'], ['endpoint', 'get', 'a.b'], ['status', '--nope'], ['--stack', 'x', '--local', 'status']]) {
      expect(await sluice(...args), args.join(' ')).toMatchObject({ code: 2 });
    }
  });

  it('ends quietly when nobody reads on', async () => {
    const child = spawn('sh', ['-c', `"${process.execPath}" bin/sluice.ts --help | true`], { cwd: path.join(import.meta.dirname, '../..'), stdio: ['ignore', 'ignore', 'pipe'] });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    await new Promise((resolve) => child.once('close', resolve));
    expect(stderr).toBe('');
  });

  it('status shows lanes and queues, for people and as JSON', async () => {
    const shown = await sluice('status');
    expect(shown.stdout).toMatch(/acme\s+ok\s+-\s+0\/3/);
    expect((await sluice('status', 'acme', '--json')).json()).toMatchObject({ endpoints: [{ endpointId: 'acme', slots: 3, inFlight: 0 }] });
    expect((await sluice('status', 'nobody')).code).toBe(1);
  });

  it('status says when an open breaker is tried next', async () => {
    await sluice('endpoint', 'put', 'ill', '--url', consumer.url());
    const lanes = createDynamoDbLanes(embedded.db, { endpoints: embedded.output(outputs.endpointsTable), deliveries: embedded.output(outputs.deliveriesTable) });
    const { nowEpochMs } = await embedded.look();
    const untilEpochMs = Math.floor(nowEpochMs / 1_000) * 1_000 + 600_000;
    const open = openBreaker({ untilEpochMs, trips: 6, cause: 'unreachable' });
    await lanes.moveBreaker('ill', undefined, open);
    const until = new Date(untilEpochMs).toISOString();
    expect((await sluice('status')).stdout).toMatch(new RegExp(`ill\\s+open \\(unreachable\\)\\s+${until}\\s+0/8`));
    expect((await sluice('status', 'ill', '--json')).json()).toMatchObject({ endpoints: [{ state: 'open', breaker: { state: 'open', cause: 'unreachable', until, trips: 6 } }] });
    await lanes.moveBreaker('ill', open, { ...open, round: 2, untilEpochMs: nowEpochMs });
    expect((await sluice('status', 'ill', '--json')).json()).toMatchObject({ endpoints: [{ state: 'half-open' }] });
  });

  it('put closes an open breaker: what was found out before says nothing of what is there now', async () => {
    const put = await sluice('endpoint', 'put', 'ill', '--url', consumer.url('/mended'));
    expect(put.stdout).toContain('Its breaker was open; it is closed');
    expect((await sluice('status', 'ill', '--json')).json()).toMatchObject({ endpoints: [{ state: 'ok', breaker: { state: 'closed' } }] });
    expect((await sluice('endpoint', 'put', 'ill', '--set', 'maxInFlight=2', '--json')).json()).not.toHaveProperty('breaker');
  });

  it('says how to start where no installation runs', async () => {
    const result = await runCli('/nonexistent/local.json', ['status']);
    expect(result).toMatchObject({ code: 1, stderr: expect.stringContaining('npm start') as string });
  });
});
