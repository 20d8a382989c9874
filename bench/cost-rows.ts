/** What was metered for a delivered event, as rows. Pure. */
import type { Row } from './bench.ts';
import { bill, type BillLine, type Metered, usdOf } from './metered.ts';
import { type Billed, prices } from './prices.ts';
import type { Measured } from './rounds.ts';

/** The dearest round: what a round may cost, not what it costs with luck. */
export function dearest({ rounds, events }: Measured): Metered {
  const [first, ...rest] = rounds;
  if (first === undefined) throw new Error('no round was measured');
  const usd = (metered: Metered) => usdOf(bill(metered.quantities, events));
  return rest.reduce((most, metered) => (usd(metered) > usd(most) ? metered : most), first);
}

/** The largest of all rounds, by event. */
export function worstPerEvent({ rounds, events }: Measured, billed: Billed): number {
  return Math.max(...rounds.map(({ quantities }) => quantities[billed] / events));
}

/** Quantities of one event. */
export function eventRow(measured: Measured): Row {
  const { quantities } = dearest(measured);
  const perEvent = (billed: Billed) => exact(quantities[billed] / measured.events);
  return {
    table: 'per delivered event',
    shape: measured.name,
    writeUnits: perEvent('writeUnits'),
    readUnits: perEvent('readUnits'),
    sqsRequests: perEvent('sqsRequests'),
    schedules: perEvent('schedules'),
    lambdaRequests: perEvent('invocations'),
    rounds: spreadOf(measured),
  };
}

/** Dollars of a million events: each thing that is billed, DynamoDB's two together, and all. */
export function dollarRow(measured: Measured): Row {
  const lines = linesOf(measured);
  const of = (...billed: Billed[]) => exact(usdOf(lines, billed));
  return {
    table: 'dollars per million delivered events',
    shape: measured.name,
    writesUsd: of('writeUnits'),
    readsUsd: of('readUnits'),
    dynamodbUsd: of('writeUnits', 'readUnits'),
    sqsUsd: of('sqsRequests'),
    fairQueueUsd: of('fairQueueRequests'),
    schedulerUsd: of('schedules'),
    lambdaUsd: of('invocations'),
    allUsd: exact(usdOf(lines)),
  };
}

/** What a million events cost more in one shape than in another. */
export function moreRow(what: string, measured: Measured, than: Measured): Row {
  const of = (billed: Billed[]) => exact(usdOf(linesOf(measured), billed) - usdOf(linesOf(than), billed));
  const units = (billed: Billed) => exact(worstPerEvent(measured, billed) - worstPerEvent(than, billed));
  return { table: 'more than without it, an event, and dollars a million', for: what, writeUnits: units('writeUnits'), readUnits: units('readUnits'), dynamodbUsd: of(['writeUnits', 'readUnits']) };
}

/** One row for each party and SQS API. */
export function sqsRows(measured: Measured): Row[] {
  return dearest(measured).sqs.map(({ who, api, requests }) => ({
    table: 'SQS requests per delivered event, billed each 64 KiB',
    shape: measured.name,
    who,
    api,
    requests: exact(requests / measured.events),
  }));
}

/** One event in a lane that `leases` leases share, its own among them. */
export function curveRow(measured: Measured, leases: number, laneBytes: number, unitsALaneWrite: number): Row {
  const lines = linesOf(measured);
  const { quantities } = dearest(measured);
  return {
    table: 'leases that share a lane, one event at a time',
    leases,
    laneBytes,
    unitsALaneWrite,
    writeUnits: exact(quantities.writeUnits / measured.events),
    readUnits: exact(quantities.readUnits / measured.events),
    dynamodbUsd: exact(usdOf(lines, ['writeUnits', 'readUnits'])),
    allUsd: exact(usdOf(lines)),
    rounds: spreadOf(measured),
  };
}

export function priceRows(): Row[] {
  return Object.values(prices).map(({ item, usdPerMillion, source, offer, date }) => ({
    table: 'list prices, us-east-1, dollars a million',
    item,
    priceUsd: usdPerMillion,
    source,
    priceList: offer,
    date,
  }));
}

function linesOf(measured: Measured): BillLine[] {
  return bill(dearest(measured).quantities, measured.events);
}

/** `3 agree`, or between which dollars they lie. */
function spreadOf({ rounds, events }: Measured): string {
  if (rounds.length === 1) return 'one';
  if (new Set(rounds.map(({ quantities }) => JSON.stringify(quantities))).size === 1) return `${rounds.length} agree`;
  const usd = rounds.map(({ quantities }) => usdOf(bill(quantities, events)));
  return `${rounds.length} differ: $${Math.min(...usd).toFixed(3)} to $${Math.max(...usd).toFixed(3)}`;
}

/** Without the last bits of binary fractions: 0.3, not 0.30000000000000004. */
function exact(value: number): number {
  return Number(value.toFixed(9));
}
