import type { Command } from 'commander';
import { replayReasons, type ReplaySelect } from '../../lambdas/shared/limits/replay-request.ts';
import { checkedId } from './endpoint-commands.ts';
import { time, usageError } from './output.ts';

/** Options by which dead deliveries are chosen. */
export interface SelectionOptions {
  endpoint?: string;
  event: string[];
  reason?: string;
  type?: string;
  since?: string;
  until?: string;
}

export function addSelection(command: Command): Command {
  const collect = (value: string, before: string[]) => [...before, value];
  return command
    .option('--endpoint <id>', 'of this endpoint')
    .option('--event <id>', 'of this event (repeatable); with --endpoint it is found at once', collect, [])
    .option('--reason <reason>', 'dead for this reason, such as rejected or exhausted')
    .option('--type <type>', 'of this event type')
    .option('--since <time>', 'dead since then: an ISO time, or how long ago, such as 90m, 2h or 3d')
    .option('--until <time>', 'dead before then, likewise');
}

/** @throws CommandError on an option that is none */
export function selectOf(options: SelectionOptions, nowEpochMs: number): ReplaySelect {
  const select: ReplaySelect = {
    ...(options.endpoint === undefined ? {} : { endpointId: checkedId(options.endpoint) }),
    ...(options.event.length === 0 ? {} : { eventIds: options.event.map(checkedId) }),
    ...(options.reason === undefined ? {} : { reason: reasonOf(options.reason) }),
    ...(options.type === undefined ? {} : { eventType: options.type }),
    ...(options.since === undefined ? {} : { fromEpochMs: timeOf('--since', options.since, nowEpochMs) }),
    ...(options.until === undefined ? {} : { toEpochMs: timeOf('--until', options.until, nowEpochMs) }),
  };
  const { fromEpochMs = 0, toEpochMs = Infinity } = select;
  if (fromEpochMs >= toEpochMs) throw usageError(`--since ${time(fromEpochMs)} is not before --until ${time(toEpochMs)}: that selects nothing`);
  return select;
}

/** A selection in words; empty where nothing is selected. */
export function inWords({ endpointId, eventIds, reason, eventType, fromEpochMs, toEpochMs }: ReplaySelect): string {
  return [
    ...(endpointId === undefined ? [] : [`of endpoint ${endpointId}`]),
    ...(eventIds === undefined ? [] : [`of ${eventIds.length === 1 ? `event ${eventIds[0] ?? ''}` : `${eventIds.length} events`}`]),
    ...(reason === undefined ? [] : [`with reason ${reason}`]),
    ...(eventType === undefined ? [] : [`of type ${eventType}`]),
    ...(fromEpochMs === undefined ? [] : [`dead since ${time(fromEpochMs)}`]),
    ...(toEpochMs === undefined ? [] : [`dead before ${time(toEpochMs)}`]),
  ].join(', ');
}

/** A whole number of an option. @throws CommandError with option, bound and value */
export function wholeNumber(option: string, text: string, most = Number.MAX_SAFE_INTEGER): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= most) return value;
  throw usageError(`${option}: must be a whole number of at least 1${most === Number.MAX_SAFE_INTEGER ? '' : ` and at most ${most}`} (got ${text})`);
}

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const isoTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** Epoch milliseconds of an ISO time with its zone, of a day (UTC), or of a duration before now. */
export function timeOf(option: string, text: string, nowEpochMs: number): number {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (count !== undefined && unit !== undefined) return Math.max(0, nowEpochMs - Number(count) * (unitMs[unit] ?? 0));
  const epochMs = isoTime.test(text) ? Date.parse(text) : Number.NaN;
  if (epochMs >= 0) return epochMs;
  throw usageError(`${option}: must be a time such as 2026-01-05T10:00:00Z or 2026-01-05, or how long ago, such as 90m, 2h or 3d (got ${text})`);
}

function reasonOf(text: string): NonNullable<ReplaySelect['reason']> {
  const found = replayReasons.find((reason) => reason === text);
  if (found === undefined) throw usageError(`--reason: must be one of ${replayReasons.join(', ')} (got ${text})`);
  return found;
}
