/** What a test does to AWS calls on the wire: it stops whoever makes the n-th of them, or has them refused. */
import { AwsError } from './emulator.ts';

/** One call, as the wire knows it before it is performed. */
export interface WireCall {
  /** Access key id: a function's role, the operator. */
  readonly caller: string;
  /** The worker process that calls; undefined where it is not one, such as the event source that acts for a function. */
  readonly environmentId: string | undefined;
  readonly service: string;
  readonly operation: string;
  /** ARN of the first resource. */
  readonly resource: string;
}

/** A call that was counted while a stop was armed. */
export type CountedCall = Pick<WireCall, 'service' | 'operation' | 'resource'>;

export interface Stop {
  /** `before`: the call is not performed. `after`: it is, and its answer is never seen. */
  readonly when: 'before' | 'after';
  /** Ends the caller. @returns what to answer if the caller is no process and lives on; undefined: nobody is there to be answered. */
  end(): Promise<AwsError | undefined>;
}

export interface StopOrder {
  readonly role: string;
  /** Counted from 1, from now on. A number that is never reached only counts. */
  readonly call: number;
  /** Counts these only, such as `Publish`; default: all. */
  readonly operation?: string | undefined;
  readonly when: Stop['when'];
  /** Kills a worker process and resolves when it is gone. */
  kill(environmentId: string): Promise<void>;
}

/** Calls to refuse; what is left out matches all. */
export interface Fault {
  readonly service: string;
  readonly code: string;
  readonly operation?: string | undefined;
  /** The end of the resource's ARN, such as a table's name. */
  readonly resource?: string | undefined;
  readonly role?: string | undefined;
}

/** Codes that AWS answers with another status than 400. */
const statuses: Record<string, number> = { InternalServerError: 500, InternalFailure: 500, ServiceUnavailable: 503 };

export class Interference {
  #faults: Fault[] = [];
  #order: StopOrder | undefined;
  #counted: CountedCall[] = [];
  #stopped: CountedCall | undefined;

  /** Has every matching call refused without effect, until `clearFaults`. */
  refuse(fault: Fault): void {
    this.#faults.push(fault);
  }

  clearFaults(): void {
    this.#faults = [];
  }

  faults(): readonly Fault[] {
    return this.#faults;
  }

  faultFor(call: WireCall): AwsError | undefined {
    const fault = this.#faults.find((one) =>
      one.service === call.service &&
      (one.operation ?? call.operation) === call.operation &&
      (one.role ?? call.caller) === call.caller &&
      call.resource.endsWith(one.resource ?? ''),
    );
    return fault && new AwsError(fault.code, 'Refused on purpose', { status: statuses[fault.code] ?? 400 });
  }

  /** Forgets an older order, and counts anew. */
  arm(order: StopOrder): void {
    this.#order = order;
    this.#counted = [];
    this.#stopped = undefined;
  }

  disarm(): void {
    this.#order = undefined;
  }

  /** `stopped` is set once the caller is gone. */
  stopState(): { counted: readonly CountedCall[]; stopped: CountedCall | undefined } {
    return { counted: this.#counted, stopped: this.#stopped };
  }

  /** Counts a call; the stop, if this is the one. To be asked once for each call, before it is performed. */
  stopFor(call: WireCall): Stop | undefined {
    const order = this.#order;
    if (order === undefined || call.caller !== order.role || !hasEffect(call)) return undefined;
    if ((order.operation ?? call.operation) !== call.operation) return undefined;
    const { service, operation, resource } = call;
    const counted = { service, operation, resource };
    if (this.#counted.push(counted) !== order.call) return undefined;
    const end = async () => {
      // One that died by itself meanwhile is as gone.
      if (call.environmentId !== undefined) await order.kill(call.environmentId).catch(() => undefined);
      this.#stopped = counted;
      // Of a kind that an SDK does not repeat: the repeat would undo what is tested.
      return call.environmentId === undefined ? new AwsError('StoppedOnPurpose', 'The effect or its answer is lost') : undefined;
    };
    return { when: order.when, end };
  }
}

/** Everything that a worker does; of what the event source does for it, only the acknowledgements. */
function hasEffect({ environmentId, operation }: WireCall): boolean {
  return environmentId !== undefined || operation.startsWith('DeleteMessage');
}
