/** An operator's write beside others, on DynamoDB: what came between, answers that were lost, and its bound. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Target } from '../../bin/cli/target.ts';
import { createUnclaimedWriter, type Change, type Tried } from '../../bin/cli/unclaimed-writer.ts';
import { stillUnknown } from '../../bin/cli/unknown-selection.ts';
import { knownToBeDelivered, lookedForAnew } from '../../lambdas/shared/core/reconcile.ts';
import type { DeliveredRecord, DeliveryRecord, UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { awsCalls } from '../../lambdas/shared/limits/numbers.ts';
import { deliveredOf, t0EpochMs, unknownOf, waitingOf } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';
import { FaultyHandler } from '../support/sdk-faults.ts';
import { LaneSubject } from '../support/world.ts';

let subject: DynamoSubject;
let handler: FaultyHandler;
let lane: LaneSubject;
let record: UnknownRecord;
const names = () => ({ endpointId: lane.endpointId, eventId: 'a' });
const targetOf = (db: DynamoSubject['client']) => ({ db, endpointsTable: tables.endpoints, deliveriesTable: tables.deliveries }) as Target;
beforeAll(async () => {
  subject = await startDynamoSubject();
  handler = new FaultyHandler();
});
afterAll(() => subject.close());
beforeEach(async () => {
  handler.next();
  lane = new LaneSubject(subject.world);
  await lane.put();
  record = unknownOf({}, names());
  await subject.world.records.write(undefined, record);
  await subject.world.records.write(undefined, unknownOf({}, { ...names(), eventId: 'b' }));
});

const to = (from: UnknownRecord): DeliveredRecord => knownToBeDelivered(from, { as: 'delivered', why: 'asked', by: 'ada', atEpochMs: t0EpochMs }, 'mine', 'ord_1');
const wanted = (): Change<UnknownRecord, DeliveredRecord> => ({ leaseId: 'mine', still: stillUnknown(record), to });
const write = (on = subject.client) => createUnclaimedWriter(targetOf(on)).write(record, wanted());
/** Of another delivery of the endpoint. */
const other = (): [UnknownRecord, Change<UnknownRecord, DeliveredRecord>] => {
  const from = unknownOf({}, { ...names(), eventId: 'b' });
  return [from, { ...wanted(), still: stillUnknown(from) }];
};
/** Another worker's write, from what was read, whoever comes after. */
const between = async (next: DeliveryRecord, from: DeliveryRecord = record) => expect(await subject.world.records.write(from, next)).toBe('written');
const looked = (leaseId = 'theirs') => lookedForAnew(record, t0EpochMs, leaseId);

describe('an operator\'s write', () => {
  it('follows what only looks have changed, and writes over that', async () => {
    const seen = { ...looked(), history: [{ atEpochMs: 5, durationMs: 7, generation: 0, outcome: 'look' as const, detail: 'look failed: status 503' }] };
    await between(seen);
    expect(await write()).toEqual({ kind: 'written' });
    expect(await lane.record('a')).toEqual(to(seen));
  });

  it.each<[string, () => readonly DeliveryRecord[]]>([
    ['delivered', () => [deliveredOf({ lastLease: { leaseId: 'theirs', kind: 'settled' } }, names())]],
    ['held, because it was absent', () => [waitingOf({ home: 'held', attempt: 1, ambiguous: 1, cleared: 1 }, names())]],
    ['unknown anew, after another attempt', () => [waitingOf({ home: 'held', attempt: 1, ambiguous: 1, cleared: 1 }, names()), unknownOf({ attempt: 2, ambiguous: 2, cleared: 1 }, names())]],
    ['unknown in another generation', () => [waitingOf({ home: 'held', generation: 1 }, names()), unknownOf({ generation: 1 }, names())]],
  ])('leaves alone what is %s meanwhile', async (_what, next) => {
    let from: DeliveryRecord = record;
    for (const each of next()) {
      await between(each, from);
      from = each;
    }
    expect(await write()).toEqual({ kind: 'moved' });
    expect(await lane.record('a')).toEqual(from);
  });

  it('knows its own, whose answer was lost, by its lease', async () => {
    const writer = createUnclaimedWriter(targetOf(subject.connect({ requestHandler: handler })));
    // From here on the endpoint is known, and the next request is the write.
    expect(await writer.write(...other())).toEqual({ kind: 'written' });
    handler.next('lost', 'throttled', 'throttled');
    expect(await writer.write(record, { ...wanted(), still: () => undefined })).toEqual({ kind: 'written' });
    expect(await lane.record('a')).toEqual(to(record));
  });

  it('gives up some time, and says so', async () => {
    const tries: UnknownRecord[] = [];
    const never = (from: UnknownRecord): Promise<Tried> => {
      tries.push(from);
      return Promise.resolve({ kind: 'unwritten' });
    };
    expect(await createUnclaimedWriter(targetOf(subject.client)).change(record, wanted(), never)).toEqual({ kind: 'busy', why: 'DynamoDB did not take the write now' });
    expect(tries).toHaveLength(awsCalls.repeats + 1);
    expect(await lane.record('a')).toEqual(record);
  });

  it('reads an endpoint again that was written since it was read', async () => {
    const writer = createUnclaimedWriter(targetOf(subject.client));
    expect(await writer.write(...other())).toEqual({ kind: 'written' });
    await lane.put(8, 'V2');
    expect(await writer.write(record, wanted())).toEqual({ kind: 'written' });
  });
});
