/**
 * Queries over the functions' logs in the language of CloudWatch Logs Insights. The stack saves them for the console (lib/log-queries.ts);
 * `sluice log` runs the first, and applies the same selection to the logs of a local installation.
 */
import { idPattern } from './message-schema.ts';
import { logs } from './numbers.ts';

/** Name of the one line that each attempt leaves; every other name is an event's or a fault's. */
export const attemptMessage = 'attempt';

/** Fields by which lines are found, and that the log groups therefore index: what has another value is not scanned, and not billed. */
export const indexedFields = ['endpointId', 'eventId'] as const;

/** Which lines of the functions' logs are wanted. */
export interface LogSelect {
  readonly endpointId: string;
  /** Of this event only: what an endpoint's lane and breaker did names no event, and is left out. */
  readonly eventId?: string;
  /** Only what went wrong: attempts without a delivery, faults, and `badEvents`. */
  readonly failedOnly: boolean;
}

/** Events that say that something has ended badly, or may have: the others say what waits, and why. */
export const badEvents: readonly string[] = ['breaker-opened', 'claim-reaped', 'dead', 'endpoint-disabled', 'endpoint-flagged', 'endpoint-ill', 'settle-failed', 'unknown'];

/** Newest first, whole lines. @throws Error on an id that is none: nothing else may get into a query's text */
export function endpointLogQuery({ endpointId, eventId, failedOnly }: LogSelect, lines: number): string {
  return piped(
    'fields @timestamp, @message',
    // Each on its own: an index is used for a plain equality.
    `filter endpointId = ${literal(endpointId)}`,
    ...(eventId === undefined ? [] : [`filter eventId = ${literal(eventId)}`]),
    // Metrics name an endpoint too, and are no lines to read.
    'filter ispresent(message)',
    ...(failedOnly ? [`filter (message = "${attemptMessage}" and state != "delivered") or level = "ERROR" or message in [${badEvents.map((name) => `"${name}"`).join(', ')}]`] : []),
    'sort @timestamp desc',
    `limit ${lines}`,
  );
}

/** The same selection of a line that was read as JSON. */
export function isSelectedLine(line: Readonly<Record<string, unknown>>, { endpointId, eventId, failedOnly }: LogSelect): boolean {
  const { message, level, state } = line;
  if (line['endpointId'] !== endpointId || typeof message !== 'string') return false;
  if (eventId !== undefined && line['eventId'] !== eventId) return false;
  if (!failedOnly) return true;
  return (message === attemptMessage && state !== undefined && state !== 'delivered') || level === 'ERROR' || badEvents.includes(message);
}

/** A query as it is saved: its name may hold neither colon nor asterisk. */
export interface SavedQuery {
  readonly name: string;
  readonly text: string;
}

/** Stands for an endpoint's id in a query that is saved. */
const placeholder = 'ENDPOINT_ID';
const attempts = `filter message = "${attemptMessage}"`;

/** By the logical name that they keep in the stack. */
export const savedQueries: Readonly<Record<string, SavedQuery>> = {
  EndpointLog: {
    name: 'What happened to the deliveries of one endpoint',
    text: `# Put an endpoint id in place of ${placeholder}. On the command line: sluice log ${placeholder}\n${endpointLogQuery({ endpointId: placeholder, failedOnly: false }, logs.lines)}`,
  },
  Outcomes: {
    name: 'Attempts by outcome and host, over time',
    text: piped(attempts, `stats count(*) as attempts by bin(${logs.binMinutes}m) as period, outcome, host`, 'sort period desc'),
  },
  SlowHosts: {
    name: 'Slowest hosts',
    text: piped(attempts, 'stats count(*) as attempts, pct(durationMs, 50) as p50Ms, pct(durationMs, 95) as p95Ms, pct(durationMs, 99) as p99Ms by host', 'sort p95Ms desc', `limit ${logs.hosts}`),
  },
  Reuse: {
    name: 'Share of attempts that found an open socket, by host',
    text: piped(attempts, 'stats count(*) as attempts, avg(reused) as reuseRatio by host', 'sort attempts desc', `limit ${logs.hosts}`),
  },
  Faults: {
    name: 'Faults by name',
    text: piped('filter level = "ERROR"', 'stats count(*) as faults, latest(@timestamp) as lastSeen by service, message, errorName', 'sort faults desc'),
  },
};

function piped(...commands: string[]): string {
  return commands.join('\n| ');
}

function literal(id: string): string {
  if (!idPattern.test(id)) throw new Error('a log query takes ids only');
  return `"${id}"`;
}
