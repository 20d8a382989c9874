import { Logger } from '@aws-lambda-powertools/logger';
import { eventMetrics } from '../limits/metrics.ts';
import { records } from '../limits/numbers.ts';
import type { FlushedTelemetry } from '../ports/index.ts';
import { createMeters, type SocketPeaks } from './powertools-meters.ts';

export interface RunningTelemetry extends FlushedTelemetry {
  started(settings: object): void;
  /** Whose sockets are counted at each flush. */
  watchSockets(peaks: SocketPeaks): void;
}

/**
 * Log lines as JSON, and metrics in embedded metric format.
 * @param namespace of the installation: its alarms look nowhere else
 */
export function createPowertoolsTelemetry(serviceName: string, namespace: string): RunningTelemetry {
  const logger = new Logger({ serviceName });
  const meters = createMeters(serviceName, namespace);

  return {
    attempt(line) {
      const { reused, isPossibleDuplicate, ...rest } = line;
      // As numbers, so that a query can average them: the share of requests that found an open socket (T12).
      logger.info('attempt', { ...rest, reused: Number(reused), possibleDuplicate: Number(isPossibleDuplicate) });
      meters.attempt(line);
    },
    event(name, fields) {
      logger.info(name, { ...fields });
      const { metric, amount, forEndpoint, unaddressed } = eventMetrics[name] ?? {};
      if (metric === undefined) return;
      const count = amount === undefined ? 1 : Number(fields[amount] ?? 1);
      meters.count(metric, count);
      if (unaddressed?.reasons.includes(String(fields['reason']))) return meters.count(unaddressed.metric, count);
      if (forEndpoint !== undefined && typeof fields['endpointId'] === 'string') meters.countOf(fields['endpointId'], forEndpoint, count);
    },
    gauge: (name, value) => meters.gauge(name, value),
    endpointGauge: (endpointId, name, value) => meters.gaugeOf(endpointId, name, value),
    fault(name, error, fields) {
      const { errorName, message } = error instanceof Error ? { errorName: error.name, message: error.message } : { errorName: typeof error, message: String(error) };
      logger.error(name, { ...fields, errorName, errorMessage: message.slice(0, records.maxDetailLength) });
      meters.count('faults', 1);
    },
    started(settings) {
      logger.info('started', { ...settings });
    },
    watchSockets: (peaks) => meters.watchSockets(peaks),
    flush: () => meters.flush(),
  };
}
