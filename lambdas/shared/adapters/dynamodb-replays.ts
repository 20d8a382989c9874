import { TransactionCanceledException, TransactWriteItemsCommand, type CancellationReason, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { hold as limits } from '../limits/numbers.ts';
import type { Move, Replays } from '../ports/index.ts';
import { writeFailure } from './dynamodb-errors.ts';
import { holdMore, isThere } from './dynamodb-holding.ts';
import { toLane } from './dynamodb-lane-item.ts';
import { laneUpdate } from './dynamodb-lane-write.ts';
import { Expressions, recordCondition, recordUpdate } from './expressions.ts';

/** Dead deliveries become held ones, many of one endpoint in one transaction with its lane. */
export function createDynamoDbReplays(db: DynamoDBClient, tables: { endpoints: string; deliveries: string }): Replays {
  return {
    async move(endpointId, moves, nowEpochMs) {
      const lane = { Update: laneHolds(tables.endpoints, endpointId, moves, nowEpochMs) };
      try {
        await db.send(new TransactWriteItemsCommand({ TransactItems: [lane, ...moves.map((move) => ({ Update: recordMoves(tables.deliveries, move) }))] }));
        return { kind: 'moved' };
      } catch (error) {
        const failure = writeFailure(error);
        if (failure.kind === 'unsure') return { kind: 'unsure' };
        if (failure.kind === 'notApplied' || !(error instanceof TransactionCanceledException)) return { kind: 'notApplied' };
        const [ofLane, ...ofRecords] = error.CancellationReasons ?? [];
        return { kind: 'refused', lane: laneOf(ofLane), changed: changedOf(moves, ofRecords) };
      }
    },
  };
}

/** As a hold of `moves.length` more, within what may be held; whoever is to move a record must be sure that nobody owns its claim. */
function laneHolds(table: string, endpointId: string, moves: readonly Move[], nowEpochMs: number) {
  const x = new Expressions();
  const [claims, held] = [x.name('claims'), x.name('held')];
  const update = laneUpdate(table, endpointId, x, {
    sets: [...holdMore(x, moves.length, nowEpochMs), `${x.name('wakeAt')} = ${x.value(nowEpochMs)}`, `${x.name('ready')} = ${x.value(true)}`],
    removes: [],
    clauses: [...isThere(x, x.name('cfg')), ...moves.map(({ claimKey }) => `attribute_not_exists(${claims}.${x.name(claimKey)})`), `(attribute_not_exists(${held}) OR ${held} < ${x.value(limits.maxCount)})`],
  });
  // Which claim it is that stands in the way.
  return { ...update, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const };
}

/** Buried as well as dead: what is on its way to the dead-letter queue is left to whoever buries it. */
function recordMoves(table: string, { from, to }: Move) {
  const x = new Expressions();
  const UpdateExpression = recordUpdate(x, from, to);
  const isStill = recordCondition(x, from);
  const ConditionExpression = from.state === 'dead' ? `${isStill} AND ${x.name('phase')} = ${x.value(from.phase)}` : isStill;
  return { TableName: table, Key: marshall({ pk: to.recordKey }), UpdateExpression, ConditionExpression, ...x.attributes(), ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const };
}

const isRefused = (reason: CancellationReason | undefined) => reason?.Code === 'ConditionalCheckFailed';

function laneOf(reason: CancellationReason | undefined) {
  if (!isRefused(reason)) return undefined;
  return { found: reason?.Item === undefined ? undefined : toLane(unmarshall(reason.Item)) };
}

function changedOf(moves: readonly Move[], reasons: readonly CancellationReason[]): Map<string, 'own' | 'other'> {
  return new Map(moves.flatMap(({ to }, i) => {
    const reason = reasons[i];
    if (!isRefused(reason)) return [];
    // No other write carries this lease: what has it was moved by an earlier try, whose answer was lost.
    const lease = reason?.Item === undefined ? undefined : (unmarshall(reason.Item)['lastLease'] as readonly unknown[] | undefined);
    return [[to.recordKey, lease?.[0] === to.lastLease?.leaseId ? 'own' : 'other'] as const];
  }));
}
