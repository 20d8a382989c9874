import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { LocalFile } from '../../bin/cli/target.ts';
import { hostileBehaviours } from '../../local/hostile/behaviours.ts';
import { messageBody, startEmbedded, until } from '../support/embedded.ts';
import { startRecorder } from '../support/recorder.ts';

const root = path.join(import.meta.dirname, '../..');
const started: ChildProcess[] = [];
afterEach(() => started.splice(0).forEach((child) => child.kill('SIGKILL')));

function start(...args: string[]) {
  const stateDir = mkdtempSync(path.join(tmpdir(), 'sluice-local-'));
  return { stateDir, ...startIn(stateDir, ...args) };
}

function startIn(stateDir: string, ...args: string[]) {
  const child = spawn(process.execPath, ['--import', './local/clock-preload.mjs', 'local/main.ts', '--state-dir', stateDir, ...args], { cwd: root });
  started.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  return { child, exited, output: () => output };
}

const localOf = (stateDir: string) =>
  until('local.json', () => (existsSync(path.join(stateDir, 'local.json')) ? (JSON.parse(readFileSync(path.join(stateDir, 'local.json'), 'utf8')) as LocalFile) : undefined), 30_000);
const workersOf = async (local: LocalFile) =>
  until('workers', async () => {
    const answer = await fetch(`${local.endpoint}/_sluice/environments?function=deliver`).catch(() => undefined);
    const workers = answer?.ok === true ? ((await answer.json()) as { pid: number }[]) : [];
    return workers.length > 0 ? workers.map((w) => w.pid) : undefined;
  });
const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};

describe('npm start', () => {
  it('shows a table from the records, stays up until Ctrl-C, and leaves nothing behind', async () => {
    const { stateDir, child, exited, output } = start();
    const local = await localOf(stateDir);
    const workers = await workersOf(local);
    await until('the table', () => /healthy\s+\w+\s+\d\/8\s+\d+/.test(output()) && output().includes('Try: npx sluice send'), 20_000);
    const second = startIn(stateDir);
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain('running already');
    expect(child.exitCode).toBeNull();

    child.kill('SIGINT');
    expect(await exited).toBe(0);
    await until('all workers are gone', () => workers.every((pid) => !isAlive(pid)));
    expect(existsSync(path.join(stateDir, 'local.json'))).toBe(false);
    await expect(fetch(local.endpoint)).rejects.toThrow();
  });

  it('takes its workers with it even when it is killed', async () => {
    const { stateDir, child, exited } = start();
    const workers = await workersOf(await localOf(stateDir));
    child.kill('SIGKILL');
    await exited;
    await until('all workers are gone', () => workers.every((pid) => !isAlive(pid)));
    // A file that a killed installation left does not keep the next one from starting.
    const next = startIn(stateDir, '--no-demo');
    await until('the next one is ready', () => next.output().includes('"ready":true'), 30_000);
    next.child.kill('SIGTERM');
    expect(await next.exited).toBe(0);
  });

  it('answers wrong options and --help as a command line should', async () => {
    const wrong = start('--concurrency', '0');
    expect(await wrong.exited).toBe(2);
    expect(wrong.output()).toContain('--concurrency: must be a whole number from 1 to 64 (got 0)');
    expect(await start('--nope').exited).toBe(2);
    const nobody = start('--consumers', 'friendly');
    expect(await nobody.exited).toBe(2);
    expect(nobody.output()).toContain('--consumers: must be demo or hostile (got friendly)');
    const none = start('--consumers', 'hostile', '--no-demo');
    expect(await none.exited).toBe(2);
    expect(none.output()).toContain('--no-demo has no consumers');
    const untold = start('--scenario', 'found-response');
    expect(await untold.exited).toBe(2);
    expect(untold.output()).toContain('--scenario: must be lost-response or slow-consumer (got found-response)');
    for (const [beside, why] of [[['--consumers', 'demo'], 'has a customer of its own'], [['--no-demo'], 'plays nothing'], [['--data', 'anywhere'], 'begins with a fresh installation']] as const) {
      const both = start('--scenario', 'lost-response', ...beside);
      expect(await both.exited).toBe(2);
      expect(both.output()).toContain(why);
    }
    const refused = start('--stage-config', '{"deliver":{"timeoutS":10}}');
    expect(await refused.exited).toBe(1);
    expect(refused.output()).toMatch(/deliver.timeoutS.*10/);
    expect(refused.output()).not.toContain('    at ');
    const help = start('--help');
    expect(await help.exited).toBe(0);
    expect(help.output()).toContain('--once');
    expect(help.output()).toContain('--consumers KIND');
    expect(help.output()).toMatch(/--scenario NAME .*\n?.*lost-response/);
  });
});

describe('--consumers hostile', () => {
  it('attempts every hostile endpoint, checks how that ended, and harms no healthy event', async () => {
    const { exited, output } = start('--consumers', 'hostile', '--once');
    const code = await exited;
    const lines = output().split('\n');
    const table = lines.slice(lines.findLastIndex((line) => line.startsWith('ENDPOINT')) + 1);
    for (const { name } of hostileBehaviours) {
      expect(table.find((line) => line.startsWith(`${name} `))).toMatch(/^\S+ +[1-3] +(answered|ambiguous|unsent) .* \d+ ms .* ok$/);
    }
    expect(output()).toMatch(/^ok {5}healthy: (\d+) of \1 events delivered exactly once/m);
    expect(output()).toMatch(/^ok {5}healthy: every signature verified/m);
    expect([code, output().match(/^FAILED .*/gm)]).toEqual([0, null]);
  });
});

describe('--scenario slow-consumer', () => {
  it('tells what a customer that answers after 25 seconds costs whom, and checks it', { timeout: 300_000 }, async () => {
    const { exited, output } = start('--scenario', 'slow-consumer', '--once');
    const code = await exited;
    expect([code, output().match(/^FAILED .*/gm)]).toEqual([0, null]);
    expectInOrder(output().split('\n'), [
      /acme-prod {2}100 events sent at once$/, /acme-prod {2}no room for \d+ of \d+: the lane has 8 slots$/, /acme-prod {2}\d+ held/, /acme-prod {2}breaker open after \d+ attempts/,
      /healthy {4}\d+ events meanwhile/, /acme-prod {2}alarm: acme-prod: .* \d+ waiting, none lost\. Next: sluice status acme-prod$/,
      // Percentiles are within 5 % of what was measured; whether the minute before offered more than the lane sustains is a matter of when the sweep comes.
      /^ {2}\$ npx sluice status acme-prod$/, /^Sustainable: /, /^95 of 100 requests end within (9\.[5-9]|1\d\.\d) s; 8 at a time are then .*(it falls behind|attempts failed)\./, /^acme-prod answered the ping: /, /acme-prod {2}all delivered/,
    ]);
  });
});

describe('--scenario lost-response', () => {
  it('tells what becomes of a lost answer, across a restart of everything, and checks it', async () => {
    const { stateDir, exited, output } = start('--scenario', 'lost-response', '--once');
    const code = await exited;
    expect([code, output().match(/^FAILED .*/gm)]).toEqual([0, null]);
    const told = output().split('\n').map((line) => /^ +[\d.]+ s {2}(?<name>\w*) +(?<text>.*)$/.exec(line)?.groups).filter((line) => line !== undefined);
    const storyOf = (name: string) => told.filter((line) => line['name'] === name || line['name'] === '').map((line) => line['text'] ?? '');
    expectInOrder(storyOf('reconciled'), [
      /^event evt_\w+ sent/, /^POST received, effect eff_1 committed, connection dropped$/, /^record: unknown \(headers \w+\), next look at [\d.]+ s$/,
      /^all processes stopped/, /^started again/, /^record: unknown/, /^clock moved/, /^GET \/effects\/evt_\w+: 200$/, /^record: delivered via lookup, reference eff_1$/, /^1 POST, 1 effect$/,
    ]);
    expectInOrder(storyOf('retried'), [
      /^event evt_\w+ sent/, /^POST received, effect eff_2 committed, connection dropped$/,
      /^POST received, marked as a possible duplicate, effect eff_2 is there already, answered 200$/, /^record: delivered via response$/, /^2 POSTs, 1 effect$/,
    ]);
    expect(existsSync(path.join(stateDir, 'local.json'))).toBe(false);
  });

  it('stays up when it has been told, and ends with Ctrl-C, in the middle of it too', async () => {
    const told = start('--scenario', 'lost-response');
    await until('it has been told', () => told.output().includes('Ctrl-C ends it'), 90_000);
    expect(told.child.exitCode).toBeNull();
    const early = start('--scenario', 'lost-response');
    await until('it has begun', () => early.output().includes('sent to the delivery queue'));
    for (const { child, exited } of [told, early]) {
      child.kill('SIGINT');
      expect(await exited).toBe(0);
    }
    expect(early.output()).not.toContain('    at ');
  });
});

/** Each pattern matches a line after the one before. */
function expectInOrder(lines: readonly string[], patterns: readonly RegExp[]): void {
  let from = 0;
  for (const pattern of patterns) {
    const at = lines.findIndex((line, i) => i >= from && pattern.test(line));
    expect(at, `${String(pattern)} in\n${lines.slice(from).join('\n')}`).toBeGreaterThanOrEqual(0);
    from = at + 1;
  }
}

describe('--data', () => {
  it('keeps what waits over a restart, and delivers it then', async () => {
    const dataDir = mkdtempSync(path.join(tmpdir(), 'sluice-data-'));
    const first = await startEmbedded({ args: ['--data', dataDir] });
    const consumer = await startRecorder(first.authority);
    consumer.reply((_r, nth) => ({ status: nth === 1 ? 503 : 200 }));
    await first.register('kept', consumer.url(), { retry: { baseS: 3_600 } });
    await first.send(messageBody('kept', 'evt_kept', '{"a":"é"}'));
    await until('the first attempt', async () => (await first.record('kept', 'evt_kept'))?.attempt === 1);
    expect(await first.stop()).toBe(0);

    const second = await startEmbedded({ args: ['--data', dataDir], authority: first.authority });
    try {
      expect(await second.record('kept', 'evt_kept')).toMatchObject({ state: 'waiting', attempt: 1 });
      await second.passDue('kept', 'evt_kept', 1);
      await until('the second attempt', async () => (await second.record('kept', 'evt_kept'))?.state === 'delivered');
      await second.drainQueue();
      expect(consumer.requests.map((r) => r.body.toString())).toEqual(['{"a":"é"}', '{"a":"é"}']);
    } finally {
      await consumer.close();
      await second.stop();
    }
  });
});
