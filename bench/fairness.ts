/** `npm run bench -- fairness`: how long a healthy endpoint's events take beside a sick neighbour, over how long beside a quick one. */
import { setTimeout as sleep } from 'node:timers/promises';
import { breaker, budgets, lane } from '../lambdas/shared/limits/numbers.ts';
import { type Bench, type Ceiling, type Cell, judge, type Limit, type Report, type Row } from './bench.ts';
import type { Defect } from './defects.ts';
import { newEvent, send } from './events.ts';
import { type Installation, withInstallation } from './installation.ts';
import { median, percentile } from './statistics.ts';

type Progress = (line: string) => void;

/** Environments of a function at once: fewer than a lane has slots, so that a sick neighbour could hold them all up. */
const concurrency = 4;
const perSecond = { healthy: 20, neighbour: 40 } as const;
const answerMs = { quick: 20, sick: 25_000 } as const;
const lookMs = 100;
/** Of events beside a quick neighbour before anything is compared: environments start. */
const startMs = 4_000;
const ceiling: Omit<Limit, 'name'> & { max: number } = { source: 'docs/architecture.md', max: 1.2 };

/** An installation with a healthy endpoint and this neighbour. */
interface Neighbour {
  readonly name: string;
  readonly answerMs: number;
  readonly settings?: Record<string, unknown>;
  /** True once it is known for what it is. */
  readonly isKnown: (state: NeighbourState) => boolean;
}

const quick: Neighbour = { name: 'quick', answerMs: answerMs.quick, isKnown: () => true };
const sick: readonly Neighbour[] = [
  { name: 'sick', answerMs: answerMs.sick, isKnown: ({ isOpen }) => isOpen },
  // Nothing but its slowness tells.
  { name: 'sick, breaker closed', answerMs: answerMs.sick, settings: { breaker: { minAttempts: 1_000, connectFailures: 100 } }, isKnown: ({ isOpen, isSlow }) => isSlow && !isOpen },
];

/** How much is measured, and of what. */
interface Size {
  /** A sick neighbour gets events for so long before anything is compared, and on until it is known, for at most `warmUpMostMs`. */
  readonly warmUpMs: number;
  readonly warmUpMostMs: number;
  /** Sent, but not counted, at the beginning of each turn: environments thaw and connect. */
  readonly rampMs: number;
  readonly turnMs: number;
  /** Of each side in an alternation, short and by turns: what else the machine does then comes to all sides. */
  readonly turns: number;
  readonly alternations: number;
  /** An event that has not arrived so long after the last was sent counts with what it has waited by then. */
  readonly lateMs: number;
  readonly neighbours: readonly Neighbour[];
  /** Of each endpoint's lane. */
  readonly slots: number;
  readonly variant?: Variant;
}

/** A defect that the ceiling must notice. */
export interface Variant {
  readonly defects: readonly Defect[];
  /** One version for all endpoints, and an endpoint of this name beside them. */
  readonly shared?: { readonly endpointId: string; readonly version: string };
}

const notes = ({ alternations, turns, turnMs, rampMs, slots }: Size) => [
  `Each figure is the median of ${alternations} alternations in one run, each of ${turns} turns of ${turnMs / 1_000} s a side after ${rampMs / 1_000} s that are not counted; from SendMessage to the arrival of the request, in real time.`,
  `The healthy endpoint gets ${perSecond.healthy} events a second and answers in ${answerMs.quick} ms, its neighbour gets ${perSecond.neighbour}. A quick neighbour answers in ${answerMs.quick} ms, a sick one in ${answerMs.sick / 1_000} s, which is silence after ${budgets.readMs / 1_000}.`,
  `Each neighbour has an installation of its own with ${concurrency} environments a function, and a lane of ${slots}; only one of them gets events at a time.`,
  `Warm-up: until the first silences are counted, after ${budgets.readMs / 1_000} s, nothing tells a sick neighbour from a quick one, and its requests hold environments up; a breaker opens at ${breaker.minAttempts} of them. The first row beside a quick one has the start of the environments in it.`,
];

export const bench: Bench = fairnessOf({
  warmUpMs: 12_000, warmUpMostMs: 90_000, rampMs: 1_000, turnMs: 5_000, turns: 4, alternations: 3, lateMs: 15_000, neighbours: sick, slots: lane.defaultSlots,
});

/**
 * The comparison of the benchmark, smaller and with a defect. Only the neighbour whose breaker stays closed, for nothing else must
 * protect; with the widest lane, for what has most in flight holds most up.
 */
export function fairnessWith(variant: Variant): Bench {
  return fairnessOf({
    warmUpMs: 12_000, warmUpMostMs: 0, rampMs: 1_000, turnMs: 3_000, turns: 1, alternations: 1, lateMs: 3_000, neighbours: sick.slice(1), slots: lane.maxSlots, variant,
  });
}

function fairnessOf(of: Size): Bench {
  return { run: (progress) => compare(of, progress) };
}

/** One neighbour with its installation, as it runs. */
interface Side extends Neighbour {
  readonly installation: Installation;
  /** When the request about an event came first. */
  readonly arrivedMs: ReadonlyMap<string, number>;
  readonly runs: Latencies[];
}

/** Of events to the healthy endpoint. */
interface Latencies {
  readonly ms: readonly number[];
  /** Events that had not arrived in time. */
  readonly missing: number;
}

async function compare(of: Size, progress: Progress): Promise<Report> {
  return withSides(of, [quick, ...of.neighbours], [], progress, async (sides) => {
    const warmUps: Row[] = [];
    for (const side of sides) warmUps.push(await warmUp(side, of, progress));
    for (let i = 0; i < of.alternations; i++) {
      progress(`alternation ${i + 1} of ${of.alternations}`);
      const turns = await alternate(sides, of, i);
      sides.forEach((side, nth) => side.runs.push(joined(turns[nth] ?? [])));
    }
    return reportOf(of, sides, warmUps);
  });
}

/** The turns of each side. */
async function alternate(sides: readonly Side[], of: Size, nth: number): Promise<Latencies[][]> {
  const turns: Latencies[][] = sides.map(() => []);
  for (let turn = 0; turn < of.turns; turn++) {
    for (let i = 0; i < sides.length; i++) {
      // Each goes first as often as the others.
      const at = (nth + turn + i) % sides.length;
      const side = sides[at];
      if (side === undefined) continue;
      turns[at]?.push(await run(side, of.rampMs, of.turnMs, of.lateMs));
      if (of.variant === undefined) await assertKnown(side);
    }
  }
  return turns;
}

function joined(turns: readonly Latencies[]): Latencies {
  return { ms: turns.flatMap(({ ms }) => ms), missing: turns.reduce((sum, { missing }) => sum + missing, 0) };
}

/** Starts an installation for each neighbour, one inside the other, and takes them all away again. */
async function withSides<T>(of: Size, left: readonly Neighbour[], sides: readonly Side[], progress: Progress, work: (sides: readonly Side[]) => Promise<T>): Promise<T> {
  const [neighbour, ...others] = left;
  if (neighbour === undefined) return work(sides);
  progress(`starting the embedded AWS for a neighbour that is ${neighbour.name}`);
  const defects = of.variant?.defects ?? [];
  return withInstallation({ concurrency, defects }, async (installation) => {
    const side = await prepare(installation, neighbour, of);
    return withSides(of, others, [...sides, side], progress, work);
  });
}

async function prepare(installation: Installation, neighbour: Neighbour, { slots, variant }: Size): Promise<Side> {
  const arrivedMs = new Map<string, number>();
  const healthy = await installation.consumerOf(({ eventId, nth }) => {
    if (nth === 1) arrivedMs.set(eventId, performance.now());
    return { status: 200, afterMs: answerMs.quick };
  });
  const other = await installation.consumerOf(() => ({ status: 200, afterMs: neighbour.answerMs }));
  const { shared } = variant ?? {};
  const register = (endpointId: string, settings: object) => installation.register(endpointId, { maxInFlight: slots, ...settings }, shared?.version);
  if (shared !== undefined) await register(shared.endpointId, {});
  await register('healthy', { url: healthy.url });
  await register('neighbour', { ...neighbour.settings, url: other.url });
  return { ...neighbour, installation, arrivedMs, runs: [] };
}

async function warmUp(side: Side, of: Size, progress: Progress): Promise<Row> {
  progress(`warming a neighbour that is ${side.name}`);
  const begunMs = performance.now();
  const since = () => performance.now() - begunMs;
  let [slowMs, openMs, isOver] = [NaN, NaN, false];
  const watch = async () => {
    for (; !isOver; await sleep(lookMs)) {
      const { isSlow, isOpen } = await stateOf(side);
      if (isSlow && Number.isNaN(slowMs)) slowMs = since();
      if (isOpen && Number.isNaN(openMs)) openMs = since();
    }
  };
  const send = async () => {
    const runs = [await run(side, 0, side.answerMs === answerMs.sick ? of.warmUpMs : startMs, of.lateMs)];
    while (!side.isKnown(await stateOf(side)) && since() < of.warmUpMostMs) runs.push(await run(side, 0, of.turnMs, of.lateMs));
    isOver = true;
    return joined(runs);
  };
  const [latencies] = await Promise.all([send(), watch()]);
  if (of.variant === undefined) await assertKnown(side);
  return { table: 'warm-up, not compared: ms of the healthy endpoint', neighbour: side.name, seconds: since() / 1_000, slowAfterSeconds: after(slowMs), openAfterSeconds: after(openMs), ...figuresOf(latencies) };
}

const after = (ms: number): Cell => (Number.isNaN(ms) ? '-' : ms / 1_000);

/** A steady stream to both; the latencies of what is sent to the healthy endpoint after `rampMs`. */
async function run(side: Side, rampMs: number, runMs: number, lateMs: number): Promise<Latencies> {
  const forMs = rampMs + runMs;
  const [sent] = await Promise.all([stream(side, 'healthy', perSecond.healthy, forMs), stream(side, 'neighbour', perSecond.neighbour, forMs)]);
  const counted = sent.filter(({ atMs }) => atMs >= rampMs);
  const isHere = ({ eventId }: Sent) => side.arrivedMs.has(eventId);
  for (const endMs = performance.now() + lateMs; !counted.every(isHere) && performance.now() < endMs; ) await sleep(lookMs);
  const nowMs = performance.now();
  return { ms: counted.map(({ eventId, sentMs }) => (side.arrivedMs.get(eventId) ?? nowMs) - sentMs), missing: counted.filter((one) => !isHere(one)).length };
}

interface Sent {
  readonly eventId: string;
  /** Of the stream's time. */
  readonly atMs: number;
  readonly sentMs: number;
}

/** Each event is sent when its time has come, whatever became of those before: who is late is not spared the next. */
async function stream({ installation }: Side, endpointId: string, rate: number, forMs: number): Promise<Sent[]> {
  const startMs = performance.now();
  const sent: Sent[] = [];
  const sends: Promise<void>[] = [];
  for (let atMs = 0; atMs < forMs; atMs += 1_000 / rate) {
    await sleep(Math.max(0, startMs + atMs - performance.now()));
    const event = newEvent(endpointId);
    sent.push({ eventId: event.eventId, atMs, sentMs: performance.now() });
    sends.push(send(installation, [event]));
  }
  await Promise.all(sends);
  return sent;
}

interface NeighbourState {
  readonly isOpen: boolean;
  readonly isSlow: boolean;
}

async function stateOf({ installation: { operator } }: Side): Promise<NeighbourState> {
  const registered = await operator.registry.get('neighbour');
  return { isOpen: registered?.lane.breaker?.state === 'open', isSlow: registered?.lane.pace?.isSlow === true };
}

async function assertKnown(side: Side): Promise<void> {
  const state = await stateOf(side);
  if (!side.isKnown(state)) throw new Error(`a neighbour that is ${side.name} is not known for that: ${JSON.stringify(state)}; nothing was measured`);
}

const p99Of = ({ ms }: Latencies): number => percentile(ms, 0.99);

function figuresOf({ ms, missing }: Latencies) {
  return { p50: Math.round(percentile(ms, 0.5)), p99: Math.round(percentile(ms, 0.99)), most: Math.round(Math.max(...ms)), missing };
}

function reportOf(of: Size, sides: readonly Side[], warmUps: readonly Row[]): Report {
  const baseline = sides[0]?.runs ?? [];
  const rows: Row[] = [];
  const ceilings: Ceiling[] = [];
  for (const side of sides) {
    const ratios = side.runs.map((one, i) => p99Of(one) / (baseline[i] === undefined ? NaN : p99Of(baseline[i])));
    const figures = side.runs.map(figuresOf);
    const figure = (key: keyof (typeof figures)[number]) => median(figures.map((one) => one[key]));
    rows.push({
      table: 'ms of the healthy endpoint, medians',
      neighbour: side.name,
      p50: figure('p50'),
      p99: figure('p99'),
      most: figure('most'),
      missing: figure('missing'),
      p99OverQuick: median(ratios),
      leastRatio: Math.min(...ratios),
      mostRatio: Math.max(...ratios),
    });
    if (side.name !== quick.name) ceilings.push(judge({ ...ceiling, name: `p99 beside a neighbour that is ${side.name}, over beside a quick one` }, median(ratios)));
  }
  return { name: 'fairness', rows: [...rows, ...warmUps], ceilings, notes: notes(of) };
}
