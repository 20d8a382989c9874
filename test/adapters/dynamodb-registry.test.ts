import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDynamoDbEndpoints } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import { removedCfg } from '../../lambdas/shared/core/lane.ts';
import { endpointOf } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';
import { expiresEpochMs, LaneSubject } from '../support/world.ts';

let subject: DynamoSubject;
let lane: LaneSubject;
beforeAll(async () => void (subject = await startDynamoSubject()));
afterAll(() => subject.close());
beforeEach(() => {
  lane = new LaneSubject(subject.world);
});

const endpoint = (maxInFlight: number, version: string) => endpointOf({ endpointId: lane.endpointId, maxInFlight, headers: { 'X-Team': 'a' } }, version);
const lanes = () => subject.world.lanes;

describe('put', () => {
  it('writes configuration and lane together', async () => {
    expect(await subject.world.registry.put(endpoint(3, 'V1'))).toBe('written');
    expect(await subject.world.registry.get(lane.endpointId)).toEqual({
      endpoint: endpoint(3, 'V1'),
      lane: { slots: 3, avail: 3, cfg: 'V1', leases: new Map(), claims: new Map(), failures: 0 },
    });
    expect(await createDynamoDbEndpoints(subject.client, tables.endpoints).read(lane.endpointId)).toEqual(endpoint(3, 'V1'));
  });

  it('makes a lane smaller than what is in flight: avail is negative until leases return', async () => {
    await subject.world.put(endpoint(5, 'V1'));
    await lanes().admit(lane.ask(['a', 'b', 'c', 'd']));
    await subject.world.put(endpoint(2, 'V2'));
    expect(await lane.lane()).toMatchObject({ slots: 2, avail: -2, cfg: 'V2' });
    expect(await lanes().admit(lane.ask(['e'], { cfg: 'V2', leaseId: 'l2' }))).toMatchObject({ kind: 'refused' });
    await lanes().giveBack(lane.give({ slots: 4, release: ['a', 'b', 'c', 'd'].map((e) => lane.key(e)), failures: 1 }));
    expect(await lane.lane()).toMatchObject({ slots: 2, avail: 2, leases: new Map() });
  });

  it('makes a lane larger at once', async () => {
    await subject.world.put(endpoint(1, 'V1'));
    await lanes().admit(lane.ask(['a']));
    await subject.world.put(endpoint(3, 'V2'));
    expect(await lane.lane()).toMatchObject({ slots: 3, avail: 2 });
  });

  it('made from a version that is no longer there writes nothing', async () => {
    const { registry } = subject.world;
    expect(await registry.put(endpoint(3, 'V1'), 'V0')).toBe('changed');
    expect(await registry.put(endpoint(3, 'V1'), null)).toBe('written');
    expect(await registry.put(endpoint(4, 'V2'), null)).toBe('changed');
    expect(await registry.put(endpoint(4, 'V2'), 'V1')).toBe('written');
    expect(await registry.put(endpoint(5, 'V3'), 'V1')).toBe('changed');
    await subject.world.remove(lane.endpointId);
    expect(await registry.put(endpoint(5, 'V3'), 'V2')).toBe('changed');
    expect(await registry.get(lane.endpointId)).toBeUndefined();
    expect(await registry.put(endpoint(5, 'V3'), null)).toBe('written');
  });

  it('loses to somebody who wrote between its read and its write', async () => {
    await subject.world.put(endpoint(3, 'V1'));
    const answers = await Promise.all(['V2', 'V3', 'V4'].map((version) => subject.world.registry.put(endpoint(4, version))));
    expect(answers).toContain('written');
    const registered = await subject.world.registry.get(lane.endpointId);
    expect(registered?.endpoint.version).toBe(registered?.lane.cfg);
    expect(await lane.lane()).toMatchObject({ slots: 4, avail: 4 });
  });
});

describe('remove', () => {
  it('deletes the configuration and marks the lane, which keeps its leases and claims', async () => {
    await subject.world.put(endpoint(3, 'V1'));
    await lanes().admit(lane.ask(['a']));
    expect(await subject.world.registry.remove(lane.endpointId)).toBe('removed');
    expect(await subject.world.registry.get(lane.endpointId)).toBeUndefined();
    const now = await lane.lane();
    expect(now).toMatchObject({ slots: 3, avail: 2, cfg: removedCfg });
    expect(now.claims.has(lane.key('a'))).toBe(true);
    expect(await lanes().admit(lane.ask(['b'], { leaseId: 'l2' }))).toMatchObject({ kind: 'refused', lane: { cfg: removedCfg } });
  });

  it('finds nothing to remove where nothing is', async () => {
    expect(await subject.world.registry.remove(lane.endpointId)).toBe('absent');
    await subject.world.put(endpoint(3, 'V1'));
    await subject.world.remove(lane.endpointId);
    expect(await subject.world.registry.remove(lane.endpointId)).toBe('absent');
  });

  it('and re-creation keep what is in flight counted, and its claims in force', async () => {
    await subject.world.put(endpoint(3, 'V1'));
    await lanes().admit(lane.ask(['a', 'b']));
    await subject.world.remove(lane.endpointId);
    await subject.world.put(endpoint(5, 'V2'));
    expect(await lane.lane()).toMatchObject({ slots: 5, avail: 3, cfg: 'V2' });
    const before = await lane.lane();
    expect(await lanes().admit(lane.ask(['a'], { cfg: 'V2', leaseId: 'l2' }))).toEqual({ kind: 'refused', lane: before });
    await lanes().reapLease(lane.endpointId, 'l1', { slots: 2, expiresEpochMs });
    expect(await lane.lane()).toMatchObject({ avail: 5 });
  });
});

describe('list', () => {
  it('gives registered endpoints in order, and not the removed', async () => {
    const ids = ['z', 'a', 'm'].map((name) => `${lane.endpointId}-${name}`);
    for (const endpointId of ids) await subject.world.put(endpointOf({ endpointId }));
    await subject.world.remove(ids[2] ?? '');
    const listed = (await subject.world.registry.list()).map(({ endpoint: { config } }) => config.endpointId);
    expect(listed.filter((id) => ids.includes(id))).toEqual([ids[1], ids[0]]);
  });
});
