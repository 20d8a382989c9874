import { readFile } from 'node:fs/promises';
import readline from 'node:readline/promises';
import { text } from 'node:stream/consumers';

/** Exit codes of the command line. */
export const exit = { done: 0, failed: 1, usage: 2, partly: 3 } as const;

/** Ends a command with a message that says what to do next. */
export class CommandError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export const usageError = (message: string) => new CommandError(exit.usage, message);
export const failure = (message: string) => new CommandError(exit.failed, message);

/** Results go to standard output; notes, progress and errors to standard error, so that `--json` stays parseable. */
export class Output {
  readonly json: boolean;
  constructor(json: boolean) {
    this.json = json;
  }

  result(value: unknown, human: string): void {
    process.stdout.write(`${this.json ? JSON.stringify(value) : human}\n`);
  }

  note(text: string): void {
    process.stderr.write(`${text}\n`);
  }

  /** Overwrites itself on a terminal; elsewhere only the last one is worth a line. */
  progress(text: string, last = false): void {
    if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}${last ? '\n' : ''}`);
    else if (last) this.note(text);
  }

  /** Asks before something destructive. Without a terminal only `--yes` is an answer. */
  async confirm(question: string, yes: boolean): Promise<void> {
    if (yes) return;
    if (!process.stdin.isTTY) throw usageError(`${question}\nNot a terminal, so nobody can confirm: repeat with --yes.`);
    const terminal = readline.createInterface({ input: process.stdin, output: process.stderr });
    const answer = await terminal.question(`${question} [y/N] `);
    terminal.close();
    if (!/^y(es)?$/i.test(answer.trim())) throw failure('Nothing was changed.');
  }
}

/** Columns padded to their widest cell. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((cell, i) => Math.max(cell.length, ...rows.map((row) => row[i]?.length ?? 0)));
  return [header, ...rows].map((row) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ').trimEnd()).join('\n');
}

/** Text of a file, or of standard input for `-`; `option` is named where it cannot be read. */
export async function readInput(option: string, name: string): Promise<string> {
  try {
    return name === '-' ? await text(process.stdin) : await readFile(name, 'utf8');
  } catch (error) {
    throw usageError(`${option} ${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

export function time(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
