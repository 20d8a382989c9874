/** Metrics as alarms and the dashboard name them: ours only by the catalogue, so that a name that is not published does not compile. */
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { dimensions, type EndpointGauge, type EndpointMetric, type FleetMetric, metricNamespace, phaseMetric } from '../lambdas/shared/limits/metrics.ts';
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

export function fleetSeries(name: FleetMetric, service: Service, statistic: string): MetricSeries {
  return { kind: 'series', namespace: metricNamespace, name, dimensions: { [dimensions.service]: service }, statistic };
}

export function phaseSeries(phase: Phase, of: { service: Service; outcome: string }, statistic: string): MetricSeries {
  const exact = { [dimensions.service]: of.service, [dimensions.outcome]: of.outcome };
  return { kind: 'series', namespace: metricNamespace, name: phaseMetric(phase), dimensions: exact, statistic };
}

export function queueSeries(name: 'ApproximateNumberOfMessagesVisible' | 'ApproximateNumberOfMessagesNotVisible' | 'ApproximateAgeOfOldestMessage', queue: Queue): MetricSeries {
  return { kind: 'series', namespace: 'AWS/SQS', name, dimensions: { QueueName: queue.queueName }, statistic: 'Maximum' };
}

export function functionSeries(name: 'Errors' | 'Throttles' | 'Invocations' | 'ConcurrentExecutions', fn: NodejsFunction, statistic = 'Sum'): MetricSeries {
  return { kind: 'series', namespace: 'AWS/Lambda', name, dimensions: { FunctionName: fn.functionName }, statistic };
}

/** Each service by itself, so that the alarm names it. */
export function serviceQuery(fn: 'SUM' | 'MAX', name: FleetMetric): MetricQuery {
  return queryBy(dimensions.service, fn, name);
}

/**
 * Each endpoint by itself.
 * @param limit for a table. An alarm has none: what it cut off would be well without a word, and of more than 500 CloudWatch says that it does not see all.
 */
export function endpointQuery(fn: 'SUM' | 'MAX', name: EndpointGauge | EndpointMetric, limit?: number): MetricQuery {
  return queryBy(dimensions.endpointId, fn, name, limit);
}

/** SCHEMA finds only what is published with exactly this dimension; without GROUP BY and ORDER BY an alarm would have no contributors. */
function queryBy(dimension: string, fn: string, name: string, limit?: number): MetricQuery {
  const expression = `SELECT ${fn}(${name}) FROM SCHEMA("${metricNamespace}", ${dimension}) GROUP BY ${dimension} ORDER BY ${fn}() DESC`;
  return { kind: 'query', expression: limit === undefined ? expression : `${expression} LIMIT ${limit}` };
}
