import { Metrics } from '@aws-lambda-powertools/metrics';
import {
  dimensions, endpointGauges, endpointMetrics, fleetMetrics, phaseMetric, type EndpointGauge, type EndpointMetric, type FleetMetric, type MetricUnit,
} from '../limits/metrics.ts';
import type { AttemptLine } from '../ports/index.ts';

/** Sockets of this environment: the most that were in use since the last look, and those that are idle now. */
export type SocketPeaks = () => { readonly peakInUse: number; readonly idle: number };

export interface Meters {
  attempt(line: AttemptLine): void;
  count(metric: FleetMetric, amount: number): void;
  countOf(endpointId: string, metric: EndpointMetric, amount: number): void;
  gauge(metric: FleetMetric, value: number): void;
  gaugeOf(endpointId: string, metric: EndpointGauge, value: number): void;
  watchSockets(peaks: SocketPeaks): void;
  flush(): void;
}

const outcomeMetrics = { answered: 'attempts_answered', ambiguous: 'attempts_ambiguous', unsent: 'attempts_unsent', invalidConfiguration: 'attempts_invalid' } as const;

/**
 * The metrics of one function. Counts are added up until the flush, so that an invocation publishes one value of each; durations are
 * published one by one, for their percentiles. An endpoint has metrics of its own only where something of it is to report.
 */
export function createMeters(serviceName: string, namespace: string): Meters {
  const fleet = new Metrics({ namespace, serviceName });
  const byOutcome = new Map<string, Metrics>();
  const counts = new Map<FleetMetric, number>();
  const countsOf = new Map<string, Map<EndpointMetric, number>>();
  const gaugesOf = new Map<string, Map<EndpointGauge, number>>();
  let sockets: SocketPeaks | undefined;

  const count = (metric: FleetMetric, amount: number) => void counts.set(metric, (counts.get(metric) ?? 0) + amount);
  const gauge = (metric: FleetMetric, value: number) => void fleet.addMetric(metric, fleetMetrics[metric].unit, value);
  const countOf = (endpointId: string, metric: EndpointMetric, amount: number) => {
    const own = countsOf.get(endpointId) ?? new Map<EndpointMetric, number>();
    countsOf.set(endpointId, own.set(metric, (own.get(metric) ?? 0) + amount));
  };
  const phasesOf = (outcome: string) => {
    // As a default dimension: it stays when a hundred values make the library publish before the flush.
    const own = byOutcome.get(outcome) ?? new Metrics({ namespace, serviceName, defaultDimensions: { [dimensions.outcome]: outcome } });
    byOutcome.set(outcome, own);
    return own;
  };

  return {
    count,
    countOf,
    gauge,
    gaugeOf: (endpointId, metric, value) => void gaugesOf.set(endpointId, (gaugesOf.get(endpointId) ?? new Map<EndpointGauge, number>()).set(metric, value)),
    attempt(line) {
      const isDelivered = line.state === 'delivered';
      count('attempts', 1);
      count(outcomeMetrics[line.outcome], 1);
      count('failed_attempts', Number(!isDelivered));
      count('delivered', Number(isDelivered));
      if (line.attempt === 1) {
        count('first_attempts', 1);
        count('first_attempts_delivered', Number(isDelivered));
      }
      if (isDelivered) gauge('delivery_latency', line.latencyMs);
      else countOf(line.endpointId, 'failed_attempts', 1);
      if (line.outcome === 'invalidConfiguration') return;
      gauge('attempt_duration', line.durationMs);
      gauge('connections_reused', Number(line.reused));
      for (const [phase, ms] of Object.entries(line.phasesMs)) phasesOf(line.outcome).addMetric(phaseMetric(phase), 'Milliseconds', ms);
    },
    watchSockets: (peaks) => void (sockets = peaks),
    flush() {
      if (sockets !== undefined && (counts.get('attempts') ?? 0) > 0) {
        const { peakInUse, idle } = sockets();
        gauge('connections_in_use', peakInUse);
        gauge('connections_idle', idle);
      }
      for (const [metric, value] of counts) gauge(metric, value);
      counts.clear();
      // An empty set would be published as a warning.
      for (const set of [fleet, ...byOutcome.values()]) if (set.hasStoredMetrics()) set.publishStoredMetrics();
      for (const [endpointId, own] of countsOf) publishOf({ namespace, endpointId }, own, endpointMetrics);
      for (const [endpointId, own] of gaugesOf) publishOf({ namespace, endpointId }, own, endpointGauges);
      countsOf.clear();
      gaugesOf.clear();
    },
  };
}

/** Without the function's name, so that what both senders say of an endpoint adds up. */
function publishOf<Name extends string>(of: { namespace: string; endpointId: string }, values: ReadonlyMap<Name, number>, units: Readonly<Record<Name, { unit: MetricUnit }>>): void {
  const own = new Metrics({ namespace: of.namespace, serviceName: 'none' });
  own.clearDefaultDimensions();
  own.addDimension(dimensions.endpointId, of.endpointId);
  for (const [metric, value] of values) own.addMetric(metric, units[metric].unit, value);
  own.publishStoredMetrics();
}
