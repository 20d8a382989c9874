import { spawn } from 'node:child_process';
import path from 'node:path';

const file = path.join(import.meta.dirname, '../../bin/sluice.ts');

const preload = path.join(import.meta.dirname, '../../local/clock-preload.mjs');

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  json<T>(): T;
}

/** What to run for the command line against the installation of `localFile`, by the installation's clock, which tests move. */
export function cliProcess(localFile: string, args: readonly string[]): { file: string; args: string[]; env: NodeJS.ProcessEnv } {
  const clock = path.join(path.dirname(localFile), 'clock');
  const env = { ...process.env, SLUICE_LOCAL_FILE: localFile, SLUICE_STACK: '', SLUICE_CLOCK_FILE: clock };
  return { file: process.execPath, args: ['--import', preload, file, ...args], env };
}

/** Runs the command line as a user would, against the installation of `localFile`. */
export function runCli(localFile: string, args: readonly string[], input = ''): Promise<CliResult> {
  const run = cliProcess(localFile, args);
  const child = spawn(run.file, run.args, { env: run.env, stdio: ['pipe', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  // A command that refuses its arguments may end before it has read anything.
  child.stdin.on('error', () => undefined).end(input);
  return new Promise((resolve) =>
    child.once('close', (code) => resolve({ code: code ?? -1, stdout, stderr, json: <T>() => JSON.parse(stdout) as T })),
  );
}
