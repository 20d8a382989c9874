import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { LambdaHost, type LambdaHostOptions } from '../../local/lambda-host.ts';
import type { HostedFunction } from '../../local/lambda-environment.ts';

const taskRoot = mkdtempSync(path.join(tmpdir(), 'sluice-host-'));
const localDir = path.join(import.meta.dirname, '../../local');
const hosts: LambdaHost[] = [];
let logLines: string[] = [];

afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(hosts.splice(0).map((host) => host.close()));
  logLines = [];
});
afterAll(() => rmSync(taskRoot, { recursive: true }));

let files = 0;

function functionOf(code: string, settings: Partial<HostedFunction> = {}): HostedFunction {
  const module = `handler${(files += 1)}`;
  writeFileSync(path.join(taskRoot, `${module}.mjs`), code);
  const defaults = { timeoutS: 10, memoryMb: 256, env: { GREETING: 'hello' }, roleName: 'TrialRole' };
  return { name: 'Trial', arn: 'arn:aws:lambda:eu-west-1:000000000000:function:Trial', handler: `${module}.handler`, assetDir: taskRoot, ...defaults, ...settings };
}

function hostOf(code: string, settings: Partial<HostedFunction> = {}, options: Partial<LambdaHostOptions> = {}): LambdaHost {
  const host = new LambdaHost(functionOf(code, settings), { region: 'eu-west-1', onLog: (_, line) => logLines.push(line), ...options });
  hosts.push(host);
  return host;
}

/** A container without an init process keeps the dead as zombies. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function until(condition: () => boolean, what: string): Promise<void> {
  for (const endMs = performance.now() + 10_000; !condition(); await delay(10)) {
    if (performance.now() > endMs) throw new Error(`Waited in vain until ${what}`);
  }
}

/** Says that it runs: from then on its deadline is set. */
const hang = `export const handler = async (event) => { console.log('it runs'); for (; event.spin; ); await new Promise((done) => setTimeout(done, 60_000)); };`;
const itRuns = () => until(() => logLines.some((line) => line.includes('it runs')), 'it runs');

describe('an invocation', () => {
  it('returns what the handler returns, and reuses its environment', async () => {
    const host = hostOf('let calls = 0; export const handler = async (event) => ({ got: event, calls: (calls += 1) });');
    expect(await host.invoke({ a: 1 })).toMatchObject({ kind: 'ok', payload: { got: { a: 1 }, calls: 1 }, cold: true });
    expect(await host.invoke('ü')).toMatchObject({ kind: 'ok', payload: { got: 'ü', calls: 2 }, cold: false });
    expect(host.environments()).toMatchObject([{ busy: false }]);
  });

  it('gives the handler a context', async () => {
    const host = hostOf('export const handler = async (_, context) => ({ ...context, leftMs: context.getRemainingTimeInMillis() });');
    expect(await host.invoke({})).toMatchObject({
      payload: {
        functionName: 'Trial',
        invokedFunctionArn: 'arn:aws:lambda:eu-west-1:000000000000:function:Trial',
        memoryLimitInMB: '256',
        awsRequestId: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
        leftMs: expect.toSatisfy((leftMs: number) => leftMs > 8_000 && leftMs <= 10_000) as number,
      },
    });
  });

  it('gives the handler the environment of Lambda and nothing of this process', async () => {
    vi.stubEnv('SLUICE_LEAK', 'leaked');
    const host = hostOf('export const handler = async () => process.env;', {}, { endpointUrl: 'http://127.0.0.1:1' });
    const result = await host.invoke({});
    vi.unstubAllEnvs();
    expect(result).toMatchObject({ payload: { GREETING: 'hello', AWS_ACCESS_KEY_ID: 'TrialRole', AWS_REGION: 'eu-west-1', AWS_ENDPOINT_URL: 'http://127.0.0.1:1' } });
    const names = Object.keys((result as { payload: object }).payload);
    expect(names.filter((name) => !/^(AWS_|LAMBDA_TASK_ROOT$|_HANDLER$|_X_AMZN_TRACE_ID$|PATH$|TZ$|GREETING$)/.test(name))).toEqual([]);
  });

  it('answers null for a handler that returns nothing', async () => {
    expect(await hostOf('export const handler = async () => {};').invoke({})).toMatchObject({ kind: 'ok', payload: null });
  });

  it('hands on what it writes, line by line', async () => {
    await hostOf("export const handler = async () => { console.log('one\\ntwo'); console.error('three'); };").invoke({});
    await until(() => logLines.length === 3, 'three lines came');
    expect(logLines.sort()).toEqual(['one', 'three', 'two']);
  });

  it('runs CommonJS as well', async () => {
    writeFileSync(path.join(taskRoot, 'common.cjs'), 'exports.handler = async () => 7;');
    expect(await hostOf('', { handler: 'common.handler' }).invoke({})).toMatchObject({ kind: 'ok', payload: 7 });
  });
});

describe('a failing function', () => {
  it('that throws keeps its environment', async () => {
    const host = hostOf("export const handler = async (event) => { if (event.bad) throw new TypeError('bad event'); return 1; };");
    expect(await host.invoke({ bad: true })).toMatchObject({ kind: 'error', errorType: 'TypeError', errorMessage: 'bad event', cold: true });
    expect(await host.invoke({})).toMatchObject({ kind: 'ok', cold: false });
  });

  it('is counted, apart from what is throttled and does not run', async () => {
    const host = hostOf("export const handler = async () => { throw new Error('bad'); };");
    host.throttle(true);
    expect(await host.invoke({})).toMatchObject({ kind: 'error', errorType: 'TooManyRequestsException' });
    expect([host.environments(), host.counts()]).toEqual([[], { errors: 0, throttles: 1 }]);
    host.throttle(false);
    await host.invoke({});
    expect([host.environments().length, host.counts()]).toEqual([1, { errors: 1, throttles: 1 }]);
  });

  it('that exits loses it, and the next one starts afresh', async () => {
    const host = hostOf('export const handler = async (event) => { if (event.bad) process.exit(3); return 1; };');
    expect(await host.invoke({ bad: true })).toMatchObject({ kind: 'error', errorType: 'Runtime.ExitError', errorMessage: expect.stringContaining('exit status 3') as string });
    expect(host.environments()).toEqual([]);
    expect(await host.invoke({})).toMatchObject({ kind: 'ok', cold: true });
  });

  it('that rejects in the background ends as an exit', async () => {
    const host = hostOf("export const handler = async () => { Promise.reject(new Error('lost')); await new Promise((done) => setTimeout(done, 5000)); };");
    expect(await host.invoke({})).toMatchObject({ errorType: 'Runtime.ExitError', errorMessage: expect.stringContaining('exit status 129') as string });
  });

  it.each([
    ['throws at start', "throw new RangeError('at start');", {}, 'RangeError'],
    ['has no such handler', 'export const other = 1;', {}, 'Runtime.HandlerNotFound'],
    ['has no such file', '', { handler: 'nowhere.handler' }, 'Runtime.ImportModuleError'],
    ['exits at start', 'process.exit(0);', {}, 'Runtime.ExitError'],
  ])('that %s fails each invocation', async (_, code, settings, errorType) => {
    const host = hostOf(code, settings);
    expect(await host.invoke({})).toMatchObject({ kind: 'error', errorType, cold: true });
    expect(host.environments()).toEqual([]);
  });

  it('that never finishes its start is given up', async () => {
    const host = hostOf('await new Promise((done) => setTimeout(done, 60_000));', {}, { initTimeoutMs: 300 });
    expect(await host.invoke({})).toMatchObject({ kind: 'error', errorType: 'Sandbox.Timedout' });
  });

  it.each([
    ['empty', ''],
    ['half', '{"batchItemFailures":'],
  ])('whose runtime answers with an %s body is an error', async (_, body) => {
    // The handler answers in place of the runtime, whose own answer is then refused.
    const code = `export const handler = async (_, { awsRequestId }) => {
      await fetch(\`http://\${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation/\${awsRequestId}/response\`, { method: 'POST', body: '${body}' });
    };`;
    expect(await hostOf(code).invoke({})).toMatchObject({ kind: 'error', errorType: 'Runtime.InvalidResponse' });
  });
});

describe('the timeout', () => {
  it.each([{ spin: false }, { spin: true }])('kills a hanging function: %o', async (event) => {
    const host = hostOf(hang, { timeoutS: 1 });
    const result = await host.invoke(event);
    expect(result).toMatchObject({ kind: 'error', errorType: 'Sandbox.Timedout', errorMessage: expect.stringContaining('timed out after 1.00 seconds') as string });
    expect(result.durationMs).toBeGreaterThan(950);
    expect(host.environments()).toEqual([]);
  });

  it('is on the steered clock', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const host = hostOf(hang, { timeoutS: 900 });
    const invocation = host.invoke({});
    await itRuns();
    vi.setSystemTime(Date.now() + 3_600_000);
    expect(await invocation).toMatchObject({ errorType: 'Sandbox.Timedout' });
  });

  it('is not prolonged by a clock that steps back', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const host = hostOf(hang, { timeoutS: 1 });
    const invocation = host.invoke({});
    await itRuns();
    vi.setSystemTime(Date.now() - 3_600_000);
    expect(await invocation).toMatchObject({ errorType: 'Sandbox.Timedout' });
  });

  it('finds a child that sees the same steered clock', async () => {
    const offset = Buffer.alloc(8);
    offset.writeDoubleLE(86_400_000);
    const offsetFile = path.join(taskRoot, 'clock');
    writeFileSync(offsetFile, offset);
    const clock = { preloadFile: path.join(localDir, 'clock-preload.mjs'), offsetFile };
    const result = await hostOf('export const handler = async () => Date.now();', {}, { clock }).invoke({});
    expect(result).toMatchObject({ kind: 'ok', payload: expect.toSatisfy((ms: number) => Math.abs(ms - Date.now() - 86_400_000) < 10_000) as number });
  });
});

describe('between invocations', () => {
  it('an environment is frozen: its timers do not tick', async () => {
    const host = hostOf('let ticks = 0; setInterval(() => (ticks += 1), 10); export const handler = async (event) => { await new Promise((done) => setTimeout(done, event.ms)); return ticks; };');
    const before = (await host.invoke({ ms: 300 })) as { payload: number };
    await delay(2_000);
    const after = (await host.invoke({ ms: 0 })) as { payload: number };
    expect(before.payload).toBeGreaterThan(10);
    // Two seconds awake would have been two hundred ticks.
    expect(after.payload - before.payload).toBeLessThan(100);
  });
});

describe('concurrency', () => {
  const slow = 'export const handler = async () => { await new Promise((done) => setTimeout(done, 200)); return process.pid; };';

  it('gives each invocation an environment of its own, up to the bound', async () => {
    const host = hostOf(slow, {}, { maxEnvironments: 2 });
    const results = await Promise.all(Array.from({ length: 5 }, () => host.invoke({})));
    expect(results.map(({ kind }) => kind)).toEqual(['ok', 'ok', 'ok', 'ok', 'ok']);
    expect(new Set(results.map((result) => result.kind === 'ok' && result.payload)).size).toBe(2);
    expect(results.filter(({ cold }) => cold)).toHaveLength(2);
  });

  it('does not count idle environments that died', async () => {
    const host = hostOf(slow, {}, { maxEnvironments: 1 });
    await host.invoke({});
    process.kill(host.environments()[0]?.pid ?? 0, 'SIGKILL');
    await until(() => host.environments().length === 0, 'its end was noticed');
    expect(await host.invoke({})).toMatchObject({ kind: 'ok', cold: true });
  });
});

describe('the end', () => {
  it('of one environment by kill() fails the invocation in flight only', async () => {
    const host = hostOf(hang);
    const invocation = host.invoke({});
    await itRuns();
    const [{ pid, busy } = { pid: 0, busy: false }] = host.environments();
    expect(busy).toBe(true);
    await host.kill(pid);
    expect(await invocation).toMatchObject({ kind: 'error', errorType: 'Runtime.ExitError', errorMessage: expect.stringContaining('SIGKILL') as string });
    expect(isAlive(pid)).toBe(false);
    await expect(host.kill(pid)).rejects.toThrow(`pid ${pid}`);
  });

  it('of the host by close() ends frozen, running, starting and waiting alike', async () => {
    const host = hostOf('export const handler = async (event) => new Promise((done) => setTimeout(done, event.ms));', {}, { maxEnvironments: 2 });
    await Promise.all([host.invoke({ ms: 50 }), host.invoke({ ms: 50 })]);
    const pids = host.environments().map(({ pid }) => pid);
    await host.kill(pids[0] ?? 0);
    const invocations = [1, 2, 3].map(() => host.invoke({ ms: 60_000 }));
    await delay(20);
    await host.close();
    expect((await Promise.all(invocations)).map(({ kind }) => kind)).toEqual(['error', 'error', 'error']);
    expect(await host.invoke({ ms: 0 })).toMatchObject({ kind: 'error', errorType: 'Sandbox.Closed' });
    expect(pids.filter(isAlive)).toEqual([]);
  });

  // Where there is no setpriv (macOS) the kernel offers nothing of the kind.
  it.runIf(process.platform === 'linux')('of this process by SIGKILL takes a frozen environment along', async () => {
    const fn = functionOf('export const handler = async () => process.pid;');
    const script = `import { LambdaHost } from ${JSON.stringify(path.join(localDir, 'lambda-host.ts'))};
      const host = new LambdaHost(${JSON.stringify(fn)}, { region: 'eu-west-1', onLog: () => {} });
      console.log((await host.invoke({})).payload); setInterval(() => {}, 1000);`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    expect(isAlive(pid)).toBe(true);
    parent.kill('SIGKILL');
    try {
      await until(() => !isAlive(pid), 'the environment is gone');
    } finally {
      if (isAlive(pid)) process.kill(pid, 'SIGKILL');
    }
  });
});
