/** `--scenario slow-consumer`: a customer answers after 25 seconds, beside one that is well; who is told what, and who waits for whom. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Evidence } from '../lambdas/shared/core/evidence.ts';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { budgets, lane } from '../lambdas/shared/limits/numbers.ts';
import { runSluice } from './command-line.ts';
import { type Consumer, healthy, startConsumer } from './consumers.ts';
import type { EmbeddedAws } from './embedded-aws.ts';
import { Driver, newEventId, type Play, playOf, type PlayOptions, report, type StartPlay } from './play.ts';
import { skipToNext } from './skip.ts';
import { Trace } from './trace.ts';

const names = { slow: 'acme-prod', well: 'healthy' } as const;
const slowEvents = 100;
const answersAfterMs = 25_000;
const trickleMs = 250;
/** Short, so that what was held is soon due once the customer is mended. */
const retry = { baseS: 2, factor: 2, capS: 20, attempts: 20, maxAgeS: 86_400 } as const;
/** Bounds on hanging, not expectations. */
const limitMs = 180_000;
const lookMs = 200;
/** The sweep comes each minute; further at once, and a request under way could be cut off by the move. */
const skipMs = 20_000;

export const startSlowConsumer: StartPlay = async (embedded, authority, options): Promise<Play> => {
  const consumers: Consumers = { slow: await startConsumer(authority, healthy), well: await startConsumer(authority, healthy) };
  const scenario = new SlowConsumer(embedded, consumers, options);
  return playOf(scenario.play(), options, {
    told: () => console.log('That was all; Ctrl-C ends it.'),
    stop: async () => {
      scenario.stop();
      await Promise.all([consumers.slow.close(), consumers.well.close()]);
    },
  });
};

interface Consumers {
  readonly slow: Consumer;
  readonly well: Consumer;
}

type Status = { readonly evidence: Evidence & { readonly says: string } };
type Lines = [boolean, string][];

/** What is wrong first is a matter of when the sweep comes. */
const alarmPattern = new RegExp(`^${names.slow}: .*(attempts failed|No room for) .*(Others unaffected|other.* needs? attention too)\\. \\d+ waiting, none lost\\. Next: sluice status ${names.slow}$`);

class SlowConsumer {
  readonly #embedded: EmbeddedAws;
  readonly #consumers: Consumers;
  readonly #options: PlayOptions;
  readonly #driver: Driver;
  readonly #trace = new Trace(Object.values(names));
  /** Of the customer that is well: real time from the send to the request, by event. */
  readonly #sentMs = new Map<string, number>();
  readonly #tookMs: number[] = [];

  constructor(embedded: EmbeddedAws, consumers: Consumers, options: PlayOptions) {
    this.#embedded = embedded;
    this.#consumers = consumers;
    this.#options = options;
    this.#driver = new Driver(embedded);
    consumers.slow.become(() => ({ status: 200, afterMs: answersAfterMs }));
    consumers.well.become(({ eventId, nth }) => {
      if (nth === 1) this.#tookMs.push(performance.now() - (this.#sentMs.get(eventId) ?? 0));
      return { status: 200 };
    });
  }

  stop(): void {
    this.#driver.stop();
  }

  async play(): Promise<boolean> {
    await this.#register();
    const lines = [...(await this.#slowDown()), ...(await this.#tell()), ...(await this.#mend())];
    // What was put back comes later than it is delivered by another way.
    const isEmpty = await this.#driver.until(limitMs, async () => {
      await this.#skip();
      return (await this.#driver.messagesLeft(0)) === 0;
    });
    lines.push([isEmpty, `messages left in any queue: ${await this.#driver.messagesLeft(0)}`]);
    return report(lines);
  }

  async #register(): Promise<void> {
    for (const [who, endpointId] of [['slow', names.slow], ['well', names.well]] as const) {
      const consumer = this.#consumers[who];
      consumer.trust(await this.#driver.register({ endpointId, url: consumer.url, retry }));
      this.#trace.say(who === 'slow' ? `registered; answers 200 after ${answersAfterMs / 1_000} s, and is given ${budgets.readMs / 1_000} s` : 'registered; answers at once', endpointId);
    }
  }

  /** Its lane is full for ten seconds at a time; what comes meanwhile has no room, and is held; then its breaker opens. */
  async #slowDown(): Promise<Lines> {
    this.#driver.every(trickleMs, () => this.#sendWell());
    await this.#driver.burst(names.slow, slowEvents);
    this.#trace.say(`${slowEvents} events sent at once`, names.slow);
    const isShed = await this.#laneIs(({ window }) => (window?.shed ?? 0) > 0, ({ window }) => `no room for ${window?.shed} of ${window?.offered}: the lane has ${lane.defaultSlots} slots`);
    const isHeld = await this.#laneIs(({ holding }) => (holding?.count ?? 0) > 0, ({ holding }) => `${holding?.count} held: they wait in a table, and nobody waits for them`);
    const isOpen = await this.#laneIs(({ breaker }) => breaker?.state === 'open', ({ window }) => `breaker open after ${window?.attempts} attempts, of which ${(window?.attempts ?? 0) - (window?.delivered ?? 0)} were cut off: nothing is sent for a while`);
    this.#driver.pause();
    const isAllThere = await this.#driver.until(limitMs, () => Promise.resolve(this.#tookMs.length === this.#sentMs.size));
    const most = this.#consumers.slow.mostAtOnce();
    const slowest = Math.max(...this.#tookMs);
    const median = this.#tookMs.toSorted((a, b) => a - b)[Math.floor(this.#tookMs.length / 2)] ?? Number.NaN;
    this.#trace.say(`${this.#tookMs.length} events meanwhile, from send to request: median ${Math.round(median)} ms, slowest ${Math.round(slowest)} ms`, names.well);
    return [
      [isShed && isHeld, `${names.slow}: what had no room was shed from its lane, and held`],
      [isOpen, `${names.slow}: its breaker opened`],
      [most <= lane.defaultSlots, `${names.slow}: ${most} requests at once at most (${lane.defaultSlots} promised)`],
      [isAllThere && [...this.#consumers.well.seen.values()].every((n) => n === 1), `${names.well}: ${this.#sentMs.size} events, each delivered once`],
      // The half of them, so that a machine that stands still for a while does not speak against it.
      [median < budgets.readMs / 2, `${names.well}: its events did not wait for requests to ${names.slow}, each of which takes ${budgets.readMs / 1_000} s`],
    ];
  }

  /** What an operator is told, and what they find. */
  async #tell(): Promise<Lines> {
    const text = await this.#alarmText();
    this.#trace.say(text === undefined ? 'nobody was told in time' : `alarm: ${text}`, names.slow);
    console.log('');
    await this.#sluice(['status', names.slow], true);
    console.log('');
    const { evidence } = JSON.parse((await this.#sluice(['status', names.slow, '--json'], false)).stdout) as Status;
    return [
      [text !== undefined && alarmPattern.test(text), `${names.slow}: the alarm says what is wrong, whom it affects, what waits, and what to do`],
      [isRight(evidence), `${names.slow}: the arithmetic is right: ${evidence.says}`],
    ];
  }

  /** The sweep says it within a minute; the clock is moved there. */
  async #alarmText(): Promise<string | undefined> {
    const log = path.join(this.#options.stateDir, 'logs', `${this.#embedded.localFile.outputs[outputs.sweepFunction]}.log`);
    for (const endsMs = performance.now() + limitMs; performance.now() < endsMs; await sleep(lookMs)) {
      const said = readFileSync(log, 'utf8').split('\n').find((line) => line.includes('"endpoint-ill"') && line.includes(`"${names.slow}"`));
      if (said !== undefined) return (JSON.parse(said) as { text: string }).text;
      await this.#skip();
    }
    return undefined;
  }

  /** Once it answers at once, an operator's ping closes the breaker, and the drain sends what was held. */
  async #mend(): Promise<Lines> {
    this.#consumers.slow.become(healthy);
    this.#trace.say('mended: it answers at once', names.slow);
    const { code } = await this.#sluice(['endpoint', 'ping', names.slow, '--timeout', String(limitMs / 1_000)], true);
    const delivered = async () => (await this.#driver.records()).filter(({ endpointId, state, eventId }) => endpointId === names.slow && state === 'delivered' && eventId?.startsWith('evt_') === true).length;
    const isDelivered = await this.#driver.until(limitMs, async () => {
      await this.#skip();
      return (await delivered()) === slowEvents;
    });
    const requests = [...this.#consumers.slow.seen.entries()].filter(([eventId]) => eventId.startsWith('evt_')).map(([, n]) => n);
    const again = requests.filter((n) => n > 1).length;
    this.#trace.say(`all delivered; ${again} were sent again, for no answer had come`, names.slow);
    return [
      [code === 0, `${names.slow}: the ping was answered`],
      [isDelivered && requests.length === slowEvents, `${names.slow}: ${await delivered()} of ${slowEvents} events delivered, none lost`],
    ];
  }

  async #skip(): Promise<void> {
    const { skippedMs } = await skipToNext(this.#embedded, { limitMs: skipMs });
    if (skippedMs >= 1_000) this.#trace.say(`clock moved ${Math.round(skippedMs / 1_000)} s ahead`);
  }

  async #laneIs(isSo: (lane: Awaited<ReturnType<Driver['lane']>>) => boolean, text: (lane: Awaited<ReturnType<Driver['lane']>>) => string): Promise<boolean> {
    const isThere = await this.#driver.until(limitMs, async () => isSo(await this.#driver.lane(names.slow)));
    this.#trace.say(isThere ? text(await this.#driver.lane(names.slow)) : 'not as promised in time', names.slow);
    return isThere;
  }

  async #sendWell(): Promise<void> {
    const eventId = newEventId();
    this.#sentMs.set(eventId, performance.now());
    await this.#driver.send(names.well, eventId);
  }

  #sluice(args: readonly string[], isShown: boolean) {
    return runSluice(this.#embedded, this.#options.stateDir, args, isShown);
  }
}

/** The sentence against its own figures: slots ÷ p95, and what is offered beside that. */
function isRight({ says, latencyMs, slots, offeredPerSecond }: Status['evidence']): boolean {
  const numbers = /^95 of 100 requests end within ([\d.]+) (ms|s); (\d+) at a time are then ([\d.]+) a (second|minute)\. ([\d.]+) a (second|minute) are offered(?:: it (falls behind)|, which the lane allows, but \d+ of \d+ attempts failed)\./.exec(says);
  if (numbers === null || latencyMs === undefined || offeredPerSecond === undefined) return false;
  const [, p95 = '', p95Unit, atOnce, sustainable = '', sustainableUnit, offered = '', offeredUnit, how] = numbers;
  const [p95S, rate, offer] = [Number(p95) / (p95Unit === 'ms' ? 1_000 : 1), Number(sustainable) / (sustainableUnit === 'minute' ? 60 : 1), Number(offered) / (offeredUnit === 'minute' ? 60 : 1)];
  const isNear = (a: number, b: number) => Math.abs(a - b) <= 0.1 * b;
  return Number(atOnce) === slots && isNear(p95S, latencyMs.p95 / 1_000) && isNear(rate, slots / p95S) && isNear(offer, offeredPerSecond) && how === (offer > rate ? 'falls behind' : undefined);
}
