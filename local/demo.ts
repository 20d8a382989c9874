/** The demo: three customers, events through the ordinary SQS client, a table from the records, a replay by the CLI. */
import { runSluice } from './command-line.ts';
import { type Behaviour, type Consumer, flaky, healthy, rejecting, startConsumer } from './consumers.ts';
import type { EmbeddedAws } from './embedded-aws.ts';
import { LiveTable, overviewTable, type Overview } from './live-table.ts';
import { Driver, newEventId, type PlayOptions, report, type StartPlay } from './play.ts';

interface Customer {
  readonly endpointId: string;
  readonly behaviour: Behaviour;
  /** Events of the first burst. */
  readonly events: number;
  /** Requests that each event must have caused by the end. */
  readonly requestsPerEvent: number;
  readonly consumer: Consumer;
}

/** Short backoff, so that a person sees a retry happen. */
const demoRetry = { baseS: 2, factor: 2, capS: 8, attempts: 6, maxAgeS: 600 };
const trickleMs = 2_000;
/** A bound on hanging, not an expectation: an idle machine needs a third of it for both waits. */
const onceLimitMs = 240_000;
const hint = "Try: npx sluice send healthy --type demo.hello --data '{\"n\":1}' --wait";

export const startDemo: StartPlay = async (embedded, authority, options) => {
  const customers: Customer[] = [];
  for (const [endpointId, behaviour, events, requestsPerEvent] of [
    ['healthy', healthy, 40, 1],
    // Sixteen failures: too few for its breaker, whose time would be longer than the demo's.
    ['flaky', flaky, 8, 3],
    ['reject', rejecting, 5, 2],
  ] as const) {
    customers.push({ endpointId, behaviour, events, requestsPerEvent, consumer: await startConsumer(authority, behaviour) });
  }
  const driver = new Driver(embedded);
  const demo = new Demo(embedded, driver, customers, options);
  await demo.begin();
  return {
    finished: options.once ? demo.toTheEnd() : new Promise(() => undefined),
    stop: async () => {
      driver.stop();
      await Promise.all(customers.map((c) => c.consumer.close()));
    },
  };
};

class Demo {
  readonly #embedded: EmbeddedAws;
  readonly #driver: Driver;
  readonly #customers: readonly Customer[];
  readonly #options: PlayOptions;
  readonly #table = new LiveTable();

  constructor(embedded: EmbeddedAws, driver: Driver, customers: readonly Customer[], options: PlayOptions) {
    this.#embedded = embedded;
    this.#driver = driver;
    this.#customers = customers;
    this.#options = options;
  }

  /** Registers the customers and sends the first events. */
  async begin(): Promise<void> {
    for (const { endpointId, consumer } of this.#customers) {
      consumer.trust(await this.#driver.register({ endpointId, url: consumer.url, retry: demoRetry }));
    }
    await Promise.all(this.#customers.map(({ endpointId, events }) => this.#driver.burst(endpointId, events)));
    const hints = this.#options.once ? [] : [hint];
    this.#driver.every(500, async () => this.#table.show(overviewTable(await this.#driver.overview(), ...hints)));
    if (!this.#options.once) this.#driver.every(trickleMs, () => this.#driver.send('healthy', newEventId()));
  }

  /** Waits for the first verdicts, repairs the rejecting customer, replays its dead letters, and checks all counts. */
  async toTheEnd(): Promise<boolean> {
    const first = await this.#until((o) => this.#settled(o, { reject: 'dead' }));
    this.#driver.pause();
    await this.#settleTable();
    console.log(first ? '\nEvery event has its verdict. The rejecting customer is repaired; its dead letters are replayed:' : '\nNot all events were settled in time.');
    this.#customers.find((c) => c.endpointId === 'reject')?.consumer.become(healthy);
    const replayed = await this.#sluice('dlq', 'replay', '--endpoint', 'reject', '--yes');
    const second = await this.#until((o) => this.#settled(o, {}));
    await this.#settleTable();
    console.log('\nTheir copies in the dead-letter queue say nothing any more. The sweep would delete them within minutes:');
    const tidied = await this.#sluice('dlq', 'tidy');
    return this.#report(first && replayed === 0 && second && tidied === 0);
  }

  async #settleTable(): Promise<void> {
    this.#table.settle(overviewTable(await this.#driver.overview()));
  }

  #settled(overview: readonly Overview[], expected: Readonly<Record<string, 'dead'>>): boolean {
    return this.#customers.every(({ endpointId, events }) => {
      const row = overview.find((o) => o.endpointId === endpointId);
      return (expected[endpointId] === 'dead' ? row?.dead : row?.delivered) === events;
    });
  }

  async #sluice(...args: string[]): Promise<number> {
    return (await runSluice(this.#embedded, this.#options.stateDir, args, true)).code;
  }

  #until(holds: (overview: Overview[]) => boolean): Promise<boolean> {
    return this.#driver.until(onceLimitMs, async () => holds(await this.#driver.overview()));
  }

  async #report(settled: boolean): Promise<boolean> {
    const lines: [boolean, string][] = [[settled, 'every event ended delivered, the rejected ones after their replay']];
    for (const { endpointId, events, requestsPerEvent, consumer } of this.#customers) {
      const requests = [...consumer.seen.values()].reduce((sum, n) => sum + n, 0);
      lines.push([requests === events * requestsPerEvent, `${endpointId}: ${events} events, ${requests} verified requests (${events * requestsPerEvent} promised)`]);
      lines.push([consumer.rejectedSignatures() === 0, `${endpointId}: every signature verified with an independent library`]);
    }
    const left = await this.#driver.messagesLeft();
    lines.push([left === 0, `messages left in any queue: ${left}`]);
    return report(lines);
  }
}
