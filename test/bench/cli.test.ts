import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { judge, type Bench } from '../../bench/bench.ts';
import { runCli } from '../../bench/cli.ts';
import { benches, type Entry } from '../../bench/registry.ts';

const root = path.join(import.meta.dirname, '../..');

interface Result {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** As a person would; `-s` keeps npm's own banner out of standard output. */
function npmRun(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Result> {
  const child = spawn('npm', ['run', '-s', 'bench', '--', ...args], { cwd: root, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const result = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) child[stream].setEncoding('utf8').on('data', (text: string) => (result[stream] += text));
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, ...result })));
}

const reporting = (value: number): Bench => ({
  run: (progress) => {
    progress('under way');
    const ceilings = [judge({ name: 'units', source: 'test', max: 3 }, value), judge({ name: 'share', source: 'test', min: 0.5 }, 1)];
    return Promise.resolve({ name: 'fake', rows: [{ table: 'figures', units: value }], ceilings, notes: [] });
  },
});
const entry = (bench: Bench): Entry => ({ summary: 'for this test', load: () => Promise.resolve({ bench }) });
const fakes = {
  holds: entry(reporting(3)),
  misses: entry(reporting(3.1)),
  throws: entry({ run: () => Promise.reject(new Error('nothing was measured')) }),
};

async function run(...args: string[]): Promise<Result> {
  const result = { stdout: '', stderr: '' };
  const code = await runCli(args, fakes, { out: (text) => (result.stdout += text), err: (text) => (result.stderr += text) });
  return { code, ...result };
}

describe('a benchmark', () => {
  it('prints tables, and its progress beside them', async () => {
    const { code, stdout, stderr } = await run('misses');
    expect(code).toBe(0);
    expect(stdout).toContain('figures\n  units\n    3.1\n');
    expect(stdout).toContain('MISSED');
    expect(stdout).not.toContain('under way');
    expect(stderr).toBe('bench misses: under way\n');
  });

  it('prints with --json exactly one object', async () => {
    const { code, stdout } = await run('misses', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      name: 'fake',
      rows: [{ table: 'figures', units: 3.1 }],
      ceilings: [
        { name: 'units', value: 3.1, max: 3, ok: false },
        { name: 'share', value: 1, min: 0.5, ok: true },
      ],
    });
  });

  it('fails with --check when a ceiling is missed, and says which', async () => {
    const missing = await run('misses', '--check', '--json');
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('MISSED units: 3.1, must be at most 3') as string });
    expect(JSON.parse(missing.stdout)).toMatchObject({ name: 'fake' });
    expect(await run('holds', '--check')).toMatchObject({ code: 0, stderr: 'bench holds: under way\n' });
  });

  it('that fails exits with 1 and prints no figures', async () => {
    expect(await run('throws', '--json')).toEqual({ code: 1, stdout: '', stderr: 'bench: nothing was measured\n' });
  });
});

describe('the command line', () => {
  it('teaches with --help', async () => {
    const { code, stdout } = await npmRun(['--help']);
    expect(code).toBe(0);
    for (const [name, { summary }] of Object.entries(benches)) expect(stdout).toMatch(new RegExp(`^  ${name} +${summary}$`, 'm'));
    for (const part of ['Usage: npm run bench -- [options] <name>', '--json', '--check', 'npm run -s bench', 'Exit codes: 0 done, 1 failed', '2 usage']) {
      expect(stdout).toContain(part);
    }
  });

  it('teaches without a name, which is a usage error', async () => {
    const { code, stdout, stderr } = await run();
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    for (const part of ["missing required argument 'name'", '  holds ', '  misses', 'Exit codes:']) expect(stderr).toContain(part);
  });

  it('names what there is when a name is unknown', async () => {
    expect(await npmRun(['speed'])).toEqual({ code: 2, stdout: '', stderr: `bench: there is no benchmark speed; there are: ${Object.keys(benches).join(', ')}\n` });
    expect(await run('toString')).toMatchObject({ code: 2, stderr: expect.stringContaining('there are: holds, misses, throws') as string });
  });

  it.each([[['holds', 'misses']], [['holds', '--nope']]])('refuses %j', async (args) => {
    expect(await run(...args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Benchmarks:') as string });
  });
});

describe('cost', () => {
  it('keeps within its ceilings on the real stack, prints one object, and leaves nothing behind', async () => {
    const TMPDIR = mkdtempSync(path.join(tmpdir(), 'sluice-bench-test-'));
    const { code, stdout, stderr } = await npmRun(['cost', '--json', '--check'], { TMPDIR });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(readdirSync(TMPDIR).filter((name) => name.startsWith('sluice-'))).toEqual([]);
    rmSync(TMPDIR, { recursive: true });

    const report = JSON.parse(stdout) as { name: string; rows: Record<string, unknown>[]; ceilings: { ok: boolean; value: number }[] };
    expect(Object.keys(report)).toEqual(['name', 'rows', 'ceilings']);
    expect(report.ceilings).toHaveLength(11);
    expect(report.ceilings.every(({ ok }) => ok)).toBe(true);
    const rows = (table: string) => report.rows.filter((row) => row['table'] === table);
    // Cheaper than this would mean that calls were missed: a settle each, and a read.
    for (const { writeUnits, readUnits } of rows('per delivered event')) {
      expect(writeUnits).toBeGreaterThan(1);
      expect(readUnits).toBeGreaterThanOrEqual(1);
    }
    const more = rows('more than without it, an event, and dollars a million');
    expect(more).toMatchObject([{ for: '4 KB of a payload that is held', writeUnits: 8 }, { for: 'a bound on attempts a day', writeUnits: 1, readUnits: 0 }]);
    expect(rows('leases that share a lane, one event at a time').map(({ leases }) => leases)).toEqual([1, 2, 4, 8, 16, 32]);
    expect(rows("lane item, by DynamoDB's rules of size").map(({ lane }) => lane)).toEqual(['idle', 'idle, with a full window', 'one lease with ten claims', '8 leases with one claim each']);
    expect(rows('list prices, us-east-1, dollars a million')).toHaveLength(6);
  });
});
