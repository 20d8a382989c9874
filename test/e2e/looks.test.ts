/** Looks that prove nothing, and looks that find something else: each ends with a person, and none sends again (U5, T8). */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DeliveryRecord, UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { sockets } from '../../lambdas/shared/limits/numbers.ts';
import { startRefusing, type Address } from '../../local/hostile/no-listener.ts';
import { deadLettersOf, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { isLook, looksOf, lookupAt, payload, postsOf } from '../support/effects.ts';
import { startRecorder, type Recorder, type Reply } from '../support/recorder.ts';

/** Loopback, as all of these are; this part of it the stage denies. */
const denied = '127.8.0.1';
let embedded: Embedded;
let consumer: Recorder;
let refusing: Address;
let forbidden: net.Server;
let forbiddenConnections = 0;

beforeAll(async () => {
  embedded = await startEmbedded({ args: ['--stage-config', '{"egress":{"deny":["127.8.0.0/16"]}}'] });
  consumer = await startRecorder(embedded.authority);
  refusing = await startRefusing('127.0.0.1');
  forbidden = net.createServer((socket) => (forbiddenConnections++, socket.destroy())).listen(0, denied);
  await once(forbidden, 'listening');
});
afterAll(async () => {
  forbidden.close();
  await refusing.close();
  await consumer.close();
  await embedded.stop();
});

/** What would be the right answer, were it not for the rest. */
const right = (eventId: string) => ({ id: 'eff_1', eventId, amount: 4200 });

interface Case {
  readonly name: string;
  readonly reply?: (eventId: string) => Reply;
  /** Where it is looked for; by default at the consumer. */
  readonly url?: () => string;
  readonly stuck: UnknownRecord['stuck'];
  readonly detail: RegExp;
  /** Looks that reach the consumer, of those that were made. */
  readonly seen: number;
  readonly looks: number;
}

const cases: Case[] = [
  { name: 'no-json', reply: () => ({ status: 200, body: '<h1>Welcome</h1>' }), stuck: 'look-failed', detail: /^look failed: 200, and the answer is no JSON$/, seen: 2, looks: 2 },
  {
    name: 'huge',
    reply: (eventId) => ({ status: 200, body: JSON.stringify({ ...right(eventId), more: 'x'.repeat(4 * sockets.maxResponseBytes) }) }),
    stuck: 'look-failed', detail: new RegExp(`^look failed: 200, then body more than ${sockets.maxResponseBytes} bytes$`), seen: 2, looks: 2,
  },
  {
    name: 'redirect',
    reply: () => ({ status: 302, headers: { location: consumer.url('/elsewhere') } }),
    stuck: 'look-failed', detail: /^look failed: status 302 to https:\/\/localhost:\d+$/, seen: 2, looks: 2,
  },
  { name: 'error', reply: () => ({ status: 500, body: '{}' }), stuck: 'look-failed', detail: /^look failed: status 500$/, seen: 2, looks: 2 },
  { name: 'dropped', reply: () => ({ status: 0, hangUp: true }), stuck: 'look-failed', detail: /^look failed: headers \w+$/, seen: 2, looks: 2 },
  { name: 'refused', url: () => `https://127.0.0.1:${refusing.port}/{eventId}`, stuck: 'look-failed', detail: /^look failed: connect ECONNREFUSED$/, seen: 0, looks: 2 },
  {
    name: 'denied',
    url: () => `https://${denied}:${(forbidden.address() as AddressInfo).port}/{eventId}`,
    stuck: 'look-failed', detail: /^look failed: address refused: .*127\.8/, seen: 0, looks: 2,
  },
  { name: 'plain', url: () => 'http://127.0.0.1:1/{eventId}', stuck: 'invalid-lookup', detail: /^look impossible: url: must be https, not http$/, seen: 0, looks: 1 },
  {
    name: 'other-amount',
    reply: (eventId) => ({ status: 200, body: JSON.stringify({ ...right(eventId), amount: 4201 }) }),
    stuck: 'different', detail: /^different: \$\.amount is 4201, must be 4200$/, seen: 1, looks: 1,
  },
  {
    name: 'other-event',
    reply: () => ({ status: 200, body: JSON.stringify(right('evt_of_another')) }),
    stuck: 'different', detail: /^different: \$\.eventId is "evt_of_another", must be "evt_other-event"$/, seen: 1, looks: 1,
  },
];

describe('a delivery that may have arrived, and whose look', () => {
  const left = new Map<string, DeliveryRecord>();

  beforeAll(async () => {
    consumer.reply(({ method, path, eventId }) => {
      if (path === '/elsewhere') return { status: 200, body: JSON.stringify(right(eventId)) };
      return isLook({ method }) ? (cases.find(({ name }) => eventId === `evt_${name}`)?.reply?.(eventId) ?? { status: 404 }) : { status: 0, hangUp: true };
    });
    for (const { name, url } of cases) {
      await embedded.register(name, consumer.url(), { onAmbiguous: 'reconcile', lookup: lookupAt(consumer, url === undefined ? {} : { url: url() }) });
      await embedded.send(messageBody(name, `evt_${name}`, payload));
    }
    await until('none is looked for any more', async () => {
      await embedded.skip();
      for (const { name } of cases) {
        const record = await embedded.record(name, `evt_${name}`);
        if (record !== undefined && !isUnderWay(record)) left.set(name, record);
      }
      return left.size === cases.length;
    }, 100_000);
    // Long enough for whatever might still come.
    for (let days = 0; days < 2; days++) {
      await embedded.drainQueue();
      await embedded.advance(86_400_000);
    }
    await embedded.drainQueue();
  });

  it.each(cases)('$name: is left to a person, with the reason; looks made: $looks', ({ name, stuck, detail, seen, looks }) => {
    const record = left.get(name);
    expect(record).toMatchObject({ state: 'unknown', stuck, looks, nextLookEpochMs: undefined, attempt: 1, ambiguous: 1, cleared: 0, detail: expect.stringMatching(detail) as string });
    expect(record?.history.map(({ outcome }) => outcome)).toEqual(['ambiguous', ...Array<string>(looks).fill('look')]);
    expect(record?.history.at(-1)?.detail).toMatch(detail);
    expect(looksOf(consumer, `evt_${name}`)).toHaveLength(seen);
    expect(postsOf(consumer, `evt_${name}`)).toHaveLength(1);
  });

  it('stays as it was left, days later too, and is no dead letter', async () => {
    for (const [name, record] of left) expect(await embedded.record(name, `evt_${name}`)).toEqual(record);
    expect(await deadLettersOf(embedded)).toBe(0);
    for (const { name } of cases) expect((await embedded.registry.get(name))?.lane.holding).toBeUndefined();
  });

  it('leads elsewhere is not followed, and one that the stage denies connects to nothing', () => {
    expect(consumer.requests.filter(({ path }) => path === '/elsewhere')).toEqual([]);
    expect(forbiddenConnections).toBe(0);
  });
});

function isUnderWay(record: DeliveryRecord): boolean {
  return record.state === 'waiting' || (record.state === 'unknown' && record.nextLookEpochMs !== undefined);
}
