import type { Command } from 'commander';
import { dropped } from '../../lambdas/shared/core/decide.ts';
import type { DeadRecord, DroppedRecord } from '../../lambdas/shared/core/record.ts';
import { select, type ListOptions } from './dlq-commands.ts';
import { addSelection, inWords, selectOf } from './dlq-selection.ts';
import type { Run } from './endpoint-commands.ts';
import { CommandError, exit, usageError, type Output } from './output.ts';
import { addSaid, saidOf, type Said, type SaidOptions } from './said.ts';
import type { Target } from './target.ts';
import { createPayloadRemover, createUnclaimedWriter, leaseIdOf, type Change } from './unclaimed-writer.ts';

interface DropOptions extends ListOptions, SaidOptions {
  dryRun?: boolean;
  yes?: boolean;
}

export function addDropCommand(dlq: Command, run: Run): void {
  const chosen = addSelection(dlq.command('drop').description('give dead deliveries up for good: they are never sent again, and their payloads are removed'))
    .option('--max <n>', 'at most this many');
  addSaid(chosen)
    .option('--dry-run', 'only count')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nSafe to interrupt and to repeat. sluice show says who dropped a delivery, when and why, for 30 days.\n\nExample:\n  sluice dlq drop --endpoint acme-prod --reason gone --why "closed their account, ticket 4711"')
    .action((options: DropOptions) => run((target, out) => drop(target, out, options)));
}

async function drop(target: Target, out: Output, options: DropOptions): Promise<void> {
  const chosen = inWords(selectOf(options, Date.now()));
  if (chosen === '') throw usageError('Say what to drop: --endpoint, --event, --reason, --type, --since or --until.');
  const said = saidOf(options);
  const selected = await select(target, options);
  out.note(`Target: ${target.name}`);
  if (options.dryRun === true || selected.length === 0) {
    out.result({ selected: selected.length, dropped: 0 }, `${selected.length} dead deliveries match; nothing was dropped.`);
    return;
  }
  await out.confirm(`Drop ${selected.length} dead deliveries ${chosen} on ${target.name}? They cannot be replayed afterwards.`, options.yes ?? false);
  const [writer, payloads] = [createUnclaimedWriter(target), createPayloadRemover(target)];
  const counts = { dropped: 0, busy: 0, moved: 0 };
  const progress = () => `Dropped ${counts.dropped} of ${selected.length}`;
  // One after the other: each is a transaction with its endpoint's lane, and side by side they would refuse each other.
  for (const record of selected) {
    const { kind } = await writer.write(record, dropOf(record, said));
    if (kind === 'written') await payloads.remove(record);
    counts[kind === 'written' ? 'dropped' : kind]++;
    out.progress(progress());
  }
  out.progress(progress(), true);
  payloads.report(out);
  const { busy, moved } = counts;
  const lines = [
    `Dropped ${counts.dropped} of ${selected.length}. Their copies in the dead-letter queue are stale now: the sweep deletes them, or sluice dlq tidy.`,
    ...(moved > 0 ? [`No longer dead when their turn came, and left alone: ${moved}.`] : []),
    ...(busy > 0 ? [`Not dropped: ${busy}.`] : []),
  ];
  out.result({ selected: selected.length, ...counts }, lines.join('\n'));
  if (busy > 0) throw new CommandError(exit.partly, `${busy} were not dropped: a worker has a claim on them, or they could not be written. Repeat in a minute.`);
}

/** Of a buried record, in the generation in which it was chosen. */
function dropOf(record: DeadRecord, said: Said): Change<DeadRecord, DroppedRecord> {
  const leaseId = leaseIdOf('drop');
  const nowEpochMs = Date.now();
  return {
    leaseId,
    still: (now) => (now?.state === 'dead' && now.phase === 'buried' && now.generation === record.generation ? now : undefined),
    to: (from) => dropped(from, { ...said, nowEpochMs, leaseId }),
  };
}
