import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, describe, expect, it } from 'vitest';
import { SteerableClock } from '../../local/clock.ts';

const preload = join(import.meta.dirname, '../../local/clock-preload.mjs');
const module = join(import.meta.dirname, '../../local/clock.ts');
const directory = mkdtempSync(join(tmpdir(), 'sluice-clock-'));
let files = 0;
const newFile = () => join(directory, `not-yet-${++files}`, 'clock');
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Runs a script with the preload and returns what it printed as JSON. */
function run(script: string, file?: string): unknown {
  const env = { ...process.env, ...(file ? { SLUICE_CLOCK_FILE: file } : {}) };
  const args = ['--import', preload, '--input-type=module', '--eval', script];
  return JSON.parse(execFileSync(process.execPath, args, { env, encoding: 'utf8' }));
}

const dayMs = 86_400_000;
const isNear = (value: unknown, expected: number) => Math.abs(Number(value) - expected) < 20_000;

describe('SteerableClock', () => {
  it('starts at real time, advances, steps back only when told to, and is kept in its file', () => {
    const file = newFile();
    const clock = SteerableClock.open(file);
    expect(clock.offsetMs()).toBe(0);
    clock.advance(3 * dayMs);
    clock.advance(-1_000);
    expect(clock.offsetMs()).toBe(3 * dayMs - 1_000);
    expect(SteerableClock.open(file).offsetMs()).toBe(3 * dayMs - 1_000);
    expect(isNear(clock.nowMs(), Date.now() + 3 * dayMs)).toBe(true);
    expect(() => clock.advance(NaN)).toThrow(RangeError);
  });
});

describe('the preload', () => {
  it('leaves Date alone without a clock file', () => {
    expect(run('console.log(JSON.stringify([Date.now(), String(Date).includes("native code")]))')).toEqual([expect.any(Number), true]);
  });

  it('steers now(), new Date() and Date(), and nothing that was given a time', () => {
    const file = newFile();
    SteerableClock.open(file).advance(1000 * dayMs);
    const script = `
      const given = new Date(0), now = new Date();
      class Own extends Date {}
      console.log(JSON.stringify({
        now: Date.now(), instance: now.getTime(), text: Date.parse(Date()), own: new Own().getTime(), given: given.getTime(),
        utc: Date.UTC(1970, 0, 1), parse: Date.parse('1970-01-01'), isDate: now instanceof Date && new Own() instanceof Own,
        constructor: now.constructor === Date, name: Date.name, clone: structuredClone(now).getTime() === now.getTime(),
      }));`;
    const seen = run(script, file) as Record<string, unknown>;
    const expected = Date.now() + 1000 * dayMs;
    for (const name of ['now', 'instance', 'text', 'own']) expect([name, isNear(seen[name], expected)]).toEqual([name, true]);
    expect(seen).toMatchObject({ given: 0, utc: 0, parse: 0, isDate: true, constructor: true, name: 'Date', clone: true });
  });

  it('does not add the offset twice for a clock in the same process', () => {
    const file = newFile();
    SteerableClock.open(file).advance(10 * dayMs);
    const script = `
      const { SteerableClock } = await import(${JSON.stringify(module)});
      const clock = SteerableClock.open(${JSON.stringify(file)});
      console.log(JSON.stringify(clock.nowMs() - Date.now()));`;
    expect(Math.abs(run(script, file) as number)).toBeLessThan(60_000);
  });

  it('steers a process that opens its clock later', () => {
    const file = newFile();
    SteerableClock.open(file).advance(10 * dayMs);
    const script = `
      const before = Date.now();
      const { SteerableClock } = await import(${JSON.stringify(module)});
      SteerableClock.open(${JSON.stringify(file)});
      console.log(JSON.stringify(Date.now() - before));`;
    expect(isNear(run(script), 10 * dayMs)).toBe(true);
  });

  it('shows a change at once to a process that runs', async () => {
    const file = newFile();
    const clock = SteerableClock.open(file);
    const script = 'process.stdin.on("data", () => console.log(Date.now()));';
    const child = spawn(process.execPath, ['--import', preload, '--eval', script], { env: { ...process.env, SLUICE_CLOCK_FILE: file } });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const ask = async () => {
      child.stdin.write('?');
      return Number((await lines.next()).value);
    };
    const first = await ask();
    clock.advance(5 * dayMs);
    const second = await ask();
    clock.advance(-5 * dayMs);
    const third = await ask();
    child.kill();
    expect([isNear(second - first, 5 * dayMs), isNear(third - second, -5 * dayMs)]).toEqual([true, true]);
  });
});
