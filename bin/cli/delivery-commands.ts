import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { GetQueueAttributesCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import type { Command } from 'commander';
import { createFleetSwitch } from '../../lambdas/shared/adapters/dynamodb-fleet.ts';
import { readDead, readRecord } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { endpointIdOf } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import { createEndedWindows } from '../../lambdas/shared/adapters/dynamodb-ended-windows.ts';
import { createUnknownIndex } from '../../lambdas/shared/adapters/dynamodb-unknown.ts';
import type { Registered } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { claimKeyOf, endpointIdOfKey, recordKeyOf } from '../../lambdas/shared/core/keys.ts';
import { triedFromEpochMs, type Breaker } from '../../lambdas/shared/core/breaker.ts';
import { readBudgetOf } from '../../lambdas/shared/core/adaptive.ts';
import { laneCeiling, suggestedLane } from '../../lambdas/shared/core/auto-lane.ts';
import { evidenceLines, evidenceOf, measuredOf, sentenceOf, type Evidence } from '../../lambdas/shared/core/evidence.ts';
import { isSpent, todayOf } from '../../lambdas/shared/core/day.ts';
import { isStopped } from '../../lambdas/shared/core/fleet.ts';
import { inFlight } from '../../lambdas/shared/core/lane.ts';
import { parseMessage } from '../../lambdas/shared/core/parse.ts';
import { pausedFor } from '../../lambdas/shared/core/rate.ts';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';
import { message as messageLimits } from '../../lambdas/shared/limits/numbers.ts';
import { policiesOf } from './applied-policy.ts';
import { describe } from './describe-record.ts';
import { checkedId, noSuchEndpoint, registryOf, type Run } from './endpoint-commands.ts';
import { CommandError, exit, failure, readInput, table, time, usageError, type Output } from './output.ts';
import { knowsUnknown, type Target } from './target.ts';
import { recordOf } from './unknown-selection.ts';

interface SendOptions {
  data: string;
  type?: string;
  event?: string;
  occurredAt?: string;
  resend?: string;
  wait?: boolean;
  timeout: string;
}

export function addDeliveryCommands(program: Command, run: Run): void {
  program
    .command('send <id>')
    .description('send one event to an endpoint, through the delivery queue like any producer')
    .requiredOption('--data <data>', 'payload: JSON object or array (its exact text is sent), other text, @FILE, or - for standard input')
    .option('--type <type>', 'event type, such as invoice.paid')
    .option('--event <id>', 'event id; made up if left out')
    .option('--occurred-at <time>', 'ISO 8601 time of the event')
    .option('--resend <n>', 'ask for a delivered event again; larger than the last number used')
    .option('--wait', 'wait until the event is delivered, dead or unknown')
    .option('--timeout <seconds>', 'give up waiting after this long', '60')
    .action((id: string, options: SendOptions) => run((target, out) => send(target, out, id, options)));

  program
    .command('show <id> <event>')
    .description('show what is known of one delivery, with its attempts')
    .action((id: string, event: string) =>
      run(async (target, out) => {
        const record = await recordOf(target, id, event);
        out.result(record, describe(record));
      }),
    );

  program
    .command('status [id]')
    .description('show endpoints with their lanes, and how much waits in the queues')
    .action((id: string | undefined) => run((target, out) => status(target, out, id)));
}

async function send(target: Target, out: Output, id: string, options: SendOptions): Promise<void> {
  const timeoutS = Number(options.timeout);
  if (!(timeoutS > 0 && timeoutS <= 86_400)) throw usageError(`--timeout: must be between 0 and 86400 seconds (got ${options.timeout})`);
  const eventId = options.event ?? `evt_${ulid(Date.now(), randomBytes(10))}`;
  const data = options.data === '-' || options.data.startsWith('@') ? await readInput('--data', options.data.replace(/^@/, '')) : options.data;
  const body = bodyFrom(checkedId(id), eventId, data, options);
  const bytes = Buffer.byteLength(body);
  if (bytes > messageLimits.maxBytes) throw usageError(`data: the message would be ${bytes} bytes; SQS accepts at most ${messageLimits.maxBytes} here`);
  const parsed = parseMessage(body);
  if (!parsed.ok) throw usageError(`Refused, nothing was sent: ${parsed.detail}`);
  if ((await registryOf(target).get(id)) === undefined) throw noSuchEndpoint(id);

  out.note(`Target: ${target.name}`);
  await target.sqs.send(new SendMessageCommand({ QueueUrl: target.deliveryQueueUrl, MessageBody: body, MessageGroupId: id }));
  if (options.wait !== true) {
    out.result({ endpointId: id, eventId, state: 'queued' }, `Queued event ${eventId} for ${id}. Follow it: sluice show ${id} ${eventId}`);
    return;
  }
  await waitFor(target, out, recordKeyOf(id, claimKeyOf(eventId)), { timeoutS, resend: parsed.message.resend, payloadHash: parsed.message.payloadHash, eventId, id });
}

/** The message's text; a JSON object or array keeps its exact source, anything else becomes a JSON string. */
function bodyFrom(endpointId: string, eventId: string, data: string, options: SendOptions): string {
  const fields = {
    v: messageLimits.version,
    endpointId,
    eventId,
    eventType: options.type,
    occurredAt: options.occurredAt,
    resend: options.resend === undefined ? undefined : wholeNumber('--resend', options.resend),
  };
  return `${JSON.stringify(fields).slice(0, -1)},"payload":${isJsonContainer(data) ? data.trim() : JSON.stringify(data)}}`;
}

function wholeNumber(option: string, text: string): number {
  if (!/^\d{1,7}$/.test(text)) throw usageError(`${option}: must be a whole number (got ${text})`);
  return Number(text);
}

function isJsonContainer(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null;
  } catch {
    return false;
  }
}

interface Waiting {
  readonly timeoutS: number;
  readonly resend: number;
  readonly payloadHash: string;
  readonly id: string;
  readonly eventId: string;
}

async function waitFor(target: Target, out: Output, recordKey: string, waiting: Waiting): Promise<void> {
  const endsMs = performance.now() + waiting.timeoutS * 1_000;
  let record: DeliveryRecord | undefined;
  while (performance.now() < endsMs) {
    record = await readRecord(target.db, target.deliveriesTable, recordKey);
    if (record !== undefined && record.payloadHash !== waiting.payloadHash) {
      throw failure(`Event ${waiting.eventId} exists with another payload: this one is a conflict, and is not sent. See: sluice dlq ls --event ${waiting.eventId}`);
    }
    // A resend's own verdict is one that has taken the resend into account.
    const settled = record !== undefined && (record.state === 'dropped' || (record.resend >= waiting.resend && record.state !== 'waiting'));
    if (record !== undefined && settled && (record.state !== 'dead' || record.phase === 'buried')) {
      out.progress('', false);
      out.result(record, describe(record));
      if (record.state === 'dead') throw new CommandError(exit.failed, `Event ${waiting.eventId} is dead: ${record.reason}.`);
      if (record.state === 'unknown') throw new CommandError(exit.failed, `Event ${waiting.eventId} may have arrived: no answer came, and it is not sent again by itself. See: sluice unknown show ${waiting.id} ${waiting.eventId}`);
      if (record.state === 'dropped') throw new CommandError(exit.failed, `Event ${waiting.eventId} was dropped by ${record.by}: it is never sent again.`);
      return;
    }
    out.progress(record === undefined ? `${waiting.eventId}: queued` : `${waiting.eventId}: ${record.state}, attempt ${record.attempt}`);
    await sleep(200);
  }
  throw failure(`Event ${waiting.eventId} is not settled after ${waiting.timeoutS} s; it goes on. Look again: sluice show ${waiting.id} ${waiting.eventId}`);
}

/** What was measured of one endpoint (L7). */
async function evidenceFor(target: Target, registered: Registered, nowEpochMs: number): Promise<Evidence> {
  const { endpoint, lane } = registered;
  const newest = target.statisticsTable === undefined ? [] : await createEndedWindows(target.db, target.statisticsTable).newest(endpointIdOf(endpoint), 1);
  const window = measuredOf(lane.window, newest[0], nowEpochMs);
  const suggested = target.fleetSlots === undefined ? undefined : suggestedLane(window, lane, laneCeiling(target.fleetSlots), nowEpochMs);
  return {
    ...evidenceOf(lane, window, nowEpochMs, registered.endpoint.config?.maxPerDay), ...readBudgetFor(registered, nowEpochMs),
    ...(suggested === undefined ? {} : { suggested: { ...suggested, isApplied: lane.isAuto } }),
  };
}

/** Of an endpoint whose read budget follows what is measured: what a delivery that is tried now for the first time would get (T5). */
function readBudgetFor({ endpoint: { config }, lane }: Registered, nowEpochMs: number): { readBudgetMs?: number } {
  return config === undefined || config.adaptiveRead === null ? {} : { readBudgetMs: readBudgetOf(config, lane, { attempt: 0, ambiguous: 0, firstEpochMs: nowEpochMs, isPing: false }, nowEpochMs).readMs };
}

async function status(target: Target, out: Output, id: string | undefined): Promise<void> {
  const registry = registryOf(target);
  const one = id === undefined ? undefined : await registry.get(checkedId(id));
  if (id !== undefined && one === undefined) throw noSuchEndpoint(id);
  const all = one === undefined ? await registry.list() : [one];
  const dead = await readDead(target.db, target.deliveriesTable, id);
  // An older installation has no such index.
  const unknown = knowsUnknown(target) ? countsOf(await createUnknownIndex(target.db, target.deliveriesTable).keys(id)) : undefined;
  const nowEpochMs = Date.now();
  const endpoints = all.map(({ endpoint, lane }) => ({
    endpointId: endpointIdOf(endpoint),
    state: stateOf({ endpoint, lane }, nowEpochMs),
    inFlight: inFlight(lane, nowEpochMs),
    slots: lane.slots,
    failuresInARow: lane.failures,
    breaker: breakerOf({ endpoint, lane }, nowEpochMs),
    slow: lane.pace?.isSlow === true,
    ...refusalsOf({ endpoint, lane }, nowEpochMs),
    ...spentOf({ endpoint, lane }, nowEpochMs),
    held: lane.holding?.count ?? 0,
    dead: dead.filter((record) => record.endpointId === endpointIdOf(endpoint)).length,
    unknown: unknown === undefined ? null : (unknown.get(endpointIdOf(endpoint)) ?? 0),
    policy: endpoint.origin?.policy ?? null,
  }));
  const evidence = one === undefined ? undefined : await evidenceFor(target, one, nowEpochMs);
  const stopped = isStopped(await createFleetSwitch(target.db, target.endpointsTable).read());
  const queues = {
    delivery: await depth(target, target.deliveryQueueUrl),
    drain: await depth(target, target.drainQueueUrl),
    deadLetter: await depth(target, target.deadLetterQueueUrl),
  };
  const rows = endpoints.map((e) => [e.endpointId, withNotes(e.state, [e.breaker.cause, e.disabledFor, e.flagged?.why, e.daySpentUntil === undefined ? undefined : 'day spent']), e.daySpentUntil ?? e.breaker.until ?? e.askedToWaitUntil ?? '-', `${e.inFlight}/${e.slots}`, String(e.held), String(e.failuresInARow), String(e.dead), String(e.unknown ?? '-')]);
  const policy = one === undefined ? [] : [await policyLine(target, one)];
  const human = [
    ...(stopped ? ['All sending is stopped. Start it: sluice resume --all'] : []),
    table(['ENDPOINT', 'STATE', 'NEXT TRY', 'IN FLIGHT', 'HELD', 'FAILED IN A ROW', 'DEAD', 'UNKNOWN'], rows),
    ...policy,
    `Delivery queue: ${queues.delivery.ready} ready, ${queues.delivery.hidden} in flight or waiting. Drain queue: ${queues.drain.ready} ready, ${queues.drain.hidden} in flight or waiting. Dead-letter queue: ${queues.deadLetter.ready + queues.deadLetter.hidden}.`,
  ];
  const measured = evidence === undefined ? [] : ['', ...evidenceLines(evidence, nowEpochMs).map(([name, text]) => (name === '' ? text : `${`${name}:`.padEnd(13)}${text}`))];
  out.result({ stopped, endpoints, ...(evidence === undefined ? {} : { evidence: { ...evidence, says: sentenceOf(evidence) } }), queues }, [...human, ...measured].join('\n'));
}

/** A policy that has gone on is what somebody may wonder about. */
async function policyLine(target: Target, { endpoint }: Registered): Promise<string> {
  const has = endpoint.origin?.policy;
  if (has === undefined) return 'Policy: none.';
  const current = await policiesOf(target).current(has.name);
  return `Policy: ${has.name} v${has.version}${current === undefined || current.version === has.version ? '' : `, of which v${current.version} is the current one`}.`;
}

/** Of keys that the index shows, by endpoint; it may be seconds behind. */
function countsOf(recordKeys: readonly string[]): ReadonlyMap<string, number> {
  return new Map([...Map.groupBy(new Set(recordKeys), endpointIdOfKey)].map(([endpointId, keys]) => [endpointId, keys.length]));
}

type EndpointState = 'invalid' | 'disabled' | 'paused' | 'open' | 'half-open' | 'slow' | 'ok' | 'failing';

/** `open`: its breaker lets nothing through; `half-open`: one delivery at a time is sent to see how the endpoint is; `slow`: the drain alone serves it. */
function stateOf({ endpoint, lane }: Registered, nowEpochMs: number): EndpointState {
  if (endpoint.config === undefined) return 'invalid';
  if (endpoint.config.status !== 'enabled') return endpoint.config.status;
  if (lane.breaker?.state === 'open') return triedFromEpochMs(lane.breaker, endpoint.config.breaker, nowEpochMs) > nowEpochMs ? 'open' : 'half-open';
  if (lane.failures > 0) return 'failing';
  return lane.pace?.isSlow === true ? 'slow' : 'ok';
}

/** What the endpoint itself has said: that it is gone, that it refuses everything, or that it wants to be left alone for a while. */
function refusalsOf({ endpoint, lane }: Registered, nowEpochMs: number): { disabledFor?: string; flagged?: { why: string; since: string }; askedToWaitUntil?: string } {
  const disabledFor = endpoint.config?.disabledFor?.why;
  const untilEpochMs = pausedFor(lane.pausedUntilEpochMs, nowEpochMs);
  return {
    ...(disabledFor === undefined ? {} : { disabledFor }),
    ...(lane.flag === undefined ? {} : { flagged: { why: lane.flag.why, since: time(lane.flag.sinceEpochMs) } }),
    ...(untilEpochMs <= nowEpochMs ? {} : { askedToWaitUntil: time(untilEpochMs) }),
  };
}

/** Set while all that it may be sent in a day is spent. */
function spentOf({ endpoint, lane }: Registered, nowEpochMs: number): { daySpentUntil?: string } {
  const today = todayOf(lane.day, endpoint.config?.maxPerDay ?? null, nowEpochMs);
  return isSpent(today) ? { daySpentUntil: time(today.untilEpochMs) } : {};
}

function withNotes(state: EndpointState, notes: readonly (string | undefined)[]): string {
  const said = notes.filter((note) => note !== undefined);
  return said.length === 0 ? state : `${state} (${said.join(', ')})`;
}

function breakerOf({ endpoint, lane: { breaker } }: Registered, nowEpochMs: number): { state: Breaker['state']; cause?: string; until?: string; trips?: number } {
  if (breaker?.state !== 'open') return { state: 'closed' };
  const untilEpochMs = endpoint.config === undefined ? breaker.untilEpochMs : triedFromEpochMs(breaker, endpoint.config.breaker, nowEpochMs);
  return { state: 'open', cause: breaker.cause, until: time(untilEpochMs), trips: breaker.trips };
}

async function depth(target: Target, url: string): Promise<{ ready: number; hidden: number }> {
  const answer = await target.sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] }),
  );
  return {
    ready: Number(answer.Attributes?.['ApproximateNumberOfMessages'] ?? 0),
    hidden: Number(answer.Attributes?.['ApproximateNumberOfMessagesNotVisible'] ?? 0),
  };
}
