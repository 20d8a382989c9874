import { TransactWriteItemsCommand, UpdateItemCommand, type DynamoDBClient, type TransactWriteItem } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import type { Lease } from '../core/lane.ts';
import type { Admission, AdmitAnswer, GiveBack, GiveBackAnswer, Lanes, ReapClaim } from '../ports/index.ts';
import { writeFailure } from './dynamodb-errors.ts';
import { claimValue, leaseValue, sk, toLane } from './dynamodb-lane-item.ts';
import { Expressions, recordCondition, recordUpdate } from './expressions.ts';
import { whileNotApplied } from './repeat.ts';

/** Lanes in the Endpoints table: each method is one conditional write (L1). */
export function createDynamoDbLanes(db: DynamoDBClient, tables: { endpoints: string; deliveries: string }): Lanes {
  const laneKey = (endpointId: string) => ({ TableName: tables.endpoints, Key: marshall({ pk: endpointId, sk: sk.lane }) });

  const admit = async (ask: Admission): Promise<AdmitAnswer> => {
    const n = ask.wanted.length;
    const x = new Expressions();
    const [avail, leases, claims] = [x.name('avail'), x.name('leases'), x.name('claims')];
    const lease = `${leases}.${x.name(ask.leaseId)}`;
    const claim = ask.wanted.map((w) => `${claims}.${x.name(w.claimKey)}`);
    const sets = [
      `${avail} = ${avail} - ${x.value(n)}`,
      `${lease} = ${x.value(leaseValue({ slots: n, expiresEpochMs: ask.expiresEpochMs }))}`,
      ...ask.wanted.map((w, i) => `${claim[i] ?? ''} = ${x.value(claimValue({ leaseId: ask.leaseId, shortHash: w.shortHash }))}`),
    ];
    const conditions = [
      `${x.name('cfg')} = ${x.value(ask.cfg)}`,
      `${avail} >= ${x.value(n)}`,
      `attribute_not_exists(${lease})`,
      ...claim.map((path) => `attribute_not_exists(${path})`),
    ];
    try {
      await db.send(
        new UpdateItemCommand({
          ...laneKey(ask.endpointId),
          UpdateExpression: `SET ${sets.join(', ')}`,
          ConditionExpression: conditions.join(' AND '),
          ...x.attributes(),
          ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
        }),
      );
      return { kind: 'granted' };
    } catch (error) {
      const failure = writeFailure(error);
      if (failure.kind === 'refused') return { kind: 'refused', lane: failure.item === undefined ? undefined : toLane(failure.item) };
      return { kind: failure.kind === 'notApplied' ? 'throttled' : 'unsure' };
    }
  };

  const giveBack = async (give: GiveBack): Promise<GiveBackAnswer> => {
    const answer = await whileNotApplied(() => giveBackOnce(give), 'notApplied');
    return answer === 'notApplied' ? 'unsure' : answer;
  };

  const giveBackOnce = async (give: GiveBack): Promise<GiveBackAnswer | 'notApplied'> => {
    const x = new Expressions();
    const avail = x.name('avail');
    const lease = `${x.name('leases')}.${x.name(give.leaseId)}`;
    const slots = x.value(give.slots);
    const kept = give.keep.length > 0;
    const sets = [
      `${avail} = ${avail} + ${slots}`,
      ...(kept ? [`${lease} = ${x.value(leaseValue({ slots: 0, expiresEpochMs: give.expiresEpochMs }))}`] : []),
      ...failureCount(x, give),
    ];
    const removes = [...(kept ? [] : [lease]), ...give.release.map((key) => `${x.name('claims')}.${x.name(key)}`)];
    try {
      await db.send(
        new UpdateItemCommand({
          ...laneKey(give.endpointId),
          UpdateExpression: `SET ${sets.join(', ')}${removes.length === 0 ? '' : ` REMOVE ${removes.join(', ')}`}`,
          // The slots are compared, not only the lease's existence: a repeat by the SDK of a write that kept the lease
          // would else add them twice. And each claim must still be ours: after an expiry it may be another worker's.
          ConditionExpression: [
            `${lease}[0] = ${slots}`,
            ...give.release.map((key) => `${x.name('claims')}.${x.name(key)}[0] = ${x.value(give.leaseId)}`),
          ].join(' AND '),
          ...x.attributes(),
          ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
        }),
      );
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
    const avail = x.name('avail');
    const lease = `${x.name('leases')}.${x.name(leaseId)}`;
    try {
      await db.send(
        new UpdateItemCommand({
          ...laneKey(endpointId),
          UpdateExpression: `SET ${avail} = ${avail} + ${x.value(seen.slots)} REMOVE ${lease}`,
          ConditionExpression: `${lease} = ${x.value(leaseValue(seen))}`,
          ...x.attributes(),
        }),
      );
    } catch (error) {
      // Lost: somebody else reaped it. Not applied or unsure: the next one who needs the room tries again.
      writeFailure(error);
    }
  };

  const reapClaim = async (reap: ReapClaim): Promise<'reaped' | 'lost'> => {
    const x = new Expressions();
    const claim = `${x.name('claims')}.${x.name(reap.claimKey)}`;
    const lease = `${x.name('leases')}.${x.name(reap.claim.leaseId)}`;
    const lane: TransactWriteItem = {
      Update: {
        ...laneKey(reap.endpointId),
        UpdateExpression: `REMOVE ${claim}`,
        ConditionExpression:
          `${claim} = ${x.value(claimValue(reap.claim))} AND ` +
          `(attribute_not_exists(${lease}) OR ${lease}[1] <= ${x.value(reap.nowEpochMs)})`,
        ...x.attributes(),
      },
    };
    try {
      await db.send(new TransactWriteItemsCommand({ TransactItems: [lane, recordMember(tables.deliveries, reap)] }));
      return 'reaped';
    } catch (error) {
      writeFailure(error);
      return 'lost';
    }
  };

  return { admit, giveBack, reapLease, reapClaim };
}

/** Failures in a row: a success ends the row. A lease that sent nothing says nothing. */
function failureCount(x: Expressions, give: GiveBack): string[] {
  if (give.successes === 0 && give.failures === 0) return [];
  const failures = x.name('failures');
  return [give.successes > 0 ? `${failures} = ${x.value(0)}` : `${failures} = ${failures} + ${x.value(give.failures)}`];
}

/** The record's half of a reap: an ambiguous attempt on exactly the record that was read, or proof that it is unchanged. */
function recordMember(table: string, reap: ReapClaim): TransactWriteItem {
  const x = new Expressions();
  const key = { TableName: table, Key: marshall({ pk: reap.recordKey }) };
  const from = reap.change.kind === 'none' ? reap.change.unchanged : reap.change.from;
  const home = from?.state === 'waiting' ? ` AND ${x.name('home')} = ${x.value(from.home)}` : '';
  const condition = recordCondition(x, from) + home;
  if (reap.change.kind === 'none') return { ConditionCheck: { ...key, ConditionExpression: condition, ...x.attributes() } };
  const update = recordUpdate(x, reap.change.to);
  return { Update: { ...key, UpdateExpression: update, ConditionExpression: condition, ...x.attributes() } };
}
