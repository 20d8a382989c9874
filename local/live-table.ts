import { ScanCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import { table } from '../bin/cli/output.ts';
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
  return endpoints.map((registered) => overviewOf(registered, records.filter((r) => r.endpointId === registered.endpoint.config.endpointId)));
}

async function scanRecords(db: DynamoDBClient, deliveriesTable: string): Promise<DeliveryRecord[]> {
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
    endpointId: endpoint.config.endpointId,
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

/** Draws over itself on a terminal; elsewhere a changed table is printed every few seconds. */
export class LiveTable {
  #lines = 0;
  #printedMs = 0;
  #printed = '';

  show(overview: readonly Overview[], hint: boolean): void {
    const text = render(overview, hint);
    if (process.stdout.isTTY) {
      process.stdout.write(`${this.#lines > 0 ? `\u001b[${this.#lines}A\u001b[J` : ''}${text}\n`);
      this.#lines = text.split('\n').length;
    } else if (text !== this.#printed && performance.now() - this.#printedMs > plainIntervalMs) {
      this.#print(text);
    }
  }

  /** Prints the table so that what is written next stays below it. */
  settle(overview: readonly Overview[]): void {
    if (process.stdout.isTTY) this.show(overview, false);
    else this.#print(render(overview, false));
    this.#lines = 0;
  }

  #print(text: string): void {
    console.log(text);
    this.#printed = text;
    this.#printedMs = performance.now();
  }
}

function render(overview: readonly Overview[], hint: boolean): string {
  const rows = overview.map((o) => [o.endpointId, o.state, o.inFlight, String(o.delivered), String(o.waiting), String(o.dead), o.last]);
  return [
    'Sluice local (nothing leaves this machine)            Ctrl-C stops everything',
    table(['ENDPOINT', 'STATE', 'IN FLIGHT', 'DELIVERED', 'WAITING', 'DEAD', 'LAST'], rows),
    ...(hint ? ["Try: npx sluice send healthy --type demo.hello --data '{\"n\":1}' --wait"] : []),
  ].join('\n');
}
