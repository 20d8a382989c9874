import { attend, judgedWindow, loadOf, totalOf, type Found, type Gauges, type Remembered } from '../shared/core/attention.ts';
import { alarmText, evidenceOf } from '../shared/core/evidence.ts';
import { isOver, type Window } from '../shared/core/statistics.ts';
import type { EndpointGauge } from '../shared/limits/metrics.ts';
import { attention as limits } from '../shared/limits/numbers.ts';
import type { Attention, Clock, Lanes, SeenLane, Telemetry, Windows } from '../shared/ports/index.ts';

export interface AttendDeps {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
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
  const { attention, clock, telemetry } = deps;
  const nowEpochMs = clock.nowEpochMs();
  const looked = seenLanes(deps);
  try {
    const [{ seen, isWhole }, remembered, unknown] = await Promise.all([looked, attention.remembered(), unknownSince(deps)]);
    const found: Found[] = [];
    for (let i = 0; i < seen.length; i += limits.atOnce) {
      found.push(...(await Promise.all(seen.slice(i, i + limits.atOnce).map((one) => foundOf(deps, one, { remembered, unknown })))));
    }
    await publish(deps, { found, isWhole, remembered }, nowEpochMs);
    gaugeFleet(deps, found, unknown, nowEpochMs);
  } catch (error) {
    telemetry.fault('attention-failed', error);
  }
  return looked.then(({ seen }) => seen, () => []);
}

async function foundOf(deps: AttendDeps, { endpointId, lane }: SeenLane, { remembered, unknown }: { remembered: ReadonlyMap<string, Remembered>; unknown: ReadonlyMap<string, number> | undefined }): Promise<Found> {
  const [ended, heldSinceEpochMs] = await Promise.all([endedWindow(deps, endpointId, lane.window), heldSince(deps, endpointId, lane)]);
  return { endpointId, lane, ended, heldSinceEpochMs, remembered: remembered.get(endpointId), unknownSinceEpochMs: unknown?.get(endpointId) };
}

/** As many as there is time for. */
async function seenLanes({ clock, attention, telemetry }: AttendDeps): Promise<{ seen: SeenLane[]; isWhole: boolean }> {
  const endsMs = clock.monotonicMs() + limits.lookMs;
  const seen: SeenLane[] = [];
  for await (const page of attention.lanes()) {
    seen.push(...page);
    if (clock.monotonicMs() < endsMs) continue;
    telemetry.event('attention-incomplete', { lanes: seen.length });
    return { seen, isWhole: false };
  }
  return { seen, isWhole: true };
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
async function endedWindow({ clock, lanes, windows, telemetry }: AttendDeps, endpointId: string, window: Window | undefined): Promise<Window | undefined> {
  const nowEpochMs = clock.nowEpochMs();
  if (window === undefined || !isOver(window, nowEpochMs)) return undefined;
  let taken: Window | undefined;
  try {
    taken = await lanes.takeWindow(endpointId, window);
    if (taken !== undefined) await windows.put(endpointId, { ...taken, endedEpochMs: nowEpochMs });
  } catch (error) {
    telemetry.fault('window-lost', error, { endpointId });
  }
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
  readonly remembered: ReadonlyMap<string, Remembered>;
}

type Attended = ReturnType<typeof attend> & { readonly one: Found };

/** Remembered before it is published: a run that dies in between ends what it never began, and leaves nothing that never ends. */
async function publish(deps: AttendDeps, { found, isWhole, remembered }: Seen, nowEpochMs: number): Promise<void> {
  const { attention, telemetry } = deps;
  const fleet = totalOf(found.map((one) => loadOf(judgedWindow(one), nowEpochMs)));
  const attended = found.map((one): Attended => ({ one, ...attend(one, fleet, nowEpochMs) })).sort((a, b) => weight(b.one) - weight(a.one));
  const sick = attended.filter(({ gauges }) => gauges.size > 0);
  const published = new Map(sick.slice(0, limits.maxEndpoints).map((a) => [a.one.endpointId, a]));
  // Of lanes that this run did not come to, what was known goes on.
  const next = new Map<string, Remembered>(isWhole ? [] : remembered);
  for (const { one } of attended) next.delete(one.endpointId);
  for (const { one, gauges, remembered: own } of attended) if (own !== undefined && (gauges.size === 0 || published.has(one.endpointId))) next.set(one.endpointId, own);
  if (!isSame(next, remembered)) await attention.remember(next);
  for (const [endpointId, { one, gauges }] of published) {
    for (const [gauge, value] of gauges) telemetry.endpointGauge(endpointId, gauge, value);
    if ((one.remembered?.gauges ?? []).length === 0) tellOf(deps, one, sick.length - 1, nowEpochMs);
  }
  const isSeen = new Set(found.map(({ endpointId }) => endpointId));
  for (const [endpointId, { gauges }] of remembered) if (isWhole || isSeen.has(endpointId)) endGauges(telemetry, endpointId, gauges, published.get(endpointId)?.gauges);
  telemetry.gauge('endpoints_sick', sick.length);
}

/** A zero for each gauge that was published in the run before and has nothing to say any more, also of an endpoint that is gone. */
function endGauges(telemetry: Telemetry, endpointId: string, before: readonly EndpointGauge[], now: Gauges = new Map()): void {
  const ended = before.filter((gauge) => !now.has(gauge));
  for (const gauge of ended) telemetry.endpointGauge(endpointId, gauge, 0);
  if (ended.length > 0 && now.size === 0) telemetry.event('endpoint-well', { endpointId });
}

function tellOf({ telemetry }: AttendDeps, { endpointId, lane, ended }: Found, othersIll: number, nowEpochMs: number): void {
  const evidence = evidenceOf(lane, ended ?? lane.window, nowEpochMs);
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
