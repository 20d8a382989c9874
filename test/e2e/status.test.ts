/** What a consumer may ask of itself, through the function's URL (L7). */
import { ScanCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { runCli } from '../support/cli.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  for (const id of ['acme', 'other']) await embedded.register(id, consumer.url());
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const base = () => embedded.output(outputs.statusUrl);
const ask = (path: string, authorization?: string, method = 'GET') => fetch(base() + path, { method, headers: authorization === undefined ? {} : { authorization } });
async function makeToken(id: string): Promise<{ url: string; token: string }> {
  const made = await runCli(embedded.localFile, ['endpoint', 'token', id, '--json']);
  expect(made.code).toBe(0);
  return made.json();
}

describe('the status resource', () => {
  it('tells the consumer of an endpoint how it stands, with the arithmetic', async () => {
    const { url, token } = await makeToken('acme');
    expect(url).toBe(`${base()}acme`);
    consumer.reply((_request, nth) => ({ status: nth === 1 ? 503 : 200, afterMs: 40 }));
    for (let i = 0; i < 5; i++) await embedded.send(messageBody('acme', `evt_${i}`));
    await until('all have been tried', async () => (await embedded.registry.get('acme'))?.lane.window?.attempts === 5);
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    expect([answer.status, answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([200, 'application/json', 'no-store']);
    const said = (await answer.json()) as Record<string, unknown> & { latencyMs: { p95: number }; sustainablePerSecond: number };
    expect(said).toMatchObject({
      v: 1, endpointId: 'acme', status: 'enabled', breaker: { state: 'closed' }, outcomes: { attempts: 5, failed: 5, lastFailure: '503' }, failuresInARow: 5, refuses: null,
      lane: { slots: 8 }, shedShare: 0, says: expect.stringMatching(/^95 of 100 requests end within .*; 8 at a time are then .* are offered, which the lane allows, but 5 of 5 attempts failed\.$/) as string,
    });
    expect(said.sustainablePerSecond).toBeCloseTo((8 * 1_000) / said.latencyMs.p95, 5);
  });

  it('says nothing to anybody else: not even whether there is such an endpoint', async () => {
    const { token } = await makeToken('acme');
    const answers = await Promise.all([
      ask('acme'), ask('acme', 'Bearer wrong'), ask('other', `Bearer ${token}`), ask('nobody', `Bearer ${token}`), ask('', `Bearer ${token}`), ask('acme/x', `Bearer ${token}`), ask('%23attention', `Bearer ${token}`),
      ask('acme', `Basic ${token}`), ask('acme', `Bearer ${'a'.repeat(300)}`),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 401));
    expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBe(1);
    expect((await ask('acme', `Bearer ${token}`, 'POST')).status).toBe(405);
  });

  it('ends with its token: replaced, revoked, or of an endpoint that was removed and put again', async () => {
    const first = await makeToken('acme');
    const second = await makeToken('acme');
    const statuses = async () => Promise.all([first, second].map(async ({ token }) => (await ask('acme', `Bearer ${token}`)).status));
    expect(await statuses()).toEqual([401, 200]);
    expect((await runCli(embedded.localFile, ['endpoint', 'token', 'acme', '--revoke', '--yes', '--json'])).json()).toEqual({ endpointId: 'acme', revoked: true });
    expect(await statuses()).toEqual([401, 401]);
    const third = await makeToken('acme');
    expect((await runCli(embedded.localFile, ['endpoint', 'rm', 'acme', '--yes'])).code).toBe(0);
    await embedded.register('acme', consumer.url());
    expect((await ask('acme', `Bearer ${third.token}`)).status).toBe(401);
    expect((await runCli(embedded.localFile, ['endpoint', 'token', 'nobody'])).code).not.toBe(0);
  });

  it('keeps no token: neither in the table nor in any log', async () => {
    const { token } = await makeToken('acme');
    await ask('acme', `Bearer ${token}`);
    const items = await embedded.db.send(new ScanCommand({ TableName: embedded.output(outputs.endpointsTable) }));
    expect(JSON.stringify(items.Items)).not.toContain(token);
    expect(embedded.logsOf('status')).not.toContain(token);
  });

  it('cannot be read while the table cannot', async () => {
    const { token } = await makeToken('acme');
    await embedded.refuse({ service: 'dynamodb', code: 'ProvisionedThroughputExceededException', operation: 'GetItem', function: embedded.output(outputs.statusFunction) });
    const answer = await ask('acme', `Bearer ${token}`);
    await embedded.heal();
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '30']);
  });
});
