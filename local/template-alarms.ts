/** The alarms of a synthesised template, as plain data. The embedded AWS evaluates none of them: tests do (test/support/alarm-evaluator). */
import { z } from 'zod';
import type { Resolver } from './template-resolver.ts';

/** One statistic of one metric, or a query; `statistic` as in the template, a percentile included. */
export type AlarmSource =
  | { readonly kind: 'series'; readonly namespace: string; readonly name: string; readonly dimensions: Readonly<Record<string, string>>; readonly statistic: string }
  | { readonly kind: 'query'; readonly expression: string };

export interface AlarmSpec {
  readonly logicalId: string;
  readonly name: string;
  readonly description: string;
  readonly source: AlarmSource;
  readonly periodS: number;
  readonly periods: number;
  readonly datapoints: number;
  readonly comparison: (typeof comparisons)[number];
  readonly threshold: number;
  readonly missing: (typeof treatments)[number];
  /** ARNs of topics. */
  readonly actions: readonly string[];
  readonly okActions: readonly string[];
}

const comparisons = ['GreaterThanThreshold', 'GreaterThanOrEqualToThreshold', 'LessThanThreshold', 'LessThanOrEqualToThreshold'] as const;
const treatments = ['breaching', 'notBreaching', 'ignore', 'missing'] as const;

const common = {
  AlarmName: z.string(),
  AlarmDescription: z.string(),
  ComparisonOperator: z.enum(comparisons),
  Threshold: z.number(),
  EvaluationPeriods: z.number(),
  DatapointsToAlarm: z.number().optional(),
  TreatMissingData: z.enum(treatments).default('missing'),
  AlarmActions: z.array(z.string()).default([]),
  OKActions: z.array(z.string()).default([]),
};
const seriesAlarm = z.strictObject({
  ...common,
  Namespace: z.string(),
  MetricName: z.string(),
  Dimensions: z.array(z.strictObject({ Name: z.string(), Value: z.string() })).default([]),
  Statistic: z.string().optional(),
  ExtendedStatistic: z.string().optional(),
  Period: z.number(),
});
const query = z.strictObject({ Id: z.string(), Expression: z.string(), Period: z.number(), ReturnData: z.literal(true) });
const queryAlarm = z.strictObject({ ...common, Metrics: z.tuple([query]) });

/** Strict: an alarm with a property that is not read here would be judged otherwise than on AWS. */
export function readAlarms(resolver: Resolver): AlarmSpec[] {
  return resolver.all('AWS::CloudWatch::Alarm').map(({ logicalId, properties }) => {
    const alarm = 'Metrics' in properties ? queryAlarm.parse(properties) : seriesAlarm.parse(properties);
    return {
      logicalId,
      name: alarm.AlarmName,
      description: alarm.AlarmDescription,
      ...sourceOf(alarm),
      periods: alarm.EvaluationPeriods,
      datapoints: alarm.DatapointsToAlarm ?? alarm.EvaluationPeriods,
      comparison: alarm.ComparisonOperator,
      threshold: alarm.Threshold,
      missing: alarm.TreatMissingData,
      actions: alarm.AlarmActions,
      okActions: alarm.OKActions,
    };
  });
}

function sourceOf(alarm: z.output<typeof queryAlarm> | z.output<typeof seriesAlarm>): Pick<AlarmSpec, 'source' | 'periodS'> {
  if ('Metrics' in alarm) {
    const [{ Expression, Period }] = alarm.Metrics;
    return { source: { kind: 'query', expression: Expression }, periodS: Period };
  }
  const statistic = alarm.Statistic ?? alarm.ExtendedStatistic;
  if (statistic === undefined) throw new Error(`Alarm ${alarm.AlarmName} has no statistic`);
  const dimensions = Object.fromEntries(alarm.Dimensions.map(({ Name, Value }) => [Name, Value]));
  return { source: { kind: 'series', namespace: alarm.Namespace, name: alarm.MetricName, dimensions, statistic }, periodS: alarm.Period };
}
