import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import { records } from '../limits/numbers.ts';
import type { Telemetry } from '../ports/index.ts';

/** Log lines as JSON, and the few fleet metrics in embedded metric format. `flush` ends an invocation. */
export function createPowertoolsTelemetry(serviceName: string): Telemetry & { flush(): void; started(settings: object): void } {
  const logger = new Logger({ serviceName });
  const metrics = new Metrics({ namespace: 'Sluice', serviceName });
  const count = (name: string) => metrics.addMetric(name, MetricUnit.Count, 1);

  return {
    attempt(line) {
      // As a number, so that a query can average it by host: the share of requests that found an open socket (T12).
      logger.info('attempt', { ...line, reused: Number(line.reused) });
      count(`attempts_${line.outcome}`);
      if (line.state === 'delivered') count('delivered');
    },
    event(name, fields) {
      logger.info(name, { ...fields });
      count(name.replaceAll('-', '_'));
    },
    gauge(name, value, unit) {
      metrics.addMetric(name, unit, value);
    },
    fault(name, error, fields) {
      const { errorName, message } = error instanceof Error ? { errorName: error.name, message: error.message } : { errorName: typeof error, message: String(error) };
      logger.error(name, { ...fields, errorName, errorMessage: message.slice(0, records.maxDetailLength) });
      count('faults');
    },
    started(settings) {
      logger.info('started', { ...settings });
    },
    flush() {
      // An empty set would be published as a warning.
      if (metrics.hasStoredMetrics()) metrics.publishStoredMetrics();
    },
  };
}
