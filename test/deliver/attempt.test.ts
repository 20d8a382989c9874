/** What an attempt asks of the HTTP client, and the one line that is logged about it. */
import { beforeEach, describe, expect, it } from 'vitest';
import type { CountedOutcome } from '../../lambdas/shared/core/decide.ts';
import { deliver } from '../../lambdas/shared/limits/numbers.ts';
import type { Endpoint } from '../../lambdas/shared/ports/index.ts';
import { bodyOf, endpointOf, t0EpochMs, waitingOf } from '../support/builders.ts';
import { Harness, timeoutMs } from '../support/deliver-harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await Harness.create({ url: 'https://hooks.example.com:8443/in?token=topsecret' });
});

/** Runs one message by an endpoint as no registration would store it. */
const runBy = (endpoint: Endpoint, eventId = 'evt_1') => h.runOne(bodyOf({ eventId }), {}, { endpoints: { get: () => Promise.resolve(endpoint), refresh: () => Promise.resolve(endpoint) } });

describe('a request', () => {
  it('is told at any moment what is left for it: what the invocation has, less the settle margin', async () => {
    const seen: number[] = [];
    h.http.script = ({ remainingMs }) => {
      seen.push(remainingMs());
      h.clock.advance(1_000);
      seen.push(remainingMs());
      h.clock.stepWall(-60_000);
      seen.push(remainingMs());
      return { kind: 'notStarted', why: 'no-time' };
    };
    await h.runOne(bodyOf());
    const atStartMs = timeoutMs - deliver.settleMarginMs;
    expect(seen).toEqual([atStartMs, atStartMs - 1_000, atStartMs - 1_000]);
  });

  it('may be begun a second time before anything has left, but not under reconciliation', async () => {
    const { config, ...rest } = endpointOf();
    await runBy({ config, ...rest });
    // Of a later version: this one registers nothing else than "retry".
    await runBy({ config: { ...config, onAmbiguous: 'reconcile' }, ...rest }, 'evt_2');
    expect(h.http.requests.map(({ freshTry }) => freshTry)).toEqual([true, false]);
  });

  it('has the endpoint\'s media type, and the second in which it began', async () => {
    await h.store.put(endpointOf({ contentType: 'text/plain; charset=utf-8' }, 'V2'));
    h.clock.advance(999);
    await h.runOne(bodyOf());
    expect(h.http.requests[0]?.headers).toMatchObject({ 'content-type': 'text/plain; charset=utf-8', 'webhook-timestamp': String(t0EpochMs / 1_000) });
  });

  it('has our own values in our own headers, whatever a configuration says', async () => {
    const { config, ...rest } = endpointOf();
    const ours = ['content-type', 'webhook-id', 'webhook-timestamp', 'webhook-signature', 'sluice-attempt'];
    await runBy({ config: { ...config, headers: Object.fromEntries(ours.map((name) => [name, 'theirs'])) }, ...rest });
    expect(ours.map((name) => h.http.requests[0]?.headers[name])).not.toContain('theirs');
  });

  it('is none where a header of the configuration cannot be sent: that is said, without the value, and no repeat follows', async () => {
    const { config, ...rest } = endpointOf();
    await runBy({ config: { ...config, headers: { authorization: 'topsecret\t' } }, ...rest });
    expect(h.http.requests).toEqual([]);
    expect(h.record()).toMatchObject({ state: 'dead', reason: 'invalid-configuration', detail: 'header authorization: may hold visible ASCII and spaces only' });
  });
});

describe('the line of an attempt', () => {
  const timing = { durationMs: 321, phasesMs: { connection: 1, headers: 300, body: 20 }, reused: true };

  it.each<[string, CountedOutcome, object]>([
    ['answered', { kind: 'answered', status: 200, bodyExcerpt: '', ...timing }, { status: 200, detail: '200', attempt: 3, state: 'delivered' }],
    ['answered, but cut', { kind: 'answered', status: 503, bodyExcerpt: 'busy', cut: 'body timeout', ...timing }, { status: 503, detail: '503, then body timeout', attempt: 3, state: 'waiting' }],
    ['rejected', { kind: 'answered', status: 410, bodyExcerpt: 'gone', ...timing }, { status: 410, detail: '410', attempt: 3, state: 'dead' }],
    ['ambiguous', { kind: 'ambiguous', phase: 'headers', cause: 'timeout', ...timing }, { phase: 'headers', cause: 'timeout', detail: 'headers timeout', attempt: 3, state: 'waiting' }],
    ['unsent', { kind: 'unsent', phase: 'tls', cause: 'CERT_HAS_EXPIRED', ...timing }, { phase: 'tls', cause: 'CERT_HAS_EXPIRED', detail: 'tls CERT_HAS_EXPIRED', attempt: 3, state: 'waiting' }],
    // No attempt is counted, and the history says nothing of it.
    ['not to be sent', { kind: 'invalidConfiguration', detail: 'header x: bad' }, { detail: 'header x: bad', attempt: 2, state: 'dead', durationMs: 0, phasesMs: {}, reused: false }],
  ])('that was %s says where to, how it went, how long each phase took, and what comes of it', async (_what, outcome, expected) => {
    const history = [500, 502].map((status, i) => ({ atEpochMs: t0EpochMs - 10_000 + i, durationMs: 1, generation: 2, outcome: 'answered' as const, detail: String(status) }));
    h.store.seed(waitingOf({ generation: 2, attempt: 2, history }));
    h.http.script = () => outcome;
    await h.runOne(bodyOf());
    const always = { endpointId: 'acme', eventId: 'evt_1', eventType: '-', host: 'hooks.example.com:8443', generation: 2, outcome: outcome.kind, latencyMs: 0, source: 'queue', isPossibleDuplicate: false, cfg: 'V1' };
    expect(h.telemetry.attempts).toEqual([{ ...always, status: 0, phase: '-', cause: '-', ...timing, ...expected }]);
  });

  it.each(['no-socket', 'stale-socket', 'no-time'] as const)('that was not started for %s is none: it is an event, with its reason', async (why) => {
    h.http.script = () => ({ kind: 'notStarted', why });
    await h.runOne(bodyOf());
    expect(h.telemetry.attempts).toEqual([]);
    expect(h.telemetry.events).toContainEqual({ name: 'not-started', fields: { endpointId: 'acme', why } });
  });
});
