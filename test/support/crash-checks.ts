import type { Message } from '@aws-sdk/client-sqs';
import { readRecord } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { afterReap } from '../../lambdas/shared/core/decide.ts';
import { claimKeyOf } from '../../lambdas/shared/core/keys.ts';
import { blankRecord, stateName, type AttemptEntry, type DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import { headers, outputs } from '../../lambdas/shared/limits/names.ts';
import { generationOf, type CrashRun, type Sent } from './crash-run.ts';
import { depth } from './embedded.ts';
import type { Recorded } from './recorder.ts';

/** What is known of one delivery at some moment of a run. */
export interface Fact {
  readonly sent: Sent;
  readonly record: DeliveryRecord | undefined;
  readonly requests: readonly Recorded[];
  readonly looks: readonly Recorded[];
  /** What the consumer has done for it; undefined where its endpoint is not reconciled: nothing is said of that then. */
  readonly effects: number | undefined;
  /** True where its payload lies beside the record. */
  readonly hasPayload: boolean;
  /** Of this body, in the dead-letter queue. */
  readonly copies: readonly Message[];
}

export async function factsOf(run: CrashRun, deadLetters: readonly Message[] = []): Promise<Fact[]> {
  const { embedded } = run;
  const payloads = createDynamoDbPayloads(embedded.db, embedded.output(outputs.payloadsTable));
  return Promise.all(
    [...run.deliveries.values()].map(async (sent) => {
      const record = await readRecord(embedded.db, embedded.output(outputs.deliveriesTable), sent.recordKey);
      return {
        sent,
        record,
        // A conflict has the event id of the delivery that it contradicts, and is never sent.
        requests: sent.ends === 'conflict' ? [] : run.requestsOf(sent),
        looks: run.looksOf(sent),
        effects: run.isReconciled ? run.effects.of(sent.eventId).length : undefined,
        hasPayload: record !== undefined && (await payloads.read([record])).found.has(record.recordKey),
        copies: deadLetters.filter((copy) => copy.Body === sent.body),
      };
    }),
  );
}

/** Requests since `before` that the worker who made them left no verdict of. */
export function lostSince(before: Fact | undefined, { record, requests }: Fact): number {
  return requests.length - (before?.requests.length ?? 0) - (settledBySender(record) - settledBySender(before?.record));
}

/** What a record says of an attempt whose sender left no verdict. */
const [reaped] = afterReap(blankRecord({ endpointId: '', recordKey: '', eventId: '', eventType: undefined, payloadHash: '' }, 0), '', 0, undefined).history;

const isReaped = ({ detail }: AttemptEntry): boolean => detail === reaped?.detail;

/** Attempts whose verdict came from who made them, not from who cleared up after a crash. */
function settledBySender(record: DeliveryRecord | undefined): number {
  return record?.history.filter((entry) => (entry.outcome === 'answered' || entry.outcome === 'ambiguous') && !isReaped(entry)).length ?? 0;
}

/** What must hold of a delivery once nothing is left to do, whatever crashed. `calm`: the same delivery in a run without a crash. */
export function problemsOf(fact: Fact, calm: Fact, lost: number): string[] {
  const { sent, record, requests, copies } = fact;
  const problems: string[] = [];
  const state = record?.state === 'dead' && record.phase === 'buried' ? record.reason : stateName(record);
  const isUnknown = record?.state === 'unknown';
  // Only where the crash came between the claim and the verdict: else what the calm run knows is known.
  const mayBeUnknown = sent.orUnknown && record?.history.some(isReaped) === true;
  if (state !== sent.ends && !(isUnknown && mayBeUnknown)) problems.push(`is ${state}, must be ${sent.ends}`);
  if (record?.generation !== calm.record?.generation) problems.push(`is in generation ${record?.generation}, must be in ${calm.record?.generation}`);

  const own = copies.filter((copy) => generationOf(copy) === record?.generation);
  const mayHave = sent.ends === 'delivered' ? 0 : calm.copies.length + 1;
  if (own.length > mayHave || (own.length === 0 && sent.ends !== 'delivered')) problems.push(`has ${own.length} copies in the dead-letter queue, ${mayHave} at most`);

  if (requests.length > calm.requests.length + lost) problems.push(`${requests.length} requests: ${calm.requests.length} without a crash, ${lost} under way in it`);
  if (requests.length > accountedFor(record)) problems.push(`${requests.length} requests, ${accountedFor(record)} in the record`);
  if ((record?.ambiguous ?? 0) > (calm.record?.ambiguous ?? 0) + 1) problems.push(`${record?.ambiguous} ambiguous attempts by one crash`);
  if (new Set(requests.map((r) => r.body.toString())).size > 1) problems.push('two bodies under one id');
  return [...problems, ...unmarkedRepeats(fact), ...problemsOfReconciled(fact)];
}

/** What must hold of a delivery that is not sent again by itself. */
function problemsOfReconciled({ record, requests, looks, effects, hasPayload }: Fact): string[] {
  const problems: string[] = [];
  if (record?.state === 'unknown') {
    if (record.nextLookEpochMs !== undefined) problems.push('is unknown, with a look planned that nobody makes');
    if (!hasPayload) problems.push('is unknown, and its payload is gone');
  }
  if (effects === undefined) return problems;
  const absences = record?.cleared ?? 0;
  if (requests.length > 1 + absences) problems.push(`${requests.length} requests by 1 sending and ${absences} proven absences`);
  if (absences > looks.length) problems.push(`${absences} proven absences by ${looks.length} looks`);
  if (effects > 1 || (record?.state === 'delivered' && effects !== 1)) problems.push(`is ${record?.state}, with ${effects} effects`);
  return problems;
}

/** What must hold of the installation: lanes whole, queues empty. Time has passed every lease by now. */
export async function problemsAround(run: CrashRun, deadLetters: readonly Message[], nowEpochMs: number): Promise<string[]> {
  const problems: string[] = [];
  for (const id of run.endpointIds) {
    const lane = (await run.embedded.registry.get(id))?.lane;
    const leases = [...(lane?.leases.values() ?? [])];
    const sum = (lane?.avail ?? 0) + leases.reduce((slots, lease) => slots + lease.slots, 0);
    if (lane === undefined || sum !== lane.slots) problems.push(`lane ${id}: ${sum} of ${lane?.slots} slots`);
    if (leases.some((lease) => lease.expiresEpochMs > nowEpochMs)) problems.push(`lane ${id}: a lease that has not expired`);
    const left = [...run.deliveries.values()].filter(({ endpointId, eventId }) => endpointId === id && lane?.claims.has(claimKeyOf(eventId)) === true);
    if (left.length > 0) problems.push(`lane ${id}: ${left.length} claims left`);
  }
  const fault = await depth(run.embedded.sqs, run.embedded.output(outputs.faultQueueUrl));
  if (fault.ready + fault.hidden > 0) problems.push(`${fault.ready + fault.hidden} messages in the fault queue`);
  // A crash is no fault of the code: what it reports as one is a bug, whatever became of the delivery.
  const faults = run.logged().split('\n').filter((line) => line.includes('"level":"ERROR"'));
  problems.push(...faults.map((line) => `logged ${line}`));
  const bodies = new Set([...run.deliveries.values()].map(({ body }) => body));
  if (deadLetters.some((copy) => !bodies.has(copy.Body ?? ''))) problems.push('a stranger in the dead-letter queue');
  return problems;
}

/** Requests that a record accounts for: those that were answered, and those that may have arrived. */
function accountedFor(record: DeliveryRecord | undefined): number {
  return (record?.history.filter((entry) => entry.outcome === 'answered').length ?? 0) + (record?.ambiguous ?? 0);
}

/** After the first attempt that may have arrived every request says so: before it, only answered ones and that attempt's own. */
function unmarkedRepeats({ record, requests }: Fact): string[] {
  const history = record?.history ?? [];
  const first = history.findIndex((entry) => entry.outcome === 'ambiguous');
  const mayBeUnmarked = first < 0 ? requests.length : history.slice(0, first).filter((entry) => entry.outcome === 'answered').length + 1;
  const unmarked = requests.map((r, i) => (r.headers[headers.possibleDuplicate] === 'true' ? -1 : i)).filter((i) => i >= 0);
  return unmarked.some((i) => i >= mayBeUnmarked) ? [`a repeat without ${headers.possibleDuplicate}`] : [];
}
