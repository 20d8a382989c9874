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

/** By the window that has ended; by the one that goes on, once it says enough; until then by what was last said. */
function measuredOf(found: Found, fleet: Load, nowEpochMs: number): { measured: readonly (readonly [EndpointGauge, number])[]; carried: Remembered['carried'] } {
  const { ended, lane, remembered } = found;
  if (ended !== undefined) {
    const gauges = judged(ended, fleet, nowEpochMs);
    return { measured: gauges, carried: gauges.length === 0 ? undefined : { untilEpochMs: nowEpochMs + limits.carriedMs, gauges } };
  }
  const { window } = lane;
  const last = remembered?.carried;
  // Each gauge by itself: of a window that says enough of attempts, and not yet of what came, a zero would end an alarm that is due.
  const kept = last === undefined || last.untilEpochMs <= nowEpochMs ? [] : last.gauges.filter(([gauge]) => window === undefined || !saysEnough(window, gauge));
  const measured = window === undefined ? kept : [...judged(window, fleet, nowEpochMs), ...kept];
  return { measured, carried: last === undefined || kept.length === 0 ? undefined : { ...last, gauges: kept } };
}

function saysEnough({ attempts, offered }: Window, gauge: EndpointGauge): boolean {
  return gauge === 'shed_ratio' ? offered >= limits.minOffers : attempts >= limits.minAttempts;
}

function judged(window: Window, fleet: Load, nowEpochMs: number): [EndpointGauge, number][] {
  const { attempts, delivered, unconnected, offered, shed } = window;
  const own = loadOf(window, nowEpochMs);
  const [occupancy, share] = [ratio(own.busy, fleet.busy), ratio(own.perSecond, fleet.perSecond)];
  const gauges: [EndpointGauge, number][] = [
    ['failure_ratio', ratio(attempts - delivered, attempts)],
    ['connect_failure_ratio', ratio(unconnected, attempts)],
    ['shed_ratio', ratio(shed, offered)],
    // One that has its share of the traffic may have that of the slots (L6).
    ['occupancy_share', occupancy > limits.unfairFactor * share ? occupancy : 0],
  ];
  return gauges.flatMap(([gauge, value]): [EndpointGauge, number][] => (saysEnough(window, gauge) && value >= limits.least[gauge as keyof typeof limits.least] ? [[gauge, round(value)]] : []));
}

const ratio = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);
const round = (value: number) => Math.round(value * 1_000) / 1_000;
