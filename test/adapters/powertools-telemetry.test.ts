import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createPowertoolsTelemetry, type RunningTelemetry } from '../../lambdas/shared/adapters/powertools-telemetry.ts';
import { dimensions, endpointMetrics, eventMetrics, fleetMetrics, phaseMetric } from '../../lambdas/shared/limits/metrics.ts';
import { replayReasons } from '../../lambdas/shared/limits/replay-request.ts';
import { phases } from '../../lambdas/shared/core/outcome.ts';
import { bodyOf, endpointOf, receivedOf, timed } from '../support/builders.ts';
import { Harness } from '../support/deliver-harness.ts';

interface Blob {
  readonly namespace: string;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, number | number[]>>;
}

const namespace = 'Sluice/Shop-Orders';
const written: string[] = [];
let telemetry: RunningTelemetry;

beforeEach(() => {
  written.length = 0;
  // What Lambda would send to CloudWatch: the process's own output.
  const keep = (chunk: unknown) => written.push(...String(chunk).split('\n').filter((line) => line !== '')) > 0;
  vi.spyOn(process.stdout, 'write').mockImplementation(keep);
  vi.spyOn(process.stderr, 'write').mockImplementation(keep);
  telemetry = createPowertoolsTelemetry('deliver', namespace);
});
afterEach(() => {
  vi.restoreAllMocks();
});

const lines = () => written.map((line) => JSON.parse(line) as Record<string, unknown>);

function blobs(): Blob[] {
  return lines().flatMap((line) => {
    const aws = line['_aws'] as { CloudWatchMetrics: { Namespace: string; Dimensions: string[][]; Metrics: { Name: string; Unit: string }[] }[] } | undefined;
    if (aws === undefined) return [];
    return aws.CloudWatchMetrics.flatMap(({ Namespace, Dimensions, Metrics }) =>
      Dimensions.map((names) => ({
        namespace: Namespace,
        dimensions: Object.fromEntries(names.map((name) => [name, line[name] as string])),
        values: Object.fromEntries(Metrics.map(({ Name }) => [Name, line[Name] as number | number[]])),
      })),
    );
  });
}

/** A batch through the whole flow, with the real telemetry. */
async function batch(bodies: string[]): Promise<Harness> {
  const h = await Harness.create();
  for (const endpointId of ['ill', 'deaf']) await h.store.put(endpointOf({ endpointId, url: `https://${endpointId}.example/hook` }));
  h.http.script = ({ endpointId }) => {
    if (endpointId === 'acme') return { kind: 'answered', status: 200, bodyExcerpt: '', ...timed(20), phasesMs: { headers: 15 } };
    if (endpointId === 'ill') return { kind: 'answered', status: 503, bodyExcerpt: 'secret text', ...timed(30) };
    return { kind: 'unsent', phase: 'connect', cause: 'ECONNREFUSED', ...timed(5), phasesMs: { dns: 1, connect: 4 } };
  };
  await h.run(bodies.map((body) => receivedOf(body, { sentEpochMs: h.clock.nowEpochMs() })), { telemetry });
  telemetry.flush();
  return h;
}

describe('an invocation', () => {
  const bodies = [...Array(4).keys()].map((i) => bodyOf({ eventId: `a${i}` }))
    .concat([...Array(4).keys()].map((i) => bodyOf({ endpointId: 'ill', eventId: `b${i}` })))
    .concat([...Array(2).keys()].map((i) => bodyOf({ endpointId: 'deaf', eventId: `c${i}` })));

  it('with ten deliveries to three endpoints yields one set for the fleet, and one for each endpoint of which something is to report', async () => {
    await batch(bodies);
    const [fleet, ...others] = blobs();
    expect(fleet).toMatchObject({
      namespace,
      dimensions: { service: 'deliver' },
      values: {
        attempts: 10, attempts_answered: 8, attempts_unsent: 2, failed_attempts: 6, delivered: 4, first_attempts: 10, first_attempts_delivered: 4,
        attempt_duration: [20, 20, 20, 20, 30, 30, 30, 30, 5, 5], delivery_latency: [0, 0, 0, 0],
      },
    });
    const byEndpoint = others.filter((blob) => dimensions.endpointId in blob.dimensions);
    // A healthy endpoint has none; and no other dimension stands beside, or the two senders would not add up.
    expect(byEndpoint.map((blob) => [blob.dimensions, blob.values])).toEqual([
      [{ endpointId: 'ill' }, { failed_attempts: 4 }],
      [{ endpointId: 'deaf' }, { failed_attempts: 2 }],
    ]);
    expect(others.filter((blob) => dimensions.outcome in blob.dimensions).map((blob) => blob.dimensions)).toEqual([
      { service: 'deliver', outcome: 'answered' },
      { service: 'deliver', outcome: 'unsent' },
    ]);
  });

  it('publishes each value once: the next one begins at nothing', async () => {
    await batch(bodies);
    written.length = 0;
    telemetry.flush();
    expect(written).toEqual([]);
    await batch([bodyOf()]);
    expect(blobs()[0]?.values).toMatchObject({ attempts: 1, failed_attempts: 0, delivered: 1 });
    expect(blobs().filter((blob) => dimensions.endpointId in blob.dimensions)).toEqual([]);
  });

  it('publishes what the catalogue names, by its unit, and nothing else', async () => {
    await batch(bodies);
    for (const name of Object.keys(eventMetrics)) telemetry.event(name, { endpointId: 'ill', copies: 3 });
    telemetry.event('swept', { woken: 0 });
    telemetry.event('not-in-the-catalogue', { endpointId: 'ill' });
    telemetry.fault('read-failed', new Error('x'));
    telemetry.flush();
    const known = new Set<string>([...Object.keys(fleetMetrics), ...Object.keys(endpointMetrics), ...phases.map(phaseMetric)]);
    const names = blobs().flatMap((blob) => Object.keys(blob.values));
    expect(names.filter((name) => !known.has(name))).toEqual([]);
    expect(new Set(blobs().map((blob) => blob.namespace))).toEqual(new Set([namespace]));
    expect(blobs().find((blob) => blob.dimensions['endpointId'] === 'ill' && 'shed' in blob.values)?.values).toEqual({ shed: 12, held: 3, dead: 1, unknown: 1 });
    expect(names).toEqual(expect.arrayContaining(['swept', 'faults', 'breaker_opened', 'stale_sockets']));
  });

  it('counts the death of what is malformed or for nobody, and of no endpoint by a name that a producer has made up', async () => {
    await batch(['no message', '{"version":1,"endpointId":"made-up","eventId":"e"}', '{"version":1,"endpointId":"acme","eventId":"e"}', bodyOf({ endpointId: 'nobody' })]);
    expect(blobs().map((blob) => [blob.dimensions, blob.values])).toEqual([[{ service: 'deliver' }, { dead: 4, dead_unaddressed: 4 }]]);
    expect(lines().filter((line) => line['message'] === 'dead').map(({ endpointId, reason }) => [endpointId, reason])).toEqual(
      expect.arrayContaining([['made-up', 'malformed'], ['acme', 'malformed'], ['nobody', 'unknown-endpoint']]),
    );
    expect(lines().filter((line) => line['level'] === 'WARN')).toEqual([]);
  });

  it('counts every other death of its endpoint, and not as one of nobody', () => {
    for (const reason of replayReasons) telemetry.event('dead', { endpointId: 'acme', reason });
    telemetry.flush();
    const [all, own] = [replayReasons.length, replayReasons.length - 2];
    expect(blobs().map((blob) => [blob.dimensions, blob.values])).toEqual([[{ service: 'deliver' }, { dead: all, dead_unaddressed: 2 }], [{ endpointId: 'acme' }, { dead: own }]]);
  });

  it('loses no value where the library publishes between: 250 attempts are 250', () => {
    const one = { endpointId: 'acme', eventId: 'e', eventType: '-', host: 'h', generation: 0, attempt: 1, outcome: 'answered', status: 200, phase: '-', cause: '-', detail: '200', state: 'delivered', latencyMs: 1, source: 'queue', isPossibleDuplicate: false, cfg: 'V1', ...timed(7) } as const;
    for (let i = 0; i < 250; i++) telemetry.attempt({ ...one, phasesMs: { headers: 5 } });
    telemetry.flush();
    const valuesOf = (name: string) => blobs().flatMap((blob) => blob.values[name] ?? []);
    expect([valuesOf('attempts'), valuesOf('attempt_duration').length, valuesOf('phase_headers').length]).toEqual([[250], 250, 250]);
    expect(blobs().filter((blob) => 'phase_headers' in blob.values).map((blob) => blob.dimensions)).toEqual(Array(3).fill({ service: 'deliver', outcome: 'answered' }));
  });

  it('says how many sockets were in use, where anything was sent', async () => {
    telemetry.watchSockets(() => ({ peakInUse: 5, idle: 2 }));
    telemetry.event('swept', {});
    telemetry.flush();
    expect(blobs()[0]?.values).toEqual({ swept: 1 });
    await batch([bodyOf()]);
    expect(blobs()[1]?.values).toMatchObject({ connections_in_use: 5, connections_idle: 2 });
  });
});

it('writes the same keys in every line of an attempt, and neither path, payload nor body', async () => {
  await batch([bodyOf({ payload: '{"card":"4111"}' }), bodyOf({ endpointId: 'ill' }), bodyOf({ endpointId: 'deaf' })]);
  const attempts = lines().filter((line) => line['message'] === 'attempt');
  const keys = attempts.map((line) => Object.keys(line).sort().join());
  expect([attempts.length, ...new Set(keys)]).toEqual([3, keys[0]]);
  expect(attempts.map(({ endpointId, status, phase, cause, reused, possibleDuplicate }) => ({ endpointId, status, phase, cause, reused, possibleDuplicate }))).toEqual([
    { endpointId: 'acme', status: 200, phase: '-', cause: '-', reused: 0, possibleDuplicate: 0 },
    { endpointId: 'ill', status: 503, phase: '-', cause: '-', reused: 0, possibleDuplicate: 0 },
    { endpointId: 'deaf', status: 0, phase: 'connect', cause: 'ECONNREFUSED', reused: 0, possibleDuplicate: 0 },
  ]);
  expect(written.join()).not.toMatch(/4111|secret text|\/hook/);
});
