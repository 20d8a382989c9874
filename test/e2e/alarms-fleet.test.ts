/**
 * Each alarm of the whole installation, driven by real traffic, by crashes and refusals (test/support/watch.ts). Alarms over metrics of
 * AWS itself, queues and functions, are evaluated over what is sampled of the embedded AWS (test/support/aws-metrics.ts); all others
 * over what the functions log, and nothing else. The alarms of single endpoints are in alarms-endpoints.test.ts.
 */
import { InvokeCommand, LambdaClient, UpdateEventSourceMappingCommand } from '@aws-sdk/client-lambda';
import { PurgeQueueCommand, ReceiveMessageCommand, SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { alarms as rules, aws, deliver, drainQueue, queues } from '../../lambdas/shared/limits/numbers.ts';
import { functionNames, messageBody, startEmbedded, until, type Embedded, type FunctionName } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';
import { deafTo, unpublished } from '../support/renamed.ts';
import { startWatch, type Watch } from '../support/watch.ts';

let embedded: Embedded;
let watch: Watch;
let consumer: Recorder;
let lambda: LambdaClient;
let since: number;
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  const { endpoint, region, credentials } = embedded.local;
  lambda = new LambdaClient({ endpoint, region, credentials, maxAttempts: 1 });
  await embedded.register('well', consumer.url('/well'));
  // One request in a hundred seconds: what comes is held, and the drain is woken for it again and again.
  await embedded.register('rationed', consumer.url('/rationed'), { maxPerSecond: 0.01 });
  watch = await startWatch(embedded);
  // What is missing at the very start says nothing against it.
  await watch.pass();
});
beforeEach(() => void (since = watch.changes.length));
afterAll(async () => {
  lambda.destroy();
  await consumer.close();
  await embedded.stop();
});

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const visibilityMs = aws.visibilityPerTimeout * deliver.timeoutS * 1_000;
const ours = () => watch.alarms().filter((alarm) => !alarm.startsWith('endpoint-'));
const isOn = (...alarms: string[]) => () => alarms.every((alarm) => watch.stateOf(alarm) === 'ALARM');
/** Beyond what any alarm of minutes looks back at; then none must speak. */
async function expectWell(): Promise<void> {
  await watch.jump(hourMs);
  expect(watch.alarmsNow()).toEqual([]);
}

let events = 0;
const send = (endpointId: string) => embedded.send(messageBody(endpointId, `evt_${++events}`));
async function sendMany(endpointId: string, n: number): Promise<void> {
  for (let i = 0; i < n; i++) await send(endpointId);
}
const purge = (queue: keyof typeof outputs) => embedded.sqs.send(new PurgeQueueCommand({ QueueUrl: embedded.output(outputs[queue]) }));
const enable = (source: 'deliverSource' | 'drainSource', Enabled: boolean) => lambda.send(new UpdateEventSourceMappingCommand({ UUID: embedded.output(outputs[source]), Enabled }));
const askForReplay = () => lambda.send(new InvokeCommand({ FunctionName: embedded.output(outputs.replayFunction), Payload: JSON.stringify({ select: { endpointId: 'well' } }) }));
/** The next process of it that calls AWS dies before its first call. */
const crashNext = (fn: FunctionName) => embedded.stopAt(1, 'before', fn);
const heldOf = async (endpointId: string) => (await embedded.registry.get(endpointId))?.lane.holding?.count ?? 0;

describe('a message that nobody can deliver', () => {
  it.each([['is malformed', 'not json'], ['names nobody', messageBody('nobody', 'evt_nobody')]])('that %s: deliveries-unaddressed', async (_what, body) => {
    await watch.passUntil('it is told', isOn('deliveries-unaddressed'), { each: () => embedded.send(body), most: 4 });
    expect(watch.alarmed(since)).toEqual(['deliveries-unaddressed']);
    expect(watch.inAlarm('deliveries-unaddressed')).toEqual(['deliver']);
    await expectWell();
  });
});

describe('functions that fail', () => {
  it('a sweep that DynamoDB refuses: sweep-silent, sweep-errors, faults', async () => {
    await embedded.refuse({ service: 'dynamodb', code: 'AccessDeniedException', function: 'sweep' });
    await watch.passUntil('all three speak', isOn('sweep-silent', 'sweep-errors', 'faults'), { most: 12 });
    expect(watch.alarmed(since)).toEqual(['faults', 'sweep-errors', 'sweep-silent']);
    expect(watch.inAlarm('faults')).toEqual(['sweep']);
    await embedded.heal();
    await expectWell();
  });

  it('workers that crash: deliver-errors, drain-errors', { timeout: 120_000 }, async () => {
    await sendMany('rationed', 5);
    await watch.passUntil('some are held', async () => (await heldOf('rationed')) > 0, { most: 3 });
    for (const fn of ['deliver', 'drain'] as const) {
      const crashAnother = async () => {
        await crashNext(fn);
        if (fn === 'deliver') await send('well');
      };
      await watch.passUntil(`${fn} has crashed again and again`, isOn(`${fn}-errors`), { each: crashAnother, most: 14 });
      await embedded.disarmStop();
    }
    expect(watch.alarmed(since)).toEqual(['deliver-errors', 'drain-errors']);
    await expectWell();
    // What the crashed workers had comes back, and arrives.
    await until('all is delivered', async () => {
      await embedded.skip({ beyondMs: 10_000 });
      return (await embedded.record('well', `evt_${events}`))?.state === 'delivered';
    });
  });

  it('a replay that crashes: replay-errors', async () => {
    await crashNext('replay');
    expect((await askForReplay()).FunctionError).toBe('Unhandled');
    await embedded.disarmStop();
    await watch.passUntil('it is told', isOn('replay-errors'), { most: 2 });
    expect(watch.alarmed(since)).toEqual(['replay-errors']);
    await expectWell();
  });
});

describe('an account whose concurrency is used up', () => {
  it('all four are throttled, the sweep is silent, and what is received too often lies in the fault queue', { timeout: 180_000 }, async () => {
    await sendMany('rationed', 3);
    await watch.passUntil('some are held', async () => (await heldOf('rationed')) > 0, { most: 3 });
    // The sweep goes on for a while: it wakes the drain each minute.
    for (const fn of ['deliver', 'drain', 'replay'] as const) await embedded.throttle(fn, true);
    const eachMinute = async () => {
      await send('well');
      await expect(askForReplay()).rejects.toThrow('Rate Exceeded');
    };
    await watch.passUntil('three of them are throttled', isOn('deliver-throttled', 'drain-throttled', 'replay-throttled'), { each: eachMinute, most: 10 });
    expect(watch.alarmed(since)).toEqual(['deliver-throttled', 'drain-throttled', 'replay-throttled']);
    await embedded.throttle('sweep', true);
    await watch.passUntil('the sweep is throttled too', isOn('sweep-throttled', 'sweep-silent'), { most: 8 });

    // Each time that a message comes back counts as a receive.
    for (let receives = 0; receives < queues.maxReceiveCount; receives++) {
      await embedded.advance(visibilityMs);
      await until('it was received', async () => (await embedded.look()).idle);
    }
    await watch.passUntil('a message is in the fault queue', isOn('fault-queue-not-empty'), { most: 5 });
    expect(watch.alarmed(since)).toEqual(['deliver-throttled', 'drain-throttled', 'fault-queue-not-empty', 'replay-throttled', 'sweep-silent', 'sweep-throttled']);

    for (const fn of functionNames) await embedded.throttle(fn, false);
    await watch.jump(hourMs);
    expect(watch.alarmsNow()).toEqual(['fault-queue-not-empty']);
    await purge('faultQueueUrl');
    await watch.passUntil('all is well', () => watch.alarmsNow().length === 0, { most: 3 });
  });
});

describe('queues', () => {
  it('from which nobody fetches: delivery-queue-old, drain-queue-old', { timeout: 120_000 }, async () => {
    await sendMany('rationed', 5);
    await watch.passUntil('some are held', async () => (await heldOf('rationed')) > 1, { most: 3 });
    for (const source of ['deliverSource', 'drainSource'] as const) await enable(source, false);
    await send('well');
    // A wake-up is due within two minutes.
    await watch.jump(3 * minuteMs);
    await watch.jump(aws.sqsAgeReceives * drainQueue.visibilityTimeoutS * 1_000);
    await watch.passUntil('both speak', isOn('delivery-queue-old', 'drain-queue-old'), { most: 12 });
    expect(watch.alarmed(since)).toEqual(['delivery-queue-old', 'drain-queue-old']);
    for (const source of ['deliverSource', 'drainSource'] as const) await enable(source, true);
    await watch.passUntil('all is fetched', () => watch.alarmsNow().length === 0, { most: 8 });
  });
});

describe('many endpoints whose gateway drops connections', () => {
  const ill = Array.from({ length: rules.endpointsSick.bound + 1 }, (_, n) => `many_${n}`);

  it('are too many for tickets of their own: endpoints-sick, until each is found to have had its delivery', { timeout: 120_000 }, async () => {
    consumer.reply(({ method, path }) => {
      if (method === 'POST') return { status: 200, hangUp: path === '/gateway' };
      return { status: 200, body: JSON.stringify({ id: new URL(path, 'https://x').searchParams.get('event') }) };
    });
    // Found a quarter of an hour later: until then they are unknown.
    const lookup = { url: consumer.url('/effects?event={eventId}'), match: { '$.id': 'eventId' }, delaysS: [900] };
    for (const endpointId of ill) await embedded.register(endpointId, consumer.url('/gateway'), { onAmbiguous: 'reconcile', lookup });
    for (const endpointId of ill) await send(endpointId);
    await watch.passUntil('it is told', isOn('endpoints-sick'), { most: 8 });
    expect(watch.alarmed(since)).toEqual(['endpoints-sick']);
    await watch.passUntil('they are well', () => watch.alarmsNow().length === 0, { most: 20 });
  });
});

describe('an endpoint that fails ten times in a row', () => {
  const noticesOf = async (endpointId: string) => (await embedded.published()).map(({ message }) => JSON.parse(message) as { endpointId: string; step: string }).filter((notice) => notice.endpointId === endpointId).map(({ step }) => step);
  const failTen = async (endpointId: string) => {
    consumer.reply(() => ({ status: 503 }));
    await embedded.register(endpointId, consumer.url(`/${endpointId}`), { breaker: { minAttempts: 1_000 }, retry: { delaysS: [600], attempts: 3 } });
    await sendMany(endpointId, 10);
    await until('ten have failed', async () => ((await embedded.registry.get(endpointId))?.lane.failures ?? 0) >= 10);
  };

  it.each([['before', []], ['after', ['warn']]] as const)('is told of at least once where the sweep dies right %s it has published the notice', async (when, atFirst) => {
    const endpointId = `failing_${when}`;
    await failTen(endpointId);
    await embedded.stopAt(1, when, 'sweep', 'Publish');
    await watch.pass();
    expect((await embedded.stopState()).stopped).toMatchObject({ service: 'sns', operation: 'Publish' });
    expect(await noticesOf(endpointId)).toEqual(atFirst);
    await embedded.disarmStop();
    await watch.pass();
    await watch.pass();
    expect(await noticesOf(endpointId)).toEqual([...atFirst, 'warn']);
    consumer.reply(() => ({ status: 200 }));
    await watch.jump(hourMs);
    await watch.pass();
    expect(await noticesOf(endpointId)).toEqual([...atFirst, 'warn', 'recovered']);
  });
});

describe('a delivery queue with almost as many hidden messages as SQS allows', () => {
  it('in-flight-near-limit', { timeout: 300_000 }, async () => {
    await enable('deliverSource', false);
    const QueueUrl = embedded.output(outputs.deliveryQueueUrl);
    const Entries = Array.from({ length: 10 }, (_, i) => ({ Id: String(i), MessageBody: 'x' }));
    let left = rules.inFlight.bound / 10 + 1;
    // As workers that never come to an end: received, and hidden for as long as can be.
    const hideSome = async () => {
      while (left-- > 0) {
        await embedded.sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
        await embedded.sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 43_200 }));
      }
    };
    await Promise.all(Array.from({ length: 8 }, hideSome));
    await watch.passUntil('it is told', isOn('in-flight-near-limit'), { most: 4 });
    expect(watch.alarmed(since)).toEqual(['in-flight-near-limit']);
    await purge('deliveryQueueUrl');
    await enable('deliverSource', true);
    await watch.passUntil('all is well', () => watch.alarmsNow().length === 0, { most: 4 });
  });
});

describe('a copy in the dead-letter queue', () => {
  it('that nobody has looked after for ten days: dead-letters-old', async () => {
    await embedded.send('looked after by nobody');
    await watch.jump(rules.deadLetterAge.bound * 1_000);
    await watch.passUntil('it is told', isOn('dead-letters-old'), { most: 3 });
    expect(watch.alarmed(since)).toEqual(['dead-letters-old']);
    await purge('deadLetterQueueUrl');
    await watch.jump(10 * hourMs);
    expect(watch.stateOf('dead-letters-old')).toBe('OK');
  });
});

describe('the alarms of the installation', () => {
  it('have all spoken: one that is new needs a scenario here', () => {
    expect(watch.alarmed().filter((alarm) => ours().includes(alarm))).toEqual(ours().sort());
  });

  it('read what the functions publish, and would have said nothing had it another name', () => {
    expect(unpublished(watch, ours())).toEqual([]);
    // Silence is what this one hears.
    expect(deafTo(watch, ours())).toEqual(['sweep-silent']);
  });
});
