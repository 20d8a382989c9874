import { learnedAfter } from '../shared/core/adaptive.ts';
import { attend, judgedWindow, loadOf, totalOf, type Found, type Gauges, type Remembered } from '../shared/core/attention.ts';
import { presumedSettings } from '../shared/core/escalation.ts';
import { alarmText, evidenceOf } from '../shared/core/evidence.ts';
import { isOver, type Window } from '../shared/core/statistics.ts';
import type { EndpointGauge } from '../shared/limits/metrics.ts';
import { attention as limits } from '../shared/limits/numbers.ts';
import type { Attention, Lanes, Memory, SeenLane, Windows } from '../shared/ports/index.ts';
import { resize, type ResizeDeps } from './resize.ts';

export interface AttendDeps extends ResizeDeps {
  readonly lanes: Pick<Lanes, 'takeWindow'>;
  readonly windows: Windows;
  readonly attention: Attention;
}

/**
 * Looks at every lane: puts windows away that have ended, and publishes gauges of the endpoints that need somebody, each ended by a
 * zero. Decides nothing about a delivery, and never rejects: what cannot be read is not said this minute.
 * @returns the lanes that it has seen, whatever else failed
 */
export async function attendEndpoints(deps: AttendDeps): Promise<readonly SeenLane[]> {
  const { clock, telemetry } = deps;
  const nowEpochMs = clock.nowEpochMs();
  const endsMs = clock.monotonicMs() + limits.lookMs;
  const looked = seenLanes(deps, endsMs);
  try {
    const [{ seen, isWhole }, memory, unknown] = await Promise.all([looked, remembered(deps), unknownSince(deps)]);
    const found: Found[] = [];
    for (let i = 0; i < seen.length; i += limits.atOnce) {
      // With no time left, by the lane alone: no call for each.
      const isLate = clock.monotonicMs() >= endsMs;
      found.push(...(await Promise.all(seen.slice(i, i + limits.atOnce).map((one) => foundOf(deps, one, { memory, unknown, isLate })))));
    }
    if (memory !== undefined) await publish(deps, { found, isWhole, memory }, nowEpochMs);
    gaugeFleet(deps, found, unknown, nowEpochMs);
  } catch (error) {
    telemetry.fault('attention-failed', error);
  }
  return looked.then(({ seen }) => seen, () => []);
}

interface Known {
  readonly memory: Memory | undefined;
  readonly unknown: ReadonlyMap<string, number> | undefined;
  readonly isLate: boolean;
}

async function foundOf(deps: AttendDeps, { endpointId, lane }: SeenLane, { memory, unknown, isLate }: Known): Promise<Found> {
  const [ended, heldSinceEpochMs] = isLate ? [] : await Promise.all([endedWindow(deps, { endpointId, lane }), heldSince(deps, endpointId, lane)]);
  return { endpointId, lane, ended, heldSinceEpochMs, remembered: memory?.endpoints.get(endpointId), unknownSinceEpochMs: unknown?.get(endpointId) };
}

/** As many as there is time for. */
async function seenLanes({ clock, attention, telemetry }: AttendDeps, endsMs: number): Promise<{ seen: SeenLane[]; isWhole: boolean }> {
  const seen: SeenLane[] = [];
  for await (const { lanes, unreadable } of attention.lanes()) {
    seen.push(...lanes);
    for (const [endpointId, error] of unreadable) telemetry.fault('lane-unreadable', error, { endpointId });
    if (clock.monotonicMs() < endsMs) continue;
    telemetry.event('attention-incomplete', { lanes: seen.length });
    return { seen, isWhole: false };
  }
  return { seen, isWhole: true };
}

/** Undefined where it cannot be read: nothing is said of single endpoints then, for nothing could end it. */
async function remembered({ attention, telemetry }: AttendDeps): Promise<Memory | undefined> {
  try {
    return await attention.remembered();
  } catch (error) {
    telemetry.fault('attention-forgotten', error);
    return undefined;
  }
}

async function unknownSince({ attention, telemetry }: AttendDeps): Promise<ReadonlyMap<string, number> | undefined> {
  try {
    return await attention.unknownSince();
  } catch (error) {
    telemetry.fault('unknown-unread', error);
    return undefined;
  }
}

/** The window, put away where it is over: after its end only this run knows it. A crash in between loses a window of measurements. */
async function endedWindow(deps: AttendDeps, seen: SeenLane): Promise<Window | undefined> {
  const { clock, lanes, windows, telemetry } = deps;
  const { endpointId, lane: { window, slots, learnedMs: before } } = seen;
  const nowEpochMs = clock.nowEpochMs();
  if (window === undefined || !isOver(endpointId, window, nowEpochMs)) return undefined;
  const learnedMs = learnedAfter(window, slots, before);
  let taken: Window | undefined;
  try {
    taken = await lanes.takeWindow(endpointId, window, learnedMs);
    if (taken !== undefined) await windows.put(endpointId, { ...taken, endedEpochMs: nowEpochMs });
  } catch (error) {
    telemetry.fault('window-lost', error, { endpointId });
  }
  if (taken !== undefined) await resize(deps, seen, taken, learnedMs);
  return taken;
}

async function heldSince({ attention, telemetry }: AttendDeps, endpointId: string, { holding }: SeenLane['lane']): Promise<number | undefined> {
  if (holding === undefined) return undefined;
  try {
    return await attention.heldSince(endpointId);
  } catch (error) {
    telemetry.fault('held-unread', error, { endpointId });
    return undefined;
  }
}

interface Seen {
  readonly found: readonly Found[];
  readonly isWhole: boolean;
  readonly memory: Memory;
}

type Attended = ReturnType<typeof attend> & { readonly one: Found };

/**
 * Remembered before it is published: a run that dies in between ends what it never began, and leaves nothing that never ends. Of two
 * runs at once only one speaks of single endpoints.
 */
async function publish(deps: AttendDeps, { found, isWhole, memory }: Seen, nowEpochMs: number): Promise<void> {
  const { telemetry } = deps;
  const fleet = totalOf(found.map((one) => loadOf(judgedWindow(one), nowEpochMs)));
  const attended = found.map((one): Attended => ({ one, ...attend(one, fleet, nowEpochMs) })).sort((a, b) => weight(b.one) - weight(a.one));
  const sick = attended.filter(({ gauges }) => gauges.size > 0);
  telemetry.gauge('endpoints_sick', sick.length);
  const published = new Map(sick.slice(0, limits.maxEndpoints).map((a) => [a.one.endpointId, a]));
  const isIll = new Set(sick.map(({ one }) => one.endpointId));
  const isSeen = new Set(found.map(({ endpointId }) => endpointId));
  const ending = [...memory.endpoints].flatMap(([endpointId, before]) => (isWhole || isSeen.has(endpointId) ? [{ endpointId, ...endingOf(before, published.get(endpointId)?.gauges) }] : []));
  const next = toRemember({ found, isWhole, memory }, { attended, published, ending });
  if (!(await isRemembered(deps, next, memory))) return;
  for (const [endpointId, { one, gauges }] of published) {
    for (const [gauge, value] of gauges) telemetry.endpointGauge(endpointId, gauge, value);
    if ((one.remembered?.gauges ?? []).length === 0) tellOf(deps, one, sick.length - 1, nowEpochMs);
  }
  for (const { endpointId, first, again } of ending) {
    for (const gauge of [...first, ...again]) telemetry.endpointGauge(endpointId, gauge, 0);
    if (first.length > 0 && !isIll.has(endpointId)) telemetry.event('endpoint-well', { endpointId });
  }
}

interface Said {
  readonly attended: readonly Attended[];
  readonly published: ReadonlyMap<string, Attended>;
  readonly ending: readonly { readonly endpointId: string; readonly first: readonly EndpointGauge[] }[];
}

/** Of lanes that this run did not come to, what was known goes on. */
function toRemember({ isWhole, memory }: Seen, { attended, published, ending }: Said): Memory['endpoints'] {
  const next = new Map<string, Remembered>(isWhole ? [] : memory.endpoints);
  for (const { one, gauges, remembered } of attended) {
    next.delete(one.endpointId);
    if (remembered !== undefined && (gauges.size === 0 || published.has(one.endpointId))) next.set(one.endpointId, remembered);
  }
  for (const { endpointId, first } of ending) if (first.length > 0) next.set(endpointId, { gauges: [], ...next.get(endpointId), ended: first });
  return next;
}

/** False where another run was quicker, or it is not known: what this one has seen is then left to the next. */
async function isRemembered({ attention, telemetry }: AttendDeps, next: Memory['endpoints'], from: Memory): Promise<boolean> {
  if (isSame(next, from.endpoints)) return true;
  try {
    if (await attention.remember(next, from)) return true;
    telemetry.event('attention-overtaken', {});
  } catch (error) {
    telemetry.fault('attention-forgotten', error);
  }
  return false;
}

/** Gauges that were published in the run before, or ended by it, and have nothing to say any more; also of an endpoint that is gone. */
function endingOf({ gauges, ended = [] }: Remembered, now: Gauges = new Map()): { first: EndpointGauge[]; again: EndpointGauge[] } {
  return { first: gauges.filter((gauge) => !now.has(gauge)), again: ended.filter((gauge) => !now.has(gauge) && !gauges.includes(gauge)) };
}

function tellOf({ telemetry }: AttendDeps, { endpointId, lane, ended }: Found, othersIll: number, nowEpochMs: number): void {
  const evidence = evidenceOf(lane, ended ?? lane.window, nowEpochMs, presumedSettings(lane).maxPerDay);
  telemetry.event('endpoint-ill', { endpointId, text: alarmText(endpointId, evidence, othersIll, nowEpochMs) });
}

/** Where there are more than are published: those of whose attempts most failed, and of which most waits. */
function weight(found: Found): number {
  const window = judgedWindow(found);
  return (window === undefined ? 0 : window.attempts - window.delivered + window.shed) + (found.lane.holding?.count ?? 0);
}

function isSame(a: ReadonlyMap<string, Remembered>, b: ReadonlyMap<string, Remembered>): boolean {
  return a.size === b.size && [...a].every(([id, one]) => JSON.stringify(one) === JSON.stringify(b.get(id)));
}

function gaugeFleet({ telemetry }: AttendDeps, found: readonly Found[], unknown: ReadonlyMap<string, number> | undefined, nowEpochMs: number): void {
  const ageS = (sinces: readonly number[]) => (sinces.length === 0 ? 0 : Math.max(0, Math.round((nowEpochMs - Math.min(...sinces)) / 1_000)));
  telemetry.gauge('held_deliveries', found.reduce((sum, { lane }) => sum + (lane.holding?.count ?? 0), 0));
  telemetry.gauge('breakers_open', found.filter(({ lane }) => lane.breaker?.state === 'open').length);
  telemetry.gauge('oldest_undelivered_age', ageS(found.flatMap(({ heldSinceEpochMs }) => heldSinceEpochMs ?? [])));
  if (unknown !== undefined) telemetry.gauge('oldest_unknown_age', ageS([...unknown.values()]));
}
