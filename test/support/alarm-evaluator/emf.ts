import { z } from 'zod';
import type { Datapoint } from './datapoints.ts';

/** Of the embedded metric format: what CloudWatch takes of one line, and of one metric in it. */
const most = { metrics: 100, values: 100, dimensions: 30 };

const directive = z.looseObject({
  Namespace: z.string().min(1),
  Dimensions: z.array(z.array(z.string()).max(most.dimensions)),
  Metrics: z.array(z.looseObject({ Name: z.string(), Unit: z.string().optional() })).max(most.metrics),
});
const metricLine = z.looseObject({ _aws: z.looseObject({ Timestamp: z.number().int(), CloudWatchMetrics: z.array(directive) }) });
const samples = z.union([z.number().transform((value) => [value]), z.array(z.number()).min(1).max(most.values)]);

/**
 * Metrics out of a function's log: of each line in embedded metric format, one datapoint for each metric and set of dimensions.
 * Other lines are passed over.
 * @throws Error where a line breaks the format: CloudWatch would drop it, or a part of it, without a word.
 */
export function metricsOf(log: string): Datapoint[] {
  return log.split('\n').filter((line) => line.includes('"_aws"')).flatMap((line) => metricsOfLine(line.slice(line.indexOf('{'))));
}

function metricsOfLine(text: string): Datapoint[] {
  const line = metricLine.parse(JSON.parse(text));
  return line._aws.CloudWatchMetrics.flatMap(({ Namespace, Dimensions, Metrics }) =>
    Dimensions.flatMap((names) => {
      const dimensions = Object.fromEntries(names.map((name) => [name, dimensionOf(line, name)]));
      return Metrics.map(({ Name }) => ({ namespace: Namespace, name: Name, dimensions, atEpochMs: line._aws.Timestamp, values: valuesOf(line, Name) }));
    }),
  );
}

function dimensionOf(line: Record<string, unknown>, name: string): string {
  const value = line[name];
  if (typeof value !== 'string' || value === '') throw new Error(`Dimension ${name} has no value: ${JSON.stringify(value)}`);
  return value;
}

function valuesOf(line: Record<string, unknown>, name: string): number[] {
  const found = samples.safeParse(line[name]);
  if (!found.success) throw new Error(`Metric ${name} has no numbers, or more than ${most.values}: ${JSON.stringify(line[name])?.slice(0, 100)}`);
  return found.data;
}
