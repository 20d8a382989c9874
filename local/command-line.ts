/** The command line, as a person at this installation would use it in a play. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import type { EmbeddedAws } from './embedded-aws.ts';

export interface Said {
  readonly code: number;
  readonly stdout: string;
}

/** Runs `sluice` with these arguments, by the installation's clock. `isShown`: with what it is asked and says on the terminal. */
export function runSluice({ clock }: EmbeddedAws, stateDir: string, args: readonly string[], isShown: boolean): Promise<Said> {
  const file = path.join(import.meta.dirname, '../bin/sluice.ts');
  const preload = path.join(import.meta.dirname, 'clock-preload.mjs');
  const env = { ...process.env, SLUICE_LOCAL_FILE: path.join(stateDir, 'local.json'), SLUICE_CLOCK_FILE: clock.file };
  if (isShown) console.log(`  $ npx sluice ${args.join(' ')}`);
  const child = spawn(process.execPath, ['--import', preload, file, '--local', ...args], { env, stdio: ['ignore', 'pipe', isShown ? 'inherit' : 'ignore'] });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (isShown) process.stdout.write(text);
  });
  return new Promise((resolve) => child.once('close', (code) => resolve({ code: code ?? 1, stdout })));
}
