import { removedCfg } from '../core/lane.ts';
import type { Pace } from '../core/pace.ts';
import { latestPauseEpochMs } from '../core/rate.ts';
import type { Lanes, MoveAnswer } from '../ports/index.ts';
import { holdingValue } from './dynamodb-lane-item.ts';
import type { Change, Moved, MoveLane } from './dynamodb-lane-write.ts';
import { Expressions } from './expressions.ts';

type Holding = Pick<Lanes, 'pauseUntil' | 'flag' | 'hold' | 'moveWakeUp' | 'beginDrain' | 'endDrain' | 'movePace'>;

/** What a lane says of deliveries that are held: each method is one conditional write. */
export function createHolding(move: MoveLane): Holding {
  const hold: Holding['hold'] = async (endpointId, { count, nowEpochMs, wakeAtEpochMs, isReady }) => {
    const x = new Expressions();
    const [wakeAt, cfg] = [x.name('wakeAt'), x.name('cfg')];
    const sets = [
      ...holdMore(x, count, nowEpochMs),
      `${wakeAt} = if_not_exists(${wakeAt}, ${x.value(wakeAtEpochMs)})`,
      // What is due later says nothing of the others that are held: as they were noted they stay.
      ...(isReady ? [`${x.name('ready')} = ${x.value(true)}`] : []),
    ];
    const answer = await move(endpointId, x, { sets, removes: [], clauses: isThere(x, cfg) }, 'before');
    if (answer.kind === 'unsure') return answer;
    return answer.kind === 'moved' && answer.lane !== undefined ? { kind: 'noted', before: answer.lane } : { kind: 'noLane' };
  };

  const pauseUntil: Holding['pauseUntil'] = async (endpointId, untilEpochMs, nowEpochMs) => {
    const x = new Expressions();
    const pausedUntil = x.name('pausedUntil');
    // A shorter one, of an answer that was slower to come, must not end it.
    const isFirst = `attribute_not_exists(${pausedUntil})`;
    const isLater = `(${isFirst} OR ${pausedUntil} < ${x.value(untilEpochMs)} OR ${pausedUntil} > ${x.value(latestPauseEpochMs(nowEpochMs))})`;
    await move(endpointId, x, { sets: [`${pausedUntil} = ${x.value(untilEpochMs)}`], removes: [], clauses: [...isThere(x, x.name('cfg')), isLater] });
  };

  const flag: Holding['flag'] = async (endpointId, to) => {
    const x = new Expressions();
    const name = x.name('flag');
    const change = to === undefined ? { sets: [], removes: [name] } : { sets: [`${name} = ${x.value([to.why, to.sinceEpochMs])}`], removes: [] };
    await move(endpointId, x, { ...change, clauses: isThere(x, x.name('cfg')) });
  };

  const moveWakeUp: Holding['moveWakeUp'] = async (endpointId, fromEpochMs, toEpochMs) => {
    const x = new Expressions();
    const wakeAt = x.name('wakeAt');
    return plain(await move(endpointId, x, { sets: [`${wakeAt} = ${x.value(toEpochMs)}`], removes: [], clauses: [`${wakeAt} = ${x.value(fromEpochMs)}`] }));
  };

  const beginDrain: Holding['beginDrain'] = async (endpointId, { leaseId, expiresEpochMs }, nowEpochMs) => {
    const x = new Expressions();
    const drain = x.name('drain');
    const change: Change = {
      sets: [`${drain} = ${x.value([leaseId, expiresEpochMs])}`, `${x.name('wakeAt')} = ${x.value(expiresEpochMs)}`, `${x.name('ready')} = ${x.value(true)}`],
      removes: [],
      clauses: [`attribute_exists(${x.name('holding')})`, `(attribute_not_exists(${drain}) OR ${drain}[1] <= ${x.value(nowEpochMs)})`],
    };
    const answer = await move(endpointId, x, change, 'before');
    if (answer.kind === 'unsure') return answer;
    const { lane } = answer;
    if (answer.kind === 'moved' && lane?.holding !== undefined) {
      const after = { ...lane, drain: { leaseId, expiresEpochMs }, holding: { ...lane.holding, wakeAtEpochMs: expiresEpochMs, isReady: true } };
      return { kind: 'begun', lane: after, wakeAtEpochMs: lane.holding.wakeAtEpochMs, wasReady: lane.holding.isReady };
    }
    // Refused by its own run: the SDK has repeated the write, and what was there before is not known.
    return lane?.drain?.leaseId === leaseId ? { kind: 'begun', lane, wakeAtEpochMs: nowEpochMs, wasReady: true } : { kind: 'refused', lane };
  };

  const endDrain: Holding['endDrain'] = async (endpointId, { leaseId, seq, seenEpochMs, taken, wakeAtEpochMs, movedEpochMs, isReady }) => {
    const x = new Expressions();
    const [drain, held, wakeAt, ready] = [x.name('drain'), x.name('held'), x.name('wakeAt'), x.name('ready')];
    const clauses = [`${drain}[0] = ${x.value(leaseId)}`, `${x.name('holdSeq')} = ${x.value(seq)}`, `${wakeAt} = ${x.value(seenEpochMs)}`];
    const change: Change = wakeAtEpochMs === undefined
      // `holdSeq` stays: it must never come twice.
      ? { sets: [], removes: [x.name('holding'), x.name('heldAt'), held, wakeAt, ready, drain], clauses }
      : {
        sets: [`${wakeAt} = ${x.value(wakeAtEpochMs)}`, `${held} = ${held} - ${x.value(taken)}`, ...(isReady ? [`${ready} = ${x.value(true)}`] : []), ...(movedEpochMs === undefined ? [] : [`${x.name('heldAt')} = ${x.value(movedEpochMs)}`])],
        removes: [drain, ...(isReady ? [] : [ready])],
        clauses,
      };
    const answer = await move(endpointId, x, change);
    // Its own run is over: the SDK has repeated the write.
    const isOwnRepeat = answer.kind === 'lost' && answer.lane !== undefined && answer.lane.drain === undefined && answer.lane.holdSeq === seq
      && answer.lane.holding?.wakeAtEpochMs === wakeAtEpochMs;
    return isOwnRepeat ? { kind: 'moved' } : plain(answer);
  };

  const movePace: Holding['movePace'] = async (endpointId, from, to) => {
    const x = new Expressions();
    const isStill = paceIs(x, from);
    const set = paceSet(x, to);
    return plain(await move(endpointId, x, { ...set, clauses: isStill }));
  };

  return { pauseUntil, flag, hold, moveWakeUp, beginDrain, endDrain, movePace };
}

/** What a lane says once `count` more deliveries are held, but for the wake-up. */
export function holdMore(x: Expressions, count: number, nowEpochMs: number): string[] {
  const added = (name: string, more: number) => `${name} = if_not_exists(${name}, ${x.value(0)}) + ${x.value(more)}`;
  return [
    `${x.name('holding')} = ${x.value(holdingValue)}`,
    added(x.name('holdSeq'), 1),
    added(x.name('held'), count),
    `${x.name('heldAt')} = ${x.value(nowEpochMs)}`,
  ];
}

/** A lane of an endpoint that there is: a note must not make a stub of one. */
export function isThere(x: Expressions, cfg: string): string[] {
  return [`attribute_exists(${cfg})`, `${cfg} <> ${x.value(removedCfg)}`];
}

function paceIs(x: Expressions, pace: Pace | undefined): string[] {
  const [recent, slow] = [x.name('pace'), x.name('slow')];
  if (pace === undefined) return [`attribute_not_exists(${recent})`, `attribute_exists(${x.name('cfg')})`];
  return [`${recent} = ${x.value(pace.recent)}`, pace.isSlow ? `attribute_exists(${slow})` : `attribute_not_exists(${slow})`];
}

function paceSet(x: Expressions, pace: Pace | undefined): Omit<Change, 'clauses'> {
  const [recent, slow] = [x.name('pace'), x.name('slow')];
  if (pace === undefined) return { sets: [], removes: [recent, slow] };
  const sets = [`${recent} = ${x.value(pace.recent)}`];
  return pace.isSlow ? { sets: [...sets, `${slow} = ${x.value(true)}`], removes: [] } : { sets, removes: [slow] };
}

function plain(answer: Moved): MoveAnswer {
  return answer.kind === 'moved' ? { kind: 'moved' } : answer;
}
