/** `--consumers hostile`: an endpoint for each hostile behaviour, a healthy one beside them, and what each attempt came to. */
import { table } from '../../bin/cli/output.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { message } from '../../lambdas/shared/limits/numbers.ts';
import { type Consumer, healthy, startConsumer } from '../consumers.ts';
import { LiveTable, titled } from '../live-table.ts';
import { Driver, newEventId, type PlayOptions, report, type StartPlay } from '../play.ts';
import { owedBy } from './behaviour.ts';
import { hostileBehaviours } from './behaviours.ts';
import { createCertificates } from './certificates.ts';
import { type HostileServer, startHostile } from './hostile-server.ts';
import { isOwed, outcomeText } from './outcomes.ts';

/** Short, so that a person sees how every first attempt ends within seconds. */
const budgetsMs = { connection: 500, setup: 2_000, write: 1_000, read: 2_000, total: 4_000 };
const retry = { baseS: 2, factor: 2, capS: 8, attempts: 3, maxAgeS: 600 };
/** The largest payload that an event can hold, beside its other members. */
const maxPayloadBytes = message.maxBytes - 1_024;
const healthyId = 'healthy';
/** Between two events of the healthy endpoint; all records are read for each table, so a play without end sends less. */
const trickleMs = { once: 500, endless: 2_000 };
/** Between two hostile events: all at once they would wait for the machine more than for each other. */
const paceMs = 100;
const onceLimitMs = 50_000;
/** No attempt may take longer: all its budgets, and what a busy machine adds. */
const maxAttemptMs = budgetsMs.connection + budgetsMs.total + 1_500;
/** The table is long: where it is printed, it is printed seldom. */
const printMs = 5_000;
const header = ['ENDPOINT', 'ATTEMPTS', 'LAST', 'TOOK', 'EXPECTED AT FIRST', ''];

/** A hostile server, and the one event that it is sent. */
interface Target {
  readonly server: HostileServer;
  readonly endpointId: string;
  readonly eventId: string;
  /** Of the event's payload; undefined: the payload does not matter. */
  readonly payloadBytes: number | undefined;
}

export const startHostilePlay: StartPlay = async (embedded, authority, options) => {
  const certificates = createCertificates(authority);
  const servers: HostileServer[] = [];
  // Endpoints are https, so what can be had on plain HTTP only is left out.
  for (const behaviour of hostileBehaviours.filter(({ scheme }) => scheme !== 'http')) {
    servers.push(await startHostile(behaviour, { certificates, scheme: 'https' }));
  }
  const consumer = await startConsumer(authority, healthy);
  const driver = new Driver(embedded);
  const play = new HostilePlay(driver, servers.map(targetOf), consumer, options);
  await play.begin();
  return {
    finished: options.once ? play.toTheEnd() : new Promise(() => undefined),
    stop: async () => {
      driver.stop();
      await Promise.all([consumer, ...servers].map((server) => server.close()));
    },
  };
};

function targetOf(server: HostileServer): Target {
  const { name, bodyBytes } = server.behaviour;
  return { server, endpointId: name, eventId: newEventId(), payloadBytes: bodyBytes && Math.min(bodyBytes, maxPayloadBytes) };
}

class HostilePlay {
  readonly #driver: Driver;
  readonly #targets: readonly Target[];
  readonly #consumer: Consumer;
  readonly #once: boolean;
  readonly #table = new LiveTable(printMs);
  /** Events of the healthy endpoint. */
  readonly #healthyIds = new Set<string>();
  readonly #unsent: Target[];
  /** A healthy event has found its way; before that, first attempts would show how slowly the functions start. */
  #isWarm = false;

  constructor(driver: Driver, targets: readonly Target[], consumer: Consumer, { once }: PlayOptions) {
    this.#driver = driver;
    this.#targets = targets;
    this.#unsent = [...targets];
    this.#consumer = consumer;
    this.#once = once;
  }

  /** Registers all, and begins to send. */
  async begin(): Promise<void> {
    this.#consumer.trust(await this.#driver.register({ endpointId: healthyId, url: this.#consumer.url, budgetsMs, retry }));
    for (const { endpointId, server } of this.#targets) await this.#driver.register({ endpointId, url: server.url, budgetsMs, retry });
    this.#driver.every(this.#once ? trickleMs.once : trickleMs.endless, () => this.#sendHealthy());
    this.#driver.every(paceMs, () => this.#sendHostile());
    const hints = this.#once ? [] : ['Try: npx sluice status silent'];
    this.#driver.every(500, async () => {
      const records = await this.#driver.records();
      this.#isWarm ||= records.some((r) => r.endpointId === healthyId && r.state === 'delivered');
      // Without the trickle, which never ends.
      const news = this.#rows(records).join();
      this.#table.show(this.#render(records, ...hints), news);
    });
  }

  /** Waits until every hostile endpoint has an attempt in its record, and every healthy event is delivered; checks both. */
  async toTheEnd(): Promise<boolean> {
    await this.#driver.until(onceLimitMs, async () => {
      const records = await this.#driver.records();
      return this.#targets.every((target) => recordOf(records, target) !== undefined);
    });
    this.#driver.pause();
    await this.#driver.until(onceLimitMs, async () => this.#healthyOf(await this.#driver.records()).every((r) => r?.state === 'delivered'));
    const records = await this.#driver.records();
    this.#table.settle(this.#render(records));
    return report([...this.#targets.flatMap((target) => failureOf(target, recordOf(records, target))), ...this.#totals(records)]);
  }

  async #sendHealthy(): Promise<void> {
    const eventId = newEventId();
    this.#healthyIds.add(eventId);
    await this.#driver.send(healthyId, eventId);
  }

  async #sendHostile(): Promise<void> {
    const target = this.#isWarm ? this.#unsent.shift() : undefined;
    if (target === undefined) return;
    const { endpointId, eventId, payloadBytes } = target;
    await this.#driver.send(endpointId, eventId, ...(payloadBytes === undefined ? [] : ['x'.repeat(payloadBytes)]));
  }

  #healthyOf(records: readonly DeliveryRecord[]): (DeliveryRecord | undefined)[] {
    const byId = new Map(records.filter((r) => r.endpointId === healthyId).map((r) => [r.eventId, r]));
    return [...this.#healthyIds].map((eventId) => byId.get(eventId));
  }

  #totals(records: readonly DeliveryRecord[]): [boolean, string][] {
    const right = this.#targets.filter((target) => problemOf(target, recordOf(records, target)) === undefined).length;
    const once = this.#healthyOf(records).filter((r) => r?.state === 'delivered' && this.#consumer.seen.get(r.eventId ?? '') === 1).length;
    const [sent, bad] = [this.#healthyIds.size, this.#consumer.rejectedSignatures()];
    return [
      [right === this.#targets.length, `${right} of ${this.#targets.length} hostile endpoints: every attempt ended as expected`],
      [once === sent, `${healthyId}: ${once} of ${sent} events delivered exactly once, the slowest attempt in ${this.#slowestMs(records)} ms`],
      [bad === 0, `${healthyId}: every signature verified with an independent library`],
    ];
  }

  #slowestMs(records: readonly DeliveryRecord[]): number {
    return Math.max(0, ...this.#healthyOf(records).flatMap((r) => r?.history.map(({ durationMs }) => durationMs) ?? []));
  }

  #render(records: readonly DeliveryRecord[], ...hints: string[]): string {
    const found = this.#healthyOf(records).filter((r) => r !== undefined);
    const attempts = found.reduce((sum, r) => sum + r.attempt, 0);
    const isFine = found.every((r) => r.state === 'delivered' && r.attempt === 1);
    const healthyRow = [healthyId, String(attempts), `${found.length} of ${this.#healthyIds.size} events`, `${this.#slowestMs(records)} ms at most`, 'delivered 200', isFine ? 'ok' : 'FAILED'];
    return titled(table(header, [healthyRow, ...this.#rows(records)]), ...hints);
  }

  #rows(records: readonly DeliveryRecord[]): string[][] {
    return this.#targets.map((target) => rowOf(target, recordOf(records, target)));
  }
}

function recordOf(records: readonly DeliveryRecord[], { endpointId, eventId }: Target): DeliveryRecord | undefined {
  return records.find((r) => r.endpointId === endpointId && r.eventId === eventId);
}

function owedTo({ server: { behaviour, scheme }, payloadBytes = 0 }: Target, nth: number) {
  return owedBy(behaviour, { scheme, bodyBytes: payloadBytes, nth });
}

function rowOf(target: Target, record: DeliveryRecord | undefined): string[] {
  const expected = outcomeText(...owedTo(target, 0));
  const last = record?.history.at(-1);
  if (record === undefined || last === undefined) return [target.endpointId, '0', '', '', expected, record === undefined ? '…' : 'FAILED'];
  const problem = problemOf(target, record);
  return [target.endpointId, String(record.attempt), `${last.outcome} ${last.detail}`, `${last.durationMs} ms`, expected, problem === undefined ? 'ok' : 'FAILED'];
}

/** What is wrong with the attempts so far, if anything is: later attempts count too, for they may meet what earlier ones left. */
function problemOf(target: Target, record: DeliveryRecord | undefined): string | undefined {
  if (record === undefined) return 'was not attempted in time';
  if (record.history.length === 0) return `is ${record.state} without an attempt`;
  if (target.server.followed()) return 'its redirect was followed';
  const problems = record.history.map((entry, nth) => {
    const owed = owedTo(target, nth);
    if (entry.durationMs > maxAttemptMs) return `attempt ${nth + 1} took ${entry.durationMs} ms`;
    return isOwed(entry, owed) ? undefined : `attempt ${nth + 1} ended ${entry.outcome} ${entry.detail}, expected ${outcomeText(...owed)}`;
  });
  return problems.find((problem) => problem !== undefined);
}

function failureOf(target: Target, record: DeliveryRecord | undefined): [false, string][] {
  const problem = problemOf(target, record);
  return problem === undefined ? [] : [[false, `${target.endpointId} (${target.server.behaviour.summary}): ${problem}`]];
}
