import { setTimeout as sleep } from 'node:timers/promises';
import { type CloudWatchLogsClient, GetQueryResultsCommand, type GetQueryResultsCommandOutput, StartQueryCommand, StopQueryCommand } from '@aws-sdk/client-cloudwatch-logs';
import { logs as limits } from '../../lambdas/shared/limits/numbers.ts';
import type { Interrupt } from './interrupt.ts';
import { parseLogLine, type LogLine } from './log-lines.ts';
import { CommandError, exit, failure, type Output } from './output.ts';

/** What to search, in the language of Logs Insights. */
export interface Search {
  readonly query: string;
  readonly fromEpochMs: number;
  readonly toEpochMs: number;
  /** The search is stopped once it has scanned more: checked between two answers, so a little more may be billed. */
  readonly maxScanBytes: number;
}

export interface Searched {
  readonly lines: readonly LogLine[];
  /** How many there are, whatever the query's own limit. */
  readonly matched: number;
  readonly scannedBytes: number;
}

interface Searching {
  readonly client: CloudWatchLogsClient;
  readonly groups: readonly string[];
  readonly out: Output;
  readonly interrupt: Pick<Interrupt, 'isAsked'>;
  readonly pollMs?: number;
}

/**
 * Runs a query of Logs Insights to its end. One that is given up, for whatever reason, is stopped: it would go on, and be billed.
 * @throws CommandError on an interrupt, a bound, a failed query and a refused call, with what to do
 */
export async function searchGroups(searching: Searching, search: Search): Promise<Searched> {
  const { client, groups } = searching;
  const start = new StartQueryCommand({
    logGroupNames: [...groups],
    queryString: search.query,
    // Whole seconds, both ends included.
    startTime: Math.floor(search.fromEpochMs / 1_000),
    endTime: Math.ceil(search.toEpochMs / 1_000),
  });
  const { queryId } = await client.send(start).catch((error: unknown) => {
    throw refused(error);
  });
  if (queryId === undefined) throw failure('CloudWatch Logs has started no query. Repeat the command.');
  const query = new RunningQuery(searching, queryId);
  try {
    return await query.result(search);
  } finally {
    await query.stop();
  }
}

class RunningQuery {
  readonly #searching: Searching;
  readonly #queryId: string;
  #isOver = false;

  constructor(searching: Searching, queryId: string) {
    this.#searching = searching;
    this.#queryId = queryId;
  }

  async result({ maxScanBytes }: Search): Promise<Searched> {
    const { client, out, interrupt, pollMs = limits.pollMs } = this.#searching;
    const endsMs = performance.now() + limits.maxSearchMs;
    for (;;) {
      const answer = await client.send(new GetQueryResultsCommand({ queryId: this.#queryId })).catch((error: unknown) => {
        throw refused(error);
      });
      const { bytesScanned = 0, recordsMatched = 0 } = answer.statistics ?? {};
      const sofar = `${bytesInWords(bytesScanned)} scanned, ${recordsMatched} lines found`;
      out.progress(`Searching the logs: ${sofar}`);
      if (this.#hasEnded(answer)) {
        out.progress('', false);
        return { lines: linesOf(answer), matched: recordsMatched, scannedBytes: bytesScanned };
      }
      if (interrupt.isAsked()) throw new CommandError(exit.partly, `Interrupted; the search was stopped (${sofar}).`);
      if (bytesScanned > maxScanBytes) throw failure(`Stopped after ${sofar}: the search is larger than it may be. Search less time (--since, --until), or allow more (--max-gb).`);
      if (performance.now() > endsMs) throw failure(`Stopped after ${limits.maxSearchMs / 1_000} s (${sofar}). Search less time: --since, --until.`);
      await sleep(pollMs);
    }
  }

  /** @throws CommandError on a query that has ended without an answer */
  #hasEnded({ status }: GetQueryResultsCommandOutput): boolean {
    switch (status) {
      case 'Complete':
        this.#isOver = true;
        return true;
      case 'Failed':
      case 'Timeout':
      case 'Cancelled':
        this.#isOver = true;
        throw failure(`CloudWatch Logs did not finish the search: ${status}. Repeat the command, or search less time (--since, --until).`);
      case 'Scheduled':
      case 'Running':
      case 'Unknown':
      case undefined:
        return false;
    }
  }

  /** Never rejects: what went wrong before is what the caller must know. */
  async stop(): Promise<void> {
    if (this.#isOver) return;
    const { client, out } = this.#searching;
    await client.send(new StopQueryCommand({ queryId: this.#queryId })).catch((error: unknown) => {
      out.note(`The query ${this.#queryId} could not be stopped, and ends by itself: ${error instanceof Error ? error.message : String(error)}`);
    });
  }
}

/** Of one millisecond, the later ones come first in an answer that begins with the newest. */
function linesOf({ results = [] }: GetQueryResultsCommandOutput): LogLine[] {
  return results.toReversed().flatMap((row) => {
    const valueOf = (name: string) => row.find(({ field }) => field === name)?.value;
    // `2026-01-05 10:00:00.000`, which is UTC.
    const at = Date.parse(`${(valueOf('@timestamp') ?? '').replace(' ', 'T')}Z`);
    const line = parseLogLine(valueOf('@message') ?? '', at);
    return line === undefined ? [] : [line];
  });
}

/** What an operator can do about a refusal; the rest as it is. */
function refused(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  switch (error.name) {
    case 'AccessDeniedException':
      return failure(`Your credentials may not search the logs: ${error.message}\nIt takes logs:StartQuery on the functions' log groups, and logs:GetQueryResults and logs:StopQuery (docs/runbook.md). Without them: sluice show ID EVENT reads one delivery's record.`);
    case 'ResourceNotFoundException':
      return failure(`A log group is not there, or the query is gone: ${error.message}\nDeploy again if somebody has deleted it.`);
    case 'LimitExceededException':
      return failure('Too many searches of logs are under way in this account and region. Repeat the command in a minute.');
    default:
      return error;
  }
}

/** `0 bytes`, `12.3 MB`, `1.2 GB`, by powers of ten. */
export function bytesInWords(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1_000 ** power).toFixed(1)} ${units[power - 1] ?? ''}`;
}
