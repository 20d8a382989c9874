import type { Command } from 'commander';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { lookedForAnew } from '../../lambdas/shared/core/reconcile.ts';
import { nameOf } from './describe-record.ts';
import { registryOf, type Run } from './endpoint-commands.ts';
import { replay } from '../../lambdas/shared/limits/numbers.ts';
import { CommandError, exit, failure, type Output } from './output.ts';
import { wakeNow } from './pause-commands.ts';
import type { Target } from './target.ts';
import { createUnclaimedWriter, leaseIdOf } from './unclaimed-writer.ts';
import { askedEndpoint, choose, stillUnknown, whatWaits, type Chosen } from './unknown-selection.ts';

export function addLookCommand(unknown: Command, run: Run): void {
  unknown
    .command('look <id> [event...]')
    .description('have unknown deliveries of an endpoint looked for again from now on, such as after its look-up was mended')
    .option('--all', 'every unknown delivery of the endpoint')
    .addHelpText('after', '\nA look is a read, and sends nothing. Its whole schedule of looks begins again; how long the consumer may take does not.')
    .action((id: string, eventIds: string[], options: { all?: boolean }) => run((target, out) => look(target, out, id, eventIds, options.all ?? false)));
}

async function look(target: Target, out: Output, id: string, eventIds: readonly string[], all: boolean): Promise<void> {
  const chosen = await choose(target, id, eventIds, all);
  const { lookup } = await askedEndpoint(target, id);
  if (lookup === null) throw failure(`Endpoint ${id} declares no look-up, and nothing can be looked for. Declare one with sluice endpoint put ${id} --set lookup=…, or decide: sluice unknown resolve ${id}`);
  out.note(`Target: ${target.name}`);
  const { counts, problems } = await lookAnew(target, out, chosen);
  const isOrdered = counts.asked === 0 || (await order(target, id));
  const lines = [
    `Looked for again from now on: ${counts.asked} of ${chosen.records.length}. ${(await whatWaits(target, id)) ?? `See: sluice unknown ls --endpoint ${id}`}`,
    ...chosen.others,
    ...(counts.moved > 0 ? [`No longer unknown when their turn came, and left alone: ${counts.moved}.`] : []),
    ...problems,
  ];
  out.result({ selected: chosen.records.length, ...counts, notUnknown: chosen.others.length }, lines.join('\n'));
  if (counts.busy > 0) throw new CommandError(exit.partly, `${counts.busy} are not looked for anew: a worker has a claim on them, or they could not be written. Repeat the command in a minute.`);
  if (!isOrdered) throw new CommandError(exit.partly, 'The drain may not know of it yet, and looks within the hour. Repeat the command to have it look now.');
}

async function lookAnew(target: Target, out: Output, { records }: Chosen): Promise<{ counts: { asked: number; busy: number; moved: number }; problems: string[] }> {
  const writer = createUnclaimedWriter(target);
  const counts = { asked: 0, busy: 0, moved: 0 };
  const problems: string[] = [];
  const progress = () => `${counts.asked} of ${records.length} are looked for again`;
  for (const record of records) {
    const leaseId = leaseIdOf('look');
    const changed = await writer.write(record, { leaseId, still: stillUnknown(record), to: (from) => lookedForAnew(from, Date.now(), leaseId) });
    counts[changed.kind === 'written' ? 'asked' : changed.kind]++;
    // The first, so that the drain begins; the others are noted with the last.
    if (changed.kind === 'written' && counts.asked === 1) await order(target, record.endpointId);
    if (changed.kind === 'busy' && problems.length < replay.maxProblems) problems.push(`Not looked for anew: ${nameOf(record)}: ${changed.why}`);
    out.progress(progress());
  }
  out.progress(progress(), true);
  return { counts, problems };
}

/** Has the drain come now. False where that is not known: the sweep finds it within the hour. */
async function order(target: Target, id: string): Promise<boolean> {
  const nowEpochMs = Date.now();
  const lanes = createDynamoDbLanes(target.db, { endpoints: target.endpointsTable, deliveries: target.deliveriesTable });
  try {
    const answer = await lanes.hold(id, { count: 0, nowEpochMs, wakeAtEpochMs: nowEpochMs, isReady: false });
    const lane = (await registryOf(target).get(id))?.lane;
    if (answer.kind !== 'noted' || lane === undefined) return false;
    await wakeNow(target, id, lane);
    return true;
  } catch {
    return false;
  }
}
