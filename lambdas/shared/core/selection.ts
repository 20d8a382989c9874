import type { ReplaySelect } from '../limits/replay-request.ts';
import type { DeadRecord, DeliveryRecord } from './record.ts';

/** True for a dead delivery that an operator's selection means; in time from `fromEpochMs` on, and before `toEpochMs`. What has no copy to replay, a ping, is never meant. */
export function isSelected(record: DeliveryRecord | undefined, { endpointId, eventIds, reason, eventType, fromEpochMs = 0, toEpochMs = Infinity }: ReplaySelect): record is DeadRecord {
  if (record?.state !== 'dead' || record.phase !== 'buried' || record.reason === 'ping-failed') return false;
  return (
    (endpointId === undefined || record.endpointId === endpointId) &&
    (eventIds === undefined || (record.eventId !== undefined && eventIds.includes(record.eventId))) &&
    (reason === undefined || record.reason === reason) &&
    (eventType === undefined || record.eventType === eventType) &&
    record.lastEpochMs >= fromEpochMs && record.lastEpochMs < toEpochMs
  );
}
