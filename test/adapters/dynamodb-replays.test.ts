/** The move's transaction on DynamoDB: what the SDK's repeats hear, conflicts, and a record whose content went within its generation. */
import { TransactionCanceledException } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDynamoDbReplays } from '../../lambdas/shared/adapters/dynamodb-replays.ts';
import { dead, held, renewed } from '../../lambdas/shared/core/decide.ts';
import type { DeadRecord } from '../../lambdas/shared/core/record.ts';
import type { Move } from '../../lambdas/shared/ports/index.ts';
import { t0EpochMs, waitingOf } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';
import { FaultyHandler, type Fate } from '../support/sdk-faults.ts';
import { LaneSubject } from '../support/world.ts';

let subject: DynamoSubject;
let handler: FaultyHandler;
let faulty: DynamoSubject['world'];
let lane: LaneSubject;
beforeAll(async () => {
  subject = await startDynamoSubject();
  handler = new FaultyHandler();
});
afterAll(() => subject.close());
beforeEach(async () => {
  handler.next();
  faulty = subject.worldOn(subject.connect({ requestHandler: handler }));
  await faulty.records.read(['x']);
  lane = new LaneSubject(subject.world);
  await lane.put();
});

async function seeded(leaseId: string, ...eventIds: string[]): Promise<Move[]> {
  return Promise.all(eventIds.map(async (eventId) => {
    const from: DeadRecord = { ...dead(waitingOf({}, { endpointId: lane.endpointId, eventId }), 'rejected', 'status 422'), phase: 'buried' };
    await subject.world.records.write(undefined, from);
    return { from, to: held({ ...renewed(from, t0EpochMs, 0), lastLease: { leaseId, kind: 'settled' } }, 0), claimKey: lane.key(eventId) };
  }));
}

describe('a move', () => {
  it.each<[string, Fate[], string]>([
    ['whose answer was lost', ['lost'], 'moved'],
    ['that did not arrive at first', ['dropped'], 'moved'],
    ['throttled at first', ['throttled'], 'moved'],
    ['never answered', ['lost', 'lost', 'lost'], 'unsure'],
    ['whose repeat was throttled', ['lost', 'throttled', 'throttled'], 'unsure'],
    ['throttled to its end', ['throttled', 'throttled', 'throttled'], 'notApplied'],
    // The SDK does not repeat it, for the flow does.
    ['in conflict', ['conflict'], 'notApplied'],
  ])('%s: %s is %s, and asked for once more it is moved once', async (_how, fates, kind) => {
    const moves = await seeded('m1', 'a', 'b');
    handler.next(...fates);
    expect(await faulty.replays.move(lane.endpointId, moves, t0EpochMs)).toEqual({ kind });
    const again = await subject.world.replays.move(lane.endpointId, moves, t0EpochMs);
    if (kind === 'notApplied') expect(again).toEqual({ kind: 'moved' });
    else expect(again).toMatchObject({ kind: 'refused', changed: new Map(moves.map(({ to }) => [to.recordKey, 'own'])), lane: undefined });
    for (const { to } of moves) expect(await lane.record(to.eventId ?? '')).toEqual(to);
    expect(await lane.lane()).toMatchObject({ holdSeq: 1, holding: { count: 2 } });
  });

  it.each(['TransactionConflict', 'ThrottlingError', 'ProvisionedThroughputExceeded'])('cancelled by a %s moved nothing', async (Code) => {
    const CancellationReasons = [{ Code }, { Code: 'None' }];
    const refusing = { send: () => Promise.reject(new TransactionCanceledException({ message: 'no', $metadata: {}, CancellationReasons })) };
    const replays = createDynamoDbReplays(refusing as never, tables);
    expect(await replays.move(lane.endpointId, await seeded('m1', 'a'), t0EpochMs)).toEqual({ kind: 'notApplied' });
  });

  it('of a record whose content was erased within its generation is refused', async () => {
    const moves = await seeded('m1', 'a', 'b');
    await subject.setAttribute(lane.names('b').recordKey, 'state', { S: 'erased' });
    expect(await subject.world.replays.move(lane.endpointId, moves, t0EpochMs)).toMatchObject({ kind: 'refused', changed: new Map([[lane.names('b').recordKey, 'other']]) });
    expect(await lane.record('a')).toEqual(moves[0]?.from);
  });

  it('leaves nothing of the dead in the record', async () => {
    const moves = await seeded('m1', 'a');
    await subject.world.replays.move(lane.endpointId, moves, t0EpochMs);
    const item = await subject.item(lane.names('a').recordKey);
    for (const name of ['phase', 'reason', 'detail', 'ttlEpochS']) expect(item).not.toHaveProperty(name);
    expect(item).toMatchObject({ gpk: `held#${lane.endpointId}`, gsk: t0EpochMs });
  });
});
