import { CfnAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { type AlarmRule, runbook } from '../lambdas/shared/limits/numbers.ts';
import type { AlarmTopics } from './alarm-topics.ts';
import type { MetricQuery, MetricSeries } from './metrics.ts';

/** `page` wakes somebody; a `ticket` waits for the morning. */
export type Severity = 'page' | 'ticket';

/** Everything that an alarm must say before there can be one. */
export interface AlarmParts {
  /** In kebab case; the runbook names it below its heading. */
  readonly name: string;
  readonly severity: Severity;
  /** Of the heading in docs/runbook.md that says what to do. */
  readonly anchor: string;
  /** What has happened, in one sentence. */
  readonly means: string;
  readonly watches: MetricSeries | MetricQuery;
  readonly rule: AlarmRule;
  /** Default: above the bound. */
  readonly speaks?: 'above' | 'below';
  /** What a period without data says. `ignore` leaves the alarm as it was: for metrics that stop where nobody looks at their queue. */
  readonly missing: 'notBreaching' | 'breaching' | 'ignore';
}

/** Where alarms are made, and what all of them share. */
export interface AlarmHome {
  readonly scope: Construct;
  /** Of the installation: of two in one stack, each has alarms of its own. */
  readonly prefix: string;
  readonly topics: AlarmTopics;
  readonly runbookUrl: string;
}

/** The only place in which an alarm is made. Its end is told to the same topic, so that what it opened can be closed. */
export function newAlarm({ scope, prefix, topics, runbookUrl }: AlarmHome, parts: AlarmParts): CfnAlarm {
  const { rule, severity, watches } = parts;
  const topic = topics[severity].topicArn;
  const alarm = new CfnAlarm(scope, constructId(parts.name), {
    alarmName: `${prefix}-${parts.name}`,
    alarmDescription: described(parts, runbookUrl),
    ...(watches.kind === 'series' ? seriesProps(watches, rule) : queryProps(watches, rule)),
    comparisonOperator: parts.speaks === 'below' ? 'LessThanThreshold' : 'GreaterThanThreshold',
    threshold: rule.bound,
    evaluationPeriods: rule.periods,
    datapointsToAlarm: rule.datapoints,
    treatMissingData: parts.missing,
    alarmActions: [topic],
    okActions: [topic],
  });
  // Before CloudWatch may publish, the first words of an alarm would be lost.
  alarm.node.addDependency(topics);
  return alarm;
}

function described({ name, severity, means, anchor }: AlarmParts, runbookUrl: string): string {
  const text = `${severity}: ${means} Runbook: ${runbookUrl}#${anchor}`;
  if (text.length > runbook.maxDescriptionLength) throw new Error(`Alarm ${name}: a description of ${text.length} characters, must be <= ${runbook.maxDescriptionLength}`);
  return text;
}

function seriesProps({ namespace, name, dimensions, statistic }: MetricSeries, { periodS }: AlarmRule) {
  return { namespace, metricName: name, statistic, period: periodS, dimensions: Object.entries(dimensions).map(([key, value]) => ({ name: key, value })) };
}

/** The period stands beside the query: CloudWatch refuses an alarm on a query without one. */
function queryProps({ expression }: MetricQuery, { periodS }: AlarmRule) {
  return { metrics: [{ id: 'q1', expression, period: periodS, returnData: true }] };
}

/** `fault-queue` to `FaultQueue`: logical ids hold letters and digits only. */
function constructId(name: string): string {
  return name.replace(/(?:^|-)(\w)/g, (_, letter: string) => letter.toUpperCase());
}
