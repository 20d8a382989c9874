import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { records as limits } from '../../lambdas/shared/limits/numbers.ts';
import { printable, usageError } from './output.ts';

/** What an operator says of a decision that is kept in the record. */
export interface Said {
  readonly why: string;
  readonly by: string;
}

export interface SaidOptions {
  why: string;
  by?: string;
}

export function addSaid(command: Command): Command {
  return command
    .requiredOption('--why <text>', `why, for whoever asks later; at most ${limits.maxDetailLength} characters`)
    .option('--by <name>', 'who says so; else the name of the user who runs this');
}

/** @throws CommandError on a text that cannot be kept */
export function saidOf(options: SaidOptions): Said {
  return { why: checkedText('--why', options.why), by: checkedText('--by', options.by ?? userName()) };
}

/** One line, kept in each record that is decided. */
function checkedText(option: string, text: string): string {
  const trimmed = text.trim().replaceAll(/\s+/g, ' ');
  if (trimmed === '' || trimmed.length > limits.maxDetailLength || !trimmed.isWellFormed()) {
    throw usageError(`${option}: must be a text of 1 to ${limits.maxDetailLength} characters (got ${trimmed.length})`);
  }
  if (printable(trimmed) !== trimmed) throw usageError(`${option}: must not hold control characters`);
  return trimmed;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    throw usageError('Nobody knows the name of the user who runs this: give --by NAME.');
  }
}
