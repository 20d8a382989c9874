import { TransactWriteItemsCommand, UpdateItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import type { Breaker } from '../core/breaker.ts';
import type { Lease } from '../core/lane.ts';
import type { Admission, AdmitAnswer, GiveBack, GiveBackAnswer, Lanes, ReapAnswer, ReapClaim } from '../ports/index.ts';
import { writeFailure } from './dynamodb-errors.ts';
import { createHolding } from './dynamodb-holding.ts';
import { claimValue, dayValue, leaseValue, openValue, rowNames, tallyValue, toldNames, toldValue, toLane, type RowName } from './dynamodb-lane-item.ts';
import { joined, laneMover, laneUpdate, type Change } from './dynamodb-lane-write.ts';
import { countedIn, createWindows } from './dynamodb-windows.ts';
import { Expressions, recordCondition, recordUpdate } from './expressions.ts';
import { pauseBriefly, whileNotApplied, type Pause } from './repeat.ts';

/** Lanes in the Endpoints table: each method is one conditional write (L1). `pause` waits before a write is repeated. */
export function createDynamoDbLanes(db: DynamoDBClient, tables: { endpoints: string; deliveries: string }, pause: Pause = pauseBriefly): Lanes {
  const update = (endpointId: string, x: Expressions, change: Change) => laneUpdate(tables.endpoints, endpointId, x, change);
  const move = laneMover(db, tables.endpoints, pause);

  const take = async (endpointId: string, x: Expressions, change: Change): Promise<AdmitAnswer> => {
    try {
      const answer = await db.send(
        new UpdateItemCommand({ ...update(endpointId, x, change), ReturnValues: 'ALL_NEW', ReturnValuesOnConditionCheckFailure: 'ALL_OLD' }),
      );
      const { avail, failures, breaker, nextAtEpochMs, day, pausedUntilEpochMs, pace, flag, holding, window, slots, learnedMs } = toLane(unmarshall(answer.Attributes ?? {}));
      return { kind: 'granted', avail, failures, breaker, nextAtEpochMs, day, pausedUntilEpochMs, pace, flag, holding, window, slots, learnedMs };
    } catch (error) {
      const failure = writeFailure(error);
      if (failure.kind === 'refused') return { kind: 'refused', lane: failure.item === undefined ? undefined : toLane(failure.item) };
      return { kind: failure.kind === 'notApplied' ? 'throttled' : 'unsure' };
    }
  };

  const admit = (ask: Admission): Promise<AdmitAnswer> => {
    const x = new Expressions();
    return take(ask.endpointId, x, joined(movedAvail(x, -ask.wanted.length), taken(x, ask, 0), unrepeated(x, ask)));
  };

  const exchange = (give: GiveBack, ask: Admission): Promise<AdmitAnswer> => {
    const x = new Expressions();
    return take(ask.endpointId, x, joined(movedAvail(x, give.slots - ask.wanted.length), returned(x, give), taken(x, ask, give.slots)));
  };

  const giveBack = async (give: GiveBack): Promise<GiveBackAnswer> => {
    const answer = await whileNotApplied(() => giveBackOnce(give), 'notApplied', pause);
    return answer === 'notApplied' ? 'unsure' : answer;
  };

  const giveBackOnce = async (give: GiveBack): Promise<GiveBackAnswer | 'notApplied'> => {
    const x = new Expressions();
    const change = joined(movedAvail(x, give.slots), returned(x, give));
    try {
      await db.send(new UpdateItemCommand({ ...update(give.endpointId, x, change), ReturnValuesOnConditionCheckFailure: 'ALL_OLD' }));
      return 'done';
    } catch (error) {
      const failure = writeFailure(error);
      if (failure.kind !== 'refused') return failure.kind;
      if (failure.item === undefined) return 'lost';
      const lane = toLane(failure.item);
      const leaseLeft = lane.leases.get(give.leaseId)?.slots === give.slots;
      const claimLeft = give.release.some((key) => lane.claims.get(key)?.leaseId === give.leaseId);
      return leaseLeft || claimLeft ? 'lost' : 'done';
    }
  };

  const reapLease = async (endpointId: string, leaseId: string, seen: Lease): Promise<void> => {
    const x = new Expressions();
    const lease = `${x.name('leases')}.${x.name(leaseId)}`;
    const reaped: Change = { sets: [], removes: [lease], clauses: [`${lease} = ${x.value(leaseValue(seen))}`] };
    try {
      await db.send(new UpdateItemCommand(update(endpointId, x, joined(movedAvail(x, seen.slots), reaped))));
    } catch (error) {
      // Lost: somebody else reaped it. Not applied or unsure: the next one who needs the room tries again.
      writeFailure(error);
    }
  };

  const reapClaim = async (reap: ReapClaim): Promise<ReapAnswer> => {
    const x = new Expressions();
    const claim = `${x.name('claims')}.${x.name(reap.claimKey)}`;
    const lane = update(reap.endpointId, x, { sets: [], removes: [claim], clauses: [`${claim} = ${x.value(claimValue(reap.claim))}`] });
    const record = reap.ambiguous === undefined ? undefined : ambiguousAttempt(tables.deliveries, reap.ambiguous);
    try {
      if (record === undefined) await db.send(new UpdateItemCommand(lane));
      else await db.send(new TransactWriteItemsCommand({ TransactItems: [{ Update: lane }, { Update: record }] }));
      return 'reaped';
    } catch (error) {
      writeFailure(error);
      return 'lost';
    }
  };

  const moveBreaker: Lanes['moveBreaker'] = (endpointId, from, to) => {
    const x = new Expressions();
    return move(endpointId, x, joined(breakerSet(x, to), breakerIs(x, from)));
  };

  const moveRate: Lanes['moveRate'] = (endpointId, fromEpochMs, toEpochMs) => {
    const x = new Expressions();
    const nextAt = x.name('nextAt');
    const isStill = fromEpochMs === undefined ? `attribute_not_exists(${nextAt})` : `${nextAt} = ${x.value(fromEpochMs)}`;
    return move(endpointId, x, { sets: [`${nextAt} = ${x.value(toEpochMs)}`], removes: [], clauses: [isStill] });
  };

  const moveDay: Lanes['moveDay'] = (endpointId, from, to) => {
    const x = new Expressions();
    const day = x.name('day');
    const isStill = from === undefined ? `attribute_not_exists(${day})` : `${day} = ${x.value(dayValue(from))}`;
    return move(endpointId, x, { sets: [`${day} = ${x.value(dayValue(to))}`], removes: [], clauses: [isStill] });
  };

  const moveTold: Lanes['moveTold'] = (endpointId, subject, from, to) => {
    const x = new Expressions();
    const told = x.name(toldNames[subject]);
    const isStill = from === undefined ? `attribute_not_exists(${told}) AND attribute_exists(${x.name('cfg')})` : `${told} = ${x.value(toldValue(from))}`;
    return move(endpointId, x, { sets: to === undefined ? [] : [`${told} = ${x.value(toldValue(to))}`], removes: to === undefined ? [told] : [], clauses: [isStill] });
  };

  return { admit, exchange, giveBack, reapLease, reapClaim, moveBreaker, moveRate, moveDay, moveTold, ...createHolding(move), ...createWindows(move) };
}

function movedAvail(x: Expressions, slots: number): Change {
  return { sets: [`${x.name('avail')} = ${x.name('avail')} + ${x.value(slots)}`], removes: [], clauses: [] };
}

/** The breaker as it is to be: a tally while it is closed, or else when it may be tried again. */
function breakerSet(x: Expressions, breaker: Breaker): Change {
  const [tally, open] = [x.name('tally'), x.name('open')];
  return breaker.state === 'closed'
    ? { sets: [`${tally} = ${x.value(tallyValue(breaker))}`], removes: [open], clauses: [] }
    : { sets: [`${open} = ${x.value(openValue(breaker))}`], removes: [tally], clauses: [] };
}

function breakerIs(x: Expressions, breaker: Breaker | undefined): Change {
  const only = (...clauses: string[]): Change => ({ sets: [], removes: [], clauses });
  if (breaker === undefined) return only(`attribute_not_exists(${x.name('tally')})`, `attribute_not_exists(${x.name('open')})`);
  return only(breaker.state === 'closed' ? `${x.name('tally')} = ${x.value(tallyValue(breaker))}` : `${x.name('open')} = ${x.value(openValue(breaker))}`);
}

/** The breaker is closed; or open exactly as it was seen, and this its canary. */
function passesBreaker(x: Expressions, { canaryOf, leaseId, expiresEpochMs }: Admission): Change {
  if (canaryOf === undefined) return { sets: [], removes: [], clauses: [`attribute_not_exists(${x.name('open')})`] };
  return { ...breakerIs(x, canaryOf), sets: [`${x.name('open')} = ${x.value(openValue({ ...canaryOf, canary: { leaseId, expiresEpochMs } }))}`] };
}

/** A lease and a claim for each delivery. `returning`: slots that the same write gives back. */
function taken(x: Expressions, ask: Admission, returning: number): Change {
  const passed = passesBreaker(x, ask);
  const lease = `${x.name('leases')}.${x.name(ask.leaseId)}`;
  const claims = ask.wanted.map((w) => ({ path: `${x.name('claims')}.${x.name(w.claimKey)}`, value: { leaseId: ask.leaseId, shortHash: w.shortHash } }));
  return {
    sets: [
      `${lease} = ${x.value(leaseValue({ slots: ask.wanted.length, expiresEpochMs: ask.expiresEpochMs }))}`,
      ...claims.map(({ path, value }) => `${path} = ${x.value(claimValue(value))}`),
      ...passed.sets,
    ],
    removes: [],
    clauses: [
      `${x.name('cfg')} = ${x.value(ask.cfg)}`,
      `${x.name('avail')} >= ${x.value(ask.wanted.length - returning)}`,
      ...claims.map(({ path }) => `attribute_not_exists(${path})`),
      ...passed.clauses,
      ...leftToDrain(x, ask, returning),
    ],
  };
}

/** Live traffic leaves a slow endpoint to the drain, and of another one a part of the lane while anything is held that may be due. */
function leftToDrain(x: Expressions, { live, wanted }: Admission, returning: number): string[] {
  if (live === undefined) return [];
  const isRoomy = `${x.name('avail')} >= ${x.value(wanted.length - returning + live.kept)}`;
  return [`attribute_not_exists(${x.name('slow')})`, `(attribute_not_exists(${x.name('ready')}) OR ${isRoomy})`];
}

/** A repeat that comes late, when the claims have been reaped and the lease not yet, must not take its slots twice. */
function unrepeated(x: Expressions, ask: Admission): Change {
  return { sets: [], removes: [], clauses: [`attribute_not_exists(${x.name('leases')}.${x.name(ask.leaseId)})`] };
}

/** The lease goes, or stays without slots for the claims that it keeps. */
function returned(x: Expressions, give: GiveBack): Change {
  const lease = `${x.name('leases')}.${x.name(give.leaseId)}`;
  const kept = give.keep.length > 0;
  const released = give.release.map((key) => `${x.name('claims')}.${x.name(key)}`);
  const row = failureRow(x, give);
  return {
    sets: [...(kept ? [`${lease} = ${x.value(leaseValue({ slots: 0, expiresEpochMs: give.expiresEpochMs }))}`] : []), ...row.sets, ...(give.counted === undefined ? [] : countedIn(x, give.counted))],
    removes: [...(kept ? [] : [lease]), ...released, ...row.removes],
    // The slots are compared, not only the lease's existence: a repeat by the SDK of a write that kept the lease would
    // else add them twice. And each claim must still be ours: after an expiry it may be another worker's.
    clauses: [`${lease}[0] = ${x.value(give.slots)}`, ...released.map((path) => `${path}[0] = ${x.value(give.leaseId)}`)],
  };
}

/** Failures in a row: a success ends the row. A lease that sent nothing says nothing. */
function failureRow(x: Expressions, { successes, failures, failed }: GiveBack): Pick<Change, 'sets' | 'removes'> {
  if (successes === 0 && failures === 0) return { sets: [], removes: [] };
  const count = x.name('failures');
  if (successes > 0) return { sets: [`${count} = ${x.value(0)}`], removes: rowNames.map((name) => x.name(name)) };
  const counted = `${count} = ${count} + ${x.value(failures)}`;
  if (failed === undefined) return { sets: [counted], removes: [] };
  const at = x.value(failed.atEpochMs);
  // A row that begins takes nothing over from one that a version of the program has ended which knows of none.
  const kept = (name: RowName, otherwise: string) => (failed.isFirst ? otherwise : `if_not_exists(${x.name(name)}, ${otherwise})`);
  const always = [counted, `${x.name('rs')} = ${kept('rs', at)}`, `${x.name('rt')} = ${at}`];
  if (failed.answered === 0) {
    return { sets: [...always, `${x.name('ru')} = ${kept('ru', at)}`], removes: failed.isFirst ? [x.name('ra'), x.name('rl')] : [] };
  }
  const answered = x.value(failed.answered);
  const sum = failed.isFirst ? answered : `${kept('ra', x.value(0))} + ${answered}`;
  return { sets: [...always, `${x.name('ra')} = ${sum}`, `${x.name('rl')} = ${at}`], removes: [x.name('ru')] };
}

/** The record's half of a reap: an ambiguous attempt on exactly the record that was read. */
function ambiguousAttempt(table: string, { from, to }: NonNullable<ReapClaim['ambiguous']>) {
  const x = new Expressions();
  const UpdateExpression = recordUpdate(x, from, to);
  return { TableName: table, Key: marshall({ pk: to.recordKey }), UpdateExpression, ConditionExpression: recordCondition(x, from), ...x.attributes() };
}
