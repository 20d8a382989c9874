import { isSpent, spendDay, todayOf, type DaySpent } from '../shared/core/day.ts';
import type { Lane } from '../shared/core/lane.ts';
import { pausedFor, roomFromEpochMs, spend } from '../shared/core/rate.ts';
import type { EndpointConfig } from '../shared/limits/endpoint-schema.ts';
import { rate as limits } from '../shared/limits/numbers.ts';
import type { Endpoint, LaneState, MoveAnswer } from '../shared/ports/index.ts';
import { swapped } from './swap.ts';
import type { DeliverDeps, Invocation } from './types.ts';

/** What is spent of what an endpoint may be sent in a second and in a day, as its lane says. */
export type Spending = Pick<LaneState, 'nextAtEpochMs' | 'day'>;

/** Requests that there is room for now, or from when on there is room for one. */
export interface Room {
  readonly requests: number;
  readonly fromEpochMs: number;
  /** True where it is the day that is spent. */
  readonly isDaySpent: boolean;
}

/** @param spending undefined where it is not known: the first wave finds out */
export function roomIn({ maxPerSecond, maxPerDay, maxInFlight }: EndpointConfig, spending: Spending | undefined, nowEpochMs: number): Room {
  const perSecond = maxPerSecond === null || spending?.nextAtEpochMs === undefined ? undefined : spend(spending.nextAtEpochMs, maxInFlight, maxPerSecond, nowEpochMs).requests;
  const rateFromEpochMs = maxPerSecond === null ? nowEpochMs : roomFromEpochMs(spending?.nextAtEpochMs, maxPerSecond, nowEpochMs);
  const today = spending === undefined ? undefined : todayOf(spending.day, maxPerDay, nowEpochMs);
  return {
    requests: Math.min(perSecond ?? Infinity, today === undefined ? Infinity : Math.max(0, today.most - today.attempts)),
    fromEpochMs: isSpent(today) ? Math.max(rateFromEpochMs, today.untilEpochMs) : rateFromEpochMs,
    isDaySpent: isSpent(today),
  };
}

/** What an endpoint's rate, its day, and what it asked for itself (429), still allow the deliveries of one lease. */
export interface RateGate {
  /** False where neither rate nor day is bounded: nothing is to be taken. */
  readonly isBounded: boolean;
  /** True where nothing may be sent now, by what is known: no socket is worth waiting for. Counts as a refusal. */
  refuses(): boolean;
  /** True where one more delivery may be sent now: taken from the rate and the day, by a conditional write each, before it is. Never rejects. */
  take(): Promise<boolean>;
  /** Likewise of a look, which is no attempt: of the rate alone. */
  takeLook(): Promise<boolean>;
  /** Requests that there was no room for, or of which that is not known. */
  refused(): number;
  /** As it was written last, as far as that is known. */
  spending(): Spending;
  /** When there is room for another request, as far as that is known. */
  more(): Pick<Room, 'fromEpochMs' | 'isDaySpent'>;
}

/** @param state as the admission found it */
export function createRateGate(deps: DeliverDeps, endpoint: Endpoint, state: Spending & Pick<LaneState, 'pausedUntilEpochMs'>, invocation: Invocation): RateGate {
  const { endpointId, maxPerSecond, maxPerDay } = endpoint.config;
  const now = () => deps.clock.nowEpochMs();
  const isPaused = () => pausedFor(state.pausedUntilEpochMs, now()) > now();
  let { nextAtEpochMs, day }: Spending = state;
  let refused = 0;
  let last = Promise.resolve(true);

  /** Takes one of what `next` finds room for in the lane; nothing where what is left is not known. */
  const takeOf = async <To>(next: (found: Lane | undefined) => { to: To; answer: Promise<MoveAnswer> } | undefined, taken: (to: To) => void): Promise<boolean> => {
    const result = await swapped(deps, invocation, limits.swaps, next);
    if (result.kind === 'moved') taken(result.to);
    else if (result.kind !== 'nothing') deps.telemetry.event('rate-unknown', { endpointId, why: result.kind });
    return result.kind === 'moved';
  };

  const takeRate = async (): Promise<boolean> =>
    maxPerSecond === null || takeOf((found) => {
      if (found !== undefined) ({ nextAtEpochMs } = found);
      const spent = spend(nextAtEpochMs, 1, maxPerSecond, now());
      return spent.requests === 0 ? undefined : { to: spent.nextAtEpochMs, answer: deps.lanes.moveRate(endpointId, nextAtEpochMs, spent.nextAtEpochMs) };
    }, (to) => (nextAtEpochMs = to));

  const takeDay = async (): Promise<boolean> =>
    maxPerDay === null || takeOf((found) => {
      if (found !== undefined) ({ day } = found);
      const to: DaySpent | undefined = spendDay(day, maxPerDay, now());
      return to === undefined ? undefined : { to, answer: deps.lanes.moveDay(endpointId, day, to) };
    }, (to) => (day = to));

  /** One after the other, or they would overtake each other; after the first that finds nothing none asks again. */
  const inTurn = async (take: () => Promise<boolean>): Promise<boolean> => {
    last = last.then(async (goesOn) => {
      try {
        return goesOn && !isPaused() && (await take());
      } catch (error) {
        deps.telemetry.fault('rate-failed', error, { endpointId });
        return false;
      }
    });
    const isTaken = await last;
    if (!isTaken) refused++;
    return isTaken;
  };
  const known = () => roomIn(endpoint.config, { nextAtEpochMs, day }, now());

  return {
    isBounded: maxPerSecond !== null || maxPerDay !== null,
    refuses: () => {
      const isRefused = isPaused() || known().requests === 0;
      if (isRefused) refused++;
      return isRefused;
    },
    // The day last, and only with room for it: what the rate refuses would else be lost to the day.
    take: () => inTurn(async () => !known().isDaySpent && (await takeRate()) && (await takeDay())),
    takeLook: () => inTurn(takeRate),
    refused: () => refused,
    spending: () => ({ nextAtEpochMs, day }),
    more: () => {
      const { fromEpochMs, isDaySpent } = known();
      return { fromEpochMs: Math.max(pausedFor(state.pausedUntilEpochMs, now()), fromEpochMs), isDaySpent };
    },
  };
}
