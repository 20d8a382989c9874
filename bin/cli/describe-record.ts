import { looksOf } from '../../lambdas/shared/core/reconcile.ts';
import { stateName, type DeliveredRecord, type DeliveryRecord, type StuckReason, type UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { table, time } from './output.ts';

/** What a record says, with its attempts; never its payload. */
export function describe(record: DeliveryRecord): string {
  const next = record.state === 'waiting' ? `, next attempt ${time(record.dueEpochMs)}` : '';
  const head = `${nameOf(record)}: ${stateOfRecord(record)}${next}; generation ${record.generation}, ${record.attempt} attempts`;
  const rows = record.history.map((h) => [time(h.atEpochMs), String(h.generation), h.outcome, h.detail, `${h.durationMs} ms`, h.bodyExcerpt ?? '']);
  return [
    head,
    ...(record.state === 'unknown' ? [looksInWords(record)] : []),
    ...(record.reference === undefined ? [] : [`The consumer's id of it: ${record.reference}`]),
    ...decisionOf(record),
    ...(rows.length === 0 ? [] : [table(['AT', 'GEN', 'OUTCOME', 'DETAIL', 'TOOK', 'BODY'], rows)]),
  ].join('\n');
}

export function nameOf({ endpointId, eventId }: DeliveryRecord): string {
  return `${endpointId} ${eventId ?? '(no event id)'}`;
}

export function stateOfRecord(record: DeliveryRecord): string {
  switch (record.state) {
    case 'dead':
      return `dead (${record.reason}: ${record.detail}), ${record.phase}`;
    case 'dropped':
      return `dropped by ${record.by} at ${time(record.droppedEpochMs)} (${record.why}); it was ${record.reason === 'unknown' ? `unknown (${record.detail})` : `dead (${record.reason}: ${record.detail})`}`;
    case 'unknown':
      return `unknown since ${time(record.sinceEpochMs)} (${record.detail})`;
    case 'delivered':
      return `delivered${how[record.via]}`;
    case 'waiting':
      return stateName(record);
  }
}

const how: Readonly<Record<DeliveredRecord['via'], string>> = { response: '', lookup: ' (no answer came; a look has found it)', operator: ' (no answer came; an operator says so)' };

/** Who comes next: the drain with a look, or a person, and why. */
function looksInWords(record: UnknownRecord): string {
  const made = `Looks made${record.anewFrom === undefined ? '' : ' in this round'}: ${looksOf(record)}`;
  if (record.nextLookEpochMs !== undefined) return `${made}. The next one: ${time(record.nextLookEpochMs)}`;
  return `${made}. A person must decide${record.stuck === undefined ? '' : ` (${record.stuck}): ${stuckInWords[record.stuck]}`}`;
}

const stuckInWords: Readonly<Record<StuckReason, string>> = {
  'no-lookup': 'the endpoint declares no look-up',
  different: 'under its identifier there is something else',
  absent: 'it was not found, as often as it may be looked for, which proves nothing',
  'look-failed': 'the last look that it may have failed',
  'invalid-lookup': 'the look-up cannot be made as it is configured, or needs an id that was never returned',
  'payload-missing': 'its payload is gone: nothing can be compared or sent',
  'no-endpoint': 'the endpoint is gone, is disabled, or cannot be used as it is stored',
};

/** What an operator has decided; it stays, whatever follows it. */
function decisionOf({ resolved }: DeliveryRecord): string[] {
  if (resolved === undefined) return [];
  const what = resolved.as === 'delivered' ? 'Known to be delivered' : 'Sent again although it may have arrived';
  return [`${what}: by ${resolved.by} at ${time(resolved.atEpochMs)} (${resolved.why})`];
}
