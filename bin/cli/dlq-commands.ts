import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  type Message,
} from '@aws-sdk/client-sqs';
import type { Command } from 'commander';
import { readDead } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { recordKeyOf, syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import { messageAttributes as names } from '../../lambdas/shared/limits/names.ts';
import { checkedId, type Run } from './endpoint-commands.ts';
import { CommandError, exit, table, time, usageError, type Output } from './output.ts';
import type { Target } from './target.ts';

interface Selection {
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
}

async function select(target: Target, options: Selection): Promise<DeadRecord[]> {
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
  const missing = await move(target, out, selected);
  const replayed = selected.length - missing;
  out.result({ selected: selected.length, replayed, missing }, `Replayed ${replayed} of ${selected.length}.`);
  if (missing > 0) {
    throw new CommandError(exit.partly, `${missing} were not found in the dead-letter queue: somebody else holds them, or their retention ended. Repeat in two minutes.`);
  }
}

/** How long a copy is hidden while it is looked at; an interrupted replay frees them after this. */
const lookS = 120;

/**
 * Walks the dead-letter queue and re-sends the selected copies: send first, then delete, so that an interruption leaves
 * a copy too many, never one too few; the generation in the copy makes a second one harmless. Returns how many of the
 * selection were not found.
 */
async function move(target: Target, out: Output, selected: readonly DeadRecord[]): Promise<number> {
  const wanted = new Map(selected.map((record) => [record.recordKey, record.generation]));
  const others: Message[] = [];
  let empty = 0;
  while (wanted.size > 0 && empty < 3) {
    const { Messages: messages = [] } = await target.sqs.send(
      new ReceiveMessageCommand({ QueueUrl: target.deadLetterQueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, VisibilityTimeout: lookS, MessageAttributeNames: ['All'] }),
    );
    // A standard queue may answer emptily once although it holds messages.
    empty = messages.length === 0 ? empty + 1 : 0;
    for (const copy of messages) {
      const key = keysOf(copy).find((k) => wanted.get(k) === generationOf(copy));
      if (key === undefined) others.push(copy);
      else {
        await resend(target, copy);
        wanted.delete(key);
      }
    }
    out.progress(`Replayed ${selected.length - wanted.size} of ${selected.length}`);
  }
  out.progress(`Replayed ${selected.length - wanted.size} of ${selected.length}`, true);
  for (const copy of others) {
    await target.sqs
      .send(new ChangeMessageVisibilityCommand({ QueueUrl: target.deadLetterQueueUrl, ReceiptHandle: copy.ReceiptHandle, VisibilityTimeout: 0 }))
      .catch(() => out.note('A copy could not be put back at once; it returns by itself within two minutes.'));
  }
  return wanted.size;
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
  await target.sqs.send(new DeleteMessageCommand({ QueueUrl: target.deadLetterQueueUrl, ReceiptHandle: copy.ReceiptHandle }));
}

/** The records that a copy may belong to: its delivery's, or the one made from its body. */
function keysOf(copy: Message): string[] {
  const body = copy.Body ?? '';
  const parsed = parseMessage(body);
  if (!parsed.ok) return [syntheticKeyOf(parsed.endpointId, 'malformed', body)];
  const { endpointId, claimKey } = parsed.message;
  return [recordKeyOf(endpointId, claimKey), syntheticKeyOf(endpointId, 'conflict', body)];
}

function generationOf(copy: Message): number {
  return Number(copy.MessageAttributes?.[names.generation]?.StringValue ?? Number.NaN);
}
