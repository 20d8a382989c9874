import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { handler } from '../../lambdas/deliver/handler.ts';
import type { DeliverDeps } from '../../lambdas/deliver/types.ts';
import { syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import { bodyOf, deadOf, endpointOf, t0EpochMs, timed } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';

/** The handler makes its dependencies when it is loaded: here they are those of whichever harness is current. */
const current = vi.hoisted((): { deps?: DeliverDeps } => ({}));
vi.mock('../../lambdas/deliver/deps.ts', () => ({
  createDeps: () => {
    const telemetry = { flush: () => undefined, attempt: () => undefined, event: () => undefined, fault: () => undefined };
    return new Proxy({}, { get: (_target, name) => (name === 'telemetry' ? telemetry : current.deps?.[name as keyof DeliverDeps]) });
  },
}));

let h: Harness;
beforeEach(async () => {
  h = await Harness.create();
  current.deps = h.deps;
});

function recordOf(body: string, generation?: string): SQSRecord {
  const attributes = { ApproximateReceiveCount: '6', SentTimestamp: String(t0EpochMs), SenderId: 's', ApproximateFirstReceiveTimestamp: '0' };
  return {
    messageId: `id of ${body.slice(0, 60)}`, receiptHandle: 'r', body, attributes, md5OfBody: '', eventSource: 'aws:sqs', eventSourceARN: 'arn', awsRegion: 'eu-west-1',
    messageAttributes: generation === undefined ? {} : { 'sluice-gen': { stringValue: generation, dataType: 'Number' } },
  };
}

async function invoke(records: SQSRecord[], remainingMs = 30_000) {
  const event: SQSEvent = { Records: records };
  const context: Pick<Context, 'getRemainingTimeInMillis'> = { getRemainingTimeInMillis: () => remainingMs };
  return (await handler(event, context)).batchItemFailures;
}

describe('the handler', () => {
  it('answers with what must stay in the queue, and nothing else', async () => {
    h.http.script = (request) => ({ kind: 'answered', status: request.headers['webhook-id'] === 'a' ? 200 : 503, bodyExcerpt: '', ...timed(1) });
    const [good, bad] = [recordOf(bodyOf({ eventId: 'a' })), recordOf(bodyOf({ eventId: 'b' }))];
    expect(await invoke([good, bad])).toEqual([{ itemIdentifier: bad.messageId }]);
    expect(await invoke([])).toEqual([]);
  });

  it('reads receive count and sending time as numbers', async () => {
    h = await Harness.create({ maxInFlight: 1 });
    current.deps = h.deps;
    await h.claimElsewhere({ eventId: 'x' });
    await invoke([recordOf(bodyOf())]);
    // A full lane: past the second receive it is held.
    expect([h.queues.delays, h.record()]).toMatchObject([[], { home: 'held', firstEpochMs: t0EpochMs }]);
    await invoke([recordOf('{')]);
    expect(h.store.record(syntheticKeyOf(undefined, 'malformed', '{'))).toMatchObject({ firstEpochMs: t0EpochMs });
  });

  it.each([['2', 3], ['02', 3], ['1', 2], ['-2', 2], ['2.0', 2], ['x', 2], ['', 2], ['1e9', 2], ['2000000000', 2], [undefined, 2]])(
    'takes the attribute %s for a generation only where it is one',
    async (attribute, generation) => {
      h.store.seed(deadOf('buried', { generation: 2 }));
      expect(await invoke([recordOf(bodyOf(), attribute)])).toEqual([]);
      expect(h.record()?.generation).toBe(generation);
    },
  );

  it('ends leases 5 s after what Lambda gives it, and starts nothing that would not fit', async () => {
    await h.store.put(endpointOf({}, 'V1'));
    h.http.script = async () => {
      expect((await h.lane()).leases.get('lease-1')).toEqual({ slots: 1, expiresEpochMs: t0EpochMs + 27_000 });
      return { kind: 'answered', status: 200, bodyExcerpt: '', ...timed(1) };
    };
    expect(await invoke([recordOf(bodyOf({ eventId: 'a' }))], 22_000)).toEqual([]);
    expect(await invoke([recordOf(bodyOf({ eventId: 'b' }))], 20_999)).toHaveLength(1);
    expect(h.http.sent).toEqual(['a']);
  });

  it('measures by the later of two clocks', async () => {
    const records = h.store.records;
    const slow: DeliverDeps = { ...h.deps, records: { ...records, read: (keys) => (h.clock.advance(9_001), h.clock.stepWall(-60_000), records.read(keys)) } };
    current.deps = slow;
    expect(await invoke([recordOf(bodyOf())])).toHaveLength(1);
    expect(h.http.sent).toEqual([]);
  });
});
