import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  type Message,
} from '@aws-sdk/client-sqs';
import type { Command } from 'commander';
import { readDead } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { candidatesOf } from '../../lambdas/shared/core/dead-letter.ts';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import { messageAttributes as names } from '../../lambdas/shared/limits/names.ts';
import { dlqWalk } from '../../lambdas/shared/limits/numbers.ts';
import { addDropCommand } from './dlq-drop-command.ts';
import { addTidyCommand } from './dlq-tidy-command.ts';
import { checkedId, type Run } from './endpoint-commands.ts';
import { CommandError, exit, table, time, usageError, type Output } from './output.ts';
import type { Target } from './target.ts';

export interface Selection {
  endpoint?: string;
  event?: string;
  reason?: string;
  max?: string;
}
interface ReplayOptions extends Selection {
  all?: boolean;
  dryRun?: boolean;
  yes?: boolean;
}

export function addDlqCommands(program: Command, run: Run): void {
  const dlq = program.command('dlq').description('look at dead letters and replay them');
  const selecting = (command: Command) =>
    command
      .option('--endpoint <id>', 'of this endpoint')
      .option('--event <id>', 'of this event')
      .option('--reason <reason>', 'dead for this reason, such as rejected or exhausted')
      .option('--max <n>', 'at most this many, oldest first');

  selecting(dlq.command('ls').description('list dead deliveries, oldest first')).action((options: Selection) =>
    run(async (target, out) => {
      const dead = await select(target, options);
      const rows = dead.map((r) => [time(r.lastEpochMs), r.endpointId === '' ? '?' : r.endpointId, r.eventId ?? '?', r.reason, String(r.attempt), r.detail]);
      out.result(dead, rows.length === 0 ? 'No dead deliveries.' : table(['SINCE', 'ENDPOINT', 'EVENT', 'REASON', 'ATTEMPTS', 'DETAIL'], rows));
    }),
  );

  selecting(dlq.command('replay').description('send dead deliveries again, with fresh attempts'))
    .option('--all', 'everything that is dead')
    .option('--dry-run', 'only count')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nSafe to interrupt and to repeat: a delivery that was replayed already is not replayed again.')
    .action((options: ReplayOptions) => run((target, out) => replay(target, out, options)));

  addDropCommand(dlq, selecting, run);
  addTidyCommand(dlq, run);
}

export async function select(target: Target, options: Selection): Promise<DeadRecord[]> {
  const max = options.max === undefined ? Number.MAX_SAFE_INTEGER : Number(options.max);
  if (!Number.isInteger(max) || max < 1) throw usageError(`--max: must be a whole number of at least 1 (got ${options.max ?? ''})`);
  const dead = await readDead(target.db, target.deliveriesTable, options.endpoint === undefined ? undefined : checkedId(options.endpoint));
  return dead
    .filter((record) => record.phase === 'buried')
    .filter((record) => options.event === undefined || record.eventId === options.event)
    .filter((record) => options.reason === undefined || record.reason === options.reason)
    .slice(0, max);
}

async function replay(target: Target, out: Output, options: ReplayOptions): Promise<void> {
  const selective = options.endpoint ?? options.event ?? options.reason;
  if (selective === undefined && options.all !== true) throw usageError('Say what to replay: --endpoint, --event, --reason, or --all.');
  const selected = await select(target, options);
  out.note(`Target: ${target.name}`);
  if (options.dryRun === true || selected.length === 0) {
    out.result({ selected: selected.length, replayed: 0 }, `${selected.length} dead deliveries match; nothing was moved.`);
    return;
  }
  await out.confirm(`Replay ${selected.length} dead deliveries on ${target.name}?`, options.yes ?? false);
  const { replayed, failed, missing } = await new Replay(target, out, selected).run();
  const shown = { selected: selected.length, replayed, missing, failed };
  out.result(shown, [`Replayed ${replayed} of ${selected.length}.`, ...failed.map((f) => `Not replayed: ${f.eventId}: ${f.problem}`)].join('\n'));
  if (failed.length > 0) throw new CommandError(exit.partly, `${failed.length} copies could not be sent again; they stay where they are.`);
  if (missing > 0) {
    throw new CommandError(exit.partly, `${missing} were not found in the dead-letter queue: somebody else holds them, or their retention ended. Repeat in two minutes.`);
  }
}

/**
 * One walk over the dead-letter queue. A selected copy is sent first and deleted then, so that an interruption leaves a
 * copy too many, never one too few; the generation in the copy makes a second one harmless.
 */
class Replay {
  readonly #target: Target;
  readonly #out: Output;
  readonly #selected: number;
  /** By record key, what is still to be found. */
  readonly #wanted: Map<string, DeadRecord>;
  readonly #seen = new Set<string>();
  /** Receipts of copies that were not selected; their bodies are not kept, for a queue may hold many. */
  readonly #others: string[] = [];
  readonly #failed: { eventId: string; problem: string }[] = [];
  #replayed = 0;

  constructor(target: Target, out: Output, selected: readonly DeadRecord[]) {
    this.#target = target;
    this.#out = out;
    this.#selected = selected.length;
    this.#wanted = new Map(selected.map((record) => [record.recordKey, record]));
  }

  async run(): Promise<{ replayed: number; failed: { eventId: string; problem: string }[]; missing: number }> {
    try {
      let emptyInARow = 0;
      while (this.#wanted.size > 0 && emptyInARow < dlqWalk.emptyReceives) {
        const page = await this.#receive();
        const fresh = page.filter((copy) => !this.#seen.has(copy.MessageId ?? ''));
        for (const copy of fresh) await this.#look(copy);
        // Copies that come a second time were hidden for their whole time: the walk has been around.
        if (page.length > 0 && fresh.length === 0) break;
        // A standard queue may answer emptily once although it holds messages.
        emptyInARow = page.length === 0 ? emptyInARow + 1 : 0;
        this.#out.progress(this.#progress());
      }
      this.#out.progress(this.#progress(), true);
    } finally {
      await this.#putBack();
    }
    return { replayed: this.#replayed, failed: this.#failed, missing: this.#wanted.size };
  }

  async #receive(): Promise<Message[]> {
    const answer = await this.#target.sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: this.#target.deadLetterQueueUrl,
        MaxNumberOfMessages: 10,
        WaitTimeSeconds: 1,
        VisibilityTimeout: dlqWalk.lookS,
        MessageAttributeNames: ['All'],
      }),
    );
    return answer.Messages ?? [];
  }

  async #look(copy: Message): Promise<void> {
    this.#seen.add(copy.MessageId ?? '');
    const key = candidatesOf(copy.Body ?? '').find(({ recordKey, payloadHash }) => {
      const record = this.#wanted.get(recordKey);
      return record?.generation === generationOf(copy) && record.payloadHash === payloadHash;
    })?.recordKey;
    if (key === undefined) {
      this.#others.push(copy.ReceiptHandle ?? '');
      return;
    }
    this.#wanted.delete(key);
    try {
      await resend(this.#target, copy);
      this.#replayed++;
    } catch (error) {
      // One copy that cannot be sent must not keep the others from it.
      const parsed = parseMessage(copy.Body ?? '');
      this.#failed.push({ eventId: (parsed.ok ? parsed.message.eventId : parsed.eventId) ?? key, problem: error instanceof Error ? error.message : String(error) });
      this.#others.push(copy.ReceiptHandle ?? '');
    }
  }

  async #putBack(): Promise<void> {
    const QueueUrl = this.#target.deadLetterQueueUrl;
    for (let from = 0; from < this.#others.length; from += 10) {
      const Entries = this.#others.slice(from, from + 10).map((ReceiptHandle, i) => ({ Id: String(i), ReceiptHandle, VisibilityTimeout: 0 }));
      await this.#target.sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries })).catch(() => {
        this.#out.note(`Some copies could not be put back at once; they return by themselves within ${dlqWalk.lookS} s.`);
      });
    }
  }

  #progress(): string {
    return `Replayed ${this.#replayed} of ${this.#selected}`;
  }
}

async function resend(target: Target, copy: Message): Promise<void> {
  const parsed = parseMessage(copy.Body ?? '');
  await target.sqs.send(
    new SendMessageCommand({
      QueueUrl: target.deliveryQueueUrl,
      MessageBody: copy.Body,
      MessageAttributes: { [names.generation]: { DataType: 'Number', StringValue: String(generationOf(copy)) } },
      ...(parsed.ok ? { MessageGroupId: parsed.message.endpointId } : {}),
    }),
  );
  const deletion = new DeleteMessageCommand({ QueueUrl: target.deadLetterQueueUrl, ReceiptHandle: copy.ReceiptHandle });
  // It was replayed all the same: a copy that stays names a generation that is past, and delivers nothing.
  await target.sqs.send(deletion).catch(() => undefined);
}

function generationOf(copy: Message): number {
  return Number(copy.MessageAttributes?.[names.generation]?.StringValue ?? Number.NaN);
}
