import type { CfnAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import { alarms } from '../lambdas/shared/limits/numbers.ts';
import { type AlarmHome, type AlarmParts, newAlarm } from './alarm.ts';
import type { OwnMetrics } from './metrics.ts';

/** Tickets of single endpoints. Each is one alarm on a query; every endpoint that it returns is a contributor with a state of its own. */
export function newEndpointAlarms(home: AlarmHome, metrics: OwnMetrics): CfnAlarm[] {
  return tickets(metrics).map((parts) => newAlarm(home, { ...parts, severity: 'ticket', missing: 'notBreaching' }));
}

/** No data is well: gauges are published of what is ill only, and end with a zero. */
const tickets = ({ endpointQuery }: OwnMetrics): readonly Omit<AlarmParts, 'severity' | 'missing'>[] => [
  {
    name: 'endpoint-failing', anchor: 'an-endpoint-fails', rule: alarms.endpoint.failing,
    means: 'Attempts at an endpoint fail, too many of them for a quarter of an hour.',
    watches: endpointQuery('MAX', 'failure_ratio'),
  },
  {
    name: 'endpoint-unreachable', anchor: 'an-endpoint-fails', rule: alarms.endpoint.unreachable,
    means: 'Most attempts at an endpoint get no connection: its name, its network or its certificate.',
    watches: endpointQuery('MAX', 'connect_failure_ratio'),
  },
  {
    name: 'endpoint-breaker-open', anchor: 'a-breaker-is-open', rule: alarms.endpoint.breakerOpen,
    means: 'The breaker of an endpoint has not been closed for an hour: it gets nothing, and all its deliveries are held.',
    watches: endpointQuery('MAX', 'breaker_open_age'),
  },
  {
    name: 'endpoint-undelivered-old', anchor: 'deliveries-are-held-and-do-not-go', rule: alarms.endpoint.undelivered,
    means: 'A delivery of an endpoint has been held for a day; after three it is given up.',
    watches: endpointQuery('MAX', 'oldest_undelivered_age'),
  },
  {
    name: 'endpoint-dead', anchor: 'deliveries-are-dead', rule: alarms.endpoint.dead,
    means: 'Deliveries of an endpoint have died just now.',
    watches: endpointQuery('SUM', 'dead'),
  },
  {
    name: 'endpoint-unknown-old', anchor: 'deliveries-are-unknown', rule: alarms.endpoint.unknown,
    means: 'A delivery of an endpoint may have arrived or not, and looking for it has not told.',
    watches: endpointQuery('MAX', 'oldest_unknown_age'),
  },
  {
    name: 'endpoint-shedding', anchor: 'an-endpoint-gets-more-than-it-takes', rule: alarms.endpoint.shedding,
    means: 'More than a fifth of what comes for an endpoint finds no room in its lane.',
    watches: endpointQuery('MAX', 'shed_ratio'),
  },
  {
    name: 'endpoint-occupancy', anchor: 'an-endpoint-takes-the-time-of-others', rule: alarms.endpoint.occupancy,
    means: 'One endpoint takes a large share of all delivery time, far above its share of attempts.',
    watches: endpointQuery('MAX', 'occupancy_share'),
  },
];
