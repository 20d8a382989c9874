import {
  BatchGetItemCommand,
  ConditionalCheckFailedException,
  type BatchGetItemCommandOutput,
  TransactionCanceledException,
  TransactWriteItemsCommand,
  UpdateItemCommand,
  type DynamoDBClient,
} from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { claimEndsEpochMs, removedCfg } from '../core/lane.ts';
import type { DeadRecord, DeliveryRecord, WaitingRecord } from '../core/record.ts';
import { records as recordLimits } from '../limits/numbers.ts';
import type { LaneGuard, Records, WriteAnswer } from '../ports/index.ts';
import { cancellation, writeFailure } from './dynamodb-errors.ts';
import { sk, toLane } from './dynamodb-lane-item.ts';
import { attentionKey, toItem, toRecord } from './dynamodb-record-item.ts';
import { Expressions, recordCondition, recordUpdate, sameAttempt } from './expressions.ts';
import { pauseBriefly, whileNotApplied, type Pause } from './repeat.ts';

/** Records in the Deliveries table (U1): strongly consistent reads, conditional writes. `pause` waits before a write is repeated. */
export function createDynamoDbRecords(db: DynamoDBClient, tables: { endpoints: string; deliveries: string }, pause: Pause = pauseBriefly): Records {
  const key = (recordKey: string) => ({ TableName: tables.deliveries, Key: marshall({ pk: recordKey }) });

  const read: Records['read'] = async (keys) => {
    const distinct = [...new Set(keys)];
    const Keys = distinct.map((recordKey) => marshall({ pk: recordKey }));
    let answer: BatchGetItemCommandOutput;
    try {
      answer = await db.send(new BatchGetItemCommand({ RequestItems: { [tables.deliveries]: { Keys, ConsistentRead: true } } }));
    } catch (error) {
      // A read that failed changed nothing; a bug is thrown again.
      writeFailure(error);
      return { found: new Map(), unread: new Set(distinct) };
    }
    const left = answer.UnprocessedKeys?.[tables.deliveries]?.Keys ?? [];
    const items = (answer.Responses?.[tables.deliveries] ?? []).map((item) => unmarshall(item));
    // What a newer program wrote cannot be decided from here: unread, so that its message waits for that program.
    const newer = items.filter((item) => (item['v'] as number) > recordLimits.newestVersion);
    const found = new Map(items.filter((item) => !newer.includes(item)).map((item) => toRecord(item)).map((record) => [record.recordKey, record]));
    return { found, unread: new Set([...left.map((k) => unmarshall(k)), ...newer].map((k) => k['pk'] as string)) };
  };

  const update = (x: Expressions, from: DeliveryRecord | undefined, to: DeliveryRecord) => ({
    ...key(to.recordKey),
    UpdateExpression: recordUpdate(x, from, to),
    ConditionExpression: recordCondition(x, from),
    ...x.attributes(),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
  });

  const write: Records['write'] = (from, to) =>
    whileNotApplied(async () => {
      try {
        await db.send(new UpdateItemCommand(update(new Expressions(), from, to)));
        return 'written';
      } catch (error) {
        const held = heldBetween(error, from, to);
        if (held === undefined) return answerOf(error, to);
        return write(held, acrossHold(held, to));
      }
    }, 'failed', pause);

  const hold: Records['hold'] = (from, to) =>
    whileNotApplied(async () => {
      try {
        await db.send(new UpdateItemCommand(from === undefined ? update(new Expressions(), from, to) : held(from, to)));
        return 'written';
      } catch (error) {
        return answerOf(error, to);
      }
    }, 'failed', pause);

  /** Of a record that is there only what a hold changes: whoever owns its claim may be writing the rest. */
  const held = (from: WaitingRecord, to: WaitingRecord) => {
    const x = new Expressions();
    const { v, home, gpk, gsk, resend } = toItem(to);
    return {
      ...key(to.recordKey),
      UpdateExpression: `SET ${Object.entries({ v, home, gpk, gsk, resend }).map(([name, value]) => `${x.name(name)} = ${x.value(value)}`).join(', ')}`,
      // Another copy may have noted a larger one, and be gone.
      ConditionExpression: [...sameAttempt(x, from), `${x.name('state')} = ${x.value(from.state)}`, `${x.name('resend')} <= ${x.value(resend)}`].join(' AND '),
      ...x.attributes(),
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
    };
  };

  const writeUnclaimed: Records['writeUnclaimed'] = async (from, to, guard) => {
    try {
      await db.send(
        new TransactWriteItemsCommand({
          TransactItems: [{ ConditionCheck: laneCheck(tables.endpoints, guard) }, { Update: update(new Expressions(), from, to) }],
        }),
      );
      return { answer: 'written' };
    } catch (error) {
      const answer = answerOf(error, to);
      const laneItem = error instanceof TransactionCanceledException ? cancellation(error).items[0] : undefined;
      if (laneItem === undefined) return { answer };
      const lane = toLane(laneItem);
      const claim = lane.claims.get(guard.claimKey);
      return claim === undefined ? { answer } : { answer, claim: { ...claim, endsEpochMs: claimEndsEpochMs(lane, claim) } };
    }
  };

  const markBuried = (record: DeadRecord): Promise<WriteAnswer> =>
    whileNotApplied(async () => {
      const x = new Expressions();
      const gpk = attentionKey('dead', record.endpointId);
      try {
        await db.send(
          new UpdateItemCommand({
            ...key(record.recordKey),
            UpdateExpression: `SET ${x.name('phase')} = ${x.value('buried')}, ${x.name('gpk')} = ${x.value(gpk)}`,
            ConditionExpression: recordCondition(x, record),
            ...x.attributes(),
            ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
          }),
        );
        return 'written';
      } catch (error) {
        return answerOf(error, { ...record, phase: 'buried' });
      }
    }, 'failed', pause);

  const retire = async (record: DeadRecord): Promise<void> => {
    const x = new Expressions();
    try {
      await db.send(
        new UpdateItemCommand({
          ...key(record.recordKey),
          UpdateExpression: `REMOVE ${x.name('gpk')}, ${x.name('gsk')}`,
          ConditionExpression: recordCondition(x, record),
          ...x.attributes(),
        }),
      );
    } catch (error) {
      writeFailure(error);
    }
  };

  return { read, write, writeUnclaimed, hold, markBuried, retire };
}

/** The record as a hold left it, where nothing but a hold has come between. */
function heldBetween(error: unknown, from: DeliveryRecord | undefined, to: DeliveryRecord): WaitingRecord | undefined {
  if (!(error instanceof ConditionalCheckFailedException) || error.Item === undefined) return undefined;
  // Only what waits in the queue is held without a claim.
  if (from !== undefined && (from.state !== 'waiting' || from.home === 'held')) return undefined;
  const found = toRecord(unmarshall(error.Item));
  if (found.state !== 'waiting' || found.home !== 'held') return undefined;
  // No record is the same as one that waits with no attempt, in the generation that the copy begins.
  const { generation, attempt } = from ?? { generation: to.generation, attempt: 0 };
  return found.generation === generation && found.attempt === attempt ? found : undefined;
}

/** What a hold wrote stays: that what waits on is held, and the largest `resend`, for whoever asked for it may be gone. */
function acrossHold(held: WaitingRecord, to: DeliveryRecord): DeliveryRecord {
  const kept = { ...to, resend: Math.max(to.resend, held.resend) };
  return kept.state === 'waiting' ? { ...kept, home: 'held' } : kept;
}

/** A condition that failed on our own write, applied before and repeated by the SDK, is a success. */
function answerOf(error: unknown, to: DeliveryRecord): WriteAnswer {
  const failure = writeFailure(error);
  if (failure.kind === 'unsure') return 'unsure';
  if (failure.kind === 'notApplied') return 'failed';
  // A cancelled transaction may return the lane's item: only one of this record speaks for it.
  if (failure.item?.['pk'] !== to.recordKey) return 'lost';
  return isSame(toRecord(failure.item), to) ? 'written' : 'lost';
}

/** The version that a write leaves: only the owner of the claim could have written these very values. */
function isSame(found: DeliveryRecord, to: DeliveryRecord): boolean {
  return (
    found.state === to.state &&
    found.generation === to.generation &&
    found.attempt === to.attempt &&
    found.lastLease?.leaseId === to.lastLease?.leaseId &&
    found.lastLease?.kind === to.lastLease?.kind &&
    (found.state !== 'unknown' || to.state !== 'unknown' || found.looks === to.looks) &&
    (found.state !== 'waiting' || to.state !== 'waiting' || found.home === to.home) &&
    (found.state !== 'dead' || to.state !== 'dead' || (found.phase === to.phase && found.reason === to.reason))
  );
}

function laneCheck(table: string, guard: LaneGuard) {
  const x = new Expressions();
  const unclaimed = `attribute_not_exists(${x.name('claims')}.${x.name(guard.claimKey)})`;
  const cfg = x.name('cfg');
  const condition = guard.lane.kind === 'absent'
    ? `attribute_not_exists(${x.name('pk')}) OR (${cfg} = ${x.value(removedCfg)} AND ${unclaimed})`
    : `${cfg} = ${x.value(guard.lane.cfg)} AND ${unclaimed}`;
  return {
    TableName: table,
    Key: marshall({ pk: guard.endpointId, sk: sk.lane }),
    ConditionExpression: condition,
    ...x.attributes(),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
  };
}
