/** What the emulators and the wire in front of them agree on. */

export const region = 'eu-west-1';
export const account = '000000000000';

export type JsonObject = Record<string, unknown>;

export interface CallOptions {
  /** Aborted when the caller has gone: a long poll must not take a message for nobody. */
  signal?: AbortSignal;
}

/** One AWS service in this process. @throws AwsError for everything that the service itself would answer with an error. */
export interface Emulator {
  call(operation: string, input: JsonObject, options?: CallOptions): Promise<JsonObject>;
  close(): Promise<void>;
}

export interface AwsErrorDetails {
  status?: number;
  /** Further members of the error's body, such as Item or CancellationReasons. */
  body?: JsonObject;
  /** Code in the header x-amzn-query-error, where SQS keeps the names it had before its JSON protocol. */
  queryCode?: string;
  /** Units that AWS bills although the call failed, by table. */
  capacityUnits?: Record<string, number>;
}

export class AwsError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: AwsErrorDetails;

  constructor(code: string, message: string, details: AwsErrorDetails = {}) {
    super(message);
    this.name = code;
    this.code = code;
    this.status = details.status ?? 400;
    this.details = details;
  }
}

/** The last part of an ARN: the name of a queue, table/NAME of a table. */
export function resourceOf(arn: string): string {
  return arn.split(':').slice(5).join(':');
}

export function queueArn(name: string): string {
  return `arn:aws:sqs:${region}:${account}:${name}`;
}

/** The name in a queue URL, whatever host it is on: a port changes with every start, a name does not. */
export function queueNameOf(queueUrl: string): string {
  return queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
}
