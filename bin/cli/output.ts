import { readFile } from 'node:fs/promises';
import readline from 'node:readline/promises';
import { buffer } from 'node:stream/consumers';

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
    process.stdout.write(`${this.json ? JSON.stringify(value) : printable(human)}\n`);
  }

  note(text: string): void {
    process.stderr.write(`${printable(text)}\n`);
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

/** Text of strangers may hold escape sequences that a terminal would obey: control characters are shown, not sent. */
export function printable(text: string): string {
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

/** Columns padded to their widest cell; a cell is one line. */
export function table(header: readonly string[], cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map((cell) => printable(cell).replaceAll('\n', '\\n')));
  const widths = header.map((cell, i) => Math.max(cell.length, ...rows.map((row) => row[i]?.length ?? 0)));
  return [header, ...rows].map((row) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ').trimEnd()).join('\n');
}

/** Text of a file, or of standard input for `-`; `option` is named where it cannot be read. Never alters a byte. */
export async function readInput(option: string, name: string): Promise<string> {
  const bytes = await (name === '-' ? buffer(process.stdin) : readFile(name)).catch((error: unknown) => {
    throw usageError(`${option} ${name}: ${error instanceof Error ? error.message : String(error)}`);
  });
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw usageError(`${option} ${name}: is not UTF-8 text; a producer sends such bytes as payloadBase64`);
  }
}

export function time(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
