import type { Command } from 'commander';
import { endpointLogQuery, type LogSelect } from '../../lambdas/shared/limits/log-queries.ts';
import { logs as limits } from '../../lambdas/shared/limits/numbers.ts';
import { timeOf, wholeNumber } from './dlq-selection.ts';
import { checkedId, noSuchEndpoint, registryOf, type Run } from './endpoint-commands.ts';
import { listenForInterrupt } from './interrupt.ts';
import { searchFiles } from './log-files.ts';
import { bytesInWords, searchGroups } from './log-groups.ts';
import { describeLines, newest, type LogLine } from './log-lines.ts';
import { failure, time, usageError, type Output } from './output.ts';
import type { LogSource, Target } from './target.ts';

export interface LogOptions {
  since: string;
  until?: string;
  limit: string;
  event?: string;
  failed?: boolean;
  maxGb: string;
}

export function addLogCommand(program: Command, run: Run): void {
  program
    .command('log <id>')
    .description('show what the functions have logged of an endpoint: its attempts, and what held them up; newest last')
    .option('--since <time>', 'from then on: an ISO time, or how long ago, such as 90m, 2h or 3d', `${limits.sinceH}h`)
    .option('--until <time>', 'before then, likewise')
    .option('--limit <n>', 'the newest n lines', String(limits.lines))
    .option('--event <event>', 'of this event only')
    .option('--failed', 'only what went wrong: attempts without a delivery, dead, unknown, an opened breaker, faults')
    .option('--max-gb <n>', `stop once about so many GB are scanned; Logs Insights bills about $${limits.usdPerScannedGb} for each`, String(limits.maxScanGb))
    .addHelpText('after', help)
    .action((id: string, options: LogOptions) => run((target, out) => log(target, out, id, options)));
}

const help = `
One line for each attempt: WHAT is answered (with a status), ambiguous (sent, and no answer came), unsent (nothing left) or
invalidConfiguration; STATE is what the delivery has become by it. Between them are events that name the endpoint: held, shed,
rate-reached, day-spent, throttled (it asked for less), breaker-opened, looked, dead, unknown and others; docs/runbook.md says what they mean.

A deployed stack's logs are kept ${limits.retentionDays} days, are some seconds behind, and are searched by CloudWatch Logs Insights, which bills
what it scans. Ctrl-C stops a search. What became of one event is in its record, at no such cost: sluice show ID EVENT

Examples:
  sluice log acme-prod                            # the last hour
  sluice log acme-prod --since 2d --failed        # why does it fail?
  sluice log acme-prod --since 2d --event evt_01J9
  sluice log acme-prod --since 2026-01-05T10:00:00Z --until 2026-01-05T11:00:00Z --limit 500 --json`;

/** What was asked, checked. */
interface Asked {
  readonly select: LogSelect;
  readonly fromEpochMs: number;
  /** Undefined where the end is now. */
  readonly toEpochMs: number | undefined;
  readonly lines: number;
  readonly maxScanBytes: number;
}

interface Answer {
  readonly lines: readonly LogLine[];
  readonly matched: number;
  /** Of a deployed stack. */
  readonly scannedBytes: number | undefined;
}

export async function log(target: Target, out: Output, id: string, options: LogOptions): Promise<void> {
  const nowEpochMs = Date.now();
  const asked = askedOf(id, options, nowEpochMs);
  if (target.logs === undefined) throw failure(olderSays(target));
  const { lines, matched, scannedBytes } = await search(target.logs, out, asked, nowEpochMs);
  const shown = newest(lines, asked.lines);
  // Logs outlive an endpoint; but a name that is misspelt has none either.
  if (shown.length === 0 && (await registryOf(target).get(id)) === undefined) throw noSuchEndpoint(id);
  const from = time(asked.fromEpochMs);
  const value = { endpointId: id, from, to: time(asked.toEpochMs ?? nowEpochMs), matched, scannedBytes: scannedBytes ?? null, lines: shown.map(({ fields }) => fields) };
  out.result(value, shown.length === 0 ? nothingSays(asked, from) : describeLines(shown));
  if (matched > shown.length) out.note(`The newest ${shown.length} of ${matched} since ${from}. For more: --limit`);
  if (scannedBytes !== undefined) out.note(`Scanned ${bytesInWords(scannedBytes)} of logs, for about $${((scannedBytes / 1e9) * limits.usdPerScannedGb).toFixed(4)}.`);
}

function askedOf(id: string, { since, until, limit, event, failed = false, maxGb }: LogOptions, nowEpochMs: number): Asked {
  const select: LogSelect = { endpointId: checkedId(id), ...(event === undefined ? {} : { eventId: checkedId(event) }), failedOnly: failed };
  const fromEpochMs = timeOf('--since', since, nowEpochMs);
  const toEpochMs = until === undefined ? undefined : timeOf('--until', until, nowEpochMs);
  if (toEpochMs !== undefined && fromEpochMs >= toEpochMs) throw usageError(`--since ${time(fromEpochMs)} is not before --until ${time(toEpochMs)}: that selects nothing`);
  return { select, fromEpochMs, toEpochMs, lines: wholeNumber('--limit', limit, limits.maxLines), maxScanBytes: wholeNumber('--max-gb', maxGb) * 1e9 };
}

async function search(source: LogSource, out: Output, asked: Asked, nowEpochMs: number): Promise<Answer> {
  if (source.kind === 'files') {
    const lines = await searchFiles(source.files, asked.select, asked);
    return { lines, matched: lines.length, scannedBytes: undefined };
  }
  const { select, fromEpochMs, toEpochMs = nowEpochMs, lines, maxScanBytes } = asked;
  const oldestEpochMs = nowEpochMs - limits.retentionDays * 86_400_000;
  if (fromEpochMs < oldestEpochMs) throw usageError(`--since: logs are kept for ${limits.retentionDays} days, since ${time(oldestEpochMs)} (got ${time(fromEpochMs)})`);
  const interrupt = listenForInterrupt(out);
  try {
    return await searchGroups({ ...source, out, interrupt }, { query: endpointLogQuery(select, lines), fromEpochMs, toEpochMs, maxScanBytes });
  } finally {
    interrupt.release();
  }
}

function nothingSays({ select: { endpointId, eventId, failedOnly } }: Asked, from: string): string {
  const what = `${failedOnly ? 'Nothing went wrong' : 'Nothing is logged'} of ${eventId === undefined ? '' : `event ${eventId} of `}endpoint ${endpointId} since ${from}.`;
  return `${what} Look further back: --since 3d${eventId === undefined ? `. Does anything wait? sluice status ${endpointId}` : `; or at its record: sluice show ${endpointId} ${eventId}`}`;
}

function olderSays({ name }: Target): string {
  return `${name} is older than this command, and does not say where its functions log. ${name === 'local' ? 'Start it again: npm start' : 'Deploy this version (npx cdk deploy); until then read the log groups of its functions in the CloudWatch console.'}`;
}
