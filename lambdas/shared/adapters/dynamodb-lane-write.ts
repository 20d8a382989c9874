import { UpdateItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import type { Lane } from '../core/lane.ts';
import { writeFailure } from './dynamodb-errors.ts';
import { sk, toLane } from './dynamodb-lane-item.ts';
import type { Expressions } from './expressions.ts';
import { whileNotApplied, type Pause } from './repeat.ts';

/** What one write does to a lane. Each clause is needed: test/explore shows what goes wrong without it. */
export interface Change {
  readonly sets: readonly string[];
  readonly removes: readonly string[];
  readonly clauses: readonly string[];
}

export function joined(...changes: readonly Change[]): Change {
  return {
    sets: changes.flatMap((c) => c.sets),
    removes: changes.flatMap((c) => c.removes),
    clauses: changes.flatMap((c) => c.clauses),
  };
}

/** One conditional update of a lane's item. */
export function laneUpdate(table: string, endpointId: string, x: Expressions, change: Change) {
  return {
    TableName: table,
    Key: marshall({ pk: endpointId, sk: sk.lane }),
    UpdateExpression: [
      ...(change.sets.length === 0 ? [] : [`SET ${change.sets.join(', ')}`]),
      ...(change.removes.length === 0 ? [] : [`REMOVE ${change.removes.join(', ')}`]),
    ].join(' '),
    ConditionExpression: change.clauses.join(' AND '),
    ...x.attributes(),
  };
}

/** How a write ended that moves a part of a lane; `lost` with the lane that stood in the way, `moved` with the one that was asked for. */
export type Moved = { readonly kind: 'moved' | 'lost'; readonly lane: Lane | undefined } | { readonly kind: 'unsure' };

export type MoveLane = (endpointId: string, x: Expressions, change: Change, shows?: 'before' | 'after') => Promise<Moved>;

/** Writes that move a part of a lane, repeated while they are certainly not applied. */
export function laneMover(db: DynamoDBClient, table: string, pause: Pause): MoveLane {
  return async (endpointId, x, change, shows) => {
    let lane: Lane | undefined;
    const kind = await whileNotApplied<Moved['kind'] | 'notApplied'>(async () => {
      try {
        const ReturnValues = shows === undefined ? 'NONE' : shows === 'before' ? 'ALL_OLD' : 'ALL_NEW';
        const answer = await db.send(
          new UpdateItemCommand({ ...laneUpdate(table, endpointId, x, change), ReturnValues, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' }),
        );
        lane = answer.Attributes === undefined ? undefined : toLane(unmarshall(answer.Attributes));
        return 'moved';
      } catch (error) {
        const failure = writeFailure(error);
        if (failure.kind !== 'refused') return failure.kind;
        lane = failure.item === undefined ? undefined : toLane(failure.item);
        return 'lost';
      }
    }, 'notApplied', pause);
    return kind === 'moved' || kind === 'lost' ? { kind, lane } : { kind: 'unsure' };
  };
}
