import { Option, type Command } from 'commander';
import { dropped } from '../../lambdas/shared/core/decide.ts';
import { referenceFrom } from '../../lambdas/shared/core/lookup.ts';
import { knownToBeDelivered } from '../../lambdas/shared/core/reconcile.ts';
import type { UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { headers } from '../../lambdas/shared/limits/names.ts';
import { lookup as limits, replay } from '../../lambdas/shared/limits/numbers.ts';
import { nameOf } from './describe-record.ts';
import type { Run } from './endpoint-commands.ts';
import { CommandError, exit, usageError, type Output } from './output.ts';
import { addSaid, saidOf, type Said, type SaidOptions } from './said.ts';
import type { Target } from './target.ts';
import { createPayloadRemover, createUnclaimedWriter, leaseIdOf, type Changed } from './unclaimed-writer.ts';
import { createResender } from './unknown-resend.ts';
import { askedEndpoint, choose, stillUnknown, whatWaits, type Chosen } from './unknown-selection.ts';

const decisions = ['delivered', 'resend', 'drop'] as const;
type Decision = (typeof decisions)[number];

interface ResolveOptions extends SaidOptions {
  as: Decision;
  reference?: string;
  all?: boolean;
  dryRun?: boolean;
  yes?: boolean;
}

export function addResolveCommand(unknown: Command, run: Run): void {
  const resolving = unknown
    .command('resolve <id> [event...]')
    .description('decide what becomes of unknown deliveries of an endpoint: known to be delivered, sent again, or dropped')
    .addOption(new Option('--as <decision>', 'delivered: the consumer has it; resend: it has not; drop: it is never sent').choices(decisions).makeOptionMandatory());
  addSaid(resolving)
    .option('--reference <id>', 'the id that the consumer has given it; with --as delivered, and one event')
    .option('--all', 'every unknown delivery of the endpoint')
    .option('--dry-run', 'only count')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nSafe to interrupt and to repeat. sluice show says who has decided, when and why.\n\nExamples:\n  sluice unknown resolve acme-prod evt_01J9 --as delivered --why "order 4711 is there" --reference 4711\n  sluice unknown resolve acme-prod --all --as resend --why "restored from a backup of noon, ticket 815"')
    .action((id: string, eventIds: string[], options: ResolveOptions) => run((target, out) => resolve(target, out, { id, eventIds, options })));
}

interface Asked {
  readonly id: string;
  readonly eventIds: readonly string[];
  readonly options: ResolveOptions;
}

async function resolve(target: Target, out: Output, { id, eventIds, options }: Asked): Promise<void> {
  const said = saidOf(options);
  const reference = checkedReference(eventIds, options);
  const { as } = options;
  const chosen = await choose(target, id, eventIds, options.all ?? false);
  if (as === 'resend') await askedEndpoint(target, id);
  out.note(`Target: ${target.name}`);
  const selected = chosen.records.length;
  if (options.dryRun === true || selected === 0) {
    out.result({ as, selected, ...noneYet, notUnknown: chosen.others.length }, [`${selected} unknown deliveries match; nothing was changed.`, ...chosen.others].join('\n'));
    return;
  }
  await out.confirm(questionOf(target, as, chosen), options.yes ?? false);
  const { counts, problems } = await decideAll(target, out, { id, as, said, reference, chosen });
  const sent = as === 'resend' && counts.resolved > 0 ? ` ${(await whatWaits(target, id)) ?? `They are sent at the pace of the endpoint's lane. See: sluice status ${id}`}` : '';
  const lines = [
    `${doneInWords[as]}: ${counts.resolved} of ${selected}.${sent}`,
    ...chosen.others,
    ...(counts.moved > 0 ? [`No longer unknown when their turn came, and left alone: ${counts.moved}. See: sluice show ${id} EVENT`] : []),
    ...(counts.noPayload > 0 ? [`Their payload is gone, or cannot be read, and nothing of them can be sent: ${counts.noPayload}. They can only be resolved as delivered or drop; or the producer sends them under another event id.`] : []),
    ...problems,
  ];
  out.result({ as, selected, ...counts, notUnknown: chosen.others.length }, lines.join('\n'));
  const left = counts.busy + counts.noPayload;
  if (left > 0) throw new CommandError(exit.partly, `${left} were not resolved; they stay unknown.${counts.busy > 0 ? ' Repeat the command in a minute.' : ''}`);
}

const doneInWords: Readonly<Record<Decision, string>> = { delivered: 'Known to be delivered', resend: 'Held again, to be sent', drop: 'Dropped' };

function questionOf(target: Target, as: Decision, { records, what }: Chosen): string {
  const them = `${records.length} unknown deliveries ${what}`;
  switch (as) {
    case 'delivered':
      return `Note ${them} as delivered on ${target.name}? They are never sent again, and their payloads are removed.`;
    case 'resend':
      return `Send ${them} again on ${target.name}?\nThe consumer gets what did arrive a second time: the same webhook-id, with ${headers.possibleDuplicate}: true.`;
    case 'drop':
      return `Drop ${them} on ${target.name}? They are never sent again, and their payloads are removed.`;
  }
}

/** @throws CommandError on one that cannot be one, or that would be given to more than one delivery */
function checkedReference(eventIds: readonly string[], { as, reference, all }: ResolveOptions): string | undefined {
  if (reference === undefined) return undefined;
  if (as !== 'delivered' || eventIds.length !== 1 || all === true) throw usageError('--reference: is the consumer\'s id of one event, for --as delivered with one EVENT');
  const checked = referenceFrom(reference);
  if (checked === undefined) throw usageError(`--reference: must be 1 to ${limits.maxReferenceLength} visible ASCII characters without spaces, and not only dots (got ${reference.length} characters)`);
  return checked;
}

const noneYet = { resolved: 0, busy: 0, moved: 0, noPayload: 0 };

interface Deciding {
  readonly id: string;
  readonly as: Decision;
  readonly said: Said;
  readonly reference: string | undefined;
  readonly chosen: Chosen;
}

/** One after the other: each is a transaction with the endpoint's lane, and side by side they would refuse each other. */
async function decideAll(target: Target, out: Output, { id, as, said, reference, chosen: { records } }: Deciding): Promise<{ counts: typeof noneYet; problems: string[] }> {
  const [writer, payloads] = [createUnclaimedWriter(target), createPayloadRemover(target)];
  const resender = createResender(target, id, writer);
  const decide = (record: UnknownRecord): Promise<Changed | { readonly kind: 'noPayload' }> => {
    const [leaseId, nowEpochMs] = [leaseIdOf(as), Date.now()];
    const [still, resolved] = [stillUnknown(record), { ...said, atEpochMs: nowEpochMs }];
    if (as === 'resend') return resender.resend(record, { ...resolved, as }, leaseId);
    if (as === 'drop') return writer.write(record, { leaseId, still, to: (from) => dropped(from, { ...said, nowEpochMs, leaseId }) });
    return writer.write(record, { leaseId, still, to: (from) => knownToBeDelivered(from, { ...resolved, as }, leaseId, reference) });
  };
  const counts = { ...noneYet };
  const problems: string[] = [];
  const progress = () => `Resolved ${counts.resolved} of ${records.length}`;
  for (const record of records) {
    const decided = await decide(record);
    counts[decided.kind === 'written' ? 'resolved' : decided.kind]++;
    if (decided.kind === 'written') await payloads.remove(record);
    if (decided.kind === 'busy' && problems.length < replay.maxProblems) problems.push(`Not resolved: ${nameOf(record)}: ${decided.why}`);
    out.progress(progress());
  }
  await resender.wakeLast(out);
  out.progress(progress(), true);
  payloads.report(out);
  return { counts, problems };
}
