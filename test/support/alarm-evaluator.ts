/**
 * CloudWatch's alarms in a test: reads alarms as they stand in the template (StackSpec.alarms, or readAlarms), and evaluates each one's
 * own metric or query over the metrics that the functions have logged.
 *
 *   const evaluator = createAlarmEvaluator((await embedded.stack()).alarms);
 *   const changes = evaluator.watch(metricsOf(embedded.logsOf('sweep')), { fromEpochMs, toEpochMs });
 *   expect(changes).toContainEqual(expect.objectContaining({ alarm: 'SluiceLocal-Webhooks-sweep-silent', state: 'ALARM' }));
 *
 * Metrics of AWS itself (AWS/SQS, AWS/Lambda) are in no log: the caller gives their datapoints, with the dimensions that AWS gives
 * them (QueueName, FunctionName).
 *
 * As CloudWatch does: an evaluation each minute over whole minutes that are over, sliding by the minute whatever the period; M of N; all
 * four treatments of missing data; for a query with GROUP BY a state for each contributor, at most 500 of them, the first by ORDER BY.
 * Otherwise: metrics are there at once, and no metric is seen by less than a minute. Metric math is refused.
 */
import { aws } from '../../lambdas/shared/limits/numbers.ts';
import type { AlarmSpec } from '../../local/template-alarms.ts';
import { addSamples, type Datapoint, keyOf, statisticOf } from './alarm-evaluator/datapoints.ts';
import { judge, periodsLookedAt, type State } from './alarm-evaluator/judge.ts';
import { type Answer, parseQuery, runQuery } from './alarm-evaluator/query.ts';

export type { Datapoint } from './alarm-evaluator/datapoints.ts';
export { metricsOf } from './alarm-evaluator/emf.ts';
export type { State } from './alarm-evaluator/judge.ts';

/** A change of state, of an alarm or of one of its contributors. */
export interface Change {
  readonly atEpochMs: number;
  readonly alarm: string;
  /** Such as `endpointId=acme`; undefined: of the alarm itself. */
  readonly contributor: string | undefined;
  readonly state: State;
}

export interface AlarmState {
  readonly state: State;
  /** By `endpointId=acme`; empty where the alarm has none. */
  readonly contributors: ReadonlyMap<string, State>;
  /** CloudWatch could not look at all that the query matches. */
  readonly isPartial: boolean;
}

export interface AlarmEvaluator {
  /** Evaluates all alarms at one time. Times must not go back: states are kept. */
  at(epochMs: number, datapoints: readonly Datapoint[]): Change[];
  /** Evaluates all alarms each minute from one time to the other. */
  watch(datapoints: readonly Datapoint[], span: { fromEpochMs: number; toEpochMs: number }): Change[];
  /** By the alarm's name. @throws Error if there is no such alarm. */
  stateOf(name: string): AlarmState;
}

const minuteMs = 60_000;
const beginning: AlarmState = { state: 'INSUFFICIENT_DATA', contributors: new Map(), isPartial: false };

/** @throws Error for an alarm that CloudWatch would refuse, or that this does not understand. */
export function createAlarmEvaluator(alarms: readonly AlarmSpec[]): AlarmEvaluator {
  const runs = alarms.map((alarm) => ({ alarm, run: runOf(alarm) }));
  const states = new Map<string, AlarmState>(alarms.map(({ name }) => [name, beginning]));
  const at = (epochMs: number, datapoints: readonly Datapoint[]) =>
    runs.flatMap(({ alarm, run }) => {
      const before = states.get(alarm.name) ?? beginning;
      const after = run(epochMs, datapoints, before);
      states.set(alarm.name, after);
      return changesOf(alarm.name, { epochMs, before, after });
    });
  return {
    at,
    watch(datapoints, { fromEpochMs, toEpochMs }) {
      const changes: Change[] = [];
      for (let epochMs = fromEpochMs; epochMs <= toEpochMs; epochMs += minuteMs) changes.push(...at(epochMs, datapoints));
      return changes;
    },
    stateOf(name) {
      const state = states.get(name);
      if (state === undefined) throw new Error(`No alarm ${name}`);
      return state;
    },
  };
}

type Run = (epochMs: number, datapoints: readonly Datapoint[], before: AlarmState) => AlarmState;

function runOf(alarm: AlarmSpec): Run {
  const { source, periodS } = alarm;
  if (alarm.datapoints > alarm.periods) throw new Error(`Alarm ${alarm.name}: ${alarm.datapoints} of ${alarm.periods} periods`);
  if (periodS % 60 !== 0) throw new Error(`Alarm ${alarm.name}: a period of ${periodS} s is not in whole minutes`);
  if (source.kind === 'series') return seriesRun(alarm, source);
  if (periodS * alarm.periods > aws.queryWindowS) throw new Error(`Alarm ${alarm.name}: its query would have to look further back than ${aws.queryWindowS} s`);
  const query = parseQuery(source.expression);
  if (query.groupBy.length === 0) return single(alarm, (datapoints, ageOf) => runQuery(query, datapoints, ageOf));
  if (query.order === undefined) throw new Error(`Alarm ${alarm.name}: a query with GROUP BY must have ORDER BY`);
  return (epochMs, datapoints, before) => grouped(alarm, runQuery(query, datapoints, ageIn(alarm, epochMs)), before);
}

function seriesRun(alarm: AlarmSpec, { namespace, name, dimensions, statistic }: Extract<AlarmSpec['source'], { kind: 'series' }>): Run {
  const exact = keyOf(dimensions);
  return single(alarm, (datapoints, ageOf) => {
    const samples = new Map<number, number[]>();
    for (const datapoint of datapoints) {
      if (datapoint.namespace !== namespace || datapoint.name !== name || keyOf(datapoint.dimensions) !== exact) continue;
      const age = ageOf(datapoint.atEpochMs);
      if (age !== undefined) addSamples(samples, age, datapoint.values);
    }
    const byAge = new Map([...samples].map(([age, values]) => [age, statisticOf(statistic, values)]));
    return { series: [{ group: {}, byAge }], isPartial: false };
  });
}

function single(alarm: AlarmSpec, answer: (datapoints: readonly Datapoint[], ageOf: (atEpochMs: number) => number | undefined) => Answer): Run {
  return (epochMs, datapoints, before) => {
    const { series, isPartial } = answer(datapoints, ageIn(alarm, epochMs));
    return { state: judge(alarm, series[0]?.byAge ?? new Map(), before.state), contributors: before.contributors, isPartial };
  };
}

/** A contributor is in ALARM or well; one that is not returned any more is well, whatever missing data is taken for. */
function grouped(alarm: AlarmSpec, { series, isPartial }: Answer, before: AlarmState): AlarmState {
  const contributors = new Map<string, State>([...before.contributors.keys()].map((name) => [name, 'OK']));
  for (const { group, byAge } of series) {
    const name = Object.entries(group).map(([dimension, value]) => `${dimension}=${value}`).join(',');
    const state = judge(alarm, byAge, before.contributors.get(name) ?? 'OK');
    contributors.set(name, state === 'ALARM' ? state : 'OK');
  }
  const inAlarm = [...contributors.values()].includes('ALARM');
  return { state: inAlarm ? 'ALARM' : series.length === 0 ? 'INSUFFICIENT_DATA' : 'OK', contributors, isPartial };
}

/** Periods count back from the last whole minute; the minute under way is not over. */
function ageIn(alarm: AlarmSpec, epochMs: number): (atEpochMs: number) => number | undefined {
  const endMs = Math.floor(epochMs / minuteMs) * minuteMs;
  return (atEpochMs) => {
    const age = Math.ceil((endMs - atEpochMs) / (alarm.periodS * 1_000)) - 1;
    return age >= 0 && age < periodsLookedAt(alarm) ? age : undefined;
  };
}

function changesOf(alarm: string, { epochMs, before, after }: { epochMs: number; before: AlarmState; after: AlarmState }): Change[] {
  const of = (contributor: string | undefined, state: State): Change => ({ atEpochMs: epochMs, alarm, contributor, state });
  return [
    ...[...after.contributors].filter(([name, state]) => (before.contributors.get(name) ?? 'OK') !== state).map(([name, state]) => of(name, state)),
    ...(before.state === after.state ? [] : [of(undefined, after.state)]),
  ];
}
