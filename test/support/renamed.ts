/** What becomes of alarms where a metric goes by another name than the one that they read. */
import { parseQuery } from './alarm-evaluator/query.ts';
import type { Watch } from './watch.ts';

/** The metric that an alarm reads, in its query or as a series; undefined where it is one of AWS. */
export function ownMetricOf(watch: Watch, alarm: string): string | undefined {
  const source = watch.source(alarm);
  const { namespace, name } = source.kind === 'query' ? parseQuery(source.expression) : source;
  return namespace.startsWith('AWS/') ? undefined : name;
}

/** Of these alarms, those that would have spoken all the same had their metric been published under another name. */
export function deafTo(watch: Watch, alarms: readonly string[]): string[] {
  return alarms.filter((alarm) => {
    const metric = ownMetricOf(watch, alarm);
    return metric !== undefined && watch.wouldAlarm(alarm, (datapoint) => (datapoint.name === metric ? { ...datapoint, name: `${metric}_renamed` } : datapoint));
  });
}

/** Metrics that these alarms read and that no function has published. */
export function unpublished(watch: Watch, alarms: readonly string[]): string[] {
  const published = new Set(watch.datapoints().map(({ name }) => name));
  return alarms.flatMap((alarm) => ownMetricOf(watch, alarm) ?? []).filter((metric) => !published.has(metric));
}
