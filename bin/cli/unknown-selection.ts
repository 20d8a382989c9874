import { createFleetSwitch } from '../../lambdas/shared/adapters/dynamodb-fleet.ts';
import { readRecord } from '../../lambdas/shared/adapters/dynamodb-dead-letters.ts';
import { readUnknown } from '../../lambdas/shared/adapters/dynamodb-unknown.ts';
import { isStopped } from '../../lambdas/shared/core/fleet.ts';
import { claimKeyOf, recordKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { DeliveryRecord, UnknownRecord } from '../../lambdas/shared/core/record.ts';
import type { EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { nameOf, stateOfRecord } from './describe-record.ts';
import { checkedId, noSuchEndpoint, registryOf } from './endpoint-commands.ts';
import { failure, usageError } from './output.ts';
import { knowsUnknown, type Target } from './target.ts';

/** Unknown deliveries of one endpoint that a command is to work on. */
export interface Chosen {
  readonly records: readonly UnknownRecord[];
  /** In words, such as `of event evt_1`. */
  readonly what: string;
  /** Sentences on those that were named, and are not unknown. */
  readonly others: readonly string[];
}

/**
 * Those that are named, or all. @throws CommandError where neither or both are said, where one that is named has no record, and where
 * none that is named is unknown
 */
export async function choose(target: Target, id: string, eventIds: readonly string[], all: boolean): Promise<Chosen> {
  checkKnows(target);
  checkedId(id);
  if (all === eventIds.length > 0) throw usageError('Say which: one or several EVENTs, or --all for every unknown delivery of the endpoint.');
  if (all) return { records: await unknownOf(target, id), what: `of endpoint ${id}`, others: [] };
  const found = await Promise.all([...new Set(eventIds)].map((eventId) => recordOf(target, id, eventId)));
  const records = found.filter((record) => record.state === 'unknown').sort((a, b) => a.sinceEpochMs - b.sinceEpochMs);
  const others = found.filter((record) => record.state !== 'unknown').map((record) => `${nameOf(record)} is not unknown: it is ${stateOfRecord(record)}.`);
  if (records.length === 0) throw failure(`Nothing was changed. ${others.join('\n')}`);
  return { records, what: `of endpoint ${id}`, others };
}

/** Of an endpoint, or of all, oldest first. @throws CommandError on an id that nothing is known of */
export async function unknownOf(target: Target, id: string | undefined): Promise<UnknownRecord[]> {
  checkKnows(target);
  const records = await readUnknown(target.db, target.deliveriesTable, id);
  // They outlive their endpoint; but a name that is misspelt has none either.
  if (records.length === 0 && id !== undefined && (await registryOf(target).get(id)) === undefined) throw noSuchEndpoint(id);
  return records;
}

/** Strongly consistent. */
export function recordNow(target: Target, { recordKey }: Pick<DeliveryRecord, 'recordKey'>): Promise<DeliveryRecord | undefined> {
  return readRecord(target.db, target.deliveriesTable, recordKey);
}

/** @throws CommandError where there is none */
export async function recordOf(target: Target, id: string, eventId: string): Promise<DeliveryRecord> {
  const record = await recordNow(target, { recordKey: recordKeyOf(checkedId(id), claimKeyOf(checkedId(eventId))) });
  if (record === undefined) throw failure(`No record of event ${eventId} for endpoint ${id}: not received yet, or older than its retention.`);
  return record;
}

/** The endpoint as something is sent to it now, or once it is resumed. @throws CommandError where nothing is */
export async function askedEndpoint(target: Target, id: string): Promise<EndpointConfig> {
  const found = await registryOf(target).get(checkedId(id));
  if (found === undefined) throw failure(`There is no endpoint ${id}, and nothing is sent to it. Register it first: sluice endpoint put ${id} --url https://…`);
  const { endpoint } = found;
  if (endpoint.config === undefined) throw failure(`Endpoint ${id} cannot be used as it is stored: ${endpoint.problem}. Repair it first: sluice endpoint put ${id}`);
  if (endpoint.config.status === 'disabled') throw failure(`Endpoint ${id} is disabled, and nothing is sent to it. Enable it first: sluice endpoint put ${id} --set status=enabled`);
  return endpoint.config;
}

/** Why nothing is sent or looked for at an endpoint yet; undefined where nothing stands in the way. */
export async function whatWaits(target: Target, id: string): Promise<string | undefined> {
  if (isStopped(await createFleetSwitch(target.db, target.endpointsTable).read())) return 'All sending is stopped: nothing is sent or looked for before it is started (sluice resume --all).';
  const found = await registryOf(target).get(id);
  if (found?.endpoint.config?.status === 'paused') return `The endpoint is paused: nothing is sent or looked for before it is resumed (sluice endpoint resume ${id}).`;
  if (found?.lane.breaker?.state === 'open') return `Its breaker is open: nothing is sent or looked for before it may be tried (sluice status ${id}).`;
  return undefined;
}

/** @throws CommandError where the installation is older than this command */
export function checkKnows(target: Target): void {
  if (!knowsUnknown(target)) throw failure(`${target.name} runs an older version, in which no delivery is unknown. Deploy this one first.`);
}

/** The same delivery, unknown since the same attempt: what has been found or asked meanwhile does not matter. */
export function stillUnknown(record: UnknownRecord): (now: DeliveryRecord | undefined) => UnknownRecord | undefined {
  return (now) => (now?.state === 'unknown' && now.generation === record.generation && now.attempt === record.attempt ? now : undefined);
}
