import { aws } from '../../../lambdas/shared/limits/numbers.ts';
import { addSamples, type Datapoint, keyOf, statisticOf } from './datapoints.ts';

/** Metrics that one query looks at: of more, CloudWatch takes the first it finds. */
const mostMetrics = 10_000;

/** A Metrics Insights query, as far as ours go. */
export interface Query {
  readonly statistic: string;
  readonly name: string;
  readonly namespace: string;
  /** Exactly these; undefined: any. */
  readonly schema: readonly string[] | undefined;
  readonly where: readonly { readonly dimension: string; readonly equals: boolean; readonly value: string }[];
  /** None: one series. */
  readonly groupBy: readonly string[];
  readonly order: { readonly statistic: string; readonly descending: boolean } | undefined;
  readonly limit: number | undefined;
}

/** One line of a graph: a value for each period that has data, by its age; 0 is the newest. */
export interface Series {
  /** Values of the dimensions of GROUP BY; empty where there is none. */
  readonly group: Readonly<Record<string, string>>;
  readonly byAge: ReadonlyMap<number, number>;
}

export interface Answer {
  readonly series: readonly Series[];
  /** CloudWatch does not see all: PARTIAL_DATA. */
  readonly isPartial: boolean;
}

const statistics: Readonly<Record<string, string>> = { AVG: 'Average', COUNT: 'SampleCount', MAX: 'Maximum', MIN: 'Minimum', SUM: 'Sum' };
const name = String.raw`(?:"[^"]+"|\w+)`;
const grammar = new RegExp(
  String.raw`^\s*SELECT\s+(?<fn>\w+)\s*\(\s*(?<metric>${name})\s*\)\s+FROM\s+(?:SCHEMA\s*\(\s*(?<schema>${name}(?:\s*,\s*${name})*)\s*\)|(?<namespace>${name}))` +
    String.raw`(?:\s+WHERE\s+(?<where>.+?))?(?:\s+GROUP\s+BY\s+(?<group>${name}(?:\s*,\s*${name})*))?` +
    String.raw`(?:\s+ORDER\s+BY\s+(?<order>\w+)\s*\(\s*\)(?:\s+(?<direction>ASC|DESC))?)?(?:\s+LIMIT\s+(?<limit>\d+))?\s*$`,
  'is',
);
const condition = new RegExp(String.raw`^\s*(?<dimension>${name})\s*(?<operator>!?=)\s*'(?<value>[^']*)'\s*$`, 's');

/** @throws Error for what is no query, or more than this understands: never a query taken for another one. */
export function parseQuery(expression: string): Query {
  const found = grammar.exec(expression)?.groups;
  if (found === undefined) throw new Error(`Not a query that is understood: ${expression}`);
  const [fromSchema, ...schema] = listOf(found['schema']);
  const { order, limit, where } = found;
  return {
    statistic: functionOf(found['fn'] ?? ''),
    name: bare(found['metric'] ?? ''),
    namespace: fromSchema ?? bare(found['namespace'] ?? ''),
    schema: fromSchema === undefined ? undefined : schema,
    where: where === undefined ? [] : where.split(/\s+AND\s+/i).map(conditionOf),
    groupBy: listOf(found['group']),
    order: order === undefined ? undefined : { statistic: functionOf(order), descending: found['direction']?.toUpperCase() === 'DESC' },
    limit: limit === undefined ? undefined : Number(limit),
  };
}

function functionOf(text: string): string {
  const statistic = statistics[text.toUpperCase()];
  if (statistic === undefined) throw new Error(`No such function of a query: ${text}`);
  return statistic;
}

function conditionOf(text: string): Query['where'][number] {
  const found = condition.exec(text)?.groups;
  if (found === undefined) throw new Error(`Not a condition that is understood: ${text}`);
  return { dimension: bare(found['dimension'] ?? ''), equals: found['operator'] === '=', value: found['value'] ?? '' };
}

const listOf = (text: string | undefined) => (text === undefined ? [] : text.split(',').map((one) => bare(one.trim())));
const bare = (text: string) => text.replace(/^"(.*)"$/, '$1');

/**
 * @param ageOf which period a time lies in, undefined outside all that are looked at.
 * Series come in the order of the query, over all of these periods, and no more of them than CloudWatch returns.
 */
export function runQuery(query: Query, datapoints: readonly Datapoint[], ageOf: (atEpochMs: number) => number | undefined): Answer {
  const groups = new Map<string, { group: Record<string, string>; samples: Map<number, number[]> }>();
  const metrics = new Set<string>();
  let isPartial = false;
  for (const datapoint of datapoints) {
    const age = matches(query, datapoint) ? ageOf(datapoint.atEpochMs) : undefined;
    if (age === undefined) continue;
    const metric = keyOf(datapoint.dimensions);
    if (!metrics.has(metric) && metrics.size === mostMetrics) {
      isPartial = true;
      continue;
    }
    metrics.add(metric);
    const group = Object.fromEntries(query.groupBy.map((dimension) => [dimension, datapoint.dimensions[dimension] ?? '']));
    const key = keyOf(group);
    const { samples } = groups.get(key) ?? { samples: new Map<number, number[]>() };
    groups.set(key, { group, samples });
    addSamples(samples, age, datapoint.values);
  }
  const all = inOrder(query, [...groups.values()]);
  const kept = all.slice(0, Math.min(query.limit ?? aws.querySeries, aws.querySeries));
  const series = kept.map(({ group, samples }) => ({ group, byAge: new Map([...samples].map(([age, values]) => [age, statisticOf(query.statistic, values)])) }));
  // What a LIMIT cuts off, nobody asked for.
  return { series, isPartial: isPartial || Math.min(all.length, query.limit ?? Infinity) > aws.querySeries };
}

function matches(query: Query, { namespace, name, dimensions }: Datapoint): boolean {
  if (namespace !== query.namespace || name !== query.name) return false;
  const names = Object.keys(dimensions);
  if (query.schema !== undefined && (names.length !== query.schema.length || !query.schema.every((one) => names.includes(one)))) return false;
  if (!query.groupBy.every((one) => names.includes(one))) return false;
  return query.where.every(({ dimension, equals, value }) => dimension in dimensions && (dimensions[dimension] === value) === equals);
}

function inOrder<G extends { samples: Map<number, number[]> }>({ order }: Query, groups: G[]): G[] {
  if (order === undefined) return groups;
  const rank = ({ samples }: G) => statisticOf(order.statistic, [...samples.values()].flat()) * (order.descending ? -1 : 1);
  return groups.map((group) => ({ group, at: rank(group) })).sort((a, b) => a.at - b.at).map(({ group }) => group);
}
