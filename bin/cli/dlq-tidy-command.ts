import type { Command } from 'commander';
import { tidyDeadLetters } from '../../lambdas/shared/adapters/dead-letter-walk.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import { createSqsDeadLetters } from '../../lambdas/shared/adapters/sqs-dead-letters.ts';
import { dlqWalk } from '../../lambdas/shared/limits/numbers.ts';
import type { Tidied } from '../../lambdas/shared/ports/index.ts';
import type { Run } from './endpoint-commands.ts';
import { CommandError, exit, failure, type Output } from './output.ts';
import type { Target } from './target.ts';

interface TidyOptions {
  dryRun?: boolean;
}

export function addTidyCommand(dlq: Command, run: Run): void {
  dlq
    .command('tidy')
    .description('delete copies in the dead-letter queue whose delivery has gone on, was delivered or dropped')
    .option('--dry-run', 'only count')
    .addHelpText('after', '\nNever deletes a copy that a replay or redrive could send. The sweep does the same, some copies a minute. Safe to interrupt and to repeat.')
    .action((options: TidyOptions) => run((target, out) => tidy(target, out, options.dryRun ?? false)));
}

async function tidy(target: Target, out: Output, isDryRun: boolean): Promise<void> {
  out.note(`Target: ${target.name}`);
  const queue = createSqsDeadLetters(target.sqs, target.deadLetterQueueUrl, dlqWalk);
  const records = createDynamoDbRecords(target.db, { endpoints: target.endpointsTable, deliveries: target.deliveriesTable });
  const { stop, hidden, oldestSentEpochMs: _, ...tidied } = await tidyDeadLetters({ queue, records }, { mayGoOn: () => true, isDryRun, onPage: (soFar) => out.progress(progress(soFar)) });
  out.progress(progress(tidied), true);
  if (hidden > 0) out.note(`${hidden} copies could not be put back at once; they return by themselves within ${dlqWalk.lookS} s.`);
  out.result(tidied, described(tidied, isDryRun));
  if (stop === 'moving') throw failure('SQS is moving messages out of the dead-letter queue (a redrive), and would miss what is looked at here. Repeat when it has ended: the console shows it, and aws sqs list-message-move-tasks.');
  const left = tidied.stale - tidied.deleted;
  if (!isDryRun && left > 0) throw new CommandError(exit.partly, `${left} stale copies could not be deleted; they deliver nothing. Repeat in two minutes.`);
}

const progress = ({ looked, deleted }: Tidied) => `Looked at ${looked} copies, deleted ${deleted}`;

function described({ looked, stale, deleted, kept, unknown }: Tidied, isDryRun: boolean): string {
  const done = isDryRun ? 'nothing was deleted' : `${deleted} deleted`;
  return `${looked} copies: ${stale} stale (${done}), ${kept} kept for a replay, ${unknown} kept because no record tells what they are.`;
}
