import { readFileSync } from 'node:fs';
import path from 'node:path';

/** Process of the local installation that uses this state directory, if it is alive. */
export function runningPid(stateDir: string): number | undefined {
  try {
    const { pid } = JSON.parse(readFileSync(path.join(stateDir, 'local.json'), 'utf8')) as { pid: number };
    process.kill(pid, 0);
    return pid;
  } catch {
    return undefined;
  }
}
