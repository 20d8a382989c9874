import type { EndpointGauge } from '../limits/metrics.ts';
import { attention as limits } from '../limits/numbers.ts';
import { removedCfg, type Lane } from './lane.ts';
import type { Window } from './statistics.ts';

/**
 * Which endpoints need somebody, and what is said of them each minute (L6, R11, DESIGN 6.12): only those that have something to
 * report have gauges, so that their cost follows the sick and not the customers.
 */
export type Gauges = ReadonlyMap<EndpointGauge, number>;

/** What the sweep keeps of an endpoint from one run to the next. */
export interface Remembered {
  /** Those that were published last: each is ended with a zero. */
  readonly gauges: readonly EndpointGauge[];
  /** Those that it ended with a zero: the next ends them once more, for a run that dies may have said nothing. */
  readonly ended?: readonly EndpointGauge[];
  /** Since when its breaker has not been closed, as far as the sweep has seen. */
  readonly openSinceEpochMs?: number;
  /** What its last whole window said, until the next one says something. */
  readonly carried?: { readonly untilEpochMs: number; readonly gauges: readonly (readonly [EndpointGauge, number])[] };
}

/** One endpoint as the sweep finds it. */
export interface Found {
  readonly endpointId: string;
  readonly lane: Lane;
  /** The window that has just ended, where one has. */
  readonly ended: Window | undefined;
  readonly remembered: Remembered | undefined;
  /** When the oldest delivery was sent that is held and due first; undefined where nothing is held, or that is not known. */
  readonly heldSinceEpochMs: number | undefined;
  readonly unknownSinceEpochMs: number | undefined;
}

/** Slots that are busy on average, and attempts a second: of one endpoint, or of all. */
export interface Load {
  readonly busy: number;
  readonly perSecond: number;
}

/** A window counts for the time that it took, so that windows of different lengths compare. */
export function loadOf(window: Window | undefined, nowEpochMs: number): Load {
  if (window === undefined) return { busy: 0, perSecond: 0 };
  const ms = Math.max(limits.leastWindowMs, nowEpochMs - window.sinceEpochMs);
  return { busy: window.busyMs / ms, perSecond: (1_000 * window.attempts) / ms };
}

export function totalOf(loads: readonly Load[]): Load {
  return loads.reduce((sum, { busy, perSecond }) => ({ busy: sum.busy + busy, perSecond: sum.perSecond + perSecond }), { busy: 0, perSecond: 0 });
}

/** The window that an endpoint is judged by. */
export const judgedWindow = ({ ended, lane }: Pick<Found, 'ended' | 'lane'>): Window | undefined => ended ?? lane.window;

/** What is to be said of an endpoint now, and what to remember of it; undefined where there is neither. */
export function attend(found: Found, fleet: Load, nowEpochMs: number): { gauges: Gauges; remembered: Remembered | undefined } {
  const { lane, remembered } = found;
  if (lane.cfg === removedCfg) return { gauges: new Map(), remembered: undefined };
  const isOpen = lane.breaker?.state === 'open';
  const openSinceEpochMs = isOpen ? (remembered?.openSinceEpochMs ?? nowEpochMs) : undefined;
  const { measured, carried } = measuredOf(found, fleet, nowEpochMs);
  const ages: [EndpointGauge, number | undefined, number][] = [
    ['breaker_open_age', openSinceEpochMs, 0],
    ['oldest_undelivered_age', found.heldSinceEpochMs, limits.undeliveredS],
    ['oldest_unknown_age', found.unknownSinceEpochMs, 0],
  ];
  const old = ages.flatMap(([gauge, sinceEpochMs, leastS]): [EndpointGauge, number][] => {
    if (sinceEpochMs === undefined) return [];
    // One second at least: a zero is what ends it.
    const ageS = Math.max(1, Math.round((nowEpochMs - sinceEpochMs) / 1_000));
    return ageS >= leastS ? [[gauge, ageS]] : [];
  });
  const gauges = new Map([...measured, ...old]);
  const isQuiet = gauges.size === 0 && carried === undefined && openSinceEpochMs === undefined;
  if (isQuiet) return { gauges, remembered: undefined };
  return {
    gauges,
    remembered: { gauges: [...gauges.keys()], ...(openSinceEpochMs === undefined ? {} : { openSinceEpochMs }), ...(carried === undefined ? {} : { carried }) },
  };
}

/**
 * By the window that has ended, or the one that goes on. What it says too little of is what was last said, for a while, and for as long as
 * the breaker is open: an endpoint that nothing is sent to is not well.
 */
function measuredOf(found: Found, fleet: Load, nowEpochMs: number): { measured: Gauges; carried: Remembered['carried'] } {
  const { ended, lane, remembered } = found;
  const window = judgedWindow(found);
  const said = window === undefined ? new Map<EndpointGauge, number>() : judged(window, fleet, nowEpochMs);
  const isCarried = remembered?.carried !== undefined && (remembered.carried.untilEpochMs > nowEpochMs || lane.breaker?.state === 'open');
  const kept = (isCarried ? (remembered.carried?.gauges ?? []) : []).filter(([gauge]) => !said.has(gauge));
  const measured = new Map([...kept, ...said].filter(([, value]) => value > 0));
  const isNew = ended !== undefined && [...said.values()].some((value) => value > 0);
  const gauges = isNew ? [...measured] : kept;
  const untilEpochMs = isNew ? nowEpochMs + limits.carriedMs : (remembered?.carried?.untilEpochMs ?? nowEpochMs);
  return { measured, carried: gauges.length === 0 ? undefined : { untilEpochMs, gauges } };
}

/** What a window says enough of: a value that is worth a gauge, or zero. */
function judged(window: Window, fleet: Load, nowEpochMs: number): Map<EndpointGauge, number> {
  const { attempts, delivered, unconnected, offered, shed } = window;
  const own = loadOf(window, nowEpochMs);
  const [occupancy, share] = [ratio(own.busy, fleet.busy), ratio(own.perSecond, fleet.perSecond)];
  const gauges: [EndpointGauge, number, boolean][] = [
    ['failure_ratio', ratio(attempts - delivered, attempts), attempts >= limits.minAttempts],
    ['connect_failure_ratio', ratio(unconnected, attempts), attempts >= limits.minAttempts],
    ['shed_ratio', ratio(shed, offered), offered >= limits.minOffers],
    // One that has its share of the traffic may have that of the slots (L6).
    ['occupancy_share', occupancy > limits.unfairFactor * share ? occupancy : 0, attempts >= limits.minAttempts],
  ];
  return new Map(gauges.flatMap(([gauge, value, isEnough]) => (isEnough ? [[gauge, value >= limits.least[gauge as keyof typeof limits.least] ? round(value) : 0]] : [])));
}

const ratio = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);
const round = (value: number) => Math.round(value * 1_000) / 1_000;
