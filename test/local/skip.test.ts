import { afterEach, describe, expect, it } from 'vitest';
import { skipToNext } from '../../local/skip.ts';
import { type Sqs, startSqs } from '../../local/sqs.ts';

let sqs: Sqs;
afterEach(() => sqs.close());

/** A queue with messages, one of which was received for 30 s, and a clock that only notes how far it would go. */
async function installation(messages: number) {
  sqs = startSqs();
  await sqs.call('CreateQueue', { QueueName: 'q' });
  for (let n = 0; n < messages; n++) await sqs.call('SendMessage', { QueueUrl: 'q', MessageBody: 'x' });
  const received = await sqs.call('ReceiveMessage', { QueueUrl: 'q', MaxNumberOfMessages: 1, VisibilityTimeout: 30 });
  const source = { inFlight: 0, begun: 1 };
  const moves: number[] = [];
  const parts = {
    sources: [{ source, queueName: 'q', roleName: 'Role' }],
    sqs,
    wire: { handedTo: () => 1 },
    clock: { nowMs: () => Date.now(), advance: (ms: number) => void moves.push(ms) },
  };
  return { parts, source, moves, received };
}

describe('a skip', () => {
  it('goes to when the next hidden message becomes visible', async () => {
    const { parts, moves } = await installation(1);
    expect(await skipToNext(parts, {})).toMatchObject({ idle: true, ready: 0, hidden: 1, mostReceives: 1, skippedMs: moves[0] });
    expect(moves[0]).toBeGreaterThan(20_000);
    expect(moves[0]).toBeLessThanOrEqual(30_000);
  });

  it('goes no further than its limit, and further where that is wanted', async () => {
    const { parts, moves } = await installation(1);
    await skipToNext(parts, { limitMs: 500 });
    await skipToNext(parts, { beyondMs: 60_000 });
    expect(moves[0]).toBe(500);
    expect(moves[1]).toBeGreaterThan(60_000);
  });

  it('does not go while a message is ready, on its way, or being served', async () => {
    const { parts, source, moves } = await installation(2);
    expect(await skipToNext(parts, {})).toMatchObject({ idle: false, ready: 1, hidden: 1, skippedMs: 0 });
    await sqs.call('ReceiveMessage', { QueueUrl: 'q' });
    source.begun = 0;
    expect(await skipToNext(parts, {})).toMatchObject({ idle: false, ready: 0, hidden: 2 });
    Object.assign(source, { begun: 1, inFlight: 1 });
    expect(await skipToNext(parts, {})).toMatchObject({ idle: false });
    expect(moves).toEqual([]);
  });

  it('waits, where it may, for what is under way', async () => {
    const { parts, source, moves } = await installation(1);
    source.inFlight = 1;
    const skipped = skipToNext(parts, { waitMs: 60_000 });
    source.inFlight = 0;
    expect(await skipped).toMatchObject({ idle: true, skippedMs: moves[0] });
  });

  it('has nowhere to go when nothing is hidden', async () => {
    const { parts, moves } = await installation(0);
    expect(await skipToNext(parts, {})).toMatchObject({ idle: true, hidden: 0, skippedMs: 0 });
    expect(moves).toEqual([]);
  });
});
