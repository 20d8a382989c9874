/** What Scheduler delivers to: queues over the wire, functions through their host. */
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { AwsError, account, queueNameOf, region, resourceOf } from './emulator.ts';
import type { LambdaHost } from './lambda-host.ts';
import type { Target } from './scheduler.ts';
import type { FunctionSpec } from './template.ts';
import type { Wire } from './wire.ts';

export interface ScheduleTargetsOptions {
  readonly wire: Pick<Wire, 'endpoint' | 'calls'>;
  readonly functions: readonly Pick<FunctionSpec, 'arn' | 'name'>[];
  /** By function name. */
  readonly hosts: ReadonlyMap<string, Pick<LambdaHost, 'invoke'>>;
  /** Told of invocations that failed: Lambda takes the event, so Scheduler does not learn of it. */
  readonly onFailed: (functionName: string, message: string) => void;
}

export class ScheduleTargets {
  readonly #options: ScheduleTargetsOptions;
  /** By role: the access key names it in the call log. */
  readonly #clients = new Map<string, SQSClient>();

  constructor(options: ScheduleTargetsOptions) {
    this.#options = options;
  }

  /**
   * Delivers one event, as the target's role. Resolves when an invocation has ended, so that a schedule never runs its function
   * twice at once. Rejects if the target refuses the event.
   */
  async invoke(target: Target, input: string): Promise<void> {
    const roleName = target.RoleArn.slice(target.RoleArn.lastIndexOf('/') + 1);
    if (target.Arn.startsWith('arn:aws:sqs:')) await this.#send(target, input, roleName);
    else await this.#run(target, input, roleName);
  }

  destroy(): void {
    for (const client of this.#clients.values()) client.destroy();
  }

  async #send({ Arn, SqsParameters }: Target, input: string, roleName: string): Promise<void> {
    const { endpoint } = this.#options.wire;
    const QueueUrl = `${endpoint}/${account}/${queueNameOf(resourceOf(Arn))}`;
    await this.#clientOf(roleName).send(new SendMessageCommand({ QueueUrl, MessageBody: input, MessageGroupId: SqsParameters?.MessageGroupId }));
  }

  async #run({ Arn }: Target, input: string, roleName: string): Promise<void> {
    const fn = this.#options.functions.find(({ arn }) => arn === Arn);
    const host = fn && this.#options.hosts.get(fn.name);
    if (host === undefined) throw new AwsError('ResourceNotFoundException', `Function not found: ${Arn}`, { status: 404 });
    const call = { atMs: Date.now(), caller: roleName, service: 'lambda', action: 'lambda:InvokeFunction', operation: 'Invoke', resource: Arn };
    this.#options.wire.calls.record({ ...call, outcome: 'ok', durationMs: 0, requestBytes: Buffer.byteLength(input) });
    const result = await host.invoke(JSON.parse(input));
    if (result.kind === 'error') this.#options.onFailed(fn?.name ?? '', `invocation failed: ${result.errorType} ${result.errorMessage}`);
  }

  #clientOf(roleName: string): SQSClient {
    const known = this.#clients.get(roleName);
    if (known !== undefined) return known;
    const { endpoint } = this.#options.wire;
    // Once each: the tries are Scheduler's, by the schedule's own policy.
    const client = new SQSClient({ endpoint, region, maxAttempts: 1, credentials: { accessKeyId: roleName, secretAccessKey: 'local' } });
    this.#clients.set(roleName, client);
    return client;
  }
}
