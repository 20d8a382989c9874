/** `npm run bench -- cost`: what one delivered event costs, from calls that were really made and metered at the wire. */
import { lane } from '../lambdas/shared/limits/numbers.ts';
import { type Bench, type Ceiling, judge, type Limit, type Report, type Row } from './bench.ts';
import { curveRow, dollarRow, eventRow, moreRow, priceRows, sqsRows, worstPerEvent } from './cost-rows.ts';
import { measureHeld } from './held.ts';
import { type Installation, withInstallation } from './installation.ts';
import { writeUnitsOf } from './item-size.ts';
import { countWindow, giveBackLease, holdLease, laneSizeBytes } from './lane-leases.ts';
import { measure, type Measured } from './rounds.ts';

type Progress = (line: string) => void;

/** One environment reads a configuration once, and one poller takes a batch whole. */
const concurrency = 1;
/** Ten events that are sent together are one batch, also if a poll brings fewer of them. */
const stageConfig = { deliver: { batchSize: 10, batchingWindowS: 1 } };
const rounds = 3;
/** Of a point of the curve: each event waits for the window, so a third would cost five seconds. */
const curveRounds = 2;
const ten = Array.from({ length: 10 }, (_, i) => i);
/** Of the lane that ten events share: room for two such batches. */
const sharedSlots = 20;
/** Leases in the lane with the delivery's own; a lane has no more slots than the last. */
const curveLeases = [1, 2, 4, 8, 16, lane.maxSlots];

const source = 'O8';
/** Of a delivered event. Beside its record an environment reads the installation's switch every few seconds, half a unit: a round may have one such read. */
const limits = {
  shared: { writeUnits: 1.3, readUnits: 1.05 },
  apart: { writeUnits: 3.2, readUnits: 1.05 },
  single: { writeUnits: 3.2, readUnits: 1.5 },
  bounded: { writeUnits: 2.3, readUnits: 1.05 },
  held: { writeUnits: 9, readUnits: 6 },
} as const;

/** A payload of so many bytes more, compressed, to see what of the price of being held goes by size. */
const moreBytes = 4_096;

const notes = [
  'Every figure is of calls in the log of the embedded AWS: DynamoDB units by item size, refused and repeated writes with them.',
  'A row shows its dearest round, of events that are delivered at their first attempt.',
  'Left out: empty polls. Lambda makes them whether or not anything is sent: at most 3 a minute and poller, as each waits 20 s.',
  'Left out, not seen at the wire: Lambda compute time, log storage, data transfer, table storage.',
  "The producer's own send is counted. Free tiers are not subtracted.",
  '(?) Which requests of a fair queue carry the surcharge could not be verified: all are counted, which is the most it can be.',
  'An environment reads the configuration of an endpoint once: that is the last shape; the others are measured after it.',
];

export const bench: Bench = {
  run: (progress) => {
    progress('starting the embedded AWS');
    return withInstallation({ concurrency, stageConfig }, (installation) => measureAll(installation, progress));
  },
};

async function measureAll(installation: Installation, progress: Progress): Promise<Report> {
  const sizes = await sizeRows(installation);
  const { shared, bounded, apart, first } = await measureTens(installation, progress);
  const { single, curve } = await measureSingles(installation, progress);
  const held = await measureHeld(installation, { name: 'ten that are held, and then sent', endpointId: 'held', moreBytes: 0 }, progress);
  const large = await measureHeld(installation, { name: 'the same, with 4 KB more', endpointId: 'held-large', moreBytes }, progress);
  const shapes = [shared, bounded, apart, single, first, held, large];
  return {
    name: 'cost',
    rows: [
      ...shapes.map(eventRow),
      ...shapes.map(dollarRow),
      moreRow('4 KB of a payload that is held', large, held),
      moreRow('a bound on attempts a day', bounded, shared),
      ...[shared, apart, single, held].flatMap(sqsRows),
      ...curve.map(({ row }) => row),
      ...sizes,
      ...priceRows(),
    ],
    ceilings: [
      ...ceilingsOf(shared, limits.shared),
      ...ceilingsOf(apart, limits.apart),
      ...ceilingsOf(single, limits.single),
      ...ceilingsOf(bounded, limits.bounded),
      ...ceilingsOf(held, limits.held),
      nothingUnpriced([...shapes, ...curve.map(({ measured }) => measured)]),
    ],
    notes,
  };
}

/** Ten events in one batch: to one endpoint, to one whose attempts a day are bounded, to ten, and to ten that the environment meets for the first time. */
async function measureTens(installation: Installation, progress: Progress): Promise<Readonly<Record<'shared' | 'bounded' | 'apart' | 'first', Measured>>> {
  const { register } = installation;
  let met = 0;
  const newEndpoints = async () => {
    const ids = ten.map(() => `new-${met++}`);
    for (const id of ids) await register(id);
    return ids;
  };
  const first = await measure(installation, { name: 'ten to ten new endpoints', rounds: 1, endpoints: newEndpoints }, progress);
  const known = ten.map((i) => `new-${i}`);
  const apart = await measure(installation, { name: 'ten to ten endpoints', rounds, endpoints: () => known }, progress);
  const toOne = async (endpointId: string, name: string, settings: Record<string, unknown> = {}) => {
    await register(endpointId, { maxInFlight: sharedSlots, ...settings });
    const endpoints = () => ten.map(() => endpointId);
    await measure(installation, { name: `warming, for ${name}`, rounds: 1, endpoints }, progress);
    return measure(installation, { name, rounds, endpoints }, progress);
  };
  const shared = await toOne('shared', 'ten to one endpoint');
  const bounded = await toOne('bounded', 'ten to one with maxPerDay', { maxPerDay: 1_000_000 });
  return { shared, bounded, apart, first };
}

interface CurvePoint {
  readonly row: Row;
  readonly measured: Measured;
}

/** One event at a time, alone in its lane and then beside ever more leases of others. */
async function measureSingles(installation: Installation, progress: Progress): Promise<{ single: Measured; curve: CurvePoint[] }> {
  const endpointId = 'acme-prod';
  const version = await installation.register(endpointId, { maxInFlight: lane.maxSlots });
  const one = (name: string, times: number) => measure(installation, { name, rounds: times, endpoints: () => [endpointId] }, progress);
  await one('warming the endpoint of singles', 1);
  const curve: CurvePoint[] = [];
  let others = 0;
  for (const leases of curveLeases) {
    for (; others < leases - 1; others++) await holdLease(installation, endpointId, version, 1);
    const measured = leases === 1 ? await one('one at a time', rounds) : await one(`one of ${leases} leases`, curveRounds);
    // In the place of the delivery's own, which is gone: the lane as it was while the delivery was in flight.
    await holdLease(installation, endpointId, version, 1);
    others += 1;
    const laneBytes = await laneSizeBytes(installation, endpointId);
    curve.push({ measured, row: curveRow(measured, leases, laneBytes, writeUnitsOf(laneBytes)) });
  }
  const [alone] = curve;
  if (alone === undefined) throw new Error('no point of the curve was measured');
  return { single: alone.measured, curve };
}

/** The lane item by DynamoDB's rules: idle, idle with what it has counted in a busy window, and beside that with leases. */
async function sizeRows(installation: Installation): Promise<Row[]> {
  const endpointId = 'acme-size';
  const version = await installation.register(endpointId, { maxInFlight: sharedSlots });
  const row = async (lane: string): Promise<Row> => {
    const sizeBytes = await laneSizeBytes(installation, endpointId);
    return { table: "lane item, by DynamoDB's rules of size", lane, sizeBytes, unitsAWrite: writeUnitsOf(sizeBytes) };
  };
  const idle = await row('idle');
  await countWindow(installation, endpointId);
  const counted = await row('idle, with a full window');
  const lease = await holdLease(installation, endpointId, version, 10);
  const busy = await row('one lease with ten claims');
  await giveBackLease(installation, endpointId, lease);
  for (let i = 0; i < 8; i++) await holdLease(installation, endpointId, version, 1);
  return [idle, counted, busy, await row('8 leases with one claim each')];
}

function ceilingsOf(measured: Measured, max: { writeUnits: number; readUnits: number }): Ceiling[] {
  return [
    judge({ name: `${measured.name}: write units per event`, source, max: max.writeUnits }, worstPerEvent(measured, 'writeUnits')),
    judge({ name: `${measured.name}: read units per event`, source, max: max.readUnits }, worstPerEvent(measured, 'readUnits')),
  ];
}

/** A call that no price is known for would make every sum above too small. */
function nothingUnpriced(shapes: readonly Measured[]): Ceiling {
  const limit: Limit = { name: 'metered calls without a price', source: 'this benchmark', max: 0 };
  return judge(limit, shapes.flatMap(({ rounds: all }) => all.flatMap(({ unpriced }) => unpriced)).length);
}
