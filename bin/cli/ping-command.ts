import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { readRecord } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { createFleetSwitch } from '../../lambdas/shared/adapters/dynamodb-fleet.ts';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import { createChangeStatus } from '../../lambdas/shared/adapters/dynamodb-status.ts';
import type { Registered } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { pausesAfter } from '../../lambdas/shared/core/age.ts';
import { held } from '../../lambdas/shared/core/decide.ts';
import { pausedUnanswered } from '../../lambdas/shared/core/escalation.ts';
import { isStopped } from '../../lambdas/shared/core/fleet.ts';
import { recordKeyOf } from '../../lambdas/shared/core/keys.ts';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import { blankRecord, type DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';
import { pingDueEpochMs, pingEventType } from '../../lambdas/shared/limits/names.ts';
import { breaker as limits, message as messageLimits } from '../../lambdas/shared/limits/numbers.ts';
import { checkedId, noSuchEndpoint, registryOf, type Run } from './endpoint-commands.ts';
import { CommandError, exit, failure, time, usageError, type Output } from './output.ts';
import { wakeNow } from './pause-commands.ts';
import type { Target } from './target.ts';

export function addPingCommand(endpoint: Command, run: Run): void {
  endpoint
    .command('ping <id>')
    .description(`send a signed test event (type ${pingEventType}) ahead of all that waits, and show the answer; one that is answered closes an open breaker, and ends a pause that came because nothing was answered`)
    .option('--timeout <seconds>', 'give up waiting after this long', '60')
    .addHelpText('after', '\nIt goes the way of every delivery, by the drain function, with the endpoint\'s own headers, signatures and budgets, and its first answer is its last.')
    .action((id: string, options: { timeout: string }) => run((target, out) => ping(target, out, id, options.timeout)));
}

async function ping(target: Target, out: Output, id: string, timeout: string): Promise<void> {
  const timeoutS = Number(timeout);
  if (!(timeoutS > 0 && timeoutS <= 3_600)) throw usageError(`--timeout: must be between 0 and 3600 seconds (got ${timeout})`);
  const found = await registryOf(target).get(checkedId(id));
  if (found === undefined) throw noSuchEndpoint(id);
  const status = found.endpoint.config?.status ?? 'invalid';
  const unanswered = status === 'paused' ? pausedUnanswered(found.lane) : undefined;
  if (status !== 'enabled' && unanswered === undefined) throw failure(`Endpoint ${id} is ${status}: nothing is sent to it.`);
  if (isStopped(await createFleetSwitch(target.db, target.endpointsTable).read())) throw failure('All sending is stopped. Start it first: sluice resume --all');
  out.note(`Target: ${target.name}`);
  const tried = unanswered === undefined ? undefined : await tryAgain(target, out, found, unanswered, timeoutS);
  const recordKey = await holdPing(target, id);
  await tryBreakerNow(target, id);
  await wakeNow(target, id, (await registryOf(target).get(id))?.lane);
  const record = await answerTo(target, out, { id, recordKey, timeoutS }).catch(async (error: unknown) => {
    const became = await tried?.endAgain();
    if (became !== undefined) out.note(became);
    throw error;
  });
  const became = record.state === 'delivered' ? undefined : await tried?.endAgain();
  const breaker = (await registryOf(target).get(id))?.lane.breaker;
  const said = record.history.at(-1);
  const state = breaker?.state ?? 'closed';
  const shown = { endpointId: id, eventId: record.eventId, delivered: record.state === 'delivered', outcome: said?.detail, durationMs: said?.durationMs, breaker: state };
  const until = breaker?.state === 'open' ? `, until ${time(breaker.untilEpochMs)}` : '';
  const how = said?.outcome === 'answered' ? `${id} answered the ping: ${said.detail}` : `The ping to ${id} ended without an answer: ${said?.detail ?? 'no attempt was made'},`;
  out.result(shown, `${how} after ${said?.durationMs ?? 0} ms. Its breaker is ${state}${until}.`);
  if (record.state !== 'delivered') throw new CommandError(exit.failed, `The ping was not accepted: ${said?.detail ?? 'no attempt was made'}.${became === undefined ? '' : ` ${became}`}`);
  if (tried !== undefined) out.note(`${id} is sent to again; what was held for it follows.`);
}

/**
 * Sends again to an endpoint that was paused because it did not answer. Its mark stays, as one that is not told: whatever becomes of this
 * command, the sweep pauses the endpoint again unless it has answered. Not before this command has had its time: the mark is claimed until then.
 */
async function tryAgain(target: Target, out: Output, { endpoint }: Registered, paused: Paused, timeoutS: number): Promise<{ endAgain(): Promise<string> }> {
  const { config } = endpoint;
  if (config === undefined) throw new Error('an endpoint that cannot be used is not paused');
  const { endpointId } = config;
  const change = createChangeStatus(target.db, target.endpointsTable);
  const nowEpochMs = Date.now();
  const claim = { what: paused.what, atEpochMs: nowEpochMs + timeoutS * 1_000, isTold: false };
  const fields = { status: 'enabled' as const, pauses: pausesAfter(config.pauses, 'enabled', nowEpochMs) };
  const answer = await change({ endpointId, version: endpoint.version }, { fields, atEpochMs: nowEpochMs, told: { subject: 'row', note: claim } });
  if (answer !== 'written') throw failure(answer === 'changed' ? `Endpoint ${endpointId} was changed by somebody else meanwhile. Repeat the command.` : 'DynamoDB is busy: nothing was sent. Repeat the command.');
  out.note(`${endpointId} was paused for it did not answer; it is asked again.`);
  return { endAgain: () => pauseAgain(target, endpointId, paused) };
}

type Paused = NonNullable<ReturnType<typeof pausedUnanswered>>;

/** Unless it has answered another delivery meanwhile. @returns what has become of it */
async function pauseAgain(target: Target, endpointId: string, { what, sinceEpochMs }: Paused): Promise<string> {
  const now = (await registryOf(target).get(endpointId))?.endpoint;
  if (now?.config?.status !== 'enabled') return `${endpointId} is ${now?.config?.status ?? 'gone'}: somebody else has changed it meanwhile.`;
  const atEpochMs = Date.now();
  const answer = await createChangeStatus(target.db, target.endpointsTable)({ endpointId, version: now.version }, {
    fields: { status: 'paused', pauses: pausesAfter(now.config.pauses, 'paused', atEpochMs) },
    atEpochMs, told: { subject: 'row', note: { what, atEpochMs, isTold: true } }, whileFailingSinceEpochMs: sinceEpochMs,
  });
  if (answer === 'written') return `${endpointId} stays paused.`;
  return answer === 'changed' ? `${endpointId} is sent to: it has answered another delivery meanwhile, or somebody has changed it.` : `DynamoDB is busy: ${endpointId} is paused again within minutes unless it answers.`;
}

/** Held like a delivery, before all others: the drain's next request to this endpoint is this one. */
async function holdPing(target: Target, endpointId: string): Promise<string> {
  const nowEpochMs = Date.now();
  const eventId = `ping_${ulid(nowEpochMs, randomBytes(10))}`;
  const body = JSON.stringify({ v: messageLimits.version, endpointId, eventId, eventType: pingEventType, occurredAt: time(nowEpochMs), payload: { type: pingEventType } });
  const parsed = parseMessage(body);
  if (!parsed.ok) throw new Error(parsed.detail);
  const { payloadHash, claimKey } = parsed.message;
  const recordKey = recordKeyOf(endpointId, claimKey);
  const tables = { endpoints: target.endpointsTable, deliveries: target.deliveriesTable };
  const blank = blankRecord({ endpointId, recordKey, eventId, eventType: pingEventType, payloadHash }, nowEpochMs);
  if ((await createDynamoDbPayloads(target.db, target.payloadsTable).put(blank, body, nowEpochMs)) !== 'written') throw busy();
  if ((await createDynamoDbRecords(target.db, tables).hold(undefined, held({ ...blank, dueEpochMs: pingDueEpochMs }, 0))) !== 'written') throw busy();
  if ((await createDynamoDbLanes(target.db, tables).hold(endpointId, { count: 1, nowEpochMs, wakeAtEpochMs: nowEpochMs, isReady: true })).kind !== 'noted') {
    throw failure('The ping may still be sent within the hour, or not: DynamoDB did not answer. Repeat the command.');
  }
  return recordKey;
}

/** Between two looks at its breaker. */
const tryMs = 2_000;

const busy = () => failure('DynamoDB is busy: the ping was not sent. Repeat the command.');

/** Lets the drain try an open breaker now; one whose canary is under way is left to it. @returns true where it was to wait longer */
async function tryBreakerNow(target: Target, id: string): Promise<boolean> {
  const lanes = createDynamoDbLanes(target.db, { endpoints: target.endpointsTable, deliveries: target.deliveriesTable });
  for (let tries = 0; tries < limits.swaps; tries++) {
    const breaker = (await registryOf(target).get(id))?.lane.breaker;
    if (breaker?.state !== 'open' || breaker.canary !== undefined || breaker.untilEpochMs <= Date.now()) return false;
    if ((await lanes.moveBreaker(id, breaker, { ...breaker, untilEpochMs: Date.now() })).kind === 'moved') return true;
  }
  return false;
}

async function answerTo(target: Target, out: Output, { id, recordKey, timeoutS }: { id: string; recordKey: string; timeoutS: number }): Promise<DeliveryRecord> {
  const endsMs = performance.now() + timeoutS * 1_000;
  let nextTryMs = performance.now() + tryMs;
  while (performance.now() < endsMs) {
    const record = await readRecord(target.db, target.deliveriesTable, recordKey);
    if (record !== undefined && record.state !== 'waiting') {
      out.progress('', false);
      return record;
    }
    out.progress('the ping waits for its turn');
    if (performance.now() >= nextTryMs) {
      // Another delivery was the canary, and failed: the breaker is open again, perhaps for longer than this command waits.
      if (await tryBreakerNow(target, id)) await wakeNow(target, id, (await registryOf(target).get(id))?.lane);
      nextTryMs = performance.now() + tryMs;
    }
    await sleep(200);
  }
  throw failure(`No answer after ${timeoutS} s; the ping still waits for its turn: the lane may be full, or the drain busy. See: sluice status`);
}
