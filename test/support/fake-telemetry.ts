import type { AttemptLine, FlushedTelemetry } from '../../lambdas/shared/ports/index.ts';

/** Keeps what it is told. */
export class FakeTelemetry implements FlushedTelemetry {
  readonly attempts: AttemptLine[] = [];
  readonly events: { name: string; fields: Readonly<Record<string, string | number | undefined>> }[] = [];
  readonly faults: { name: string; error: unknown }[] = [];

  attempt(line: AttemptLine): void {
    this.attempts.push(line);
  }

  event(name: string, fields: Readonly<Record<string, string | number | undefined>>): void {
    this.events.push({ name, fields });
  }

  readonly gauges = new Map<string, number>();

  gauge(name: string, value: number): void {
    this.gauges.set(name, value);
  }

  readonly endpointGauges = new Map<string, number>();

  endpointGauge(endpointId: string, name: string, value: number): void {
    this.endpointGauges.set(`${endpointId} ${name}`, value);
  }

  fault(name: string, error: unknown): void {
    this.faults.push({ name, error });
  }

  /** What had been said by the last flush. */
  flushed: { readonly events: number; readonly gauges: ReadonlyMap<string, number> } = { events: 0, gauges: new Map() };

  flush(): void {
    this.flushed = { events: this.events.length, gauges: new Map(this.gauges) };
  }

  count(name: string): number {
    return this.events.filter((event) => event.name === name).length;
  }
}
