/** What may have arrived, by either policy, through the whole stack (U3, U4, U5). */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { lease } from '../../lambdas/shared/limits/numbers.ts';
import { deadLettersOf, messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { Effects, isLook, looksOf, lookupAt, passUntil, payload, postsOf, verifySignature } from '../support/effects.ts';
import { startRecorder, type Recorded, type Recorder, type Reply } from '../support/recorder.ts';

let embedded: Embedded;
let consumer: Recorder;
let effects: Effects;

beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
});
beforeEach(() => void (effects = new Effects()));
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const isUnknown = (record: DeliveryRecord) => record.state === 'unknown';
const isDelivered = (record: DeliveryRecord) => record.state === 'delivered';
const attemptsIn = (record: DeliveryRecord | undefined) => record?.history.map(({ outcome, detail }) => `${outcome}: ${detail}`);
const sentEpochS = (request: Recorded | undefined) => Number(request?.headers['webhook-timestamp']);

/** Answers looks from the effects, and POSTs as it is told. */
function answerWith(post: (request: Recorded, nth: number) => Reply): void {
  consumer.reply((request) => (isLook(request) ? effects.shown(request.eventId) : post(request, postsOf(consumer, request.eventId).length)));
}

/** Commits, and loses the answer. */
const commitAndDrop = (request: Recorded): Reply => {
  effects.commit(request);
  return { status: 0, hangUp: true };
};

describe('a consumer that commits and then drops the connection', () => {
  it('under reconcile: one POST and one effect across a restart of every process, unknown in between, then delivered via lookup', { timeout: 240_000 }, async () => {
    const dataDir = mkdtempSync(path.join(tmpdir(), 'sluice-data-'));
    const args = ['--data', dataDir];
    answerWith(commitAndDrop);
    const first = await startEmbedded({ args, authority: embedded.authority });
    let before: DeliveryRecord;
    try {
      await first.register('orders', consumer.url(), { onAmbiguous: 'reconcile', lookup: lookupAt(consumer, { delaysS: [60] }) });
      await first.send(messageBody('orders', 'evt_lost', payload));
      before = await until('it is unknown', async () => {
        const record = await first.record('orders', 'evt_lost');
        return record?.state === 'unknown' && (await first.look()).idle ? record : undefined;
      });
    } finally {
      expect(await first.stop()).toBe(0);
    }
    expect(before).toMatchObject({ attempt: 1, ambiguous: 1, cleared: 0, looks: 0, stuck: undefined });

    const second = await startEmbedded({ args, authority: embedded.authority });
    try {
      expect(await second.record('orders', 'evt_lost')).toEqual(before);
      const payloads = createDynamoDbPayloads(second.db, second.output(outputs.payloadsTable));
      expect((await payloads.read([before])).found.get(before.recordKey)).toBe(messageBody('orders', 'evt_lost', payload));
      const record = await passUntil(second, ['orders', 'evt_lost'], 'delivered', isDelivered);
      await second.drainQueue();
      expect(record).toMatchObject({ state: 'delivered', via: 'lookup', reference: 'eff_1', attempt: 1, ambiguous: 1 });
      expect(attemptsIn(record)).toEqual([expect.stringMatching(/^ambiguous: headers /), 'look: found: 200']);
      expect([postsOf(consumer, 'evt_lost').length, effects.of('evt_lost').length]).toEqual([1, 1]);
      // Of what has arrived nothing is kept.
      await until('its payload is gone', async () => !(await payloads.read([before])).found.has(before.recordKey));
      expect((await second.registry.get('orders'))?.lane.holding).toBeUndefined();
    } finally {
      await second.stop();
      rmSync(dataDir, { recursive: true, force: true });
    }
  });

  it('under retry: two POSTs with one webhook-id and the same bytes, the second marked as a possible duplicate', async () => {
    answerWith((request, nth) => (nth === 1 ? commitAndDrop(request) : { status: 200 }));
    await embedded.register('again', consumer.url(), { retry: { baseS: 2, factor: 1 } });
    await embedded.send(messageBody('again', 'evt_again', payload));
    const record = await passUntil(embedded, ['again', 'evt_again'], 'delivered', isDelivered);
    const posts = postsOf(consumer, 'evt_again');
    expect(record).toMatchObject({ via: 'response', attempt: 2, ambiguous: 1 });
    expect(posts.map(({ headers, body }) => [headers['sluice-possible-duplicate'], body.toString()])).toEqual([[undefined, payload], ['true', payload]]);
    expect(looksOf(consumer, 'evt_again')).toEqual([]);
  });

  it('looks are signed over an empty body, and numbered', async () => {
    consumer.reply((request) => (isLook(request) ? { status: 404 } : { status: 0, hangUp: true }));
    await embedded.register('signed', consumer.url(), { onAmbiguous: 'reconcile', lookup: lookupAt(consumer) });
    await embedded.send(messageBody('signed', 'evt_signed', payload));
    const record = await passUntil(embedded, ['signed', 'evt_signed'], 'left to a person', (found) => found.state === 'unknown' && found.stuck !== undefined);
    expect(record).toMatchObject({ stuck: 'absent', looks: 2, detail: 'absent: 404' });
    const looks = looksOf(consumer, 'evt_signed');
    expect(looks.map(({ path, headers, body }) => [path, headers['sluice-look'], body.length])).toEqual([['/effects/evt_signed', '1', 0], ['/effects/evt_signed', '2', 0]]);
    for (const look of looks) {
      expect(() => verifySignature(look)).not.toThrow();
      expect(() => verifySignature({ ...look, body: Buffer.from('{}') })).toThrow();
      expect(look.headers['sluice-attempt']).toBeUndefined();
    }
    expect(postsOf(consumer, 'evt_signed')).toHaveLength(1);
  });

  it('maxAmbiguous 2: what is answered too late twice is sent no more, and is no dead letter', async () => {
    // Until the client has gone: no answer could be seen, however slow the machine is.
    consumer.reply((request) => {
      effects.commit(request);
      const gone = consumer.orphaned();
      return { status: 200, before: () => until('the client has given up', () => consumer.orphaned() > gone).then(() => undefined) };
    });
    await embedded.register('late', consumer.url(), { maxAmbiguous: 2, retry: { baseS: 2, factor: 1 }, budgetsMs: { read: 300 } });
    await embedded.send(messageBody('late', 'evt_late', payload));
    const record = await passUntil(embedded, ['late', 'evt_late'], 'unknown', isUnknown);
    expect(record).toMatchObject({ attempt: 2, ambiguous: 2, stuck: 'no-lookup', nextLookEpochMs: undefined, detail: 'headers timeout' });
    await embedded.drainQueue();
    await embedded.advance(3_600_000);
    await embedded.drainQueue();
    expect(await embedded.record('late', 'evt_late')).toEqual(record);
    expect(postsOf(consumer, 'evt_late')).toHaveLength(2);
    expect(await deadLettersOf(embedded)).toBe(0);
  });
});

describe('a sender that is killed while the consumer holds its request', () => {
  /** Sends, and kills the process that has sent, before the answer. `commits`: whether the consumer had acted on it. */
  async function killedWhileSending(endpointId: string, commits: boolean): Promise<string> {
    const eventId = `evt_${endpointId}`;
    const killed = Promise.withResolvers<undefined>();
    answerWith((request, nth) => {
      if (nth > 1 || commits) effects.commit(request);
      return nth > 1 ? { status: 200 } : { status: 200, before: () => killed.promise, hangUp: true };
    });
    await embedded.send(messageBody(endpointId, eventId, payload));
    await until('the consumer has the request', () => postsOf(consumer, eventId).length === 1);
    const busy = (await embedded.environments()).filter((one) => one.busy);
    expect(busy).toHaveLength(1);
    await embedded.kill(busy[0]?.pid ?? 0);
    killed.resolve(undefined);
    return eventId;
  }

  it('under retry it is sent again, and marked', async () => {
    await embedded.register('killed', consumer.url());
    const eventId = await killedWhileSending('killed', true);
    const record = await passUntil(embedded, ['killed', eventId], 'delivered', isDelivered);
    expect(record).toMatchObject({ via: 'response', attempt: 2, ambiguous: 1 });
    expect(attemptsIn(record)).toEqual(['ambiguous: the sender died before it could settle', 'answered: 200']);
    expect(postsOf(consumer, eventId).map(({ headers }) => headers['sluice-possible-duplicate'])).toEqual([undefined, 'true']);
  });

  it('under reconcile it is unknown, and looked for: the consumer had committed', async () => {
    await embedded.register('killed-there', consumer.url(), { onAmbiguous: 'reconcile', lookup: lookupAt(consumer) });
    const eventId = await killedWhileSending('killed-there', true);
    const record = await passUntil(embedded, ['killed-there', eventId], 'delivered', isDelivered);
    expect(record).toMatchObject({ via: 'lookup', reference: 'eff_1', attempt: 1, ambiguous: 1 });
    expect(attemptsIn(record)).toEqual(['ambiguous: the sender died before it could settle', 'look: found: 200']);
    expect([postsOf(consumer, eventId).length, effects.of(eventId).length]).toEqual([1, 1]);
  });

  it('under reconcile, and it had not: sent again once its absence proves that, and not before', async () => {
    const provesAfterS = 120;
    await embedded.register('killed-absent', consumer.url(), { onAmbiguous: 'reconcile', lookup: lookupAt(consumer, { absenceProvesAfterS: provesAfterS }) });
    const eventId = await killedWhileSending('killed-absent', false);
    const unknown = await passUntil(embedded, ['killed-absent', eventId], 'unknown', isUnknown);
    const record = await passUntil(embedded, ['killed-absent', eventId], 'delivered', isDelivered);
    expect(record).toMatchObject({ via: 'response', attempt: 2, ambiguous: 1, cleared: 1 });
    expect(attemptsIn(record)).toEqual(['ambiguous: the sender died before it could settle', 'look: absent: 404', 'look: absent: 404', 'answered: 200']);
    const sinceS = (unknown.state === 'unknown' ? unknown.sinceEpochMs : NaN) / 1_000;
    const [posts, looks] = [postsOf(consumer, eventId), looksOf(consumer, eventId)];
    expect(sentEpochS(looks[0])).toBeLessThan(sinceS + provesAfterS);
    for (const later of [looks[1], posts[1]]) expect(sentEpochS(later)).toBeGreaterThanOrEqual(Math.floor(sinceS + provesAfterS + lease.skewMs / 1_000));
    expect([posts.length, effects.of(eventId).length]).toEqual([2, 1]);
  });
});

it('a consumer that is still at work when it is looked for first: nothing is sent, and the next look finds it', async () => {
  consumer.reply((request) => {
    if (!isLook(request)) return { status: 0, hangUp: true };
    const shown = effects.shown(request.eventId);
    const post = postsOf(consumer, request.eventId)[0];
    const commitLater = () => Promise.resolve(void (shown.status === 404 && post !== undefined && effects.commit(post)));
    return { ...shown, after: commitLater };
  });
  await embedded.register('at-work', consumer.url(), { onAmbiguous: 'reconcile', lookup: lookupAt(consumer, { absenceProvesAfterS: 600 }) });
  await embedded.send(messageBody('at-work', 'evt_at_work', payload));
  const record = await passUntil(embedded, ['at-work', 'evt_at_work'], 'delivered', isDelivered);
  expect(record).toMatchObject({ via: 'lookup', attempt: 1, ambiguous: 1, cleared: 0 });
  expect(attemptsIn(record)).toEqual([expect.stringMatching(/^ambiguous: headers /), 'look: absent: 404', 'look: found: 200']);
  expect([postsOf(consumer, 'evt_at_work').length, effects.of('evt_at_work').length]).toEqual([1, 1]);
});
