/** `sluice log`: what the functions have logged of one endpoint, out of files or of CloudWatch Logs. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { CloudFormationClient, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { CloudWatchLogsClient, GetQueryResultsCommand, type GetQueryResultsCommandOutput, StartQueryCommand, StopQueryCommand } from '@aws-sdk/client-cloudwatch-logs';
import { mockClient } from 'aws-sdk-client-mock';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { log, type LogOptions } from '../../bin/cli/log-command.ts';
import { bytesInWords, searchGroups } from '../../bin/cli/log-groups.ts';
import { describeLines, parseLogLine } from '../../bin/cli/log-lines.ts';
import { CommandError, Output } from '../../bin/cli/output.ts';
import { resolveTarget, type LocalFile, type Target } from '../../bin/cli/target.ts';
import { badEvents, endpointLogQuery, isSelectedLine, savedQueries } from '../../lambdas/shared/limits/log-queries.ts';
import { idPattern } from '../../lambdas/shared/limits/message-schema.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { t0EpochMs } from '../support/builders.ts';
import { runCli } from '../support/cli.ts';

const at = (seconds: number) => new Date(t0EpochMs + seconds * 1_000).toISOString();
type Fields = Record<string, unknown>;
const line = (seconds: number, message: string, fields: Fields) => JSON.stringify({ level: 'INFO', message, timestamp: at(seconds), service: 'deliver', sampling_rate: 0, xray_trace_id: '1-x', endpointId: 'acme', ...fields });
const attempt = (seconds: number, fields: Fields = {}) =>
  line(seconds, 'attempt', { eventId: 'evt_1', host: 'a.example', generation: 0, attempt: 1, outcome: 'answered', detail: '200', durationMs: 12, reused: 0, state: 'delivered', ...fields });
const since = ['--since', at(-60)];

describe('of a local installation', () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'sluice-log-'));
  const localFile = path.join(dir, 'local.json');
  const functions: Record<string, string> = { [outputs.deliverFunction]: 'deliver', [outputs.drainFunction]: 'drain', [outputs.sweepFunction]: 'sweep', [outputs.replayFunction]: 'replay' };
  const local: LocalFile = {
    v: 1, pid: process.pid, region: 'eu-west-1', endpoint: 'http://127.0.0.1:9', credentials: { accessKeyId: 'me', secretAccessKey: 'local' },
    outputs: { ...Object.fromEntries(Object.values(outputs).map((key) => [key, '{}'])), ...functions },
    functions: {}, caFile: '', logsDir: path.join(dir, 'logs'),
  };
  const write = (fn: string, ...lines: string[]) => writeFileSync(path.join(dir, 'logs', `${fn}.log`), lines.map((text) => `${text}\n`).join(''));
  const sluice = (...args: string[]) => runCli(localFile, ['log', ...args]);
  const rowsOf = (text: string) => text.trimEnd().split('\n').map((row) => row.split(/ {2,}/));

  beforeAll(() => {
    mkdirSync(path.join(dir, 'logs'));
    writeFileSync(localFile, JSON.stringify(local));
    write('deliver',
      'not a line of ours: acme', '[1,"acme"]', '{"message":"attempt","endpointId":"acme"', '{"message":7,"endpointId":"acme"}',
      '{"_aws":{"Timestamp":1},"service":"deliver","endpointId":"acme","failed_attempts":1}',
      attempt(-61, { eventId: 'evt_early' }),
      attempt(1, { outcome: 'ambiguous', detail: 'headers timeout', durationMs: 10_001, state: 'waiting' }),
      attempt(2, { eventId: 'evt_other', endpointId: 'acme-2' }),
      line(3, 'held', { copies: 2 }),
      line(5, 'breaker-opened', { cause: 'failing', untilEpochMs: t0EpochMs + 35_000, trips: 1 }),
      line(6, 'throttled', { untilEpochMs: Number.MAX_SAFE_INTEGER }),
      line(9, 'dead', { eventId: 'evt_2', reason: 'gone' }));
    write('drain',
      attempt(4, { attempt: 2, generation: 1, source: 'held', possibleDuplicate: 1 }),
      line(7, 'looked', { eventId: 'evt_3', host: 'a.example', found: 'matches', state: 'delivered', looks: 1, durationMs: 30, detail: '' }),
      line(8, 'wake-up-failed', { level: 'ERROR', errorName: 'TimeoutError', errorMessage: 'no \u001b[2J\nanswer' }));
    // None of sweep and replay: they have not run.
  });
  afterAll(() => rmSync(dir, { recursive: true }));

  it('shows attempts and events of all functions in one stream, newest last', async () => {
    const shown = await sluice('acme', ...since);
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(rowsOf(shown.stdout)).toEqual([
      ['TIME', 'EVENT', 'ATTEMPT', 'WHAT', 'DETAIL', 'TOOK', 'STATE'],
      [at(1), 'evt_1', '1', 'ambiguous', 'headers timeout', '10001 ms', 'waiting'],
      [at(3), '-', '-', 'held', 'copies=2', '-', '-'],
      [at(4), 'evt_1', '2 (gen 1)', 'answered', '200, possible duplicate, from the hold', '12 ms', 'delivered'],
      [at(5), '-', '-', 'breaker-opened', `cause=failing until=${at(35)} trips=1`, '-', '-'],
      [at(6), '-', '-', 'throttled', 'untilEpochMs=9007199254740991', '-', '-'],
      [at(7), 'evt_3', '-', 'looked', 'host=a.example found=matches looks=1', '30 ms', 'delivered'],
      [at(8), '-', '-', 'wake-up-failed', 'TimeoutError: no \\x1b[2J\\nanswer', '-', '-'],
      [at(9), 'evt_2', '-', 'dead', 'reason=gone', '-', '-'],
    ]);
  });

  it('selects by event, by time and by what went wrong, and says how much is left out', async () => {
    const whatOf = async (...args: string[]) => rowsOf((await sluice('acme', ...since, ...args)).stdout).slice(1).map((row) => row[3]);
    expect(await whatOf('--event', 'evt_1')).toEqual(['ambiguous', 'answered']);
    expect(await whatOf('--failed')).toEqual(['ambiguous', 'breaker-opened', 'wake-up-failed', 'dead']);
    expect(await whatOf('--until', at(4))).toEqual(['ambiguous', 'held']);
    const newest = await sluice('acme', ...since, '--limit', '2');
    expect(rowsOf(newest.stdout).map((row) => row[3])).toEqual(['WHAT', 'wake-up-failed', 'dead']);
    expect(newest.stderr).toContain(`The newest 2 of 8 since ${at(-60)}. For more: --limit`);
  });

  it('--json gives the lines whole, with no control character', async () => {
    const { code, stdout, json } = await sluice('acme', ...since, '--limit', '2', '--json').then((result) => ({ ...result, json: result.json<{ matched: number; lines: Fields[] }>() }));
    expect([code, json.matched, stdout.includes('\u001b')]).toEqual([0, 8, false]);
    expect(json).toMatchObject({ endpointId: 'acme', from: at(-60), scannedBytes: null });
    expect(json.lines).toMatchObject([{ message: 'wake-up-failed', errorName: 'TimeoutError', timestamp: at(8) }, { message: 'dead', reason: 'gone', service: 'deliver' }]);
  });

  it.each([
    [['acme" or endpointId != "x'], /endpoint|id/],
    [['acme', '--event', 'evt.1'], /must match/],
    [['acme', '--limit', '0'], /--limit: must be a whole number of at least 1 and at most 10000 \(got 0\)/],
    [['acme', '--since', 'yesterday'], /--since: must be a time/],
    [['acme', '--since', '1h', '--until', '2h'], /that selects nothing/],
    [['acme', '--max-gb', '1.5'], /--max-gb: must be a whole number/],
  ])('%j is refused', async (args, message) => {
    expect(await sluice(...args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(message) as string });
  });

  it('says what to do where the installation was started by an older version', async () => {
    const { logsDir: _, ...older } = local;
    const olderFile = path.join(dir, 'older.json');
    writeFileSync(olderFile, JSON.stringify(older));
    expect(await runCli(olderFile, ['log', 'acme'])).toMatchObject({ code: 1, stderr: expect.stringContaining('Start it again: npm start') as string });
  });

  it('teaches with --help', async () => {
    const { code, stdout } = await sluice('--help');
    expect(code).toBe(0);
    for (const word of ['ambiguous', 'breaker-opened', 'Examples:', '--max-gb', 'sluice show ID EVENT']) expect(stdout).toContain(word);
  });
});

describe('a line', () => {
  it('of an attempt is shown whatever is missing from it', () => {
    expect(parseLogLine('{"message":"attempt","endpointId":"acme"}', 5)).toEqual({ epochMs: 5, fields: { message: 'attempt', endpointId: 'acme' } });
    expect(parseLogLine('{"message":"attempt","timestamp":"then"}', 5)?.epochMs).toBe(5);
    for (const text of ['', '7', 'null', '[]', '{}', '{"message":1}', `{"message":1,"timestamp":"${at(0)}"}`, '{"message":"x"}', '{"message":"x","timestamp":"then"}']) expect(parseLogLine(text)).toBeUndefined();
    expect(parseLogLine('{"message":"x"}', Number.NaN)).toBeUndefined();
  });

  it('of an attempt says what it can where it has no detail', () => {
    const said = (fields: Fields) => describeLines([{ epochMs: t0EpochMs, fields: { message: 'attempt', ...fields } }]).split('\n')[1]?.split(/ {2,}/);
    expect(said({})).toEqual([at(0), '-', '-', '-', '-', '-', '-']);
    expect(said({ outcome: 'unsent', status: null, phase: 'dns', cause: 'ENOTFOUND', detail: null, durationMs: null })).toEqual([at(0), '-', '-', 'unsent', 'dns ENOTFOUND', '-', '-']);
    expect(said({ outcome: 'answered', status: 503, phase: null, detail: '', attempt: 3, source: 'queue', possibleDuplicate: 0 })).toEqual([at(0), '-', '3', 'answered', '503', '-', '-']);
  });

  const selected: [fields: Fields, isWanted: boolean, isFailure: boolean][] = [
    [{}, true, false],
    [{ state: 'waiting' }, true, true],
    [{ state: undefined }, true, false],
    [{ message: 'shed', state: undefined }, true, false],
    [{ message: 'looked', state: 'unknown' }, true, false],
    ...badEvents.map((message): [Fields, boolean, boolean] => [{ message, state: undefined }, true, true]),
    [{ message: 'anything', level: 'ERROR' }, true, true],
    [{ endpointId: 'acme-2', state: 'waiting' }, false, false],
    [{ endpointId: undefined }, false, false],
    [{ message: undefined }, false, false],
  ];
  it.each(selected)('%j is selected: %s, with --failed: %s', (fields, isWanted, isFailure) => {
    const parsed = JSON.parse(attempt(0, fields)) as Fields;
    expect(isSelectedLine(parsed, { endpointId: 'acme', failedOnly: false })).toBe(isWanted);
    expect(isSelectedLine(parsed, { endpointId: 'acme', failedOnly: true })).toBe(isFailure);
    expect(isSelectedLine(parsed, { endpointId: 'acme', eventId: 'evt_2', failedOnly: false })).toBe(false);
  });
});

describe('the query', () => {
  it('asks for whole lines of one endpoint, with a plain equality for each index', () => {
    expect(endpointLogQuery({ endpointId: 'acme', failedOnly: false }, 50)).toBe('fields @timestamp, @message\n| filter endpointId = "acme"\n| filter ispresent(message)\n| sort @timestamp desc\n| limit 50');
    const failed = endpointLogQuery({ endpointId: 'acme', eventId: 'evt_1', failedOnly: true }, 7);
    expect(failed.split('\n| ').slice(1, 5)).toEqual([
      'filter endpointId = "acme"', 'filter eventId = "evt_1"', 'filter ispresent(message)',
      `filter (message = "attempt" and state != "delivered") or level = "ERROR" or message in ["${badEvents.join('", "')}"]`,
    ]);
  });

  it('takes nothing but ids into its text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[a-z]{1,5}["'\\|#`\n ][a-z]{0,5}$/), fc.stringMatching(/^[A-Za-z0-9_-]{1,129}$/)), (text) => {
        for (const select of [{ endpointId: text }, { endpointId: 'acme', eventId: text }]) {
          const query = () => endpointLogQuery({ ...select, failedOnly: false }, 1);
          if (!idPattern.test(text)) expect(query).toThrow('ids only');
          else expect(query().match(/"/g)).toHaveLength('eventId' in select ? 4 : 2);
        }
      }),
    );
  });

  it('is saved among others whose every name is one of CloudWatch, and whose text is one of its own', () => {
    expect(Object.keys(savedQueries)).toEqual(['EndpointLog', 'Outcomes', 'SlowHosts', 'Reuse', 'Faults']);
    expect(savedQueries['EndpointLog']?.text.split('\n').slice(1).join('\n')).toBe(endpointLogQuery({ endpointId: 'ENDPOINT_ID', failedOnly: false }, 50));
    expect(savedQueries['SlowHosts']?.text).toContain('pct(durationMs, 50) as p50Ms, pct(durationMs, 95) as p95Ms, pct(durationMs, 99) as p99Ms by host');
  });
});

describe('of a deployed stack', () => {
  const logs = mockClient(CloudWatchLogsClient);
  beforeEach(() => {
    logs.on(StartQueryCommand).resolves({ queryId: 'q1' });
    logs.on(StopQueryCommand).resolves({ success: true });
  });
  afterEach(() => logs.reset());

  /** Keeps what is said. */
  class Heard extends Output {
    readonly results: { value: unknown; human: string }[] = [];
    readonly notes: string[] = [];
    readonly seen: string[] = [];
    override result(value: unknown, human: string): void { this.results.push({ value, human }); }
    override note(text: string): void { this.notes.push(text); }
    override progress(text: string): void { this.seen.push(text); }
  }

  const running = (bytesScanned: number): Partial<GetQueryResultsCommandOutput> => ({ status: 'Running', statistics: { bytesScanned, recordsMatched: 1 } });
  const complete = (...lines: string[]): Partial<GetQueryResultsCommandOutput> => ({
    status: 'Complete',
    statistics: { bytesScanned: 2.5e9, recordsMatched: 70 },
    results: lines.map((value, i) => [{ field: '@timestamp', value: `2026-01-05 10:00:0${i}.000` }, { field: '@message', value }, { field: '@ptr', value: 'p' }]),
  });
  const answers = (...all: Partial<GetQueryResultsCommandOutput>[]) => all.reduce((stub, answer) => stub.resolvesOnce(answer), logs.on(GetQueryResultsCommand));
  const search = (out = new Heard(false), isAsked = () => false) =>
    searchGroups({ client: new CloudWatchLogsClient({ region: 'eu-west-1' }), groups: ['d', 'r'], out, interrupt: { isAsked }, pollMs: 1 }, { query: 'the query', fromEpochMs: t0EpochMs + 1, toEpochMs: t0EpochMs + 3_600_001, maxScanBytes: 20e9 });
  const denied = () => Object.assign(new Error('User: me is not authorized to perform: logs:StartQuery'), { name: 'AccessDeniedException' });

  it('starts the query over all log groups, in seconds, and asks until it is complete', async () => {
    answers({ status: 'Scheduled' }, running(1e9), complete(attempt(2), '{"message":"said without a time"}', 'START RequestId: 1', attempt(1)));
    const out = new Heard(false);
    expect(await search(out)).toMatchObject({ matched: 70, scannedBytes: 2.5e9, lines: [{ epochMs: t0EpochMs + 1_000 }, { epochMs: t0EpochMs + 1_000, fields: { message: 'said without a time' } }, { epochMs: t0EpochMs + 2_000 }] });
    expect(logs.commandCalls(StartQueryCommand).map(({ args }) => args[0].input)).toEqual([{ logGroupNames: ['d', 'r'], queryString: 'the query', startTime: t0EpochMs / 1_000, endTime: t0EpochMs / 1_000 + 3_601 }]);
    expect(logs.commandCalls(GetQueryResultsCommand).map(({ args }) => args[0].input)).toEqual(Array(3).fill({ queryId: 'q1' }));
    expect(out.seen).toEqual(['Searching the logs: 0 bytes scanned, 0 lines found', 'Searching the logs: 1.0 GB scanned, 1 lines found', 'Searching the logs: 2.5 GB scanned, 70 lines found', '']);
    expect(logs.commandCalls(StopQueryCommand)).toEqual([]);
  });

  it.each(['Failed', 'Timeout', 'Cancelled'] as const)('says so of a query that ends as %s, which has nothing to stop', async (status) => {
    answers(running(1), { status });
    await expect(search()).rejects.toThrow(`did not finish the search: ${status}. Repeat the command, or search less time`);
    expect(logs.commandCalls(StopQueryCommand)).toEqual([]);
  });

  const stopped = () => logs.commandCalls(StopQueryCommand).map(({ args }) => args[0].input);

  it('stops the query on an interrupt, and when it has scanned too much', async () => {
    answers(running(1e9), running(2e9), running(3e9));
    const out = new Heard(false);
    await expect(search(out, () => out.seen.length === 2)).rejects.toMatchObject({ code: 3, message: 'Interrupted; the search was stopped (2.0 GB scanned, 1 lines found).' });
    expect([stopped(), out.seen.length]).toEqual([[{ queryId: 'q1' }], 2]);

    logs.resetHistory();
    answers(running(20e9), running(20.1e9), running(30e9));
    await expect(search()).rejects.toMatchObject({ code: 1, message: expect.stringMatching(/Stopped after 20\.1 GB scanned.*--since, --until.*--max-gb/) as string });
    expect(stopped()).toEqual([{ queryId: 'q1' }]);
  });

  it('stops a query that it may not read, and tells both', async () => {
    logs.on(GetQueryResultsCommand).rejects(denied());
    logs.on(StopQueryCommand).rejects(denied());
    const out = new Heard(false);
    await expect(search(out)).rejects.toThrow(/may not search the logs.*\n.*logs:StartQuery.*logs:GetQueryResults and logs:StopQuery/);
    expect(out.notes).toEqual([expect.stringContaining('query q1 could not be stopped, and ends by itself')]);
  });

  it.each([
    ['AccessDeniedException', /may not search the logs.*\n.*logs:StartQuery on the functions' log groups.*sluice show ID EVENT/],
    ['ResourceNotFoundException', /A log group is not there.*\nDeploy again/],
    ['LimitExceededException', /Too many searches.*Repeat the command in a minute/],
    ['MalformedQueryException', /^why$/],
  ])('tells what to do about %s', async (name, message) => {
    logs.on(StartQueryCommand).rejects(Object.assign(new Error('why'), { name }));
    await expect(search()).rejects.toThrow(message);
    expect([stopped(), logs.commandCalls(GetQueryResultsCommand)]).toEqual([[], []]);
  });

  describe('found by its outputs', () => {
    const cloudFormation = mockClient(CloudFormationClient);
    afterAll(() => cloudFormation.restore());
    const targetWith = async (keys: string[]): Promise<Target> => {
      cloudFormation.on(DescribeStacksCommand).resolves({ Stacks: [{ StackName: 'S', CreationTime: new Date(), StackStatus: 'CREATE_COMPLETE', Outputs: keys.map((OutputKey) => ({ OutputKey, OutputValue: /Rules|Limits/.test(OutputKey) ? '{}' : `the-${OutputKey}` })) }] });
      return resolveTarget({ stack: 'S' });
    };
    const options: LogOptions = { since: '1h', limit: '50', maxGb: '20' };

    it('searches the log groups of all four functions, and says what was scanned and what it costs', async () => {
      answers(complete(attempt(2), attempt(1)));
      const out = new Heard(true);
      const before = Date.now();
      await log(await targetWith(Object.values(outputs)), out, 'acme', { ...options, since: '2h', event: 'evt_1', failed: true, limit: '2' });
      const [input] = logs.commandCalls(StartQueryCommand).map(({ args }) => args[0].input);
      expect(input).toMatchObject({
        logGroupNames: ['the-DeliverLogGroupName', 'the-DrainLogGroupName', 'the-SweepLogGroupName', 'the-ReplayLogGroupName'],
        queryString: endpointLogQuery({ endpointId: 'acme', eventId: 'evt_1', failedOnly: true }, 2),
      });
      expect(Math.abs((input?.startTime ?? 0) - before / 1_000 + 7_200)).toBeLessThan(5);
      expect(Math.abs((input?.endTime ?? 0) - before / 1_000)).toBeLessThan(5);
      expect(out.results).toMatchObject([{ value: { matched: 70, scannedBytes: 2.5e9, lines: [{ timestamp: at(1) }, { timestamp: at(2) }] } }]);
      expect(out.notes).toEqual([expect.stringContaining('The newest 2 of 70'), 'Scanned 2.5 GB of logs, for about $0.0125.']);
      expect(process.listenerCount('SIGINT')).toBe(0);
    });

    it('refuses a time before all logs, and nothing is billed', async () => {
      const target = await targetWith(Object.values(outputs));
      await expect(log(target, new Heard(false), 'acme', { ...options, since: '31d' })).rejects.toMatchObject({ code: 2, message: expect.stringMatching(/--since: logs are kept for 30 days/) as string });
      expect(logs.calls()).toEqual([]);
    });

    it('refuses one that is too old to say where its logs are, and says what to do; its other commands work', async () => {
      for (const left of [[], [outputs.sweepLogGroup]]) {
        const target = await targetWith(Object.values(outputs).filter((key) => !key.endsWith('LogGroupName') || (left as string[]).includes(key)));
        expect(target.deliveriesTable).toBe('the-DeliveriesTableName');
        const refused = log(target, new Heard(false), 'acme', options);
        await expect(refused).rejects.toBeInstanceOf(CommandError);
        await expect(refused).rejects.toThrow(/stack S is older than this command.*Deploy this version \(npx cdk deploy\); until then/);
      }
      expect(logs.calls()).toEqual([]);
    });
  });
});

it.each([[0, '0 bytes'], [999, '999 bytes'], [1_000, '1.0 kB'], [12_345_678, '12.3 MB'], [1e9, '1.0 GB'], [2.5e12, '2.5 TB'], [1e16, '10000.0 TB']])('%i bytes are %s', (bytes, words) => {
  expect(bytesInWords(bytes)).toBe(words);
});
