import { Aws, Stack } from 'aws-cdk-lib';
import { type CfnAlarm, CfnDashboard } from 'aws-cdk-lib/aws-cloudwatch';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { Construct } from 'constructs';
import type { EndpointGauge, EndpointMetric, FleetMetric } from '../lambdas/shared/limits/metrics.ts';
import { dashboard as limits } from '../lambdas/shared/limits/numbers.ts';
import { phases } from '../lambdas/shared/limits/phases.ts';
import type { Alarms } from './alarms.ts';
import { endpointQuery, fleetSeries, functionSeries, type MetricSeries, phaseSeries, queueSeries, type Service } from './metrics.ts';
import type { Queues } from './queues.ts';

/** What the dashboard shows. */
export interface DashboardProps {
  readonly queues: Queues;
  readonly functions: Readonly<Record<Service, NodejsFunction>>;
  readonly alarms: Alarms;
}

interface Widget {
  readonly type: 'metric' | 'alarm';
  readonly properties: Record<string, unknown>;
}

/** In the order of the runbook: what crashed us, then the fleet, then single endpoints. CloudWatch names it: two installations may share a stack. */
export function newDashboard(scope: Construct, id: string, props: DashboardProps): CfnDashboard {
  const rows = [alarmRow(props), ...queueRows(props), ...fleetRows(), ...endpointRows()];
  return new CfnDashboard(scope, id, { dashboardBody: Stack.of(scope).toJsonString({ widgets: placed(rows) }) });
}

function alarmRow({ alarms }: DashboardProps): Widget[] {
  const widget = (title: string, list: readonly CfnAlarm[]): Widget => ({ type: 'alarm', properties: { title, alarms: list.map(({ attrArn }) => attrArn) } });
  return [widget('Alarms of the installation', alarms.fleet), widget('Tickets of endpoints', alarms.endpoints)];
}

function queueRows({ queues, functions }: DashboardProps): Widget[][] {
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
        'dead letters': queueSeries('ApproximateAgeOfOldestMessage', queues.deadLetter),
      }),
    ],
    [
      graph('Faults', Object.fromEntries(services.map((service) => [service, fleetSeries('faults', service, 'Sum')]))),
      graph('Functions: errors, throttles', { ...ofFunctions('Errors'), ...ofFunctions('Throttles') }),
      graph('Functions: concurrency, runs of the sweep', {
        deliver: functionSeries('ConcurrentExecutions', functions.deliver, 'Maximum'),
        drain: functionSeries('ConcurrentExecutions', functions.drain, 'Maximum'),
        swept: fleetSeries('swept', 'sweep', 'Sum'),
      }),
    ],
  ];
}

function fleetRows(): Widget[][] {
  return [
    [
      ratio('First attempts delivered (%), goal 98.5', { part: 'first_attempts_delivered', whole: ['first_attempts'] }),
      ratio('Deliveries that ended well (%), goal 99.95', { part: 'delivered', whole: ['delivered', 'dead'] }),
      graph('Deliveries', bySender(['delivered', 'dead', 'unknown', 'shed', 'held'], 'Sum')),
    ],
    [
      graph('Latency of deliveries (ms)', percentiles('delivery_latency')),
      graph('Duration of attempts (ms)', percentiles('attempt_duration')),
      graph('Attempts by outcome', bySender(['attempts_answered', 'attempts_ambiguous', 'attempts_unsent', 'attempts_invalid', 'not_started'], 'Sum')),
    ],
    senders.map((service) =>
      graph(`Phases of ${service}, answered attempts: p95 (ms)`, Object.fromEntries(phases.map((phase) => [phase, phaseSeries(phase, { service, outcome: 'answered' }, 'p95')]))),
    ),
    [
      graph('Sockets in use at most, idle', bySender(['connections_in_use', 'connections_idle'], 'Maximum')),
      graph('Share of attempts on an open socket', bySender(['connections_reused'], 'Average')),
      graph('Sockets that were dead, endpoints that asked for less', bySender(['stale_sockets', 'throttled'], 'Sum')),
    ],
    [
      graph('Breakers: opened, closed, open', { ...bySender(['breaker_opened', 'breaker_closed'], 'Sum'), ...ofSweep(['breakers_open', 'endpoints_sick']) }),
      graph('Held deliveries', ofSweep(['held_deliveries'])),
      graph('Age of the oldest held and unknown delivery (s)', ofSweep(['oldest_undelivered_age', 'oldest_unknown_age'])),
    ],
  ];
}

/** Tables by query: one row an endpoint, the worst first. */
function endpointRows(): Widget[][] {
  return [
    [table('Failing', 'failure_ratio'), table('Unreachable', 'connect_failure_ratio'), table('Breaker not closed (s)', 'breaker_open_age')],
    [table('Oldest held (s)', 'oldest_undelivered_age'), table('Oldest unknown (s)', 'oldest_unknown_age'), sums('Deliveries that died', 'dead')],
    [table('Shed', 'shed_ratio'), table('Share of delivery time', 'occupancy_share'), sums('Failed attempts', 'failed_attempts')],
  ];
}

const senders = ['deliver', 'drain'] as const;

function bySender(names: readonly FleetMetric[], statistic: string): Record<string, MetricSeries> {
  return Object.fromEntries(names.flatMap((name) => senders.map((service) => [`${service} ${name}`, fleetSeries(name, service, statistic)])));
}

function ofSweep(names: readonly FleetMetric[]): Record<string, MetricSeries> {
  return Object.fromEntries(names.map((name) => [name, fleetSeries(name, 'sweep', 'Maximum')]));
}

function percentiles(name: FleetMetric): Record<string, MetricSeries> {
  return Object.fromEntries(senders.flatMap((service) => ['p50', 'p95', 'p99'].map((statistic) => [`${service} ${statistic}`, fleetSeries(name, service, statistic)])));
}

function graph(title: string, lines: Readonly<Record<string, MetricSeries>>): Widget {
  const metrics = Object.entries(lines).map(([label, series]) => row(series, { label }));
  return { type: 'metric', properties: { title, metrics, view: 'timeSeries', period: limits.periodS, region: Aws.REGION } };
}

/** Both senders together: an event may be tried first by the one and last by the other. */
function ratio(title: string, { part, whole }: { part: FleetMetric; whole: readonly FleetMetric[] }): Widget {
  const ids = (prefix: string, names: readonly FleetMetric[]) => names.flatMap((name) => senders.map((service) => ({ id: `${prefix}_${name}_${service}`, series: fleetSeries(name, service, 'Sum') })));
  const [parts, wholes] = [ids('p', [part]), ids('w', whole)];
  const sum = (list: typeof parts) => list.map(({ id }) => `FILL(${id}, 0)`).join(' + ');
  const expression = { expression: `100 * (${sum(parts)}) / (${sum(wholes)})`, id: 'ratio', label: title, period: limits.tablePeriodS };
  const metrics = [[expression], ...[...parts, ...wholes].map(({ id, series }) => row(series, { id, visible: false, period: limits.tablePeriodS }))];
  return { type: 'metric', properties: { title, metrics, view: 'timeSeries', period: limits.tablePeriodS, region: Aws.REGION } };
}

function row({ namespace, name, dimensions, statistic }: MetricSeries, options: object): unknown[] {
  return [namespace, name, ...Object.entries(dimensions).flat(), { stat: statistic, ...options }];
}

function table(title: string, name: EndpointGauge): Widget {
  return tableOf(title, endpointQuery('MAX', name, limits.rows).expression);
}

function sums(title: string, name: EndpointMetric): Widget {
  return tableOf(title, endpointQuery('SUM', name, limits.rows).expression);
}

/** One query a widget: CloudWatch answers one at a time. */
function tableOf(title: string, expression: string): Widget {
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
