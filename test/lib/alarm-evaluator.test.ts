import { describe, expect, it } from 'vitest';
import type { AlarmSpec } from '../../local/template-alarms.ts';
import { readAlarms } from '../../local/template-alarms.ts';
import { Resolver, templateSchema } from '../../local/template-resolver.ts';
import { createAlarmEvaluator, type Datapoint, metricsOf, type State } from '../support/alarm-evaluator.ts';
import { statisticOf } from '../support/alarm-evaluator/datapoints.ts';
import { judge } from '../support/alarm-evaluator/judge.ts';
import { parseQuery, runQuery } from '../support/alarm-evaluator/query.ts';

const startMs = 1_790_000_040_000 - (1_790_000_040_000 % 60_000);
const atMinute = (minute: number) => startMs + minute * 60_000;

const base: AlarmSpec = {
  logicalId: 'A', name: 'a', description: '', source: { kind: 'series', namespace: 'Sluice', name: 'swept', dimensions: { service: 'sweep' }, statistic: 'Sum' },
  periodS: 60, periods: 1, datapoints: 1, comparison: 'GreaterThanThreshold', threshold: 0, missing: 'notBreaching', actions: [], okActions: [],
};
const failing = 'SELECT MAX(failure_ratio) FROM SCHEMA("Sluice", endpointId) GROUP BY endpointId ORDER BY MAX() DESC';
const queryAlarm: AlarmSpec = { ...base, source: { kind: 'query', expression: failing }, threshold: 0.2 };

/** In the minute before `minute`. */
const point = (minute: number, values: number[], of: Partial<Datapoint> = {}): Datapoint => ({
  namespace: 'Sluice', name: 'swept', dimensions: { service: 'sweep' }, atEpochMs: atMinute(minute) - 30_000, values, ...of,
});
const ratio = (minute: number, endpointId: string, value: number, of: Partial<Datapoint> = {}) => point(minute, [value], { name: 'failure_ratio', dimensions: { endpointId }, ...of });

describe('metricsOf', () => {
  const line = (metrics: object[], fields: object, more: object = {}) =>
    JSON.stringify({ _aws: { Timestamp: startMs, CloudWatchMetrics: [{ Namespace: 'Sluice', Dimensions: [['service']], Metrics: metrics, ...more }] }, service: 'sweep', ...fields });

  it('takes numbers and arrays of them, for each set of dimensions, and no other line', () => {
    const both = line([{ Name: 'swept', Unit: 'Count' }, { Name: 'ages' }], { swept: 1, ages: [1, 2], outcome: 'x' }, { Dimensions: [['service'], ['outcome', 'service'], []] });
    expect(metricsOf(`{"message":"started"}\n${both}\nREPORT\n`)).toEqual([
      { namespace: 'Sluice', name: 'swept', dimensions: { service: 'sweep' }, atEpochMs: startMs, values: [1] },
      { namespace: 'Sluice', name: 'ages', dimensions: { service: 'sweep' }, atEpochMs: startMs, values: [1, 2] },
      { namespace: 'Sluice', name: 'swept', dimensions: { service: 'sweep', outcome: 'x' }, atEpochMs: startMs, values: [1] },
      { namespace: 'Sluice', name: 'ages', dimensions: { service: 'sweep', outcome: 'x' }, atEpochMs: startMs, values: [1, 2] },
      { namespace: 'Sluice', name: 'swept', dimensions: {}, atEpochMs: startMs, values: [1] },
      { namespace: 'Sluice', name: 'ages', dimensions: {}, atEpochMs: startMs, values: [1, 2] },
    ]);
  });

  it.each([
    ['a metric without a value', line([{ Name: 'swept' }], {}), 'swept has no numbers'],
    ['a text', line([{ Name: 'swept' }], { swept: '1' }), 'swept has no numbers'],
    ['101 values', line([{ Name: 'swept' }], { swept: Array(101).fill(1) }), 'swept has no numbers, or more than 100'],
    ['a dimension without a value', line([{ Name: 'swept' }], { swept: 1 }, { Dimensions: [['endpointId']] }), 'endpointId has no value'],
    ['101 metrics', line(Array.from({ length: 101 }, (_, n) => ({ Name: `m${n}` })), {}), 'Metrics'],
  ])('refuses %s, which CloudWatch drops without a word', (_, text, message) => {
    expect(() => metricsOf(text)).toThrow(message);
  });
});

describe('statistics', () => {
  it.each([['Sum', 10], ['Average', 2.5], ['Maximum', 4], ['Minimum', 1], ['SampleCount', 4], ['p50', 2], ['p95', 4], ['p0', 1], ['p100', 4]] as const)('%s', (statistic, expected) => {
    expect(statisticOf(statistic, [4, 1, 3, 2])).toBe(expected);
  });

  it('knows no other', () => {
    expect(() => statisticOf('Median', [1])).toThrow('No such statistic');
  });
});

describe('missing data', () => {
  const rule = { ...base, periods: 3, datapoints: 3 };
  /** As the tables of CloudWatch's documentation write it: the newest on the right; 0 well, X beyond the bound, - missing. */
  const dataOf = (text: string) => new Map(text.split(' ').reverse().flatMap((mark, age) => (mark === '-' ? [] : [[age, mark === 'X' ? 1 : 0] as const])));
  const states = (text: string, datapoints: number, before: State) =>
    (['missing', 'ignore', 'breaching', 'notBreaching'] as const).map((missing) => judge({ ...rule, datapoints, missing }, dataOf(text), before));
  const [ok, alarm, none, kept] = ['OK', 'ALARM', 'INSUFFICIENT_DATA', 'kept'];

  it.each([
    ['0 - X - X', 3, [ok, ok, ok, ok]],
    ['0 - - - -', 3, [ok, ok, ok, ok]],
    ['- - - - -', 3, [none, kept, alarm, ok]],
    ['0 X X - X', 3, [alarm, alarm, alarm, alarm]],
    ['- - X - -', 3, [alarm, kept, alarm, ok]],
    ['0 - X - X', 2, [alarm, alarm, alarm, alarm]],
    ['0 0 X 0 X', 2, [alarm, alarm, alarm, alarm]],
    ['0 - X - -', 2, [ok, ok, alarm, ok]],
    ['- - - - 0', 2, [ok, ok, alarm, ok]],
    ['- - - X -', 2, [alarm, kept, alarm, ok]],
  ])('of %s, %i of 3, is treated as documented', (text, datapoints, expected) => {
    for (const before of ['OK', 'ALARM', 'INSUFFICIENT_DATA'] as const) {
      expect(states(text, datapoints, before)).toEqual(expected.map((state) => (state === kept ? before : state)));
    }
  });

  it('does not make one breach an alarm before its time', () => {
    expect(states('- - - - X', 3, 'OK')[0]).toBe('OK');
    expect(states('- - - X -', 3, 'OK')[0]).toBe('OK');
  });
});

describe('comparison', () => {
  it.each([
    ['GreaterThanThreshold', ['OK', 'OK', 'ALARM']],
    ['GreaterThanOrEqualToThreshold', ['OK', 'ALARM', 'ALARM']],
    ['LessThanThreshold', ['ALARM', 'OK', 'OK']],
    ['LessThanOrEqualToThreshold', ['ALARM', 'ALARM', 'OK']],
  ] as const)('%s', (comparison, expected) => {
    expect([0, 1, 2].map((value) => judge({ ...base, comparison, threshold: 1 }, new Map([[0, value]]), 'OK'))).toEqual(expected);
  });
});

describe('parseQuery', () => {
  it('reads all clauses, in any case, with and without quotes', () => {
    expect(parseQuery(`select sum("dead") from schema("Sluice", endpointId, "other") where endpointId != 'x' AND other = 'y z' group by endpointId, other order by Max() asc limit 7`)).toEqual({
      statistic: 'Sum', name: 'dead', namespace: 'Sluice', schema: ['endpointId', 'other'],
      where: [{ dimension: 'endpointId', equals: false, value: 'x' }, { dimension: 'other', equals: true, value: 'y z' }],
      groupBy: ['endpointId', 'other'], order: { statistic: 'Maximum', descending: false }, limit: 7,
    });
    expect(parseQuery('SELECT AVG(m) FROM "AWS/SQS"')).toMatchObject({ namespace: 'AWS/SQS', schema: undefined, groupBy: [], order: undefined, limit: undefined });
    expect(parseQuery('SELECT AVG(m) FROM SCHEMA("AWS/SQS")').schema).toEqual([]);
  });

  it.each(['SUM(METRICS())', 'SELECT m FROM n', 'SELECT MEDIAN(m) FROM n', "SELECT SUM(m) FROM n WHERE a > 'b'", 'SELECT SUM(m) FROM n HAVING x', 'SELECT SUM(a), MAX(b) FROM n'])('refuses %s', (text) => {
    expect(() => parseQuery(text)).toThrow();
  });
});

describe('runQuery', () => {
  const ageOf = () => 0;
  const groups = (expression: string, datapoints: Datapoint[]) => runQuery(parseQuery(expression), datapoints, ageOf).series.map(({ group, byAge }) => [Object.values(group).join(), byAge.get(0)]);

  it('finds by SCHEMA only what has exactly these dimensions', () => {
    const points = [ratio(0, 'a', 0.1), point(0, [0.9], { name: 'failure_ratio', dimensions: { endpointId: 'a', service: 'sweep' } }), point(0, [0.8], { name: 'failure_ratio', dimensions: {} })];
    expect(groups(failing, points)).toEqual([['a', 0.1]]);
    expect(groups('SELECT MAX(failure_ratio) FROM SCHEMA("Sluice")', points)).toEqual([['', 0.8]]);
    expect(groups('SELECT MAX(failure_ratio) FROM Sluice', points)).toEqual([['', 0.9]]);
    expect(groups('SELECT MAX(failure_ratio) FROM SCHEMA("Sluice", service, endpointId)', points)).toEqual([['', 0.9]]);
    expect(groups('SELECT MAX(failure_ratio) FROM SCHEMA("Other", endpointId)', points)).toEqual([]);
  });

  it('adds up what several publish, filters, orders and limits', () => {
    const points = [ratio(0, 'a', 1), ratio(0, 'a', 2), ratio(0, 'b', 7), ratio(0, 'c', 5)];
    expect(groups('SELECT SUM(failure_ratio) FROM SCHEMA("Sluice", endpointId) GROUP BY endpointId ORDER BY SUM() ASC', points)).toEqual([['a', 3], ['c', 5], ['b', 7]]);
    expect(groups(`SELECT AVG(failure_ratio) FROM SCHEMA("Sluice", endpointId) WHERE endpointId != 'b' GROUP BY endpointId ORDER BY AVG() DESC`, points)).toEqual([['c', 5], ['a', 1.5]]);
    expect(groups(`SELECT COUNT(failure_ratio) FROM SCHEMA("Sluice", endpointId) WHERE endpointId = 'a'`, points)).toEqual([['', 2]]);
    expect(groups(`${failing} LIMIT 1`, points)).toEqual([['b', 7]]);
  });
});

describe('an alarm on one metric', () => {
  const silent: AlarmSpec = { ...base, periods: 5, datapoints: 5, comparison: 'LessThanThreshold', threshold: 1, missing: 'breaching' };
  const minutes = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => point(from + n, [1]));
  const watch = (alarm: AlarmSpec, datapoints: Datapoint[], toMinute: number) =>
    createAlarmEvaluator([alarm]).watch(datapoints, { fromEpochMs: atMinute(0), toEpochMs: atMinute(toMinute) }).map(({ atEpochMs, state }) => [(atEpochMs - startMs) / 60_000, state]);

  it('speaks of silence once nothing is left of what was looked at, and is well with the first word', () => {
    // Two minutes later than five: CloudWatch looks a little further back than it must.
    expect(watch(silent, [...minutes(-10, 3), ...minutes(20, 22)], 22)).toEqual([[0, 'OK'], [10, 'ALARM'], [20, 'OK']]);
  });

  it('hears nothing of a metric by another name, or with other dimensions', () => {
    const renamed = minutes(-10, 5).map((one) => ({ ...one, name: 'sweeps' }));
    const wider = minutes(-10, 5).map((one) => ({ ...one, dimensions: { service: 'sweep', outcome: 'x' } }));
    for (const points of [renamed, wider]) {
      expect(watch(silent, points, 5)).toEqual([[0, 'ALARM']]);
      expect(watch({ ...base, missing: 'notBreaching' }, points, 5)).toEqual([[0, 'OK']]);
      expect(watch({ ...base, missing: 'missing' }, points, 5)).toEqual([]);
    }
  });

  it('slides by the minute, and leaves out the minute under way', () => {
    const slow = { ...base, periodS: 300, threshold: 2 };
    const points = [point(1, [1]), point(3, [1]), point(5, [1])];
    expect(watch(slow, points, 4)).toEqual([[0, 'OK']]);
    // Three within five minutes, then two. Later on the newest period with data counts, however old it is.
    expect(watch(slow, points, 8)).toEqual([[0, 'OK'], [5, 'ALARM'], [6, 'OK']]);
    const evaluator = createAlarmEvaluator([base]);
    evaluator.at(atMinute(1) - 1, [point(1, [1])]);
    expect(evaluator.stateOf('a').state).toBe('OK');
    evaluator.at(atMinute(1), [point(1, [1])]);
    expect(evaluator.stateOf('a').state).toBe('ALARM');
    // What is said at the full minute belongs to the one that begins.
    const full = [{ ...point(0, [1]), atEpochMs: atMinute(1) }];
    expect(watch(base, full, 3)).toEqual([[0, 'OK'], [2, 'ALARM']]);
  });

  it('keeps its state where missing data is ignored', () => {
    expect(watch({ ...base, missing: 'ignore' }, [point(1, [3]), point(30, [0])], 40)).toEqual([[1, 'ALARM'], [30, 'OK']]);
  });

  it('is refused where it could never speak, or is not understood', () => {
    const refused = (of: Partial<AlarmSpec>) => () => createAlarmEvaluator([{ ...queryAlarm, ...of }]);
    expect(refused({ datapoints: 2 })).toThrow('2 of 1 periods');
    expect(refused({ periodS: 90 })).toThrow('not in whole minutes');
    expect(refused({ periods: 181 })).toThrow('further back than 10800 s');
    expect(refused({ source: { kind: 'query', expression: 'SELECT MAX(a) FROM SCHEMA("Sluice", b) GROUP BY b' } })).toThrow('must have ORDER BY');
    expect(refused({ source: { kind: 'query', expression: 'm1 + m2' } })).toThrow('Not a query');
    expect(() => createAlarmEvaluator([]).stateOf('a')).toThrow('No alarm a');
  });
});

describe('an alarm on a query', () => {
  const watch = (alarm: AlarmSpec, datapoints: Datapoint[], toMinute: number) => {
    const evaluator = createAlarmEvaluator([alarm]);
    const changes = evaluator.watch(datapoints, { fromEpochMs: atMinute(0), toEpochMs: atMinute(toMinute) });
    return { evaluator, changes: changes.map(({ atEpochMs, contributor, state }) => [(atEpochMs - startMs) / 60_000, contributor, state]) };
  };

  it('has a state for each endpoint, and is in ALARM while one of them is', () => {
    const points = [ratio(1, 'a', 0.9), ratio(1, 'b', 0.1), ratio(2, 'b', 0.5), ratio(2, 'a', 0), ratio(3, 'b', 0)];
    expect(watch(queryAlarm, points, 3).changes).toEqual([
      [1, 'endpointId=a', 'ALARM'], [1, undefined, 'ALARM'],
      [2, 'endpointId=a', 'OK'], [2, 'endpointId=b', 'ALARM'],
      [3, 'endpointId=b', 'OK'], [3, undefined, 'OK'],
    ]);
  });

  it('takes an endpoint that is not returned any more for well, even if missing data breaches', () => {
    const { changes } = watch({ ...queryAlarm, missing: 'breaching' }, [ratio(1, 'a', 0.9), ratio(1, 'b', 0.1), ...Array.from({ length: 9 }, (_, n) => ratio(2 + n, 'b', 0.1))], 10);
    expect(changes).toEqual([[1, 'endpointId=a', 'ALARM'], [1, undefined, 'ALARM'], [4, 'endpointId=a', 'OK'], [4, undefined, 'OK']]);
    // Without any the alarm itself knows nothing, as in the beginning.
    expect(watch(queryAlarm, [ratio(1, 'a', 0.1)], 10).changes).toEqual([[1, undefined, 'OK'], [4, undefined, 'INSUFFICIENT_DATA']]);
  });

  it('says nothing of a gauge that is published under another name or with more dimensions', () => {
    expect(watch(queryAlarm, [ratio(1, 'a', 0.9, { name: 'failures_ratio' })], 5).changes).toEqual([]);
    expect(watch(queryAlarm, [ratio(1, 'a', 0.9, { dimensions: { endpointId: 'a', service: 'sweep' } })], 5).changes).toEqual([]);
  });

  it('sees 500 endpoints, those with the largest, and says that it does not see all', () => {
    const many = (count: number) => Array.from({ length: count }, (_, n) => ratio(1, `e${n}`, 1 + n));
    const whole = watch(queryAlarm, many(500), 1).evaluator.stateOf('a');
    expect([whole.contributors.size, whole.isPartial]).toEqual([500, false]);
    const part = watch(queryAlarm, many(501), 1).evaluator.stateOf('a');
    expect([part.contributors.size, part.contributors.has('endpointId=e0'), part.contributors.has('endpointId=e500'), part.isPartial]).toEqual([500, false, true, true]);
    // A LIMIT cuts off without a word.
    const limited = watch({ ...queryAlarm, source: { kind: 'query', expression: `${failing} LIMIT 2` } }, many(501), 1).evaluator.stateOf('a');
    expect([[...limited.contributors.keys()], limited.isPartial]).toEqual([['endpointId=e500', 'endpointId=e499'], false]);
  });

  it('without GROUP BY is one series, and missing data is as for a metric', () => {
    const single: AlarmSpec = { ...queryAlarm, source: { kind: 'query', expression: 'SELECT MAX(failure_ratio) FROM SCHEMA("Sluice", endpointId)' } };
    expect(watch(single, [ratio(1, 'a', 0.9), ratio(1, 'b', 0.1)], 4).changes).toEqual([[0, undefined, 'OK'], [1, undefined, 'ALARM'], [4, undefined, 'OK']]);
  });
});

describe('readAlarms', () => {
  const read = (Properties: object) => readAlarms(new Resolver(templateSchema.parse({ Resources: { A: { Type: 'AWS::CloudWatch::Alarm', Properties }, Q: { Type: 'AWS::SQS::Queue' } } }), 'S', 'http://x'));
  const common = { AlarmName: 'a', AlarmDescription: '', ComparisonOperator: 'GreaterThanThreshold', Threshold: 1, EvaluationPeriods: 3 };

  it('reads a metric with its dimensions resolved, and a query; what is left out is as CloudWatch has it', () => {
    const Dimensions = [{ Name: 'QueueName', Value: { 'Fn::GetAtt': ['Q', 'QueueName'] } }];
    expect(read({ ...common, Namespace: 'AWS/SQS', MetricName: 'm', Dimensions, ExtendedStatistic: 'p95', Period: 60 })).toMatchObject([
      { name: 'a', source: { kind: 'series', dimensions: { QueueName: 'Q' }, statistic: 'p95' }, periods: 3, datapoints: 3, missing: 'missing' },
    ]);
    expect(read({ ...common, Metrics: [{ Id: 'q', Expression: failing, Period: 60, ReturnData: true }], DatapointsToAlarm: 2, TreatMissingData: 'ignore' })).toMatchObject([
      { source: { kind: 'query', expression: failing }, periodS: 60, datapoints: 2, missing: 'ignore' },
    ]);
  });

  it.each([
    ['metric math', { Metrics: [{ Id: 'a', Expression: 'b', Period: 60, ReturnData: true }, { Id: 'b', Expression: failing, Period: 60, ReturnData: false }] }],
    ['a property that it does not know', { Namespace: 'n', MetricName: 'm', Statistic: 'Sum', Period: 60, Unit: 'Count' }],
    ['no statistic', { Namespace: 'n', MetricName: 'm', Period: 60 }],
  ])('refuses %s', (_, more) => {
    expect(() => read({ ...common, ...more })).toThrow();
  });
});
