/** `--scenario lost-response`: the answer to a delivery is lost after its effect is there; what either policy makes of that. */
import { setTimeout as sleep } from 'node:timers/promises';
import { doubtsOf, type DeliveryRecord } from '../lambdas/shared/core/record.ts';
import { type EffectsCustomer, type Had, startEffectsCustomer } from './effects-customer.ts';
import type { EmbeddedAws } from './embedded-aws.ts';
import { Driver, newEventId, type Play, playOf, type PlayOptions, report, type StartPlay } from './play.ts';
import { skipToNext } from './skip.ts';
import { Trace } from './trace.ts';

/** The two endpoints, named after their policy. */
const names = { reconcile: 'reconciled', retry: 'retried' } as const;
const payload = { amount: 4200, currency: 'EUR' };
/** Longer than a restart takes, and too short for a schedule of EventBridge: the clock is moved over it. */
const delaysS = [30, 60];
/** Short, so that a person sees the second attempt come. */
const retry = { baseS: 2, factor: 1, attempts: 5, maxAgeS: 600, jitter: 'equal' } as const;
const limitMs = 90_000;
const lookMs = 50;

export const startLostResponse: StartPlay = async (embedded, authority, options): Promise<Play> => {
  const trace = new Trace(Object.values(names));
  const drops = (endpointId: string, nth: number) => endpointId === names.reconcile || nth === 1;
  const customer = await startEffectsCustomer(authority, drops, (had) => trace.say(textOf(had), had.endpointId));
  const scenario = new LostResponse(embedded, customer, trace, options);
  return playOf(scenario.play(), options, {
    told: () => trace.say('that was all; Ctrl-C ends it'),
    stop: async () => {
      scenario.stop();
      await customer.close();
    },
  });
};

function textOf({ method, eventId, possibleDuplicate, isNew, effect, status }: Had): string {
  if (method === 'GET') return `GET /effects/${eventId}: ${status}`;
  const marked = possibleDuplicate ? ', marked as a possible duplicate' : '';
  const done = isNew ? `effect ${effect?.id} committed` : `effect ${effect?.id} is there already`;
  return `POST received${marked}, ${done}, ${status === undefined ? 'connection dropped' : `answered ${status}`}`;
}

/** What a part has shown, for the report. */
type Lines = [boolean, string][];

class LostResponse {
  readonly #customer: EffectsCustomer;
  readonly #trace: Trace;
  readonly #options: PlayOptions;
  #embedded: EmbeddedAws;
  #driver: Driver;
  /** What was said last of a record, by its endpoint. */
  readonly #said = new Map<string, string>();

  constructor(embedded: EmbeddedAws, customer: EffectsCustomer, trace: Trace, options: PlayOptions) {
    this.#embedded = embedded;
    this.#driver = new Driver(embedded);
    this.#customer = customer;
    this.#trace = trace;
    this.#options = options;
  }

  stop(): void {
    this.#driver.stop();
  }

  async play(): Promise<boolean> {
    const lines = [...(await this.#reconciled()), ...(await this.#retried())];
    const bad = this.#customer.rejectedSignatures();
    lines.push([bad === 0, 'every POST and GET verified with an independent library']);
    const left = await this.#driver.messagesLeft();
    lines.push([left === 0, `messages left in any queue: ${left}`]);
    return report(lines);
  }

  /** Under `reconcile` nothing is sent again: somebody looks, and whoever that is need not be who sent. */
  async #reconciled(): Promise<Lines> {
    const id = names.reconcile;
    const lookup = { url: this.#customer.lookUrlOf(id), match: { '$.eventId': 'eventId', '$.amount': '$.amount' }, reference: '$.id', delaysS };
    await this.#register(id, { onAmbiguous: 'reconcile', lookup }, 'onAmbiguous reconcile, with a look-up at GET /effects/{eventId}');
    const eventId = await this.#send(id);
    const before = await this.#recordOf(id, eventId, (record) => record.state === 'unknown');
    await this.#restart();
    const after = await this.#recordOf(id, eventId, () => true);
    const last = await this.#recordOf(id, eventId, (record) => record.state === 'delivered', { skips: true });
    const [posts, effects] = this.#say(id);
    const effectId = this.#customer.effects.get(eventId)?.id;
    return [
      [before?.state === 'unknown' && after?.state === 'unknown', `${id}: unknown before all processes were stopped, and after they were started again`],
      [last?.state === 'delivered' && last.via === 'lookup' && last.reference === effectId, `${id}: delivered via lookup, reference ${last?.reference}`],
      [posts.length === 1 && effects === 1, `${id}: ${posts.length} POST, ${effects} effect (1 and 1 promised)`],
    ];
  }

  /** Under `retry` it is sent again, with all that a customer needs to do it once. */
  async #retried(): Promise<Lines> {
    const id = names.retry;
    await this.#register(id, { onAmbiguous: 'retry', retry }, 'onAmbiguous retry');
    const eventId = await this.#send(id);
    const last = await this.#recordOf(id, eventId, (record) => record.state === 'delivered');
    const [posts, effects] = this.#say(id);
    const marks = posts.map(({ possibleDuplicate }) => (possibleDuplicate ? 'marked' : 'unmarked')).join(', ');
    return [
      [last?.state === 'delivered' && doubtsOf(last) === 1, `${id}: delivered via ${last?.state === 'delivered' ? last.via : 'nothing'} at attempt ${last?.attempt}`],
      [posts.length === 2 && posts.every((post) => post.eventId === eventId), `${id}: ${posts.length} POSTs with one webhook-id (2 promised)`],
      [marks === 'unmarked, marked', `${id}: ${marks} as a possible duplicate`],
      [effects === 1, `${id}: ${effects} effect (1 promised)`],
    ];
  }

  async #register(endpointId: string, settings: object, text: string): Promise<void> {
    const secret = await this.#driver.register({ endpointId, url: this.#customer.urlOf(endpointId), ...settings });
    this.#customer.trust(endpointId, secret);
    this.#trace.say(`registered: ${text}`, endpointId);
  }

  async #send(endpointId: string): Promise<string> {
    const eventId = newEventId();
    this.#trace.say(`event ${eventId} sent to the delivery queue`, endpointId);
    await this.#driver.send(endpointId, eventId, payload);
    return eventId;
  }

  async #restart(): Promise<void> {
    // Stopped in between, it would be found again as well, but minutes later, by its message.
    await this.#driver.until(limitMs, async () => (await skipToNext(this.#embedded, { limitMs: 0 })).idle);
    this.#driver.stop();
    this.#embedded = await this.#options.restart(() => this.#trace.say('all processes stopped: functions, queues, tables, scheduler; the customer goes on'));
    this.#driver = new Driver(this.#embedded);
    this.#trace.say('started again, with what was written to disk');
    this.#said.clear();
  }

  /** Follows the record until it is as wanted, and says each change of it; `skips`: time that nothing happens in is skipped. */
  async #recordOf(endpointId: string, eventId: string, isWanted: (record: DeliveryRecord) => boolean, { skips = false } = {}): Promise<DeliveryRecord | undefined> {
    for (const endsMs = performance.now() + limitMs; performance.now() < endsMs; await sleep(lookMs)) {
      const record = (await this.#driver.records()).find((one) => one.endpointId === endpointId && one.eventId === eventId);
      if (record !== undefined) this.#sayState(record);
      if (record !== undefined && isWanted(record)) return record;
      const { skippedMs } = await skipToNext(this.#embedded, { limitMs: skips ? Infinity : 0 });
      if (skippedMs >= 1_000) this.#trace.say(`clock moved ${Math.round(skippedMs / 1_000)} s ahead`);
    }
    this.#trace.say('not as promised in time', endpointId);
    return undefined;
  }

  #sayState(record: DeliveryRecord): void {
    const text = this.#stateOf(record);
    if (text !== this.#said.get(record.endpointId)) this.#trace.say(`record: ${text}`, record.endpointId);
    this.#said.set(record.endpointId, text);
  }

  #say(endpointId: string): [Had[], number] {
    const posts = this.#customer.had.filter((one) => one.method === 'POST' && one.endpointId === endpointId);
    const effects = posts.filter(({ isNew }) => isNew).length;
    this.#trace.say(`${posts.length} POST${posts.length === 1 ? '' : 's'}, ${effects} effect${effects === 1 ? '' : 's'}`, endpointId);
    return [posts, effects];
  }

  #stateOf(record: DeliveryRecord): string {
    switch (record.state) {
      case 'unknown': {
        const { nextLookEpochMs } = record;
        return `unknown (${record.detail}), ${nextLookEpochMs === undefined ? `left to a person: ${record.stuck}` : `next look at ${this.#trace.at(nextLookEpochMs)}`}`;
      }
      case 'delivered':
        return `delivered via ${record.via}${record.reference === undefined ? '' : `, reference ${record.reference}`}`;
      case 'waiting':
        return `${record.home === 'held' ? 'held' : 'waiting'} for attempt ${record.attempt + 1} (${record.history.at(-1)?.detail ?? 'not sent yet'})`;
      case 'dead':
      case 'dropped':
        return `${record.state} (${record.reason})`;
    }
  }
}
