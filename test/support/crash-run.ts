import { DeleteMessageCommand, ReceiveMessageCommand, SendMessageBatchCommand, type Message } from '@aws-sdk/client-sqs';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { sendWakeUp } from '../../lambdas/shared/adapters/wake-ups.ts';
import { claimKeyOf, recordKeyOf, syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { DeadReason } from '../../lambdas/shared/core/record.ts';
import { messageAttributes, outputs } from '../../lambdas/shared/limits/names.ts';
import { Effects, isLook } from './effects.ts';
import { depth, functionNames, messageBody, until, type Embedded, type FunctionName } from './embedded.ts';
import type { Recorded, Recorder, Reply } from './recorder.ts';

/** Where a run is crashed: at a call that the function makes, or at a request that the consumer gets. */
export type Stop =
  | { readonly at: 'nowhere' }
  | { readonly at: 'call' | 'request'; readonly nth: number; readonly when: 'before' | 'after' };

/** What happens to the installation, and what is crashed of it. Everything is made anew for each run. */
export interface Scenario {
  readonly name: string;
  /** POSTs that the consumer gets in a run without a crash, from the preparation on: the measure of the others. */
  readonly requests: number;
  /** The function that is crashed; default: deliver. */
  readonly fn?: FunctionName;
  /** What must be there first. No crash here; must leave nothing under way. */
  prepare?(run: CrashRun): Promise<unknown>;
  /** What the crashes are put into: from here until the queue is empty. */
  send(run: CrashRun): Promise<unknown>;
  /** The consumer's answer to the `nth` request about an event, looks included, from 1; by default 200. */
  reply?(request: Recorded, nth: number, run: CrashRun): Reply;
  /** What must hold at the end beside an empty delivery queue, for what waits elsewhere. Asked after each step of time. */
  settled?(run: CrashRun): Promise<boolean>;
}

/** One delivery of a run. */
export interface Sent {
  readonly endpointId: string;
  readonly eventId: string;
  readonly body: string;
  readonly recordKey: string;
  /** What must become of it, whatever crashes. */
  readonly ends: 'delivered' | DeadReason;
  /** A crash may leave it to a person instead: it may have been sent, and nothing proves that it was not. */
  readonly orUnknown: boolean;
}

export interface SendOptions {
  /** Source text. */
  readonly payload?: string;
  /** Further fields of the message. */
  readonly more?: Record<string, unknown>;
  /** The message's sluice-gen attribute. */
  readonly generation?: number;
  readonly ends?: Sent['ends'];
  readonly orUnknown?: boolean;
}

/** One play of a scenario, with names of its own in the one running installation. */
export class CrashRun {
  readonly embedded: Embedded;
  /** By record key. */
  readonly deliveries = new Map<string, Sent>();
  readonly endpointIds = new Set<string>();
  /** What the consumer has done, where a scenario's answers say so. */
  readonly effects = new Effects();
  /** True where its endpoint is registered under `reconcile`. */
  isReconciled = false;
  /** Set where the stop is at a request, once the process is gone. */
  stoppedAtRequest: string | undefined;
  #requests = 0;
  #armed = false;
  #loggedBefore: ReadonlyMap<FunctionName, number> = new Map();
  readonly #n: number;
  readonly #stop: Stop;
  readonly #scenario: Scenario;
  readonly #consumer: Recorder;

  constructor(parts: { embedded: Embedded; consumer: Recorder; scenario: Scenario; stop: Stop; n: number }) {
    this.embedded = parts.embedded;
    this.#consumer = parts.consumer;
    this.#scenario = parts.scenario;
    this.#stop = parts.stop;
    this.#n = parts.n;
  }

  /** A name of this run's own. */
  id(name: string): string {
    return `${name}-${this.#n}`;
  }

  get endpointId(): string {
    return this.id('ep');
  }

  /** Registers the run's endpoint, or registers it anew. */
  async register(settings: Record<string, unknown> = {}, url = this.#consumer.url(`/${this.endpointId}`)): Promise<void> {
    await this.embedded.register(this.endpointId, url, { retry: { baseS: 5, factor: 1 }, ...settings });
    this.endpointIds.add(this.endpointId);
    this.isReconciled = settings['onAmbiguous'] === 'reconcile';
  }

  /** Where the effects of its events are looked for. */
  lookUrl(): string {
    return this.#consumer.url(`/${this.endpointId}/effects/{eventId}`);
  }

  async send(name = 'evt', options: SendOptions = {}): Promise<Sent> {
    const sent = this.#noted(name, options);
    await this.embedded.send(sent.body, options.generation === undefined ? {} : { generation: options.generation });
    return sent;
  }

  /** As one batch, so that one receive finds them all. */
  async sendTogether(names: readonly string[], options: SendOptions = {}): Promise<void> {
    const Entries = names.map((name, i) => ({ Id: String(i), MessageBody: this.#noted(name, options).body }));
    await this.embedded.sqs.send(new SendMessageBatchCommand({ QueueUrl: this.embedded.output(outputs.deliveryQueueUrl), Entries }));
  }

  /** A message without an event. */
  async sendMalformed(): Promise<void> {
    const body = `{"endpointId":"${this.endpointId}"}`;
    this.#note({ endpointId: this.endpointId, eventId: '', body, recordKey: syntheticKeyOf(this.endpointId, 'malformed', body), ends: 'malformed', orUnknown: false });
    await this.embedded.send(body);
  }

  /** Moves this run's one dead letter back to the delivery queue, as the console's redrive does. */
  async redrive(ends: Sent['ends']): Promise<void> {
    const [copy] = await this.takeDeadLetters();
    for (const sent of this.deliveries.values()) if (sent.body === copy?.Body) this.#note({ ...sent, ends });
    await this.embedded.send(copy?.Body ?? '', { generation: generationOf(copy) });
  }

  /** Waits until the queue is empty; for what a scenario prepares. */
  settle(): Promise<void> {
    return this.embedded.drainQueue();
  }

  /** What the function makes of a message while some of its calls are refused: it comes to rest, and they are not refused any more. */
  async whileRefused(fault: Parameters<Embedded['refuse']>[0], send: () => Promise<unknown>): Promise<void> {
    await this.embedded.refuse({ ...fault, function: 'deliver' });
    await send();
    await this.idle();
    await this.embedded.heal();
  }

  /** Waits until nothing is under way, and lets no time pass. */
  async idle(): Promise<void> {
    await until('nothing is under way', async () => (await this.embedded.look()).idle);
  }

  /** All copies that the dead-letter queue holds; they are gone from it then. */
  async takeDeadLetters(): Promise<Message[]> {
    const QueueUrl = this.embedded.output(outputs.deadLetterQueueUrl);
    const taken: Message[] = [];
    for (;;) {
      const { Messages = [] } = await this.embedded.sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ['All'] }));
      if (Messages.length === 0) {
        const { ready, hidden } = await depth(this.embedded.sqs, QueueUrl);
        if (ready + hidden === 0) return taken;
        // The sweep looks at some, or was killed over it: then they come back in time.
        await this.embedded.advance(1_000);
      }
      taken.push(...Messages);
      await Promise.all(Messages.map(({ ReceiptHandle }) => this.embedded.sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }))));
    }
  }

  /** POSTs of an event of this run, oldest first. */
  requestsOf(sent: Pick<Sent, 'endpointId' | 'eventId'>): Recorded[] {
    return this.#consumer.requests.filter((r) => r.eventId === sent.eventId && r.path === `/${sent.endpointId}`);
  }

  /** Looks for its effect, oldest first. */
  looksOf(sent: Pick<Sent, 'endpointId' | 'eventId'>): Recorded[] {
    return this.#consumer.requests.filter((r) => r.eventId === sent.eventId && r.path.startsWith(`/${sent.endpointId}/`) && isLook(r));
  }

  /** Waits for a condition, or for the crash: what it waits for may then never come. */
  async orStopped(what: string, look: () => boolean | Promise<boolean>): Promise<void> {
    await until(what, async () => (await look()) || (await this.stopped()) !== undefined);
  }

  /** The effect at which the process was killed. */
  async stopped(): Promise<string | undefined> {
    if (this.#stop.at !== 'call' || !this.#armed) return this.stoppedAtRequest;
    const { stopped } = await this.embedded.stopState();
    return stopped && `${stopped.service}:${stopped.operation}`;
  }

  async killBusy(): Promise<void> {
    await Promise.all((await this.#busy()).map((pid) => this.embedded.kill(pid, this.#fn)));
  }

  /** What the function has logged since the run was armed. */
  logged(): string {
    return functionNames.map((fn) => this.embedded.logsOf(fn).slice(this.#loggedBefore.get(fn))).join('\n');
  }

  /** The lane's word for it that deliveries are held. */
  async isHolding(): Promise<boolean> {
    if (!this.endpointIds.has(this.endpointId)) return false;
    return (await this.embedded.registry.get(this.endpointId))?.lane.holding !== undefined;
  }

  /** Has the drain come now, as a resume does. */
  wake(): Promise<void> {
    return sendWakeUp(this.embedded.sqs, this.embedded.output(outputs.drainQueueUrl), this.endpointId);
  }

  /** Moves this run's breaker to open, as its deliveries would have done. @param forMs until it may be tried */
  async openBreaker(forMs: number): Promise<void> {
    const { nowEpochMs } = await this.embedded.look();
    const breaker = (await this.embedded.registry.get(this.endpointId))?.lane.breaker;
    const open = { state: 'open', round: (breaker?.round ?? 0) + 1, cause: 'failing', untilEpochMs: nowEpochMs + forMs, trips: 1, canary: undefined } as const;
    const { embedded } = this;
    const lanes = createDynamoDbLanes(embedded.db, { endpoints: embedded.output(outputs.endpointsTable), deliveries: embedded.output(outputs.deliveriesTable) });
    const answer = await lanes.moveBreaker(this.endpointId, breaker, open);
    if (answer.kind !== 'moved') throw new Error(`the breaker of ${this.endpointId}: ${answer.kind}`);
  }

  async arm(): Promise<void> {
    this.#loggedBefore = new Map(functionNames.map((fn) => [fn, this.embedded.logsOf(fn).length]));
    const { at } = this.#stop;
    const fn = this.#fn;
    await (at === 'call' ? this.embedded.stopAt(this.#stop.nth, this.#stop.when, fn) : this.embedded.stopAt(0, 'before', fn));
    this.#armed = true;
  }

  /** The consumer's answer, with the crash around it where it is this request's turn. */
  reply(request: Recorded, nth: number): Reply {
    const reply = this.#scenario.reply?.(request, nth, this) ?? { status: 200 };
    const stop = this.#stop;
    if (stop.at !== 'request' || !this.#armed || ++this.#requests !== stop.nth) return reply;
    const kill = async () => {
      await this.killBusy();
      this.stoppedAtRequest = request.method;
    };
    if (stop.when === 'before') return { ...reply, before: () => kill().then(() => reply.before?.()) };
    // Stopped first, so that the answer is certainly on its way and certainly not seen.
    return { ...reply, before: async () => (await reply.before?.(), this.#freezeBusy()), after: kill };
  }

  get #fn(): FunctionName {
    return this.#scenario.fn ?? 'deliver';
  }

  async #freezeBusy(): Promise<void> {
    for (const pid of await this.#busy()) process.kill(pid, 'SIGSTOP');
  }

  async #busy(): Promise<number[]> {
    return (await this.embedded.environments(this.#fn)).filter(({ busy }) => busy).map(({ pid }) => pid);
  }

  #noted(name: string, { payload, more, ends = 'delivered', orUnknown = false }: SendOptions): Sent {
    const [endpointId, eventId] = [this.endpointId, this.id(name)];
    const body = messageBody(endpointId, eventId, payload, more);
    const ownKey = recordKeyOf(endpointId, claimKeyOf(eventId));
    return this.#note({ endpointId, eventId, body, recordKey: ends === 'conflict' ? syntheticKeyOf(endpointId, ends, body) : ownKey, ends, orUnknown });
  }

  #note(sent: Sent): Sent {
    this.deliveries.set(sent.recordKey, sent);
    return sent;
  }
}

export function generationOf(copy: Message | undefined): number {
  return Number(copy?.MessageAttributes?.[messageAttributes.generation]?.StringValue);
}
