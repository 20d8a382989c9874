/**
 * A seeded random run over the whole installation: duplicates, conflicts, malformed bodies, resends, kills, endpoints that
 * change, go and come back. `SOAK_SEED` repeats the driver's choices (timing stays the machine's), `SOAK_STEPS` lengthens it.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import { depth, messageBody, startEmbedded, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder, type Reply } from '../support/recorder.ts';

const seed = Number(process.env['SOAK_SEED'] ?? Date.now() % 1_000_000);
const steps = Number(process.env['SOAK_STEPS'] ?? 400);

/** Mulberry32: small, seeded, good enough to choose by. */
function randomOf(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** How each endpoint answers the n-th request about an event. */
const behaviours: Record<string, (nth: number) => Reply> = {
  narrow: () => ({ status: 200, afterMs: 20 }),
  wide: () => ({ status: 200, afterMs: 60 }),
  flaky: (nth) => ({ status: nth % 4 === 0 ? 200 : 503, afterMs: 80 }),
  hangup: (nth) => ({ status: 200, hangUp: nth % 2 === 1, afterMs: 40 }),
  reject: () => ({ status: 422 }),
  churn: () => ({ status: 200 }),
};
const lanes: Record<string, number> = { narrow: 1, wide: 8, flaky: 4, hangup: 2, reject: 3, churn: 1 };
const retry = { baseS: 5, factor: 1, attempts: 20 };

let embedded: Embedded;
let consumer: Recorder;
/** Sent payload by `endpoint/event`; the first one wins, others are conflicts. */
const events = new Map<string, string>();
let removed = false;

beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  consumer.reply((request, nth) => behaviours[request.path.slice(1)]?.(nth) ?? { status: 500 });
  for (const id of Object.keys(behaviours)) await register(id);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

const register = (id: string, maxInFlight = lanes[id]) => embedded.register(id, consumer.url(`/${id}`), { retry, maxInFlight });

async function step(random: () => number, n: number): Promise<void> {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  const endpointId = pick(Object.keys(behaviours));
  const known = [...events.keys()].filter((key) => key.startsWith(`${endpointId}/`));
  const what = random();
  if (what < 0.6 || known.length === 0) {
    const eventId = `evt_${seed}_${n}`;
    const payload = `{"n":${n}}`;
    events.set(`${endpointId}/${eventId}`, payload);
    return embedded.send(messageBody(endpointId, eventId, payload));
  }
  const key = pick(known);
  const eventId = key.slice(endpointId.length + 1);
  if (what < 0.75) return embedded.send(messageBody(endpointId, eventId, events.get(key)));
  if (what < 0.8) return embedded.send(messageBody(endpointId, eventId, events.get(key), { resend: 1 }));
  if (what < 0.84) return embedded.send(messageBody(endpointId, eventId, `{"other":${n}}`));
  if (what < 0.88) return embedded.send(`{"endpointId":"${endpointId}","bad":${n}}`);
  if (what < 0.94) return killOne();
  if (what < 0.96) return passTimeIfIdle();
  if (what < 0.98) return register('wide', 1 + Math.floor(random() * 12));
  removed = !removed;
  if (removed) await embedded.registry.remove('churn');
  else await register('churn');
}

async function killOne(): Promise<void> {
  const busy = (await embedded.environments()).find((e) => e.busy);
  // One that has just ended by itself is no fault of this test.
  if (busy !== undefined) await embedded.kill(busy.pid).catch(() => undefined);
}

/** Brings retries back while the run goes on, so that they are killed too; an advance during an invocation would kill it. */
async function passTimeIfIdle(): Promise<void> {
  const idle = async () => (await embedded.environments()).every((e) => !e.busy);
  for (let looks = 0; looks < 100 && !(await idle()); looks++);
  if (await idle()) await embedded.advance(5_000);
}

async function recordOf(key: string): Promise<DeliveryRecord | undefined> {
  const [endpointId = '', eventId = ''] = key.split('/');
  return embedded.record(endpointId, eventId);
}

/** Requests that a record accounts for, where its bounded history holds them all. */
function accountedFor(record: DeliveryRecord): number {
  return record.history.filter((h) => h.outcome === 'answered').length + record.ambiguous;
}

describe(`a random run of ${steps} steps, SOAK_SEED=${seed}`, () => {
  it('loses nothing, sends nothing without a verdict, and leaves the lanes whole', { timeout: 600_000 }, async () => {
    const random = randomOf(seed);
    for (let n = 0; n < steps; n++) await step(random, n);
    if (removed) await register('churn');
    await embedded.drainQueue(400_000);
    // Wakes every lane once more, so that what dead workers left there is needed, and cleared.
    for (const id of Object.keys(behaviours)) for (let n = 0; n < 12; n++) await embedded.send(messageBody(id, `evt_last_${n}`));
    await embedded.drainQueue(400_000);

    const problems: string[] = [];
    for (const key of events.keys()) {
      const record = await recordOf(key);
      const ended = record?.state === 'delivered' || (record?.state === 'dead' && record.phase === 'buried');
      if (!ended) problems.push(`${key}: ${record?.state ?? 'no record'}`);
      if (record === undefined || record.history.length >= 12) continue;
      const [endpointId, eventId] = key.split('/');
      const requests = consumer.requests.filter((r) => r.eventId === eventId && r.path === `/${endpointId}`);
      if (requests.length > accountedFor(record)) problems.push(`${key}: ${requests.length} requests, ${accountedFor(record)} accounted for`);
      const bodies = new Set(requests.map((r) => r.body.toString()));
      // A conflict that came first is the event, then; but never two bodies under one id.
      if (bodies.size > 1) problems.push(`${key}: ${[...bodies].join(' and ')}`);
    }
    expect(problems).toEqual([]);
    expect(await depth(embedded.sqs, embedded.output(outputs.faultQueueUrl))).toEqual({ ready: 0, hidden: 0 });
    for (const { endpoint, lane } of await embedded.registry.list()) {
      const leased = [...lane.leases.values()].reduce((sum, lease) => sum + lease.slots, 0);
      const id = endpoint.config?.endpointId;
      expect({ id, sum: lane.avail + leased, claims: lane.claims.size }).toEqual({ id, sum: lane.slots, claims: 0 });
    }
    console.log(`${events.size} events, ${consumer.requests.length} requests, SOAK_SEED=${seed}`);
  });
});
