import type { Command } from 'commander';
import { looksOf } from '../../lambdas/shared/core/reconcile.ts';
import type { UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { describe } from './describe-record.ts';
import { checkedId, registryOf, type Run } from './endpoint-commands.ts';
import { table, time, type Output } from './output.ts';
import type { Target } from './target.ts';
import { addLookCommand } from './unknown-look-command.ts';
import { addResolveCommand } from './unknown-resolve-command.ts';
import { recordOf, unknownOf } from './unknown-selection.ts';

export function addUnknownCommands(program: Command, run: Run): void {
  const unknown = program.command('unknown').description('look at deliveries that may have arrived without an answer, and decide what becomes of them');
  unknown
    .command('ls')
    .description('list unknown deliveries, oldest first')
    .option('--endpoint <id>', 'of this endpoint')
    .option('--stuck', 'only those that wait for a person')
    .action((options: { endpoint?: string; stuck?: boolean }) => run((target, out) => list(target, out, options)));
  unknown
    .command('show <id> <event>')
    .description('show what is known of one unknown delivery, and how it is resolved')
    .action((id: string, event: string) => run((target, out) => show(target, out, id, event)));
  addResolveCommand(unknown, run);
  addLookCommand(unknown, run);
}

async function list(target: Target, out: Output, options: { endpoint?: string; stuck?: boolean }): Promise<void> {
  const all = await unknownOf(target, options.endpoint === undefined ? undefined : checkedId(options.endpoint));
  const shown = options.stuck === true ? all.filter((record) => record.nextLookEpochMs === undefined) : all;
  const none = options.stuck === true ? 'No unknown deliveries wait for a person.' : 'No unknown deliveries.';
  const header = ['ENDPOINT', 'EVENT', 'SINCE', 'ATTEMPTS', 'LOOKS', 'NEXT LOOK', 'WAITS FOR', 'DETAIL'];
  out.result(shown, shown.length === 0 ? none : table(header, shown.map(rowOf)));
}

function rowOf(record: UnknownRecord): string[] {
  const { endpointId, eventId, sinceEpochMs, attempt, nextLookEpochMs, stuck, detail } = record;
  const waitsFor = nextLookEpochMs === undefined ? `a person: ${stuck ?? '?'}` : 'a look';
  return [endpointId, eventId ?? '?', time(sinceEpochMs), String(attempt), String(looksOf(record)), nextLookEpochMs === undefined ? '-' : time(nextLookEpochMs), waitsFor, detail];
}

async function show(target: Target, out: Output, id: string, event: string): Promise<void> {
  const record = await recordOf(target, id, event);
  const next = record.state === 'unknown' ? await waysOut(target, record, event) : ['It is not unknown: nothing is to be decided.'];
  out.result(record, [describe(record), ...next].join('\n'));
}

/** The commands that resolve it, without those that would be refused. */
async function waysOut(target: Target, { endpointId, stuck }: UnknownRecord, eventId: string): Promise<string[]> {
  const config = (await registryOf(target).get(endpointId))?.endpoint.config;
  const isSent = config !== undefined && config.status !== 'disabled';
  const resolve = (as: string) => `  sluice unknown resolve ${endpointId} ${eventId} --as ${as} --why TEXT`;
  const ways = [
    [resolve('delivered'), 'the consumer has it'],
    ...(isSent && stuck !== 'payload-missing' ? [[resolve('resend'), 'it has not: sent again']] : []),
    [resolve('drop'), 'nobody needs it any more: never sent'],
    ...(isSent && config.lookup !== null ? [[`  sluice unknown look ${endpointId} ${eventId}`, 'have it looked for again, now']] : []),
  ];
  return ['Ask the consumer, then:', table(['  COMMAND', 'WHERE'], ways)];
}
