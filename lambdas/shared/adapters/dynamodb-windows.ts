import { removedCfg } from '../core/lane.ts';
import type { GiveBack, Lanes } from '../ports/index.ts';
import { learnedName, tallyAttributes, windowAttributes, windowLastFailure, windowSince } from './dynamodb-lane-item.ts';
import type { MoveLane } from './dynamodb-lane-write.ts';
import { Expressions } from './expressions.ts';

/** Assignments that add a tally to a lane's window, or begin one. */
export function countedIn(x: Expressions, { tally, atEpochMs }: NonNullable<GiveBack['counted']>): string[] {
  const since = x.name(windowSince);
  const zero = x.value(0);
  return [
    `${since} = if_not_exists(${since}, ${x.value(atEpochMs)})`,
    ...tallyAttributes(tally).map(([attribute, count]) => {
      const name = x.name(attribute);
      return `${name} = if_not_exists(${name}, ${zero}) + ${x.value(count)}`;
    }),
    ...(tally.lastFailure === undefined ? [] : [`${x.name(windowLastFailure)} = ${x.value(tally.lastFailure)}`]),
  ];
}

/** The writes that only statistics need. */
export function createWindows(move: MoveLane): Pick<Lanes, 'countOffers' | 'takeWindow'> {
  return {
    async countOffers(endpointId, counted) {
      const x = new Expressions();
      const cfg = x.name('cfg');
      // Never a lane of an endpoint that is not there.
      const clauses = [`attribute_exists(${cfg})`, `${cfg} <> ${x.value(removedCfg)}`];
      await move(endpointId, x, { sets: countedIn(x, counted), removes: [], clauses });
    },

    async takeWindow(endpointId, seen, learnedMs) {
      const x = new Expressions();
      const names = windowAttributes(seen);
      const since = x.name(windowSince);
      const answer = await move(endpointId, x, { sets: learnedMs === undefined ? [] : [`${x.name(learnedName)} = ${x.value(learnedMs)}`], removes: names.map((name) => x.name(name)), clauses: [`${since} = ${x.value(seen.sinceEpochMs)}`] }, 'before');
      const before = answer.kind === 'moved' ? answer.lane?.window : undefined;
      if (before === undefined) return undefined;
      // A bin that is newer than what was seen stays for the next window.
      const only = (bins: typeof before.answers, known: typeof before.answers) => new Map([...bins].filter(([bin]) => known.has(bin)));
      return { ...before, answers: only(before.answers, seen.answers), failures: only(before.failures, seen.failures) };
    },
  };
}
