/** Named policies by the program itself, and what is delivered by them (T11). */
import { spawn } from 'node:child_process';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createEndedWindows } from '../../lambdas/shared/adapters/dynamodb-ended-windows.ts';
import { binOf, emptyTally } from '../../lambdas/shared/core/statistics.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { cliProcess, runCli } from '../support/cli.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
});
beforeEach(() => consumer.reply(() => ({ status: 200 })));
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const cli = (...args: string[]) => runCli(embedded.localFile, args);
async function done<T = Record<string, unknown>>(...args: string[]): Promise<T> {
  const answer = await cli(...args, '--json');
  expect([answer.code, answer.stderr]).toEqual([0, expect.anything()]);
  return answer.json<T>();
}
const why = ['--why', 'ticket 4711', '--by', 'ada'];
const put = (id: string, ...args: string[]) => done('endpoint', 'put', id, '--url', consumer.url(`/${id}`), ...args);
const stored = async (id: string) => (await embedded.registry.get(id))?.endpoint;
const shown = (id: string) => done<{ policy: string; policyVersion?: number; origins: Record<string, string>; budgetsMs: { read: number }; maxInFlight: number }>('endpoint', 'get', id);
const firstOutcome = (id: string, eventId: string) => until(`${eventId} was tried`, async () => {
  const record = await embedded.record(id, eventId);
  return record?.history[0];
});

describe('policy set', () => {
  it('makes versions that say who, when and why, and that stay', async () => {
    expect(await done('policy', 'set', 'steady', '--set', 'budgetsMs.read=9000', '--set', 'maxInFlight=4', ...why)).toMatchObject({ name: 'steady', version: 1, made: true });
    expect(await done('policy', 'set', 'steady', '--unset', 'maxInFlight', '--set', 'adaptiveRead={}', ...why)).toMatchObject({ version: 2, made: true });
    expect(await done('policy', 'set', 'steady', '--set', 'budgetsMs.read=9000', ...why)).toMatchObject({ version: 2, made: false });
    expect(await done('policy', 'get', 'steady')).toMatchObject({ version: 2, current: 2, settings: { budgetsMs: { read: 9_000 }, adaptiveRead: {} }, by: 'ada', why: 'ticket 4711', versions: [{ version: 1 }, { version: 2 }] });
    expect(await done('policy', 'get', 'steady', 'v1')).toMatchObject({ version: 1, settings: { budgetsMs: { read: 9_000 }, maxInFlight: 4 } });
    expect((await cli('policy', 'get', 'steady')).stdout).toMatch(/^Policy steady v2:[^]*VERSION +SINCE +BY +WHY\nv1 [^]*\nv2 \(current\)/);
    expect((await cli('policy', 'ls')).stdout).toMatch(/^POLICY +VERSION +ENDPOINTS +ON AN OLDER[^]*\nsteady +2 +0 +0 /);
  });

  it.each<[string, string[], RegExp]>([
    ['beyond a bound', ['--set', 'maxInFlight=99'], /maxInFlight: Too big: expected number to be <=32 \(got 99\)/],
    ['that is one endpoint\'s', ['--set', 'url=https://acme.example/'], /url: belongs to one endpoint/],
    ['that there is not', ['--set', 'retry.max=3'], /retry\.max: unknown key \(got 3\)/],
    ['that does not fit the function', ['--set', 'budgetsMs.read=29000', '--set', 'budgetsMs.total=30000'], /budgetsMs/],
    ['of a schedule that gives up soon', ['--set', 'retry.attempts=2'], /a third of maxAgeS.*--short-retries/],
    ['that is not set, taken away', ['--unset', 'maxInFlight'], /--unset maxInFlight: is not set here/],
    ['of a file that is none', ['--file', '/nonexistent'], /--file \/nonexistent/],
    ['of none', [], /Nothing to set/],
  ])('refuses a setting %s, and writes nothing', async (_what, args, said) => {
    const refused = await cli('policy', 'set', 'faulty', ...args, ...why);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringMatching(said)]);
    expect((await cli('policy', 'get', 'faulty')).code).toBe(1);
  });

  it('wants to know why, and takes the name of having none for no policy', async () => {
    expect(await cli('policy', 'set', 'steady', '--set', 'maxInFlight=1')).toMatchObject({ code: 2, stderr: expect.stringContaining('--why') as string });
    expect(await cli('policy', 'set', 'default', '--set', 'maxInFlight=1', ...why)).toMatchObject({ code: 2, stderr: expect.stringContaining('the name of having none') as string });
    expect((await cli('policy', 'set', '#x', '--set', 'maxInFlight=1', ...why)).code).toBe(2);
  });
});

describe('policy assign', () => {
  it('delivers by the policy from then on, but for what is an endpoint\'s own', async () => {
    await Promise.all([put('slow'), put('patient', '--set', 'budgetsMs.read=8000'), put('other')]);
    await done('policy', 'set', 'brisk', '--set', 'budgetsMs.read=500', '--set', 'maxInFlight=3', ...why);
    expect((await cli('policy', 'assign', 'brisk', 'slow', 'patient')).stderr).toContain('repeat with --yes');
    expect(await done('policy', 'assign', 'brisk', 'slow', 'patient', '--yes')).toMatchObject({ policy: 'brisk', version: 1, selected: 2, moved: 2, failed: [], left: 0 });
    consumer.reply(() => ({ status: 200, afterMs: 1_500 }));
    for (const id of ['slow', 'patient', 'other']) await embedded.send(messageBody(id, `to-${id}`));
    expect(await firstOutcome('slow', 'to-slow')).toMatchObject({ outcome: 'ambiguous', detail: expect.stringContaining('headers') as string });
    for (const id of ['patient', 'other']) await until(`${id} has it`, async () => (await embedded.record(id, `to-${id}`))?.state === 'delivered');

    expect(await shown('slow')).toMatchObject({ policy: 'brisk', policyVersion: 1, budgetsMs: { read: 500 }, maxInFlight: 3, origins: { 'budgetsMs.read': 'policy brisk v1', maxInFlight: 'policy brisk v1' } });
    expect(await shown('patient')).toMatchObject({ policy: 'brisk', budgetsMs: { read: 8_000 }, origins: { 'budgetsMs.read': 'own', maxInFlight: 'policy brisk v1' } });
    expect(await shown('other')).toMatchObject({ policy: 'default', origins: {} });
    expect((await cli('endpoint', 'ls')).stdout).toMatch(/^ENDPOINT +STATUS +LANE +POLICY +URL\n[^]*\nslow +enabled +3 +brisk v1 +https/);
    expect((await done<{ endpointId: string; policy: string }[]>('endpoint', 'ls')).find(({ endpointId }) => endpointId === 'slow')?.policy).toBe('brisk');
    expect((await cli('status', 'slow')).stdout).toContain('Policy: brisk v1.');
    expect((await cli('status', 'other')).stdout).toContain('Policy: none.');
  });

  it('takes a cohort: a tenant\'s, a share, those of another policy; and takes a policy away', async () => {
    await Promise.all(['t1', 't2', 't3', 't4'].map((id) => put(id, '--set', 'tenantId=globex')));
    await done('policy', 'set', 'one', '--set', 'maxInFlight=2', ...why);
    await done('policy', 'set', 'two', '--set', 'maxInFlight=5', ...why);
    const having = async (name: string) => (await embedded.registry.list()).filter(({ endpoint }) => endpoint.origin?.policy?.name === name).length;
    const half = await done<{ selected: number }>('policy', 'assign', 'one', '--tenant', 'globex', '--percent', '50', '--yes');
    expect(await having('one')).toBe(half.selected);
    expect(await done('policy', 'assign', 'one', '--tenant', 'globex', '--yes')).toMatchObject({ selected: 4, moved: 4 - half.selected, same: half.selected });
    expect(await done('policy', 'assign', 'two', '--from', 'one', '--yes')).toMatchObject({ selected: 4, moved: 4 });
    expect([await having('one'), await having('two'), (await stored('t1'))?.config?.maxInFlight]).toEqual([0, 4, 5]);
    expect(await done('policy', 'assign', 'default', '--from', 'two', '--yes')).toMatchObject({ policy: 'default', moved: 4 });
    expect([await having('two'), (await stored('t1'))?.config?.maxInFlight, await shown('t1')]).toEqual([0, 8, expect.objectContaining({ policy: 'default', origins: {} })]);
    expect((await cli('policy', 'assign', 'two', '--from', 'one', '--yes')).stdout).toContain('No endpoint is meant');
  });

  it.each<[string[], number, string]>([
    [['brisk'], 2, 'Say which endpoints'],
    [['brisk', 'slow', '--all'], 2, 'Give IDs, or --all'],
    [['brisk', '--all', '--tenant', 't'], 2, 'Give IDs, or --all'],
    [['brisk', '--all', '--percent', '101'], 2, '--percent: must be'],
    [['brisk', 'slow', 'nobody'], 1, 'There is no endpoint nobody'],
    [['nothing', 'slow'], 1, 'There is no policy nothing'],
    [['brisk', '--from', 'nothing'], 1, 'There is no policy nothing'],
  ])('refuses %j, and writes nothing', async (args, code, said) => {
    const before = await embedded.registry.list();
    const refused = await cli('policy', 'assign', ...args, '--yes');
    expect([refused.code, refused.stderr]).toEqual([code, expect.stringContaining(said)]);
    const versions = (all: typeof before) => all.map(({ endpoint }) => endpoint.version);
    expect(versions(await embedded.registry.list())).toEqual(versions(before));
  });

  it('leaves an endpoint that could not be used with it, names it, and moves the others', async () => {
    await Promise.all([put('fits'), put('clashes', '--set', 'breaker.openS=800')]);
    await done('policy', 'set', 'nervous', '--set', 'breaker.maxOpenS=600', ...why);
    const answer = await cli('policy', 'assign', 'nervous', 'fits', 'clashes', '--yes', '--json');
    expect([answer.code, answer.json()]).toEqual([3, expect.objectContaining({ moved: 1, failed: [{ endpointId: 'clashes', why: 'breaker.maxOpenS: must be at least openS (got 600)' }] })]);
    expect([(await stored('clashes'))?.origin?.policy, (await stored('fits'))?.config?.breaker.maxOpenS]).toEqual([undefined, 600]);
  });
});

describe('an endpoint with a policy', () => {
  it('keeps it when it is put; what is put is its own, and what is unset is left to the policy', async () => {
    await done('policy', 'set', 'kept', '--set', 'budgetsMs.read=700', '--set', 'retry.attempts=10', ...why);
    await put('keeper', '--set', 'maxInFlight=6');
    await done('policy', 'assign', 'kept', 'keeper', '--yes');
    expect(await done('endpoint', 'put', 'keeper', '--set', 'budgetsMs.read=900', '--set', 'headers.x-team=a')).toMatchObject({ changed: ['headers', 'budgetsMs'] });
    expect(await shown('keeper')).toMatchObject({ policy: 'kept', budgetsMs: { read: 900 }, origins: { headers: 'own', 'budgetsMs.read': 'own', maxInFlight: 'own', 'retry.attempts': 'policy kept v1' } });
    expect(await done('endpoint', 'put', 'keeper', '--unset', 'budgetsMs.read')).toMatchObject({ changed: ['budgetsMs'] });
    expect(await shown('keeper')).toMatchObject({ budgetsMs: { read: 700 }, origins: { 'budgetsMs.read': 'policy kept v1' } });
    // Whole: what was its own is gone, and the policy is not.
    await put('keeper');
    expect(await shown('keeper')).toMatchObject({ policy: 'kept', budgetsMs: { read: 700 }, maxInFlight: 8 });
    for (const command of ['pause', 'resume']) await done('endpoint', command, 'keeper');
    expect(await shown('keeper')).toMatchObject({ policy: 'kept', policyVersion: 1 });
    expect((await cli('endpoint', 'put', 'keeper', '--set', 'policy=other')).stderr).toContain('sluice policy assign NAME ID');
  });

  it('that is removed and put again starts without', async () => {
    await put('again');
    await done('policy', 'assign', 'kept', 'again', '--yes');
    await done('endpoint', 'rm', 'again', '--yes');
    await put('again');
    expect(await shown('again')).toMatchObject({ policy: 'default', budgetsMs: { read: 10_000 }, origins: {} });
  });

  it('that was stored before keeps what was changed of it', async () => {
    await embedded.register('old', consumer.url('/old'), { budgetsMs: { read: 4_000 } });
    await done('policy', 'assign', 'kept', 'old', '--yes');
    expect(await shown('old')).toMatchObject({ budgetsMs: { read: 4_000 }, origins: { 'budgetsMs.read': 'own', 'retry.attempts': 'policy kept v1' } });
  });
});

describe('a new version', () => {
  it('is rolled out when that is said, and taken back by one command', async () => {
    await Promise.all([put('a1'), put('a2', '--set', 'maxInFlight=7'), put('a3')]);
    await done('policy', 'set', 'moving', '--set', 'budgetsMs.read=3000', ...why);
    await done('policy', 'assign', 'moving', 'a1', 'a2', 'a3', '--yes');
    const made = await cli('policy', 'set', 'moving', '--set', 'budgetsMs.read=2000', '--set', 'maxInFlight=2', ...why);
    expect(made.stdout).toContain('3 endpoints have an older version. Roll out: sluice policy assign moving --from moving');
    expect((await stored('a1'))?.config?.budgetsMs.read).toBe(3_000);
    expect((await done<{ policies: object[] }>('policy', 'ls')).policies).toContainEqual(expect.objectContaining({ name: 'moving', version: 2, endpoints: 3, older: 3 }));
    expect((await cli('status', 'a1')).stdout).toContain('Policy: moving v1, of which v2 is the current one.');
    expect(await done('policy', 'assign', 'moving', 'a1', '--yes')).toMatchObject({ moved: 1 });
    expect(await done('policy', 'set', 'moving', '--set', 'budgetsMs.read=1000', ...why, '--rollout', '--yes')).toMatchObject({ version: 3, rollout: { selected: 3, moved: 3 } });
    const reads = async () => Promise.all(['a1', 'a2', 'a3'].map(async (id) => ((await stored(id))?.config?.budgetsMs.read)));
    expect([await reads(), (await stored('a2'))?.config?.maxInFlight]).toEqual([[1_000, 1_000, 1_000], 7]);

    expect((await cli('policy', 'rollback', 'moving', ...why)).stderr).toContain('Bring back what policy moving v2 said, as v4, for 3 endpoints?');
    expect(await done('policy', 'rollback', 'moving', ...why, '--yes')).toMatchObject({ version: 4, restores: 2, rollout: { moved: 3 } });
    expect([await reads(), (await stored('a2'))?.config?.maxInFlight, (await stored('a3'))?.config?.maxInFlight]).toEqual([[2_000, 2_000, 2_000], 7, 2]);
    // Said again, it does not go back to what it has left.
    expect(await cli('policy', 'rollback', 'moving', ...why, '--yes')).toMatchObject({ code: 1, stderr: expect.stringContaining('to go further back, say --to VERSION') as string });
    expect(await done('policy', 'rollback', 'moving', '--to', 'v1', ...why, '--yes')).toMatchObject({ version: 5, restores: 1 });
    expect([await reads(), (await stored('a3'))?.config?.maxInFlight]).toEqual([[3_000, 3_000, 3_000], 8]);
    expect((await cli('policy', 'get', 'moving')).stdout).toContain('ticket 4711 (as v1)');
    for (const to of ['9', '5']) expect((await cli('policy', 'rollback', 'moving', '--to', to, ...why, '--yes')).code).toBe(1);
    expect((await cli('policy', 'rollback', 'kept', ...why, '--yes')).stderr).toContain('has one version only. Take it away: sluice policy assign default --from kept');
  });
});

describe('a roll-out to many', () => {
  const ids = Array.from({ length: 60 }, (_, i) => `many-${i}`);
  const at = async (version: number) => (await embedded.registry.list()).filter(({ endpoint }) => endpoint.origin?.policy?.name === 'wide' && endpoint.origin.policy.version === version).length;
  beforeAll(async () => {
    for (const id of ids) await embedded.register(id, consumer.url(), { tenantId: 'many' });
    await done('policy', 'set', 'wide', '--set', 'maxInFlight=2', ...why);
    await done('policy', 'assign', 'wide', '--tenant', 'many', '--yes');
  }, 60_000);

  /** Runs a command and sends it a signal once some endpoints have a version. */
  async function cutShort(version: number, signal: 'SIGKILL' | 'SIGINT', args: readonly string[]) {
    const run = cliProcess(embedded.localFile, args);
    const child = spawn(run.file, run.args, { env: run.env, stdio: ['ignore', 'pipe', 'ignore'] });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    await until('some have it', async () => (await at(version)) > 0);
    child.kill(signal);
    return { code: await ended, stdout };
  }

  it('that is killed is ended by the same command', { timeout: 60_000 }, async () => {
    const args = ['policy', 'set', 'wide', '--set', 'maxInFlight=3', ...why, '--rollout', '--yes', '--json'];
    await cutShort(2, 'SIGKILL', args);
    const [moved, left] = [await at(2), await at(1)];
    expect([moved + left, left > 0]).toEqual([60, true]);
    expect(await done(...args)).toMatchObject({ version: 2, made: false, rollout: { moved: left, failed: [] } });
    expect([await at(2), (await stored('many-59'))?.config?.maxInFlight]).toEqual([60, 3]);
  });

  it('back that is killed goes on to where it was going', { timeout: 60_000 }, async () => {
    const args = ['policy', 'rollback', 'wide', ...why, '--yes', '--json'];
    await cutShort(3, 'SIGKILL', args);
    const left = await at(2);
    expect(left).toBeGreaterThan(0);
    expect(await done(...args)).toMatchObject({ version: 3, made: false, restores: 1, rollout: { moved: left } });
    expect([await at(3), (await stored('many-59'))?.config?.maxInFlight]).toEqual([60, 2]);
  });

  it('stops when it is asked to, and says how far it came', { timeout: 60_000 }, async () => {
    const args = ['policy', 'set', 'wide', '--set', 'maxInFlight=4', ...why, '--rollout', '--yes', '--json'];
    const { code, stdout } = await cutShort(4, 'SIGINT', args);
    const { rollout } = JSON.parse(stdout) as { rollout: { moved: number; left: number } };
    expect([code, rollout.moved + rollout.left, rollout.left > 0, await at(4)]).toEqual([3, 60, true, rollout.moved]);
    expect(await done(...args)).toMatchObject({ rollout: { moved: rollout.left } });
  });
});

describe('policy check', () => {
  it('says whose successes a budget would have cut off, the worst first', async () => {
    const windows = createEndedWindows(embedded.db, embedded.output(outputs.statisticsTable));
    const { nowEpochMs } = await embedded.look();
    const window = (ageMs: number, answers: [number, number][]) => ({ ...emptyTally, attempts: 100, delivered: 100, sinceEpochMs: nowEpochMs - ageMs, endedEpochMs: nowEpochMs - ageMs + 300_000, answers: new Map(answers.map(([ms, count]) => [binOf(ms), count])) });
    const hour = 3_600_000;
    await Promise.all(['m-none', 'm-few', 'm-half', 'm-own', 'm-silent'].map((id) => put(id, ...(id === 'm-own' ? ['--set', 'budgetsMs.read=9000'] : []))));
    for (const id of ['m-few', 'm-half', 'm-own', 'm-none']) await windows.put(id, window(2 * hour, [[200, 98], [id === 'm-none' ? 300 : 6_000, 2]]));
    await windows.put('m-half', window(hour, [[7_000, 96]]));
    // Beyond the days that are looked at.
    await windows.put('m-few', window(8 * 24 * hour, [[8_000, 900]]));

    const { endpoints } = await done<{ endpoints: { endpointId: string; budgetMs: number; successes: number; cutOff: number; share: number }[] }>('policy', 'check', '--set', 'budgetsMs.read=5000');
    const measured = endpoints.filter(({ endpointId }) => endpointId.startsWith('m-'));
    expect(measured.slice(0, 2)).toMatchObject([{ endpointId: 'm-half', budgetMs: 5_000, successes: 196, cutOff: 98, share: 0.5 }, { endpointId: 'm-few', successes: 100, cutOff: 2, share: 0.02 }]);
    // What is its own wins.
    expect(measured.find(({ endpointId }) => endpointId === 'm-own')).toMatchObject({ budgetMs: 9_000, cutOff: 0 });
    expect(measured.find(({ endpointId }) => endpointId === 'm-silent')).toMatchObject({ successes: 0, cutOff: 0, share: 0 });

    const human = await cli('policy', 'check', 'steady', '--unset', 'adaptiveRead', '--set', 'budgetsMs.read=5000', '--endpoint', 'm-few', '--days', '30');
    expect([human.code, human.stdout]).toEqual([0, expect.stringMatching(/^ENDPOINT +BUDGET +SUCCESSES +CUT OFF +SHARE +P99\nm-few +5000 ms +1000 +902 +90\.20 % [^]*within 5 %/)]);
    expect((await cli('policy', 'check', '--set', 'budgetsMs.total=4000', '--set', 'budgetsMs.setup=1000', '--endpoint', 'm-few')).stdout).toMatch(/m-few +4000 ms +100 +2 /);
    expect((await cli('policy', 'check', 'steady', '--endpoint', 'm-few')).stdout).toContain('nothing would have been cut off');
    for (const [args, code] of [[[], 2], [['--set', 'budgetsMs.read=1'], 2], [['steady', '--days', '31'], 2], [['steady', '--endpoint', 'nobody'], 1], [['nothing'], 1]] as const) {
      expect((await cli('policy', 'check', ...args)).code).toBe(code);
    }
    expect((await done<{ policies: { name: string; version: number }[] }>('policy', 'ls')).policies.find(({ name }) => name === 'steady')?.version).toBe(2);
  });
});
