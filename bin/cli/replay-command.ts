import { InvokeCommand } from '@aws-sdk/client-lambda';
import type { Command } from 'commander';
import { replay as limits } from '../../lambdas/shared/limits/numbers.ts';
import { parseReplayRequest, type ReplayAnswer, type ReplayAsk, type ReplayCounts, type ReplayProblem, type ReplaySelect } from '../../lambdas/shared/limits/replay-request.ts';
import { addSelection, inWords, selectOf, wholeNumber, type SelectionOptions } from './dlq-selection.ts';
import type { Run } from './endpoint-commands.ts';
import { listenForInterrupt, type Interrupt } from './interrupt.ts';
import { CommandError, exit, failure, time, usageError, type Output } from './output.ts';
import { duration, progressBar } from './progress.ts';
import type { Target } from './target.ts';

interface ReplayOptions extends SelectionOptions {
  all?: boolean;
  dryRun?: boolean;
  rate: string;
  max?: string;
  yes?: boolean;
}

export function addReplayCommand(dlq: Command, run: Run): void {
  addSelection(dlq.command('replay').description('send dead deliveries again, with fresh attempts: each endpoint\'s oldest first, at the pace of its lane'))
    .option('--all', 'everything that is dead')
    .option('--dry-run', 'only count')
    .option('--rate <n>', `deliveries a second that are moved, at most ${limits.maxPerSecond}`, String(limits.perSecond))
    .option('--max <n>', 'at most this many')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nSafe to interrupt and to repeat: what was replayed already is replayed again only if it has died again, and not even then with the --until that an interrupted command names.')
    .action((options: ReplayOptions) => run((target, out) => replay(target, out, options)));
}

/** Counts of all calls of one command, and the first explanations. */
interface Report extends ReplayCounts {
  readonly problems: ReplayProblem[];
}

/** How a row of calls has ended. */
type End = { readonly kind: 'done' | 'interrupted' } | { readonly kind: 'failed'; readonly message: string };

async function replay(target: Target, out: Output, options: ReplayOptions): Promise<void> {
  const select = selectOf(options, Date.now());
  if (Object.keys(select).length === 0 && options.all !== true) {
    throw usageError('Say what to replay: --endpoint, --event, --reason, --type, --since, --until, or --all.');
  }
  const perSecond = wholeNumber('--rate', options.rate, limits.maxPerSecond);
  const max = options.max === undefined ? {} : { max: wholeNumber('--max', options.max) };
  // A time alone is a selection here: whoever calls the function gives one also where all is meant.
  const ask: ReplayAsk = { select, all: true, perSecond, forMs: limits.cliForMs, ...max };
  checked(ask);
  out.note(`Target: ${target.name}`);
  const interrupt = listenForInterrupt(out);
  try {
    const { report: found, end: counted, toEpochMs } = await callAll(target, { ...ask, dryRun: true }, interrupt, (report) => out.progress(`${report.selected} dead deliveries found`));
    out.progress(`${found.selected} dead deliveries found`, true);
    if (counted.kind === 'interrupted') throw new CommandError(exit.partly, 'Interrupted while counting; nothing was moved.');
    if (counted.kind === 'failed') throw failure(`${counted.message}\nNothing was moved.`);
    const movable = found.selected - found.capped - found.noEndpoint - found.disabled;
    if (options.dryRun === true || movable <= 0) {
      out.result({ dryRun: options.dryRun === true, ...found }, [`${found.selected} dead deliveries match; nothing was moved.`, ...linesOf(found)].join('\n'));
      if (options.dryRun !== true) throwIfLeft(found);
      return;
    }
    interrupt.release();
    await out.confirm(questionOf(target, select, movable, perSecond), options.yes ?? false);
    interrupt.listen();
    // What dies from here on was not counted, and is not moved.
    const fixed: ReplayAsk = { ...ask, select: { ...select, toEpochMs } };
    await move(target, out, fixed, { total: found.selected, interrupt });
  } finally {
    interrupt.release();
  }
}

async function move(target: Target, out: Output, ask: ReplayAsk, { total, interrupt }: { total: number; interrupt: Interrupt }): Promise<void> {
  const beganMs = performance.now();
  const { report, end } = await callAll(target, ask, interrupt, (now) => out.progress(progressBar(now.selected, total, performance.now() - beganMs)));
  out.progress(progressBar(report.selected, total, performance.now() - beganMs), true);
  const done = `Replayed ${report.replayed + report.sentAgain} of ${total}.`;
  out.result({ dryRun: false, interrupted: end.kind === 'interrupted', ...report }, [done, ...linesOf(report), ...report.problems.map(problemLine)].join('\n'));
  // A repeat of its own has an end of its own, and takes what has died again until then.
  const repeat = `Repeat the command for the rest, with --until ${time(ask.select?.toEpochMs ?? 0)}: then nothing is replayed twice, also if it has died again.`;
  if (end.kind === 'failed') throw failure(`${end.message}\nA call that failed may have moved more than is counted. ${repeat}`);
  if (end.kind === 'interrupted') throw new CommandError(exit.partly, `Interrupted. ${repeat}`);
  throwIfLeft(report);
}

function questionOf(target: Target, select: ReplaySelect, count: number, perSecond: number): string {
  const what = inWords(select);
  return [
    `Replay ${count} dead deliveries${what === '' ? '' : ` ${what}`} on ${target.name}?`,
    `They are moved in about ${duration((count / perSecond) * 1_000)} (${perSecond} a second), and sent at the pace of each endpoint's lane.`,
  ].join('\n');
}

/** Call after call of the function, until its selection is at its end, somebody interrupts, or a call fails. */
async function callAll(target: Target, ask: ReplayAsk, interrupt: Interrupt, onCall: (report: Report) => void): Promise<{ report: Report; end: End; toEpochMs: number }> {
  const report: Report = { selected: 0, replayed: 0, sentAgain: 0, noPayload: 0, noEndpoint: 0, disabled: 0, capped: 0, busy: 0, gone: 0, problems: [] };
  let cursor: string | undefined;
  let toEpochMs = 0;
  do {
    if (interrupt.isAsked()) return { report, end: { kind: 'interrupted' }, toEpochMs };
    let answer: ReplayAnswer;
    try {
      answer = await call(target, { ...ask, ...(cursor === undefined ? {} : { cursor }) });
    } catch (error) {
      return { report, end: { kind: 'failed', message: error instanceof Error ? error.message : String(error) }, toEpochMs };
    }
    add(report, answer);
    ({ cursor, toEpochMs } = answer);
    onCall(report);
  } while (cursor !== undefined);
  return { report, end: { kind: 'done' }, toEpochMs };
}

const counts = ['selected', 'replayed', 'sentAgain', 'noPayload', 'noEndpoint', 'disabled', 'capped', 'busy', 'gone'] as const satisfies readonly (keyof ReplayCounts)[];

function add(report: Report, answer: ReplayAnswer): void {
  for (const name of counts) report[name] += answer[name];
  report.problems.push(...answer.problems.slice(0, limits.maxProblems - report.problems.length));
}

/** One call. Rejects with what the function said, or why it could not be called. */
async function call({ lambda, replayFunction }: Target, ask: ReplayAsk): Promise<ReplayAnswer> {
  const answer = await lambda.send(new InvokeCommand({ FunctionName: replayFunction, Payload: JSON.stringify(ask) }));
  const payload = JSON.parse(Buffer.from(answer.Payload ?? []).toString()) as ReplayAnswer & { errorType?: string; errorMessage?: string };
  if (answer.FunctionError !== undefined) throw new Error(`The replay function failed: ${payload.errorType ?? answer.FunctionError}: ${payload.errorMessage ?? ''}`);
  return payload;
}

/** What the function would refuse is a wrong use of an option. */
function checked(ask: ReplayAsk): void {
  try {
    parseReplayRequest(ask);
  } catch (error) {
    throw usageError(error instanceof Error ? error.message : String(error));
  }
}

const explained: readonly (readonly [keyof ReplayCounts, string])[] = [
  ['replayed', 'are held again, and sent at the pace of their endpoint\'s lane. See: sluice status'],
  ['sentAgain', 'were messages without a delivery of their own (malformed, or in conflict): sent again as they are'],
  ['noPayload', 'were buried by an older version: redrive their copies in the SQS console, to the delivery queue. Of what is dead as payload-missing no copy is left that would be sent: its producer sends it again, with a larger resend'],
  ['noEndpoint', 'belong to an endpoint that does not exist: sluice endpoint put, then repeat'],
  ['disabled', 'belong to an endpoint that is disabled or invalid: sluice endpoint put ID --set status=enabled, then repeat'],
  ['capped', `have been replayed ${limits.maxGeneration} times: find out why they die; --event ID replays one all the same`],
  ['busy', 'were under way elsewhere, or could not be moved now: repeat in a minute'],
  ['gone', 'were replayed, redriven or dropped by somebody else meanwhile'],
];

function linesOf(report: Report): string[] {
  return explained.filter(([name]) => report[name] > 0).map(([name, what]) => `${report[name]} ${what}.`);
}

function problemLine({ endpointId, eventId, why }: ReplayProblem): string {
  return `Not replayed: ${endpointId === '' ? '?' : endpointId} ${eventId ?? '?'}: ${why}`;
}

function throwIfLeft({ noPayload, noEndpoint, disabled, capped, busy }: ReplayCounts): void {
  const left = noPayload + noEndpoint + disabled + capped + busy;
  if (left > 0) throw new CommandError(exit.partly, `${left} were not replayed; they stay dead.`);
}
