import type { AlarmSource } from '../../local/template-alarms.ts';
import { createAlarmEvaluator, metricsOf, type Change, type Datapoint, type State } from './alarm-evaluator.ts';
import { awsMetrics } from './aws-metrics.ts';
import { functionNames, until, type Embedded, type FunctionName } from './embedded.ts';

/** An installation whose minutes are passed one by one, with all its alarms evaluated at the end of each, over what its functions have logged; only those over metrics of AWS itself over what is sampled (aws-metrics.ts). */
export interface Watch {
  /** Everything that changed, in order; alarms by their short names. */
  readonly changes: readonly Change[];
  /** Passes the rest of the minute, event by event, until the sweep has run or failed; then evaluates. */
  pass(): Promise<void>;
  /** Passes minutes, beginning each with `each`, until it is so. @throws Error after `most` of them */
  passUntil(what: string, isSo: () => boolean | Promise<boolean>, options?: { each?: () => Promise<unknown>; most?: number }): Promise<void>;
  /** Moves the clock at once, then passes two minutes. Nothing is evaluated for the time that was jumped over, in which little was published. */
  jump(ms: number): Promise<void>;
  /** By the alarm's short name, such as `endpoint-dead`. */
  stateOf(alarm: string): State;
  /** Endpoints, or services, that are in ALARM now. */
  inAlarm(alarm: string): string[];
  /** Short names of all alarms of the template; of those that are in ALARM now; of those that came to be since a number of changes. */
  alarms(): string[];
  alarmsNow(): string[];
  alarmed(since?: number): string[];
  /** Endpoints, or services, that came into ALARM since a number of changes. */
  everInAlarm(alarm: string, since?: number): string[];
  /** True if the alarm would have come into ALARM at any of the minutes that have passed, had other datapoints been published. */
  wouldAlarm(alarm: string, change: (datapoint: Datapoint) => Datapoint): boolean;
  /** What the alarm reads, out of the template. */
  source(alarm: string): AlarmSource;
  /** What the functions have published, and what was sampled. */
  datapoints(): readonly Datapoint[];
}

const minuteMs = 60_000;
/** Messages and wake-ups that are due within so long of each other come together. */
const beyondMs = 10_000;

/** Passes one minute first: by it the time of the sweep's runs is known. */
export async function startWatch(embedded: Embedded): Promise<Watch> {
  const { alarms } = await embedded.stack();
  const prefix = commonPrefix(alarms.map(({ name }) => name));
  const shortOf = (name: string) => name.slice(prefix.length);
  const specOf = (alarm: string) => {
    const spec = alarms.find(({ name }) => shortOf(name) === alarm);
    if (spec === undefined) throw new Error(`No alarm ${alarm}`);
    return spec;
  };
  const evaluator = createAlarmEvaluator(alarms);
  const logs = createLogReader(embedded);
  const sample = awsMetrics(embedded);
  const datapoints: Datapoint[] = [];
  const changes: Change[] = [];
  /** When was evaluated, with how many datapoints. */
  const minutes: { epochMs: number; seen: number }[] = [];

  /** Never while something is under way, which an advance could kill. */
  const goTo = (epochMs: number) => until(`the clock is at ${new Date(epochMs).toISOString()}`, async () => {
    const leftMs = epochMs - (await embedded.look()).nowEpochMs;
    if (leftMs <= 0) return true;
    const { idle, skippedMs } = await embedded.skip({ limitMs: leftMs, beyondMs: Math.max(beyondMs, leftMs - minuteMs) });
    if (idle && skippedMs === 0) await embedded.advance(leftMs);
    return false;
  }, 60_000);
  const sweptAfter = async (runs: number) => {
    await until('the sweep has run', () => runsOf(embedded) > runs);
    await until('nothing is under way', async () => (await embedded.look()).idle);
  };
  const evaluate = async () => {
    datapoints.push(...logs.more(), ...(await sample()));
    const { nowEpochMs } = await embedded.look();
    minutes.push({ epochMs: nowEpochMs, seen: datapoints.length });
    changes.push(...evaluator.at(nowEpochMs, datapoints).map((change) => ({ ...change, alarm: shortOf(change.alarm) })));
  };

  await embedded.advance(minuteMs);
  await sweptAfter(0);
  datapoints.push(...logs.more());
  let nextEpochMs = datapoints.filter(({ name }) => name === 'swept').at(-1)?.atEpochMs ?? Number.NaN;
  const go = async (ms: number) => {
    const { nowEpochMs } = await embedded.look();
    // To a whole minute of the sweep, also where the test has moved the clock by itself.
    nextEpochMs += minuteMs * Math.ceil(Math.max(ms, nowEpochMs + 1 - nextEpochMs) / minuteMs);
    const runs = runsOf(embedded);
    await goTo(nextEpochMs);
    await sweptAfter(runs);
  };
  const pass = async () => {
    await go(minuteMs);
    await evaluate();
  };
  const inAlarmSince = (since: number) => changes.slice(since).filter(({ state }) => state === 'ALARM');
  const sorted = (names: readonly string[]) => [...new Set(names)].sort();
  return {
    changes,
    pass,
    async passUntil(what, isSo, { each = () => Promise.resolve(), most = 40 } = {}) {
      for (let passed = 0; passed < most; passed++) {
        await each();
        await pass();
        if (await isSo()) return;
      }
      throw new Error(`not within ${most} minutes: ${what}`);
    },
    async jump(ms) {
      await go(ms);
      // Only after two more is one of the sweep's runs in a minute that is surely over.
      await go(minuteMs);
      await pass();
    },
    stateOf: (alarm) => evaluator.stateOf(prefix + alarm).state,
    inAlarm: (alarm) => sorted([...evaluator.stateOf(prefix + alarm).contributors].filter(([, state]) => state === 'ALARM').map(([name]) => valueOf(name))),
    alarms: () => alarms.map(({ name }) => shortOf(name)),
    alarmsNow: () => sorted(alarms.filter(({ name }) => evaluator.stateOf(name).state === 'ALARM').map(({ name }) => shortOf(name))),
    alarmed: (since = 0) => sorted(inAlarmSince(since).map(({ alarm }) => alarm)),
    everInAlarm: (alarm, since = 0) => sorted(inAlarmSince(since).filter((change) => change.alarm === alarm).flatMap(({ contributor }) => (contributor === undefined ? [] : [valueOf(contributor)]))),
    wouldAlarm(alarm, change) {
      const again = createAlarmEvaluator([specOf(alarm)]);
      const changed = datapoints.map(change);
      return minutes.some(({ epochMs, seen }) => {
        again.at(epochMs, changed.slice(0, seen));
        return again.stateOf(prefix + alarm).state === 'ALARM';
      });
    },
    source: (alarm) => specOf(alarm).source,
    datapoints: () => datapoints,
  };
}

const valueOf = (contributor: string) => contributor.slice(contributor.indexOf('=') + 1);

function commonPrefix(names: readonly string[]): string {
  const [first = ''] = names;
  let length = first.length;
  for (const name of names) while (!name.startsWith(first.slice(0, length))) length--;
  return first.slice(0, length);
}

/** Runs of the sweep that are over, with their metrics in the log, and those that failed. */
function runsOf(embedded: Embedded): number {
  return embedded.logsOf('sweep').match(/"Name":"swept"|^invocation failed/gm)?.length ?? 0;
}

/** What the functions' logs have had in whole lines since the last look. */
function createLogReader(embedded: Embedded): { more(): Datapoint[] } {
  const read = new Map<FunctionName, number>();
  return {
    more: () => functionNames.flatMap((fn) => {
      const log = embedded.logsOf(fn);
      const end = log.lastIndexOf('\n') + 1;
      const lines = log.slice(read.get(fn) ?? 0, end);
      read.set(fn, end);
      return metricsOf(lines);
    }),
  };
}
