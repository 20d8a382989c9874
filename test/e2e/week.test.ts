/** Days of retries in a minute, on the steered clock (R2, R3, R9, T4). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ceilingS } from '../../lambdas/shared/core/backoff.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { scheduleProblem } from '../../lambdas/shared/core/schedule.ts';
import { hold, sweep } from '../../lambdas/shared/limits/numbers.ts';
import { configOf } from '../support/builders.ts';
import { deadLettersOf, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorded, type Recorder } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const hourS = 3_600;
/** Its shortest span is longer than the outage. */
const patient = { baseS: 5, factor: 4, capS: 8 * hourS, attempts: 25, maxAgeS: 168 * hourS, jitter: 'equal' } as const;
/** Its longest span is shorter than its age. */
const short = { baseS: 5, factor: 4, attempts: 12, maxAgeS: 500_000, jitter: 'full' } as const;
/** No breaker that would send fewer: what is measured is the schedule. */
const breaker = { minAttempts: 1_000, connectFailures: 100 };
const outageS = 70 * hourS;
/** A wake-up may be a minute late if it is lost, and is in whole seconds; a message is hidden for whole seconds. */
const lateS = hold.directMs / 1_000 + sweep.periodS + 10;

const requestsTo = (id: string) => consumer.requests.filter(({ path }) => path === `/${id}`);
/** Signed at send time, by the steered clock. */
const sentEpochS = (request: Recorded) => Number(request.headers['webhook-timestamp']);
const record = async (id: string) => embedded.record(id, `evt_${id}`);

async function pass(what: string, isOver: (record: DeliveryRecord | undefined) => boolean, id: string): Promise<void> {
  await until(what, async () => {
    await embedded.skip();
    return isOver(await record(id));
  }, 120_000);
}

/** Each wait between two requests, and the longest that its schedule allows. */
function waits(id: string, retry: object): [number, number][] {
  const policy = configOf({ retry }).retry;
  const times = requestsTo(id).map(sentEpochS);
  return times.slice(1).map((at, i) => [at - (times[i] ?? 0), ceilingS(policy, i + 1)]);
}

describe('a week', () => {
  it('of which 70 hours are 503s is followed as the schedule says, and then delivered', { timeout: 240_000 }, async () => {
    const { retry, budgetsMs } = configOf({ retry: patient });
    expect(scheduleProblem(retry, budgetsMs)).toBeUndefined();
    await embedded.register('patient', consumer.url('/patient'), { retry: patient, breaker });
    const startEpochS = Math.floor((await embedded.look()).nowEpochMs / 1_000);
    consumer.reply((request) => ({ status: sentEpochS(request) < startEpochS + outageS ? 503 : 200 }));
    const before = (await embedded.calls()).at(-1)?.seq ?? 0;
    await embedded.send(messageBody('patient', 'evt_patient'));
    await pass('it is delivered', (found) => found?.state === 'delivered', 'patient');

    const found = await record('patient');
    const requests = requestsTo('patient');
    expect(found).toMatchObject({ state: 'delivered', generation: 0, attempt: requests.length });
    expect(requests.length).toBeGreaterThan(12);
    expect(new Set(requests.map(({ eventId, body }) => `${eventId} ${body.toString()}`)).size).toBe(1);
    expect((requests.at(-2) === undefined ? NaN : sentEpochS(requests.at(-2) as Recorded)) - startEpochS).toBeLessThan(outageS);
    for (const [waitS, mostS] of waits('patient', patient)) {
      expect(waitS).toBeGreaterThanOrEqual(Math.floor(mostS / 2) - 1);
      expect(waitS).toBeLessThanOrEqual(mostS + lateS);
    }

    // What an attempt costs where it waits for hours: the sweep's runs are the installation's.
    // A call with two resources has two entries.
    const calls = new Map((await embedded.calls(before)).filter(({ caller }) => /Deliver|Drain/.test(caller)).map((call) => [call.seq, call]));
    const per = new Map<string, number>();
    for (const { service, operation } of calls.values()) per.set(`${service} ${operation}`, (per.get(`${service} ${operation}`) ?? 0) + 1);
    const hours = Math.round((sentEpochS(requests.at(-1) as Recorded) - startEpochS) / hourS);
    process.stdout.write(`${requests.length} attempts in ${hours} h; AWS calls an attempt: ${[...per].map(([name, n]) => `${name} ${(n / requests.length).toFixed(1)}`).join(', ')}\n`);
    expect(calls.size / requests.length).toBeLessThan(20);
  });

  it('whose attempts run out ends in the dead-letter queue, in its first generation, with the whole of its history\'s ends', { timeout: 240_000 }, async () => {
    await embedded.register('short', consumer.url('/short'), { retry: short, breaker });
    consumer.reply(() => ({ status: 503 }));
    await embedded.send(messageBody('short', 'evt_short'));
    await pass('it is buried', (found) => found?.state === 'dead' && found.phase === 'buried', 'short');

    const requests = requestsTo('short');
    expect(requests).toHaveLength(12);
    for (const [waitS, mostS] of waits('short', short)) expect(waitS).toBeLessThanOrEqual(mostS + lateS);
    const found = await record('short');
    expect(found).toMatchObject({ state: 'dead', reason: 'exhausted', generation: 0, attempt: 12, detail: '12 attempts' });
    expect(found?.history).toHaveLength(12);
    expect(await deadLettersOf(embedded)).toBe(1);
    await embedded.drainQueue();
    expect(requestsTo('short')).toHaveLength(12);
  });
});
