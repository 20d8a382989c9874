import type { Command } from 'commander';
import { readDead } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import { isSelected } from '../../lambdas/shared/core/selection.ts';
import { addDropCommand } from './dlq-drop-command.ts';
import { addSelection, selectOf, wholeNumber, type SelectionOptions } from './dlq-selection.ts';
import { addTidyCommand } from './dlq-tidy-command.ts';
import type { Run } from './endpoint-commands.ts';
import { table, time } from './output.ts';
import { addReplayCommand } from './replay-command.ts';
import type { Target } from './target.ts';

/** Options of a command that works on the dead deliveries it has chosen. */
export interface ListOptions extends SelectionOptions {
  max?: string;
}

export function addDlqCommands(program: Command, run: Run): void {
  const dlq = program.command('dlq').description('look at dead letters and replay them');
  addSelection(dlq.command('ls').description('list dead deliveries, oldest first'))
    .option('--max <n>', 'at most this many')
    .action((options: ListOptions) =>
      run(async (target, out) => {
        const dead = await select(target, options);
        const rows = dead.map((r) => [time(r.lastEpochMs), r.endpointId === '' ? '?' : r.endpointId, r.eventId ?? '?', r.reason, String(r.attempt), r.detail]);
        out.result(dead, rows.length === 0 ? 'No dead deliveries.' : table(['SINCE', 'ENDPOINT', 'EVENT', 'REASON', 'ATTEMPTS', 'DETAIL'], rows));
      }),
    );
  addReplayCommand(dlq, run);
  addDropCommand(dlq, run);
  addTidyCommand(dlq, run);
}

/** Dead deliveries, oldest first. @throws CommandError on an option that is none */
export async function select(target: Target, options: ListOptions): Promise<DeadRecord[]> {
  const wanted = selectOf(options, Date.now());
  const max = options.max === undefined ? Number.MAX_SAFE_INTEGER : wholeNumber('--max', options.max);
  const dead = await readDead(target.db, target.deliveriesTable, wanted.endpointId);
  return dead.filter((record) => isSelected(record, wanted)).slice(0, max);
}
