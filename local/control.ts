/** Control routes beside the AWS ones, so that a test or a curious person can steer the clock, kill a worker, read the call log. */
import type { EmbeddedAws } from './embedded-aws.ts';
import { AwsError } from './emulator.ts';

/** Paths and bodies are listed in local/README.md. */
export function addControlRoutes(embedded: EmbeddedAws): void {
  const { wire, clock, hosts, stack, dynamodb } = embedded;
  const host = (name: string) => {
    const spec = stack.functions.find((fn) => fn.logicalId === name || fn.name === name || fn.logicalId.toLowerCase().includes(name.toLowerCase()));
    const found = spec === undefined ? undefined : hosts.get(spec.name);
    if (found === undefined) throw new AwsError('ResourceNotFoundException', `no function ${name}`, { status: 404 });
    return found;
  };

  wire.route('POST', '/_sluice/clock', (body) => {
    clock.advance((body as { advanceMs: number }).advanceMs);
    return { nowEpochMs: clock.nowMs(), offsetMs: clock.offsetMs() };
  });
  wire.route('GET', '/_sluice/clock', () => ({ nowEpochMs: clock.nowMs(), offsetMs: clock.offsetMs() }));
  wire.route('GET', '/_sluice/calls', (_body, { url }) => wire.calls.since(Number(url.searchParams.get('since') ?? 0)));
  wire.route('GET', '/_sluice/stack', () => stack);
  wire.route('GET', '/_sluice/environments', (_body, { url }) => host(url.searchParams.get('function') ?? 'deliver').environments());
  wire.route('POST', '/_sluice/kill', async (body) => {
    const { function: name = 'deliver', pid } = body as { function?: string; pid: number };
    await host(name).kill(pid);
    return { killed: pid };
  });
  wire.route('POST', '/_sluice/ttl-sweep', async () => ({ deleted: await dynamodb.sweepTtl() }));
}
