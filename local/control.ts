/** Control routes beside the AWS ones, so that a test or a curious person can steer the clock, kill a worker, read the call log. */
import type { EmbeddedAws } from './embedded-aws.ts';
import { AwsError } from './emulator.ts';
import type { LambdaHost } from './lambda-host.ts';
import { measured } from './measured.ts';
import { type SkipOptions, skipToNext } from './skip.ts';
import type { Wire } from './wire.ts';

/** Paths and bodies are listed in local/README.md. */
export function addControlRoutes(embedded: EmbeddedAws): void {
  const { wire, clock, hosts, stack, dynamodb, scheduler } = embedded;
  const found = (name: string) => {
    const spec = stack.functions.find((fn) => fn.logicalId === name || fn.name === name || fn.logicalId.toLowerCase().includes(name.toLowerCase()));
    const host = spec === undefined ? undefined : hosts.get(spec.name);
    if (spec === undefined || host === undefined) throw new AwsError('ResourceNotFoundException', `no function ${name}`, { status: 404 });
    return { spec, host };
  };
  const host = (name: string) => found(name).host;

  wire.route('POST', '/_sluice/clock', (body) => {
    clock.advance((body as { advanceMs: number }).advanceMs);
    void scheduler.tick('at');
    return { nowEpochMs: clock.nowMs(), offsetMs: clock.offsetMs() };
  });
  wire.route('GET', '/_sluice/clock', () => ({ nowEpochMs: clock.nowMs(), offsetMs: clock.offsetMs() }));
  wire.route('GET', '/_sluice/calls', (_body, { url }) => wire.calls.since(Number(url.searchParams.get('since') ?? 0)));
  wire.route('GET', '/_sluice/stack', () => stack);
  wire.route('GET', '/_sluice/published', () => embedded.sns.published);
  wire.route('GET', '/_sluice/environments', (_body, { url }) => host(url.searchParams.get('function') ?? 'deliver').environments());
  wire.route('POST', '/_sluice/kill', async (body) => {
    const { function: name = 'deliver', pid } = body as { function?: string; pid: number };
    await host(name).kill(pid);
    return { killed: pid };
  });
  wire.route('POST', '/_sluice/throttle', (body) => {
    const { function: name, throttled } = body as { function: string; throttled: boolean };
    host(name).throttle(throttled);
    return { throttled };
  });
  wire.route('GET', '/_sluice/measured', () => measured(embedded));
  wire.route('POST', '/_sluice/skip', (body) => skipToNext(embedded, body as SkipOptions));
  addStopRoutes(wire, found);
  addFaultRoutes(wire, found);
  wire.route('POST', '/_sluice/ttl-sweep', async () => ({ deleted: await dynamodb.sweepTtl() }));
}

type Find = (name: string) => { spec: { roleName: string }; host: LambdaHost };

function addStopRoutes(wire: Wire, find: Find): void {
  wire.route('POST', '/_sluice/stop-at', (body) => {
    const { function: name = 'deliver', call, when, operation } = body as { function?: string; call: number; when: 'before' | 'after'; operation?: string };
    if (!Number.isInteger(call) || (when !== 'before' && when !== 'after')) throw new AwsError('ValidationException', 'call: a whole number; when: before or after');
    const { spec, host } = find(name);
    wire.interference.arm({ role: spec.roleName, call, when, operation, kill: (environmentId) => host.kill(environmentId) });
    return wire.interference.stopState();
  });
  wire.route('GET', '/_sluice/stop-at', () => wire.interference.stopState());
  wire.route('DELETE', '/_sluice/stop-at', () => {
    wire.interference.disarm();
    return wire.interference.stopState();
  });
}

function addFaultRoutes(wire: Wire, find: Find): void {
  wire.route('POST', '/_sluice/faults', (body) => {
    const { service, code, operation, resource, function: name } = body as Partial<Record<'service' | 'code' | 'operation' | 'resource' | 'function', string>>;
    if (service === undefined || code === undefined) throw new AwsError('ValidationException', 'service and code are required');
    wire.interference.refuse({ service, code, operation, resource, role: name === undefined ? undefined : find(name).spec.roleName });
    return wire.interference.faults();
  });
  wire.route('GET', '/_sluice/faults', () => wire.interference.faults());
  wire.route('DELETE', '/_sluice/faults', () => {
    wire.interference.clearFaults();
    return wire.interference.faults();
  });
}
