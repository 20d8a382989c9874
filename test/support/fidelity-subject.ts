/** What a fidelity suite runs against: emulators in a child process, or a real account with SLUICE_FIDELITY_AWS=1. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { it } from 'vitest';
import type { CallEntry } from '../../local/call-log.ts';

export const isAws = process.env['SLUICE_FIDELITY_AWS'] === '1';

/** For what only an emulator can be asked: a clock that jumps, limits that are set, days that pass. */
export const itEmulated = isAws ? it.skip : it;

export interface ClientConfig {
  endpoint?: string;
  region?: string;
  credentials?: { accessKeyId: string; secretAccessKey: string };
  maxAttempts: number;
}

export interface Subject {
  config(caller?: string): ClientConfig;
  /** Lets time pass: an emulator's clock is moved, AWS is waited for. */
  pass(ms: number): Promise<void>;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
  calls(since?: number): Promise<CallEntry[]>;
  /** Stops and starts again on the same data, as `npm start` would; `kill` stops it without a chance to write anything. */
  restart(how?: 'stop' | 'kill'): Promise<void>;
  close(): Promise<void>;
}

const aws: Subject = {
  config: () => ({ maxAttempts: 3 }),
  pass: (ms) => sleep(ms),
  get: () => Promise.reject(new Error('AWS has no control routes')),
  post: () => Promise.reject(new Error('AWS has no control routes')),
  calls: () => Promise.reject(new Error('AWS has no call log')),
  restart: () => Promise.reject(new Error('AWS is not ours to restart')),
  close: () => Promise.resolve(),
};

interface Running {
  child: ChildProcess;
  endpoint: string;
}

async function start(args: string[]): Promise<Running> {
  const root = join(import.meta.dirname, '../..');
  const command = ['--import', join(root, 'local/clock-preload.mjs'), join(root, 'local/emulators-main.ts'), ...args];
  const child = spawn(process.execPath, command, { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = new Promise<never>((_, reject) => child.once('exit', (code) => reject(new Error(`the emulators ended with ${code}`))));
  exited.catch(() => undefined);
  const line = await Promise.race([new Promise<string>((resolve) => createInterface(child.stdout).once('line', resolve)), exited]);
  return { child, endpoint: (JSON.parse(line) as { endpoint: string }).endpoint };
}

async function stop({ child }: Running, how: 'stop' | 'kill'): Promise<void> {
  const exited = new Promise((resolve) => child.once('exit', resolve));
  if (how === 'kill') child.kill('SIGKILL');
  else child.stdin?.end();
  await exited;
}

/** Starts emulators with a clock and, if `isPersistent`, data of their own. */
export async function startSubject(options: { isPersistent?: boolean; args?: string[] } = {}): Promise<Subject> {
  if (isAws) return aws;
  const directory = mkdtempSync(join(tmpdir(), 'sluice-test-'));
  const args = ['--clock', join(directory, 'clock'), ...(options.isPersistent ? ['--data-dir', directory] : []), ...(options.args ?? [])];
  let running = await start(args);
  const request = async <T>(path: string, init?: RequestInit): Promise<T> => {
    const response = await fetch(running.endpoint + path, init);
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  };
  const post = <T>(path: string, body: unknown) => request<T>(path, { method: 'POST', body: JSON.stringify(body) });
  return {
    config: (caller = 'TestRole') => ({
      endpoint: running.endpoint, region: 'eu-west-1', credentials: { accessKeyId: caller, secretAccessKey: 'secret' }, maxAttempts: 1,
    }),
    pass: async (ms) => void (await post('/_sluice/clock', { advanceMs: ms })),
    get: (path) => request(path),
    post,
    calls: (since = 0) => request(`/_sluice/calls?since=${since}`),
    restart: async (how = 'stop') => {
      await stop(running, how);
      running = await start(args);
    },
    close: async () => {
      await stop(running, 'stop');
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Looks again until `look` gives something other than undefined or false. */
export async function until<T>(look: () => Promise<T | undefined | false>, limitMs = isAws ? 60_000 : 5_000): Promise<T> {
  const endMs = performance.now() + limitMs;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    if (performance.now() > endMs) throw new Error(`not seen within ${limitMs} ms: ${look.toString()}`);
    await sleep(isAws ? 500 : 20);
  }
}

/** The error that `promise` rejects with; its name and message are what callers branch on. */
export async function refusal(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  const result = await promise.then(() => undefined, (error: unknown) => error);
  if (!(result instanceof Error)) throw new Error('expected a refusal');
  return result as Error & Record<string, unknown>;
}
