/** Metrics as alarms and the dashboard name them: ours only by the catalogue, so that a name that is not published does not compile. */
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { dimensions, type EndpointGauge, type EndpointMetric, type FleetMetric, phaseMetric } from '../lambdas/shared/limits/metrics.ts';
import type { Phase } from '../lambdas/shared/limits/phases.ts';

/** One series, by its exact dimensions. */
export interface MetricSeries {
  readonly kind: 'series';
  readonly namespace: string;
  readonly name: string;
  readonly dimensions: Readonly<Record<string, string>>;
  /** `Sum`, `Maximum`… or a percentile such as `p95`; alarms take no percentiles. */
  readonly statistic: string;
}

/** Metrics Insights: one series for each value of the dimension, the largest first. */
export interface MetricQuery {
  readonly kind: 'query';
  readonly expression: string;
}

/** The functions, as their metrics name them. */
export type Service = 'deliver' | 'drain' | 'sweep' | 'replay';

/** Metrics that the functions of one installation publish. */
export interface OwnMetrics {
  readonly fleetSeries: (name: FleetMetric, service: Service, statistic: string) => MetricSeries;
  readonly phaseSeries: (phase: Phase, of: { service: Service; outcome: string }, statistic: string) => MetricSeries;
  /** Each service by itself, so that the alarm names it. */
  readonly serviceQuery: (fn: QueryFunction, name: FleetMetric) => MetricQuery;
  /** Each endpoint by itself. A limit is for a table: what it cut off would be well for an alarm without a word, and of more than 500 CloudWatch says that it does not see all. */
  readonly endpointQuery: (fn: QueryFunction, name: EndpointGauge | EndpointMetric, limit?: number) => MetricQuery;
}

type QueryFunction = 'SUM' | 'MAX';

/** @param namespace of the installation; each has its own (installation.ts) */
export function metricsIn(namespace: string): OwnMetrics {
  const seriesOf = (name: string, exact: MetricSeries['dimensions'], statistic: string): MetricSeries => ({ kind: 'series', namespace, name, dimensions: exact, statistic });
  // SCHEMA finds only what is published with exactly this dimension; without GROUP BY and ORDER BY an alarm would have no contributors.
  const queryBy = (dimension: string, fn: QueryFunction, name: string, limit?: number): MetricQuery => {
    const expression = `SELECT ${fn}(${name}) FROM SCHEMA("${namespace}", ${dimension}) GROUP BY ${dimension} ORDER BY ${fn}() DESC`;
    return { kind: 'query', expression: limit === undefined ? expression : `${expression} LIMIT ${limit}` };
  };
  return {
    fleetSeries: (name, service, statistic) => seriesOf(name, { [dimensions.service]: service }, statistic),
    phaseSeries: (phase, { service, outcome }, statistic) => seriesOf(phaseMetric(phase), { [dimensions.service]: service, [dimensions.outcome]: outcome }, statistic),
    serviceQuery: (fn, name) => queryBy(dimensions.service, fn, name),
    endpointQuery: (fn, name, limit) => queryBy(dimensions.endpointId, fn, name, limit),
  };
}

export function queueSeries(name: 'ApproximateNumberOfMessagesVisible' | 'ApproximateNumberOfMessagesNotVisible' | 'ApproximateAgeOfOldestMessage', queue: Queue): MetricSeries {
  return { kind: 'series', namespace: 'AWS/SQS', name, dimensions: { QueueName: queue.queueName }, statistic: 'Maximum' };
}

export function functionSeries(name: 'Errors' | 'Throttles' | 'Invocations' | 'ConcurrentExecutions', fn: NodejsFunction, statistic = 'Sum'): MetricSeries {
  return { kind: 'series', namespace: 'AWS/Lambda', name, dimensions: { FunctionName: fn.functionName }, statistic };
}
