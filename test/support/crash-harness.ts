/**
 * Crashes at every side effect of a scenario, on the real installation. A scenario is played once whole; then once for each
 * call that the function makes and for each request that the consumer gets, with the function's process killed right before or
 * right after just that effect. Then time passes until nothing is left to do, and crash-checks.ts says what must hold.
 *
 * No list of effects is written down: a place is tried until a whole run did not reach it, so that new calls are covered too.
 */
import { PurgeQueueCommand } from '@aws-sdk/client-sqs';
import { drain, lease, sweep } from '../../lambdas/shared/limits/numbers.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import type { CountedCall } from '../../local/interference.ts';
import { factsOf, lostSince, problemsAround, problemsOf, type Fact } from './crash-checks.ts';
import { CrashRun, type Scenario, type Stop } from './crash-run.ts';
import { startEmbedded, until, type Embedded } from './embedded.ts';
import { startRecorder, type Recorder } from './recorder.ts';

/** What one scenario came to. */
export interface Report {
  readonly effects: readonly string[];
  readonly crashes: number;
  readonly problems: readonly string[];
}

interface Played {
  readonly facts: readonly Fact[];
  readonly around: readonly string[];
  /** Requests under way in the crash, by record key. */
  readonly lost: ReadonlyMap<string, number>;
  readonly stopped: string | undefined;
  readonly counted: readonly CountedCall[];
}

/** Ends only a run that hangs. */
const runLimitMs = 40_000;

export class CrashHarness {
  readonly #embedded: Embedded;
  readonly #consumer: Recorder;
  #runs = 0;

  private constructor(embedded: Embedded, consumer: Recorder) {
    this.#embedded = embedded;
    this.#consumer = consumer;
  }

  /** One installation for all scenarios. Two workers, so that a duplicate can meet the first copy; a crash kills the caller alone. */
  static async start(): Promise<CrashHarness> {
    const embedded = await startEmbedded({ concurrency: 2 });
    return new CrashHarness(embedded, await startRecorder(embedded.authority));
  }

  async close(): Promise<void> {
    await this.#consumer.close();
    await this.#embedded.stop();
  }

  /** Plays a scenario with a crash at each of its effects. One that goes wrong by itself is not crashed; a run that hangs is the last. */
  async crashEverywhere(scenario: Scenario): Promise<Report> {
    const calm = await this.#play(scenario, { at: 'nowhere' });
    const problems = judge('without a crash', calm, calm);
    const requests = requestsIn(calm);
    if (requests !== scenario.requests) problems.push(`without a crash: ${requests} requests, must be ${scenario.requests}`);
    let crashes = 0;
    try {
      if (problems.length === 0) for (const at of ['call', 'request'] as const) crashes += await this.#crashAlong(scenario, at, calm, problems);
    } catch (error) {
      problems.push(String(error));
      await this.#afterHang();
    }
    return { effects: effectsOf(calm, this.#embedded), crashes, problems };
  }

  /** Crashes before and after the first call (or request), the second, …, until a run is over without reaching its own. */
  async #crashAlong(scenario: Scenario, at: 'call' | 'request', calm: Played, problems: string[]): Promise<number> {
    for (let crashes = 0, nth = 1; ; nth++) {
      for (const when of ['before', 'after'] as const) {
        const where = `${when} ${at} ${nth}`;
        const played = await this.#play(scenario, { at, nth, when }).catch((error: unknown) => {
          throw new Error(`${where}: ${String(error)}`);
        });
        problems.push(...judge(`${where} (${played.stopped ?? 'not reached'})`, played, calm));
        if (played.stopped === undefined) return crashes;
        crashes++;
      }
    }
  }

  async #play(scenario: Scenario, stop: Stop): Promise<Played> {
    const run = new CrashRun({ embedded: this.#embedded, consumer: this.#consumer, scenario, stop, n: ++this.#runs });
    this.#consumer.reply((request, nth) => run.reply(request, nth));
    // A stop that the run before did not reach must not end what is prepared here.
    await this.#embedded.disarmStop();
    await scenario.prepare?.(run);
    await run.arm();
    const before = await factsOf(run);
    await scenario.send(run);
    const lost = await this.#recover(run, scenario, before);
    // Past every lease: what is left of one then is left for good.
    await this.#embedded.advance(drain.timeoutS * 1_000 + lease.skewMs + 1_000);
    const { nowEpochMs } = await this.#embedded.look();
    const deadLetters = await run.takeDeadLetters();
    const { counted } = await this.#embedded.stopState();
    return {
      facts: await factsOf(run, deadLetters),
      around: await problemsAround(run, deadLetters, nowEpochMs),
      lost,
      stopped: await run.stopped(),
      counted,
    };
  }

  /** Passes time until nothing is left to do. @returns what was under way in the crash, taken down before any time had passed. */
  async #recover(run: CrashRun, scenario: Scenario, before: readonly Fact[]): Promise<ReadonlyMap<string, number>> {
    let lost: ReadonlyMap<string, number> | undefined;
    await until('the queue is empty', async () => {
      const { idle, hidden, wakeUps } = await this.#embedded.look();
      if (!idle) return false;
      if (lost === undefined && (await run.stopped()) !== undefined) {
        const beforeOf = (fact: Fact) => before.find((one) => one.sent.recordKey === fact.sent.recordKey);
        lost = new Map((await factsOf(run)).map((fact) => [fact.sent.recordKey, lostSince(beforeOf(fact), fact)]));
      }
      if (hidden + wakeUps > 0) await this.#embedded.skip();
      // What lost its wake-up has only the sweep, which comes with the time.
      else if (await run.isHolding()) await this.#embedded.advance(sweep.periodS * 1_000 + 1_000);
      else return (await scenario.settled?.(run)) ?? true;
      return false;
    }, runLimitMs);
    return lost ?? new Map();
  }

  /** What a run that hung left in the queue must not hold up the next scenario. */
  async #afterHang(): Promise<void> {
    await this.#embedded.advance(120_000);
    await this.#embedded.sqs.send(new PurgeQueueCommand({ QueueUrl: this.#embedded.output(outputs.deliveryQueueUrl) }));
  }
}

function judge(where: string, played: Played, calm: Played): string[] {
  const found = played.facts.flatMap((fact, i) => {
    const same = calm.facts[i];
    if (same === undefined) return [`${fact.sent.recordKey} is in no run without a crash`];
    return problemsOf(fact, same, played.lost.get(fact.sent.recordKey) ?? 0).map((problem) => `${fact.sent.recordKey} ${problem}`);
  });
  return [...found, ...played.around].map((problem) => `${where}: ${problem}`);
}

function requestsIn({ facts }: Played): number {
  return facts.reduce((sum, fact) => sum + fact.requests.length, 0);
}

function looksIn({ facts }: Played): number {
  return facts.reduce((sum, fact) => sum + fact.looks.length, 0);
}

/** The effects of a run in words, such as `dynamodb:UpdateItem endpoints`; requests last, for the wire does not see them. */
function effectsOf(calm: Played, embedded: Embedded): string[] {
  const names: Record<string, string> = {
    endpoints: embedded.output(outputs.endpointsTable),
    deliveries: embedded.output(outputs.deliveriesTable),
    queue: embedded.output(outputs.deliveryQueueUrl),
    'dead-letter queue': embedded.output(outputs.deadLetterQueueUrl),
    payloads: embedded.output(outputs.payloadsTable),
    'drain queue': embedded.output(outputs.drainQueueUrl),
  };
  const nameOf = (resource: string) => Object.keys(names).find((name) => names[name]?.endsWith(resource.split(/[:/]/).at(-1) ?? '')) ?? resource;
  return [...calm.counted.map((call) => `${call.service}:${call.operation} ${nameOf(call.resource)}`), ...Array<string>(requestsIn(calm)).fill('POST'), ...Array<string>(looksIn(calm)).fill('GET')];
}
