import { afterEach, describe, expect, it } from 'vitest';
import { skipToNext } from '../../local/skip.ts';
import { type Invoke, type Scheduler, startScheduler } from '../../local/scheduler.ts';
import { type Sqs, startSqs } from '../../local/sqs.ts';

let sqs: Sqs;
let scheduler: Scheduler;
/** Delivers for the schedules; tests set it. */
let invoke: Invoke;
afterEach(() => Promise.all([sqs.close(), scheduler.close()]));

/** A queue with messages, one of which was received for 30 s, and a clock that only notes how far it would go. */
async function installation(messages: number) {
  sqs = startSqs();
  await sqs.call('CreateQueue', { QueueName: 'q' });
  for (let n = 0; n < messages; n++) await sqs.call('SendMessage', { QueueUrl: 'q', MessageBody: 'x' });
  const received = await sqs.call('ReceiveMessage', { QueueUrl: 'q', MaxNumberOfMessages: 1, VisibilityTimeout: 30 });
  invoke = () => Promise.resolve();
  // Never by itself within a test.
  scheduler = startScheduler({ invoke: (...event) => invoke(...event), pollMs: 3_600_000 });
  const source = { queueName: 'q', roleName: 'Role', isPolling: true, inFlight: 0, begun: 1 };
  const moves: number[] = [];
  const parts = {
    sources: [source],
    sqs,
    scheduler,
    wire: { handedTo: (role: string) => (role === 'Role' ? 1 : 0) },
    clock: { nowMs: () => Date.now(), advance: (ms: number) => void moves.push(ms) },
  };
  return { parts, source, moves, received };
}

/** Creates a schedule. @param whenMs from now, for a one-time one. */
function schedule(name: string, when: number | string): void {
  const expression = typeof when === 'string' ? when : `at(${new Date(Date.now() + when).toISOString().slice(0, 19)})`;
  const Target = { Arn: 'arn:aws:sqs:eu-west-1:000000000000:q', RoleArn: 'arn:aws:iam::000000000000:role/Waker' };
  const body = { ScheduleExpression: expression, FlexibleTimeWindow: { Mode: 'OFF' }, ActionAfterCompletion: 'DELETE', Target };
  scheduler.handle({ method: 'POST', url: new URL(`http://x/schedules/${name}`), body });
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

  it('looks at the queues of all event sources', async () => {
    const { parts, source, moves } = await installation(1);
    await sqs.call('CreateQueue', { QueueName: 'drain' });
    await sqs.call('SendMessage', { QueueUrl: 'drain', MessageBody: 'x', DelaySeconds: 10 });
    const drain = { ...source, queueName: 'drain', roleName: 'DrainRole', begun: 0 };
    const both = { ...parts, sources: [source, drain] };
    expect(await skipToNext(both, {})).toMatchObject({ idle: true, hidden: 2, skippedMs: moves[0] });
    expect(moves[0]).toBeLessThanOrEqual(10_000);
    drain.inFlight = 1;
    expect(await skipToNext(both, {})).toMatchObject({ idle: false, skippedMs: 0 });
  });

  it('takes what is ready for a source that is switched off for nothing that is under way', async () => {
    const { parts, source, moves } = await installation(2);
    source.isPolling = false;
    expect(await skipToNext(parts, {})).toMatchObject({ idle: true, ready: 1, hidden: 1, skippedMs: moves[0] });
    expect(moves[0]).toBeGreaterThan(20_000);
  });
});

describe('schedules', () => {
  it('are skipped to when they are to fire once, and not when at a rate', async () => {
    const { parts, moves } = await installation(0);
    schedule('sweep', 'rate(1 minute)');
    expect(await skipToNext(parts, {})).toMatchObject({ idle: true, wakeUps: 0, skippedMs: 0 });
    schedule('wake', 7_200_000);
    expect(await skipToNext(parts, {})).toMatchObject({ idle: true, hidden: 0, wakeUps: 1, skippedMs: moves[0] });
    expect(moves[0]).toBeGreaterThan(7_190_000);
    expect(moves[0]).toBeLessThanOrEqual(7_200_000);
    expect(await skipToNext(parts, { toWakeUps: false })).toMatchObject({ idle: true, wakeUps: 1, skippedMs: 0 });
  });

  it('come behind a message that is visible sooner', async () => {
    const { parts, moves } = await installation(1);
    schedule('wake', 7_200_000);
    await skipToNext(parts, {});
    expect(moves[0]).toBeLessThanOrEqual(30_000);
  });

  it('are under way when they are due, and while they are delivered, whatever they invoke', async () => {
    const { parts, moves } = await installation(1);
    const delivered = Promise.withResolvers<void>();
    invoke = () => delivered.promise;
    // In whole seconds, so it may lie in the past by a part of one.
    schedule('wake', 0);
    expect(await skipToNext(parts, {})).toMatchObject({ idle: false, wakeUps: 1, skippedMs: 0 });
    const ticked = scheduler.tick();
    expect(await skipToNext(parts, {})).toMatchObject({ idle: false, skippedMs: 0 });
    delivered.resolve();
    await ticked;
    expect(await skipToNext(parts, {})).toMatchObject({ idle: true, wakeUps: 0, hidden: 1, skippedMs: moves[0] });
  });

  it('are fired at once when the clock has come to them', async () => {
    const { parts } = await installation(0);
    const fired: string[] = [];
    invoke = (_target, input) => Promise.resolve(void fired.push(input));
    schedule('wake', 1_000);
    // The clock of this test does not move, so it is waited for.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    schedule('later', 60_000);
    await scheduler.tick('rate');
    expect(fired).toEqual([]);
    await scheduler.tick('at');
    expect(fired).toEqual(['{}']);
    expect(await skipToNext(parts, {})).toMatchObject({ wakeUps: 1 });
  });
});
