/** What one publisher said of one metric at one moment: a metric is named by all of its dimensions, and by no fewer. */
export interface Datapoint {
  readonly namespace: string;
  readonly name: string;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly atEpochMs: number;
  /** Each is one sample. */
  readonly values: readonly number[];
}

/** Dimensions in one text, whatever their order. */
export function keyOf(dimensions: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(dimensions).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** @param values at least one. @throws Error if there is no such statistic. */
export function statisticOf(statistic: string, values: readonly number[]): number {
  const sum = () => values.reduce((total, value) => total + value, 0);
  switch (statistic) {
    case 'Sum': return sum();
    case 'Average': return sum() / values.length;
    case 'Maximum': return values.reduce((most, value) => Math.max(most, value));
    case 'Minimum': return values.reduce((least, value) => Math.min(least, value));
    case 'SampleCount': return values.length;
    default: return percentileOf(statistic, values);
  }
}

/** By nearest rank; CloudWatch interpolates between samples, which matters to few of them only. */
function percentileOf(statistic: string, values: readonly number[]): number {
  const [, percent] = /^p(\d{1,2}(?:\.\d+)?|100)$/.exec(statistic) ?? [];
  if (percent === undefined) throw new Error(`No such statistic: ${statistic}`);
  const sorted = values.toSorted((a, b) => a - b);
  const rank = Math.max(1, Math.ceil((Number(percent) / 100) * sorted.length));
  return sorted[rank - 1] ?? Number.NaN;
}

/** All samples of a period count as one lot, whoever published them. */
export function addSamples(samples: Map<number, number[]>, age: number, values: readonly number[]): void {
  const lot = samples.get(age);
  if (lot === undefined) samples.set(age, [...values]);
  else lot.push(...values);
}
