import type { AlarmSpec } from '../../../local/template-alarms.ts';

export type State = 'OK' | 'ALARM' | 'INSUFFICIENT_DATA';

/** What a rule needs to judge one series. */
export type Rule = Pick<AlarmSpec, 'periods' | 'datapoints' | 'comparison' | 'threshold' | 'missing'>;

/**
 * So many periods more than it needs CloudWatch looks at, in case some have no data. Its rule is not published; the examples of its
 * documentation have two more than three (?).
 */
const extraPeriods = 2;

export function periodsLookedAt({ periods }: Rule): number {
  return periods + extraPeriods;
}

/**
 * The state of one series, as the documentation of CloudWatch tells it ("how alarms treat missing data", with both of its tables):
 * where as many periods have data as are needed, the newest of these decide, however far apart, and nothing is missing; else what is
 * missing is filled in, as seldom as possible.
 * @param byAge of periodsLookedAt periods, those that have data; 0 is the newest.
 * @param before the state that it had.
 */
export function judge(rule: Rule, byAge: ReadonlyMap<number, number>, before: State): State {
  const { periods, datapoints, missing } = rule;
  const real = [...byAge].filter(([age]) => age < periodsLookedAt(rule)).sort(([a], [b]) => a - b).map(([age, value]) => ({ age, breaches: breaches(rule, value) }));
  const newest = real.slice(0, periods);
  const count = newest.filter((one) => one.breaches).length;
  const decided: State = count >= datapoints ? 'ALARM' : 'OK';
  if (newest.length === periods) return decided;
  switch (missing) {
    case 'notBreaching': return decided;
    case 'breaching': return count + periods - newest.length >= datapoints ? 'ALARM' : 'OK';
    case 'missing': return real.length === 0 ? 'INSUFFICIENT_DATA' : isLasting(rule, real) ? 'ALARM' : decided;
    case 'ignore': return decided === 'OK' && newest.every((one) => one.breaches) ? before : decided;
  }
}

/** Nothing but breaches, of which the oldest is old enough: what came since is missing, and the alarm does not wait for it. */
function isLasting({ datapoints }: Rule, real: readonly { age: number; breaches: boolean }[]): boolean {
  return real.every((one) => one.breaches) && (real.at(-1)?.age ?? -1) + 1 >= datapoints;
}

function breaches({ comparison, threshold }: Rule, value: number): boolean {
  switch (comparison) {
    case 'GreaterThanThreshold': return value > threshold;
    case 'GreaterThanOrEqualToThreshold': return value >= threshold;
    case 'LessThanThreshold': return value < threshold;
    case 'LessThanOrEqualToThreshold': return value <= threshold;
  }
}
