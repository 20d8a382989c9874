import { Aws, Stack } from 'aws-cdk-lib';
import { type CfnAlarm, CfnDashboard } from 'aws-cdk-lib/aws-cloudwatch';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { Construct } from 'constructs';
import type { EndpointGauge, EndpointMetric, FleetMetric } from '../lambdas/shared/limits/metrics.ts';
import { dashboard as limits } from '../lambdas/shared/limits/numbers.ts';
import { phases } from '../lambdas/shared/limits/phases.ts';
import type { Alarms } from './alarms.ts';
import { functionSeries, type MetricQuery, type MetricSeries, type OwnMetrics, queueSeries, type Service } from './metrics.ts';
import type { Queues } from './queues.ts';

/** What the dashboard shows. */
export interface DashboardProps {
  readonly queues: Queues;
  readonly functions: Readonly<Record<Service, NodejsFunction>>;
  readonly alarms: Alarms;
  readonly metrics: OwnMetrics;
}

interface Widget {
  readonly type: 'metric' | 'alarm';
  readonly properties: Record<string, unknown>;
}

/** In the order of the runbook: what crashed us, then the fleet, then single endpoints. CloudWatch names it: two installations may share a stack. */
export function newDashboard(scope: Construct, id: string, props: DashboardProps): CfnDashboard {
  const rows = [alarmRow(props), ...queueRows(props), ...fleetRows(props.metrics), ...endpointRows(props.metrics)];
  return new CfnDashboard(scope, id, { dashboardBody: Stack.of(scope).toJsonString({ widgets: placed(rows) }) });
}

function alarmRow({ alarms }: DashboardProps): Widget[] {
  const widget = (title: string, list: readonly CfnAlarm[]): Widget => ({ type: 'alarm', properties: { title, alarms: list.map(({ attrArn }) => attrArn) } });
  return [widget('Alarms of the installation', alarms.fleet), widget('Tickets of endpoints', alarms.endpoints)];
}

function queueRows({ queues, functions, metrics }: DashboardProps): Widget[][] {
  const services = Object.keys(functions) as Service[];
  const ofFunctions = (name: 'Errors' | 'Throttles') => Object.fromEntries(services.map((service) => [`${service} ${name.toLowerCase()}`, functionSeries(name, functions[service])]));
  return [
    [
      graph('Fault queue, dead-letter queue: messages', {
        fault: queueSeries('ApproximateNumberOfMessagesVisible', queues.fault),
        'dead letters': queueSeries('ApproximateNumberOfMessagesVisible', queues.deadLetter),
      }),
      graph('Delivery queue: messages', {
        waiting: queueSeries('ApproximateNumberOfMessagesVisible', queues.delivery),
        'in flight': queueSeries('ApproximateNumberOfMessagesNotVisible', queues.delivery),
      }),
      graph('Age of the oldest message (s)', {
        delivery: queueSeries('ApproximateAgeOfOldestMessage', queues.delivery),
        drain: queueSeries('ApproximateAgeOfOldestMessage', queues.drain),
        'dead letters': metrics.fleetSeries('oldest_dead_letter_age', 'sweep', 'Maximum'),
      }),
    ],
    [
      graph('Faults', Object.fromEntries(services.map((service) => [service, metrics.fleetSeries('faults', service, 'Sum')]))),
      graph('Functions: errors, throttles', { ...ofFunctions('Errors'), ...ofFunctions('Throttles') }),
      graph('Functions: concurrency, runs of the sweep', {
        deliver: functionSeries('ConcurrentExecutions', functions.deliver, 'Maximum'),
        drain: functionSeries('ConcurrentExecutions', functions.drain, 'Maximum'),
        swept: metrics.fleetSeries('swept', 'sweep', 'Sum'),
      }),
    ],
  ];
}

function fleetRows(own: OwnMetrics): Widget[][] {
  return [
    [
      ratio(own, 'First attempts delivered (%), goal 98.5', { part: 'first_attempts_delivered', whole: ['first_attempts'] }),
      ratio(own, 'Deliveries that ended well (%), goal 99.95', { part: 'delivered', whole: ['delivered', 'dead'] }),
      graph('Deliveries', bySender(own, ['delivered', 'dead', 'dead_unaddressed', 'unknown', 'shed', 'held'], 'Sum')),
    ],
    [
      graph('Latency of deliveries (ms)', percentiles(own, 'delivery_latency')),
      graph('Duration of attempts (ms)', percentiles(own, 'attempt_duration')),
      graph('Attempts by outcome', bySender(own, ['attempts_answered', 'attempts_ambiguous', 'attempts_unsent', 'attempts_invalid', 'not_started'], 'Sum')),
    ],
    senders.map((service) =>
      graph(`Phases of ${service}, answered attempts: p95 (ms)`, Object.fromEntries(phases.map((phase) => [phase, own.phaseSeries(phase, { service, outcome: 'answered' }, 'p95')]))),
    ),
    [
      graph('Sockets in use at most, idle', bySender(own, ['connections_in_use', 'connections_idle'], 'Maximum')),
      graph('Share of attempts on an open socket', bySender(own, ['connections_reused'], 'Average')),
      graph('Sockets that were dead, endpoints that asked for less', bySender(own, ['stale_sockets', 'throttled'], 'Sum')),
    ],
    [
      graph('Breakers: opened, closed, open', { ...bySender(own, ['breaker_opened', 'breaker_closed'], 'Sum'), ...ofSweep(own, ['breakers_open', 'endpoints_sick']) }),
      graph('Held deliveries', ofSweep(own, ['held_deliveries'])),
      graph('Age of the oldest held and unknown delivery (s)', ofSweep(own, ['oldest_undelivered_age', 'oldest_unknown_age'])),
    ],
  ];
}

/** Tables by query: one row an endpoint, the worst first. */
function endpointRows(own: OwnMetrics): Widget[][] {
  const worst = (title: string, name: EndpointGauge) => table(title, own.endpointQuery('MAX', name, limits.rows));
  const sums = (title: string, name: EndpointMetric) => table(title, own.endpointQuery('SUM', name, limits.rows));
  return [
    [worst('Failing', 'failure_ratio'), worst('Unreachable', 'connect_failure_ratio'), worst('Breaker not closed (s)', 'breaker_open_age')],
    [worst('Oldest held (s)', 'oldest_undelivered_age'), worst('Oldest unknown (s)', 'oldest_unknown_age'), sums('Deliveries that died', 'dead')],
    [worst('Shed', 'shed_ratio'), worst('Share of delivery time', 'occupancy_share'), sums('Failed attempts', 'failed_attempts')],
  ];
}

const senders = ['deliver', 'drain'] as const;

function bySender(own: OwnMetrics, names: readonly FleetMetric[], statistic: string): Record<string, MetricSeries> {
  return Object.fromEntries(names.flatMap((name) => senders.map((service) => [`${service} ${name}`, own.fleetSeries(name, service, statistic)])));
}

function ofSweep(own: OwnMetrics, names: readonly FleetMetric[]): Record<string, MetricSeries> {
  return Object.fromEntries(names.map((name) => [name, own.fleetSeries(name, 'sweep', 'Maximum')]));
}

function percentiles(own: OwnMetrics, name: FleetMetric): Record<string, MetricSeries> {
  return Object.fromEntries(senders.flatMap((service) => ['p50', 'p95', 'p99'].map((statistic) => [`${service} ${statistic}`, own.fleetSeries(name, service, statistic)])));
}

function graph(title: string, lines: Readonly<Record<string, MetricSeries>>): Widget {
  const metrics = Object.entries(lines).map(([label, series]) => row(series, { label }));
  return { type: 'metric', properties: { title, metrics, view: 'timeSeries', period: limits.periodS, region: Aws.REGION } };
}

/** Both senders together: an event may be tried first by the one and last by the other. */
function ratio(own: OwnMetrics, title: string, { part, whole }: { part: FleetMetric; whole: readonly FleetMetric[] }): Widget {
  const ids = (prefix: string, names: readonly FleetMetric[]) => names.flatMap((name) => senders.map((service) => ({ id: `${prefix}_${name}_${service}`, series: own.fleetSeries(name, service, 'Sum') })));
  const [parts, wholes] = [ids('p', [part]), ids('w', whole)];
  const sum = (list: typeof parts) => list.map(({ id }) => `FILL(${id}, 0)`).join(' + ');
  const expression = { expression: `100 * (${sum(parts)}) / (${sum(wholes)})`, id: 'ratio', label: title, period: limits.tablePeriodS };
  const metrics = [[expression], ...[...parts, ...wholes].map(({ id, series }) => row(series, { id, visible: false, period: limits.tablePeriodS }))];
  return { type: 'metric', properties: { title, metrics, view: 'timeSeries', period: limits.tablePeriodS, region: Aws.REGION } };
}

function row({ namespace, name, dimensions, statistic }: MetricSeries, options: object): unknown[] {
  return [namespace, name, ...Object.entries(dimensions).flat(), { stat: statistic, ...options }];
}

/** One query a widget: CloudWatch answers one at a time. */
function table(title: string, { expression }: MetricQuery): Widget {
  return { type: 'metric', properties: { title, metrics: [[{ expression, id: 'q1', label: '' }]], view: 'table', period: limits.tablePeriodS, region: Aws.REGION } };
}

/** On the grid: the widgets of a row share its width. */
function placed(rows: readonly (readonly Widget[])[]): object[] {
  let y = 0;
  return rows.flatMap((widgets) => {
    const [top, width] = [y, Math.floor(limits.columns / widgets.length)];
    y += limits.height;
    return widgets.map(({ type, properties }, index) => ({ type, x: index * width, y: top, width, height: limits.height, properties }));
  });
}
