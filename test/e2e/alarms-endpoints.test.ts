/**
 * Each alarm of single endpoints, driven by real traffic to consumers that misbehave: what the functions log of it is all that the
 * alarms' own queries, out of the template, are evaluated over (test/support/watch.ts). First a healthy installation, which raises none.
 * The alarms of the whole installation are in alarms-fleet.test.ts: every alarm is in one of the two.
 */
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { messageBody, startEmbedded, type Embedded } from '../support/embedded.ts';
import { runCli } from '../support/cli.ts';
import { closedPort } from '../support/hostile-server.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';
import { deafTo, unpublished } from '../support/renamed.ts';
import { startWatch, type Watch } from '../support/watch.ts';

let embedded: Embedded;
let watch: Watch;
let consumer: Recorder;
/** Of its own: who is slow must not hold up the sockets of the others' host. */
let slow: Recorder;
let back: Recorder | undefined;
let deadPort: number;
beforeAll(async () => {
  embedded = await startEmbedded();
  [consumer, slow] = [await startRecorder(embedded.authority), await startRecorder(embedded.authority)];
  deadPort = await closedPort();
  watch = await startWatch(embedded);
});
afterAll(async () => {
  await Promise.all([consumer.close(), slow.close(), back?.close()]);
  await embedded.stop();
});

const hourMs = 3_600_000;
const ours = () => watch.alarms().filter((alarm) => alarm.startsWith('endpoint-'));

let events = 0;
/** @param counts how many for which endpoint */
async function send(counts: Readonly<Record<string, number>>): Promise<void> {
  const bodies = Object.entries(counts).flatMap(([endpointId, n]) => Array.from({ length: n }, () => messageBody(endpointId, `evt_${++events}`)));
  for (let i = 0; i < bodies.length; i += 10) {
    const Entries = bodies.slice(i, i + 10).map((MessageBody, n) => ({ Id: String(n), MessageBody }));
    await embedded.sqs.send(new SendMessageBatchCommand({ QueueUrl: embedded.output(outputs.deliveryQueueUrl), Entries }));
  }
}

/** Of 20 a minute, `large` has 30 %. */
const healthy = { large: 6, one: 5, two: 5, three: 4 } as const;

describe('a healthy installation', () => {
  it('raises no alarm in twenty minutes, also not for a tenant with 30 % of the traffic', { timeout: 120_000 }, async () => {
    for (const endpointId of Object.keys(healthy)) await embedded.register(endpointId, consumer.url(`/${endpointId}`));
    // Long enough that the differences between endpoints are small beside it.
    consumer.reply(() => ({ status: 200, afterMs: 40 }));
    for (let minute = 0; minute < 20; minute++) {
      await send(healthy);
      await watch.pass();
    }
    expect(watch.alarmed()).toEqual([]);
    expect(consumer.requests).toHaveLength(20 * 20);
    // Nothing said no, and nothing was without a word: the sweep has reported each minute.
    expect(watch.datapoints().filter(({ name }) => name === 'endpoints_sick').map(({ values }) => values)).toEqual(Array.from({ length: 21 }, () => [0]));
  });
});

describe('endpoints that are ill, each in its own way', () => {
  /** How many come for each in a minute; the first has some more, for a ratio of few says nothing. */
  const ill = (minute: number) => ({ failing: 6, slow: minute === 0 ? 5 : 1, rationed: 6, unreachable: minute === 0 ? 6 : 1, ...(minute === 1 ? { refusing: 1, silent: 1 } : {}) });
  let failed = 0;

  it('have a ticket each, in their own names, while the healthy ones have none', { timeout: 180_000 }, async () => {
    const since = watch.changes.length;
    await embedded.register('failing', consumer.url('/failing'));
    await embedded.register('slow', slow.url());
    await embedded.register('rationed', consumer.url('/rationed'), { maxPerSecond: 0.2 });
    await embedded.register('unreachable', `https://localhost:${deadPort}/in`);
    await embedded.register('refusing', consumer.url('/refusing'));
    await embedded.register('silent', consumer.url('/silent'), { onAmbiguous: 'reconcile' });
    slow.reply(() => ({ status: 200, afterMs: 800 }));
    consumer.reply(({ path }) => {
      if (path === '/refusing') return { status: 400 };
      if (path === '/silent') return { status: 200, hangUp: true };
      // A third of them: too few for its breaker, and too many for its owner.
      return { status: path === '/failing' && failed++ % 3 === 0 ? 503 : 200, afterMs: 20 };
    });

    const sustained = ['endpoint-failing', 'endpoint-occupancy', 'endpoint-shedding', 'endpoint-unreachable'];
    let minute = 0;
    await watch.passUntil('the sustained ones speak', () => sustained.every((alarm) => watch.stateOf(alarm) === 'ALARM'), {
      each: () => send({ ...healthy, ...ill(minute++) }), most: 25,
    });
    expect(watch.alarmed(since)).toEqual(['endpoint-dead', ...sustained].sort());
    expect(Object.fromEntries(watch.alarmed(since).map((alarm) => [alarm, watch.everInAlarm(alarm, since)]))).toEqual({
      'endpoint-dead': ['refusing'],
      'endpoint-failing': ['failing', 'unreachable'],
      'endpoint-occupancy': ['slow'],
      'endpoint-shedding': ['rationed'],
      'endpoint-unreachable': ['unreachable'],
    });
    // Nobody has died since.
    expect(watch.stateOf('endpoint-dead')).not.toBe('ALARM');
  });

  it('have another one where it goes on for an hour, for hours, for a day', { timeout: 120_000 }, async () => {
    const since = watch.changes.length;
    // At its rate: in a jump it would be held as long.
    await watch.passUntil('what found no room has gone', async () => (await embedded.registry.get('rationed'))?.lane.holding === undefined);
    await watch.jump(hourMs);
    await watch.passUntil('a breaker is open for an hour', () => watch.stateOf('endpoint-breaker-open') === 'ALARM', { most: 3 });
    expect(watch.inAlarm('endpoint-breaker-open')).toEqual(['unreachable']);
    await watch.jump(3 * hourMs);
    await watch.passUntil('a delivery is unknown for hours', () => watch.stateOf('endpoint-unknown-old') === 'ALARM', { most: 3 });
    expect(watch.inAlarm('endpoint-unknown-old')).toEqual(['silent']);
    await watch.jump(20 * hourMs);
    await watch.passUntil('a delivery is held for a day', () => watch.stateOf('endpoint-undelivered-old') === 'ALARM', { most: 3 });
    expect(watch.inAlarm('endpoint-undelivered-old')).toEqual(['unreachable']);
    expect(watch.alarmed(since)).toEqual(['endpoint-breaker-open', 'endpoint-undelivered-old', 'endpoint-unknown-old']);
  });

  it('have none any more once they are well', { timeout: 120_000 }, async () => {
    back = await startRecorder(embedded.authority, deadPort);
    consumer.reply(() => ({ status: 200 }));
    const resolved = await runCli(embedded.localFile, ['unknown', 'resolve', 'silent', '--all', '--as', 'delivered', '--why', 'it is there', '--yes']);
    expect(resolved).toMatchObject({ code: 0 });
    await watch.passUntil('all is well', () => ours().every((alarm) => watch.stateOf(alarm) !== 'ALARM'), { most: 30 });
    expect(back.requests.length).toBeGreaterThan(0);
    expect(watch.alarmsNow()).toEqual([]);
  });
});

describe('the alarms of endpoints', () => {
  it('have all spoken: one that is new needs a scenario here', () => {
    expect(watch.alarmed()).toEqual(ours().sort());
  });

  it('read what the functions publish, and would have said nothing had it another name', () => {
    expect(unpublished(watch, ours())).toEqual([]);
    expect(deafTo(watch, ours())).toEqual([]);
  });
});
