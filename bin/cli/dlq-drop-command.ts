import { randomBytes } from 'node:crypto';
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import type { Registry } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { pauseBriefly } from '../../lambdas/shared/adapters/repeat.ts';
import { dropped } from '../../lambdas/shared/core/decide.ts';
import { claimKeyOf, isSyntheticKey } from '../../lambdas/shared/core/keys.ts';
import { assertTransition, stateName, type DeadRecord, type DroppedRecord } from '../../lambdas/shared/core/record.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';
import { awsCalls, hold, records as limits } from '../../lambdas/shared/limits/numbers.ts';
import type { LaneGuard, Lanes, Payloads, Records } from '../../lambdas/shared/ports/index.ts';
import { select, type ListOptions } from './dlq-commands.ts';
import { addSelection, inWords, selectOf } from './dlq-selection.ts';
import { registryOf, type Run } from './endpoint-commands.ts';
import { CommandError, exit, usageError, type Output } from './output.ts';
import type { Target } from './target.ts';

interface DropOptions extends ListOptions {
  why: string;
  by?: string;
  dryRun?: boolean;
  yes?: boolean;
}

export function addDropCommand(dlq: Command, run: Run): void {
  addSelection(dlq.command('drop').description('give dead deliveries up for good: they are never sent again, and their payloads are removed'))
    .option('--max <n>', 'at most this many')
    .requiredOption('--why <text>', `why, for whoever asks later; at most ${limits.maxDetailLength} characters`)
    .option('--by <name>', 'who says so; else the name of the user who runs this')
    .option('--dry-run', 'only count')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nSafe to interrupt and to repeat. sluice show says who dropped a delivery, when and why, for 30 days.\n\nExample:\n  sluice dlq drop --endpoint acme-prod --reason gone --why "closed their account, ticket 4711"')
    .action((options: DropOptions) => run((target, out) => drop(target, out, options)));
}

async function drop(target: Target, out: Output, options: DropOptions): Promise<void> {
  const chosen = inWords(selectOf(options, Date.now()));
  if (chosen === '') throw usageError('Say what to drop: --endpoint, --event, --reason, --type, --since or --until.');
  const said = { why: checkedText('--why', options.why), by: checkedText('--by', options.by ?? userName()) };
  const selected = await select(target, options);
  out.note(`Target: ${target.name}`);
  if (options.dryRun === true || selected.length === 0) {
    out.result({ selected: selected.length, dropped: 0 }, `${selected.length} dead deliveries match; nothing was dropped.`);
    return;
  }
  await out.confirm(`Drop ${selected.length} dead deliveries ${chosen} on ${target.name}? They cannot be replayed afterwards.`, options.yes ?? false);
  const dropper = new Dropper(target, said);
  const counts = { dropped: 0, busy: 0, moved: 0 };
  const progress = () => `Dropped ${counts.dropped} of ${selected.length}`;
  // One after the other: each is a transaction with its endpoint's lane, and side by side they would refuse each other.
  for (const record of selected) {
    counts[await dropper.drop(record)]++;
    out.progress(progress());
  }
  out.progress(progress(), true);
  if (dropper.leftPayloads > 0) out.note(`${dropper.leftPayloads} payloads could not be removed; they end by themselves within ${hold.payloadTtlS / 86_400} days.`);
  const { busy, moved } = counts;
  const lines = [
    `Dropped ${counts.dropped} of ${selected.length}. Their copies in the dead-letter queue are stale now: the sweep deletes them, or sluice dlq tidy.`,
    ...(moved > 0 ? [`No longer dead when their turn came, and left alone: ${moved}.`] : []),
    ...(busy > 0 ? [`Not dropped: ${busy}.`] : []),
  ];
  out.result({ selected: selected.length, ...counts }, lines.join('\n'));
  if (busy > 0) throw new CommandError(exit.partly, `${busy} were not dropped: a worker has a claim on them, or they could not be written. Repeat in a minute.`);
}

/** `busy`: it is dead still, as far as is known. `moved`: it was replayed, resent or dropped by somebody else meanwhile. */
type Dropped = 'dropped' | 'busy' | 'moved';

class Dropper {
  readonly #records: Records;
  readonly #payloads: Payloads;
  readonly #registry: Registry;
  readonly #said: { readonly why: string; readonly by: string };
  /** Payloads that are not known to be removed. */
  leftPayloads = 0;
  readonly #lanes: Lanes;
  /** What a write requires of each endpoint's lane. */
  readonly #required = new Map<string, LaneGuard['lane']>();

  constructor(target: Target, said: { readonly why: string; readonly by: string }) {
    const tables = { endpoints: target.endpointsTable, deliveries: target.deliveriesTable };
    this.#records = createDynamoDbRecords(target.db, tables);
    this.#lanes = createDynamoDbLanes(target.db, tables);
    this.#payloads = createDynamoDbPayloads(target.db, target.payloadsTable);
    this.#registry = registryOf(target);
    this.#said = said;
  }

  async drop(record: DeadRecord): Promise<Dropped> {
    const nowEpochMs = Date.now();
    const to = dropped(record, { ...this.#said, nowEpochMs, leaseId: `drop-${ulid(nowEpochMs, randomBytes(10))}` });
    assertTransition(record, to);
    for (let tries = 0; tries <= awsCalls.repeats; tries++) {
      const found = await this.#write(record, to);
      // It is dropped all the same.
      if (found === 'dropped') await this.#payloads.remove(record).catch(() => void this.leftPayloads++);
      if (found !== 'unwritten') return found;
      // The endpoint was written meanwhile, or the write met another one.
      this.#required.delete(record.endpointId);
      await pauseBriefly();
    }
    return 'busy';
  }

  /** Nobody may have a claim: whoever sends would settle over it. Made from a body, it has no claims. */
  async #write(record: DeadRecord, to: DroppedRecord): Promise<Dropped | 'unwritten'> {
    const { answer, claim } = isSyntheticKey(record.recordKey)
      ? { answer: await this.#records.write(record, to), claim: undefined }
      : await this.#records.writeUnclaimed(record, to, await this.#guardOf(record));
    if (answer === 'written') return 'dropped';
    if (claim !== undefined && claim.endsEpochMs > Date.now()) return 'busy';
    const { found, unread } = await this.#records.read([record.recordKey]);
    if (unread.has(record.recordKey)) return 'unwritten';
    const now = found.get(record.recordKey);
    // A write whose answer was lost.
    if (now?.state === 'dropped' && now.lastLease?.leaseId === to.lastLease?.leaseId) return 'dropped';
    if (stateName(now) !== 'buried' || now?.generation !== record.generation) return 'moved';
    // Of a worker that died after its verdict: while its claim stays, that does not go away, and nobody else may come for it.
    if (claim !== undefined) await this.#lanes.reapClaim({ endpointId: record.endpointId, claimKey: claimKeyOf(record.eventId ?? ''), claim, ambiguous: undefined });
    return 'unwritten';
  }

  async #guardOf({ endpointId, eventId }: DeadRecord): Promise<LaneGuard> {
    const lane = this.#required.get(endpointId) ?? (await this.#laneOf(endpointId));
    this.#required.set(endpointId, lane);
    return { endpointId, claimKey: claimKeyOf(eventId ?? ''), lane };
  }

  async #laneOf(endpointId: string): Promise<LaneGuard['lane']> {
    const found = await this.#registry.get(endpointId);
    return found === undefined ? { kind: 'absent' } : { kind: 'atVersion', cfg: found.endpoint.version };
  }
}

/** One line, kept in each record that is dropped. */
function checkedText(option: string, text: string): string {
  const trimmed = text.trim().replaceAll(/\s+/g, ' ');
  if (trimmed === '' || trimmed.length > limits.maxDetailLength || !trimmed.isWellFormed()) {
    throw usageError(`${option}: must be a text of 1 to ${limits.maxDetailLength} characters (got ${trimmed.length})`);
  }
  return trimmed;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    throw usageError('Nobody knows the name of the user who runs this: give --by NAME.');
  }
}
