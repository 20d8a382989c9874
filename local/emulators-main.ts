/**
 * The emulators alone, in a process of their own: `node --import ./local/clock-preload.mjs local/emulators-main.ts`.
 * Prints one line of JSON with the endpoint, and ends when its standard input does, so that no parent leaves it behind.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SteerableClock } from './clock.ts';
import { startDynamoDb } from './dynamodb.ts';
import { queueNameOf, resourceOf } from './emulator.ts';
import { type Target, startScheduler } from './scheduler.ts';
import { startSqs } from './sqs.ts';
import { startWire } from './wire.ts';

const { values } = parseArgs({
  options: { port: { type: 'string' }, 'data-dir': { type: 'string' }, 'max-in-flight': { type: 'string' }, clock: { type: 'string' } },
});
const dataDir = values['data-dir'];
const storage = dataDir ? { dataDir } : {};

const clock = SteerableClock.open(values.clock ?? process.env['SLUICE_CLOCK_FILE'] ?? join(mkdtempSync(join(tmpdir(), 'sluice-')), 'clock'));
const dynamodb = await startDynamoDb(storage);
const sqs = startSqs({ ...storage, ...(values['max-in-flight'] ? { maxInFlight: Number(values['max-in-flight']) } : {}) });

/** Queues get their message; any other target is only noted, unless its name asks for a failure. */
const invocations: { target: Target; input: string }[] = [];
async function invoke(target: Target, input: string): Promise<void> {
  invocations.push({ target, input });
  if (target.Arn.endsWith(':refuses')) throw new Error('the target refuses');
  if (!target.Arn.startsWith('arn:aws:sqs:')) return;
  const group = target.SqsParameters?.MessageGroupId;
  await sqs.call('SendMessage', {
    QueueUrl: `/${queueNameOf(resourceOf(target.Arn))}`,
    MessageBody: input,
    ...(group ? { MessageGroupId: group } : {}),
  });
}
const scheduler = startScheduler({ ...storage, invoke });

const wire = await startWire({ dynamodb, sqs, scheduler, clock, port: Number(values.port ?? 0) });
wire.route('POST', '/_sluice/clock', (body) => {
  clock.advance((body as { advanceMs: number }).advanceMs);
  return { nowMs: clock.nowMs() };
});
wire.route('POST', '/_sluice/ttl-sweep', async () => ({ deleted: await dynamodb.sweepTtl() }));
wire.route('GET', '/_sluice/invocations', () => invocations);
wire.route('GET', '/_sluice/calls', (_body, { url }) => wire.calls.since(Number(url.searchParams.get('since') ?? 0)));

let isStopping = false;
async function stop(): Promise<void> {
  if (isStopping) return;
  isStopping = true;
  await wire.close();
  await Promise.all([dynamodb.close(), sqs.close(), scheduler.close()]);
  process.exit(0);
}
process.stdin.on('end', () => void stop()).resume();
process.once('SIGTERM', () => void stop());

console.log(JSON.stringify({ endpoint: wire.endpoint }));
