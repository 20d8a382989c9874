import { ScanCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import { table } from '../bin/cli/output.ts';
import { endpointIdOf } from '../lambdas/shared/adapters/dynamodb-endpoints.ts';
import { toRecord } from '../lambdas/shared/adapters/dynamodb-record-item.ts';
import type { Registered, Registry } from '../lambdas/shared/adapters/dynamodb-registry.ts';
import { inFlight } from '../lambdas/shared/core/lane.ts';
import type { DeliveryRecord } from '../lambdas/shared/core/record.ts';

/** One line of the table, from the records and the lane; nothing is asked of the consumers. */
export interface Overview {
  readonly endpointId: string;
  readonly state: 'ok' | 'retrying' | 'failing';
  readonly inFlight: string;
  readonly delivered: number;
  readonly waiting: number;
  readonly dead: number;
  readonly last: string;
}

/** Reads all records: fit for a demo, never for an installation with traffic. */
export async function readOverview(db: DynamoDBClient, registry: Registry, deliveriesTable: string): Promise<Overview[]> {
  const [endpoints, records] = await Promise.all([registry.list(), scanRecords(db, deliveriesTable)]);
  return endpoints.map((registered) => overviewOf(registered, records.filter((r) => r.endpointId === endpointIdOf(registered.endpoint))));
}

/** Reads all records, likewise. */
export async function scanRecords(db: DynamoDBClient, deliveriesTable: string): Promise<DeliveryRecord[]> {
  const records: DeliveryRecord[] = [];
  let from: Record<string, AttributeValue> | undefined;
  do {
    const page = await db.send(new ScanCommand({ TableName: deliveriesTable, ConsistentRead: true, ...(from === undefined ? {} : { ExclusiveStartKey: from }) }));
    records.push(...(page.Items ?? []).map((item) => toRecord(unmarshall(item))));
    from = page.LastEvaluatedKey;
  } while (from !== undefined);
  return records;
}

function overviewOf({ endpoint, lane }: Registered, records: readonly DeliveryRecord[]): Overview {
  const count = (state: DeliveryRecord['state']) => records.filter((r) => r.state === state).length;
  const waiting = count('waiting');
  const newest = [...records].sort((a, b) => b.lastEpochMs - a.lastEpochMs)[0];
  return {
    endpointId: endpointIdOf(endpoint),
    state: waiting > 0 ? 'retrying' : lane.failures > 0 ? 'failing' : 'ok',
    inFlight: `${inFlight(lane, Date.now())}/${lane.slots}`,
    delivered: count('delivered'),
    waiting,
    dead: count('dead'),
    last: newest === undefined ? '' : lastOf(newest),
  };
}

function lastOf(record: DeliveryRecord): string {
  const entry = record.history.at(-1);
  if (entry === undefined) return record.state;
  if (record.state === 'delivered') return `${entry.detail} in ${entry.durationMs} ms`;
  if (record.state === 'waiting') return `${entry.detail}, next try in ${Math.max(0, Math.ceil((record.dueEpochMs - Date.now()) / 1_000))} s`;
  return `${entry.detail} ${JSON.stringify(entry.bodyExcerpt ?? '')}`;
}

/** Shortest time between two tables where there is no terminal to draw over. */
const plainIntervalMs = 3_000;

/** Draws over itself on a terminal that is high enough; elsewhere a changed table is printed every few seconds. */
export class LiveTable {
  readonly #plainIntervalMs: number;
  #lines = 0;
  #printedMs = 0;
  #news = '';

  /** @param intervalMs shortest time between two tables where they are printed; default 3 s */
  constructor(intervalMs = plainIntervalMs) {
    this.#plainIntervalMs = intervalMs;
  }

  /** @param news what must have changed before the table is printed again; default: anything */
  show(text: string, news = text): void {
    if (this.#drawsOver(text)) this.#draw(text);
    else if (news !== this.#news && performance.now() - this.#printedMs > this.#plainIntervalMs) this.#print(text, news);
  }

  /** Prints the table so that what is written next stays below it. */
  settle(text: string): void {
    if (this.#drawsOver(text)) this.#draw(text);
    else this.#print(text, text);
    this.#lines = 0;
  }

  /** What has scrolled off the screen cannot be drawn over. */
  #drawsOver(text: string): boolean {
    return process.stdout.isTTY && text.split('\n').length < process.stdout.rows;
  }

  #draw(text: string): void {
    process.stdout.write(`${this.#lines > 0 ? `\u001b[${this.#lines}A\u001b[J` : ''}${text}\n`);
    this.#lines = text.split('\n').length;
  }

  #print(text: string, news: string): void {
    console.log(text);
    this.#news = news;
    this.#printedMs = performance.now();
  }
}

/** @param notes lines below the table */
export function overviewTable(overview: readonly Overview[], ...notes: string[]): string {
  const rows = overview.map((o) => [o.endpointId, o.state, o.inFlight, String(o.delivered), String(o.waiting), String(o.dead), o.last]);
  return titled(table(['ENDPOINT', 'STATE', 'IN FLIGHT', 'DELIVERED', 'WAITING', 'DEAD', 'LAST'], rows), ...notes);
}

/** A table as every play shows it. @param notes lines below it */
export function titled(text: string, ...notes: string[]): string {
  return ['Sluice local (nothing leaves this machine)            Ctrl-C stops everything', text, ...notes].join('\n');
}
