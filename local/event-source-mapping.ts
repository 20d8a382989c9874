/** Event source mappings as a stack deploys them: found by their id, switched on and off. */
import { AwsError, type JsonObject, region } from './emulator.ts';
import { EventSource, type EventSourceOptions, type SourceQueue, sqsSourceQueue } from './event-source.ts';
import type { FunctionLogs } from './function-logs.ts';
import type { LambdaHost } from './lambda-host.ts';
import type { EventSourceSpec, FunctionSpec, QueueSpec, StackSpec } from './template.ts';
import type { Wire } from './wire.ts';

export type MappingState = 'Enabling' | 'Enabled' | 'Disabling' | 'Disabled';

/** What a mapping needs beside its template. */
export interface MappingParts {
  readonly spec: EventSourceSpec;
  readonly queue: SourceQueue & { destroy(): void };
  readonly queueName: string;
  readonly roleName: string;
  readonly functionArn: string;
  readonly wire: Pick<Wire, 'handedTo'>;
  /** What this machine bears. */
  readonly concurrencyCap: number;
  readonly invoke: EventSourceOptions['invoke'];
  readonly onError: EventSourceOptions['onError'];
}

/** A mapping; each time it is switched on it polls with an event source of its own. */
export class EventSourceMapping {
  readonly id: string;
  readonly queueName: string;
  /** Under which it polls. */
  readonly roleName: string;
  readonly #parts: MappingParts;
  #state: MappingState = 'Disabled';
  #source: EventSource | undefined;
  /** Messages that had been handed out when the present source began. */
  #handedBefore = 0;
  #changedEpochMs = Date.now();

  constructor(parts: MappingParts) {
    this.#parts = parts;
    this.id = parts.spec.logicalId;
    this.queueName = parts.queueName;
    this.roleName = parts.roleName;
  }

  get state(): MappingState {
    return this.#state;
  }

  /** True while it takes messages: what is ready in its queue is under way. */
  get isPolling(): boolean {
    return this.#state === 'Enabling' || this.#state === 'Enabled';
  }

  /** Batches that are being served; also of a mapping that is being switched off. */
  get inFlight(): number {
    return this.#source?.inFlight ?? 0;
  }

  /** Messages handed out that are begun. What a poll took that was broken off counts too: it comes back by itself. */
  get begun(): number {
    const { wire, roleName } = this.#parts;
    return this.isPolling ? this.#handedBefore + (this.#source?.begun ?? 0) : wire.handedTo(roleName);
  }

  /** @throws AwsError if the mapping is on its way to another state; what the queue answers if its role may not read it. */
  async enable(): Promise<void> {
    if (this.#state === 'Enabled') return;
    this.#refuseInTransit();
    const { spec, queue, concurrencyCap, invoke, onError, wire, roleName } = this.#parts;
    this.#become('Enabling');
    this.#handedBefore = wire.handedTo(roleName);
    this.#source = new EventSource({ ...spec, queue, region, concurrencyCap, invoke, onError });
    try {
      await this.#source.start();
    } catch (error) {
      this.#become('Disabled');
      throw error;
    }
    this.#become('Enabled');
  }

  /** Ends the polls at once; `Disabled` once the batches in flight are served. @throws AwsError as `enable` */
  disable(): void {
    if (this.#state === 'Disabled') return;
    this.#refuseInTransit();
    this.#become('Disabling');
    void this.#source?.stop().then(() => this.#become('Disabled'));
  }

  /** For the end of the installation: waits for nothing in flight and deletes nothing more. */
  async stop(): Promise<void> {
    await this.#source?.stop({ now: true });
  }

  destroy(): void {
    this.#parts.queue.destroy();
  }

  /** As GetEventSourceMapping gives it. */
  describe(): JsonObject {
    const { spec, functionArn } = this.#parts;
    return {
      UUID: this.id,
      State: this.#state,
      StateTransitionReason: 'USER_INITIATED',
      LastModified: this.#changedEpochMs / 1_000,
      EventSourceArn: spec.queueArn,
      FunctionArn: functionArn,
      BatchSize: spec.batchSize,
      MaximumBatchingWindowInSeconds: spec.windowS,
      ...(spec.maxConcurrency === undefined ? {} : { ScalingConfig: { MaximumConcurrency: spec.maxConcurrency } }),
      FunctionResponseTypes: spec.reportBatchItemFailures ? ['ReportBatchItemFailures'] : [],
    };
  }

  #refuseInTransit(): void {
    if (this.#state === 'Enabled' || this.#state === 'Disabled') return;
    throw new AwsError('ResourceInUseException', `Cannot update the event source mapping because it is ${this.#state}.`);
  }

  #become(state: MappingState): void {
    this.#state = state;
    this.#changedEpochMs = Date.now();
  }
}

/** Makes the stack's mappings, and switches those on that the template has on. */
export async function startMappings(
  stack: StackSpec,
  { wire, hosts, logs, concurrencyCap }: { wire: Wire; hosts: ReadonlyMap<string, LambdaHost>; logs: FunctionLogs; concurrencyCap: number },
): Promise<EventSourceMapping[]> {
  return Promise.all(
    stack.eventSources.map(async (spec) => {
      const { fn, queue, host } = endsOf(spec, stack, hosts);
      const mapping = new EventSourceMapping({
        spec,
        queue: sqsSourceQueue({ endpoint: wire.endpoint, region, queueUrl: queue.url, roleName: fn.roleName }),
        queueName: queue.name,
        roleName: fn.roleName,
        functionArn: fn.arn,
        wire,
        concurrencyCap,
        invoke: async (event) => {
          const result = await host.invoke(event);
          if (result.kind === 'error') logs.write(fn.name, `invocation failed: ${result.errorType} ${result.errorMessage}`);
          return result;
        },
        onError: (error) => logs.write(fn.name, `event source: ${error.message}`),
      });
      if (spec.enabled) await mapping.enable();
      return mapping;
    }),
  );
}

function endsOf(spec: EventSourceSpec, stack: StackSpec, hosts: ReadonlyMap<string, LambdaHost>): { fn: FunctionSpec; queue: QueueSpec; host: LambdaHost } {
  const fn = stack.functions.find((f) => f.name === spec.functionName);
  const queue = stack.queues.find((q) => q.arn === spec.queueArn);
  const host = hosts.get(spec.functionName);
  if (fn === undefined || queue === undefined || host === undefined) throw new Error(`Event source ${spec.logicalId} names nothing that is in the template`);
  return { fn, queue, host };
}
