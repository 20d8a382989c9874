/** What answers say about the endpoint itself, beside their own deliveries (R4, R5). */
import { describe, expect, it } from 'vitest';
import type { Hints } from '../../lambdas/shared/core/hints.ts';
import { pingDueEpochMs, pingEventType } from '../../lambdas/shared/limits/names.ts';
import { bodyOf, endpointOf, receivedOf, waitingOf } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';
import { answered, type HttpOutcome } from '../support/fakes.ts';

const batchOf = (h: Harness, ...events: string[]) => events.map((eventId) => receivedOf(bodyOf({ eventId }), { messageId: eventId, sentEpochMs: h.clock.nowEpochMs() }));
const hinting = (status: number, hints: Hints): HttpOutcome => ({ ...answered(status), hints } as HttpOutcome);
const stored = (h: Harness) => h.store.endpoints.read('acme');

describe('an endpoint that answers 410', () => {
  it('is disabled, once; what comes next is a dead letter, and is sent no more', async () => {
    const h = await Harness.create();
    h.http.script = () => answered(410);
    await h.run(batchOf(h, 'a', 'b'));
    expect(await stored(h)).toMatchObject({ config: { status: 'disabled', disabledFor: { why: 'gone', atEpochMs: h.clock.nowEpochMs() } } });
    expect(h.telemetry.count('endpoint-disabled')).toBe(1);
    expect(h.record({ eventId: 'a' })).toMatchObject({ state: 'dead', reason: 'gone' });
    expect(await h.run(batchOf(h, 'c'))).toEqual([]);
    expect([h.http.sent, h.record({ eventId: 'c' })]).toMatchObject([['a', 'b'], { state: 'dead', reason: 'disabled' }]);
  });

  it('stays as it is where it was put meanwhile: that may lead elsewhere', async () => {
    const h = await Harness.create();
    h.http.script = () => (void h.store.put(endpointOf({}, 'V2')), answered(410));
    await h.run(batchOf(h, 'a'));
    expect(await stored(h)).toMatchObject({ version: 'V2', config: { status: 'enabled', disabledFor: null } });
    expect([h.telemetry.count('endpoint-disabled'), h.telemetry.count('endpoint-not-disabled')]).toEqual([0, 1]);
  });

  it('stays as it is where its rejections are retried: its owner expects it back', async () => {
    const h = await Harness.create({ onRejected: 'retry' });
    h.http.script = () => answered(410);
    await h.run(batchOf(h, 'a'));
    expect([await stored(h), h.record({ eventId: 'a' })]).toMatchObject([{ config: { status: 'enabled' } }, { state: 'waiting', attempt: 1 }]);
  });

  it('stays as it is where only a ping was answered so: who sent it sees the answer', async () => {
    const h = await Harness.create();
    const body = bodyOf({ eventId: 'ping' }).replace('{', `{"eventType":"${pingEventType}",`);
    const record = waitingOf({ home: 'held', dueEpochMs: pingDueEpochMs }, { eventId: 'ping' });
    h.store.seed({ ...record, eventType: pingEventType });
    await h.store.payloads.put(record, body, h.clock.nowEpochMs());
    await h.store.lanes.hold('acme', { count: 1, nowEpochMs: h.clock.nowEpochMs(), wakeAtEpochMs: h.clock.nowEpochMs(), isReady: true });
    h.http.script = () => answered(410);
    await h.drain();
    expect([h.http.sent, await stored(h), (await h.lane()).flag]).toMatchObject([['ping'], { config: { status: 'enabled' } }, undefined]);
  });

  it('is found out again by the next answer where it cannot be written now, and nothing else suffers', async () => {
    const h = await Harness.create();
    h.http.script = () => answered(410);
    expect(await h.run(batchOf(h, 'a'), { disableEndpoint: () => Promise.reject(new Error('away')) })).toEqual([]);
    expect([h.telemetry.faults.map(({ name }) => name), h.record({ eventId: 'a' })]).toMatchObject([['refusal-unreported'], { state: 'dead' }]);
    await h.run(batchOf(h, 'b'));
    expect(await stored(h)).toMatchObject({ config: { status: 'disabled' } });
  });
});

describe('an endpoint that answers 404, 401 or 403', () => {
  it.each([[404, 'not-found'], [401, 'unauthorized'], [403, 'unauthorized']] as const)('%d: is flagged once, until it answers 2xx', async (status, why) => {
    const h = await Harness.create();
    h.http.script = () => answered(status);
    const sinceEpochMs = h.clock.nowEpochMs();
    await h.run(batchOf(h, 'a'));
    h.clock.advance(5_000);
    await h.run(batchOf(h, 'b'));
    expect([(await h.lane()).flag, h.telemetry.count('endpoint-flagged')]).toEqual([{ why, sinceEpochMs }, 1]);
    for (const other of [500, 422]) {
      h.http.script = () => answered(other);
      await h.run(batchOf(h, `c${other}`));
    }
    expect((await h.lane()).flag).toEqual({ why, sinceEpochMs });
    h.http.script = () => answered(204);
    await h.run(batchOf(h, 'd'));
    expect([(await h.lane()).flag, h.telemetry.count('endpoint-unflagged')]).toEqual([undefined, 1]);
  });

  it('costs a healthy endpoint no write', async () => {
    const h = await Harness.create();
    let writes = 0;
    await h.run(batchOf(h, 'a', 'b'), h.lanesBut({ flag: () => (writes++, Promise.resolve()) }));
    expect(writes).toBe(0);
  });
});

describe('an endpoint that says when to come again', () => {
  it.each([429, 503])('%d: is left alone by everybody until then, not only by that delivery', async (status) => {
    const h = await Harness.create({ breaker: { minAttempts: 1_000 } });
    h.http.script = () => hinting(status, { retryAfter: '120' });
    const untilEpochMs = h.clock.nowEpochMs() + 120_000;
    expect(await h.run(batchOf(h, 'a'))).toEqual([]);
    expect([(await h.lane()).pausedUntilEpochMs, h.record({ eventId: 'a' })]).toMatchObject([untilEpochMs, { home: 'held', attempt: 1 }]);
    const { dueEpochMs } = h.record({ eventId: 'a' }) as { dueEpochMs: number };
    expect(dueEpochMs - untilEpochMs).toBeGreaterThanOrEqual(1_000);
    expect(dueEpochMs - untilEpochMs).toBeLessThanOrEqual(3_000);

    // For longer than a message is hidden: held at once.
    expect(await h.run(batchOf(h, 'c'))).toEqual([]);
    expect([h.http.sent, h.record({ eventId: 'c' })]).toMatchObject([['a'], { home: 'held', attempt: 0 }]);
    h.http.script = () => answered(200);
    h.clock.advance(80_000);
    await h.drain();
    expect(h.http.sent).toEqual(['a']);
    h.clock.advance(50_000);
    await h.drain();
    expect([...h.http.sent].sort()).toEqual(['a', 'a', 'c']);
  });

  it('503 without a time, or with one that nobody can read: only its delivery waits', async () => {
    const h = await Harness.create();
    h.http.script = () => hinting(503, { retryAfter: 'soon' });
    await h.run(batchOf(h, 'a'));
    expect((await h.lane()).pausedUntilEpochMs).toBeUndefined();
  });

  it('is never left alone for longer than its own policy allows', async () => {
    const h = await Harness.create({ retry: { capS: 600 } });
    h.http.script = () => hinting(429, { retryAfter: '9999999999' });
    await h.run(batchOf(h, 'a'));
    expect((await h.lane()).pausedUntilEpochMs).toBe(h.clock.nowEpochMs() + 600_000);
  });

  it('a shorter time, said later, does not end the longer one', async () => {
    const h = await Harness.create({ breaker: { minAttempts: 1_000 } });
    const untilEpochMs = h.clock.nowEpochMs() + 600_000;
    h.http.script = ({ headers }) => (headers['webhook-id'] === 'a' ? hinting(503, { retryAfter: '600' }) : answered(429));
    await h.run(batchOf(h, 'a', 'b'));
    expect((await h.lane()).pausedUntilEpochMs).toBe(untilEpochMs);
  });
});
