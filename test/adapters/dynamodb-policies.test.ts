import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoDbPolicies } from '../../lambdas/shared/adapters/dynamodb-policies.ts';
import type { Policies, PolicyVersion } from '../../lambdas/shared/ports/index.ts';
import { endpointOf, t0EpochMs } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';
import { LaneSubject } from '../support/world.ts';

let subject: DynamoSubject;
let policies: Policies;
beforeAll(async () => {
  subject = await startDynamoSubject();
  policies = createDynamoDbPolicies(subject.client, tables.endpoints);
});
afterAll(() => subject.close());

const versionOf = (name: string, version: number, settings: PolicyVersion['settings'] = { maxInFlight: version }): PolicyVersion =>
  ({ name, version, settings, why: 'slow since May', by: 'ada', atEpochMs: t0EpochMs });

describe('versions of a policy', () => {
  it('follow each other, and each stays what it was', async () => {
    const settings = { budgetsMs: { read: 500 }, adaptiveRead: null, retry: { delaysS: [1, 2.5] } };
    expect(await policies.add(versionOf('patient', 1, settings))).toBe('written');
    expect(await policies.add({ ...versionOf('patient', 2), restores: 1 })).toBe('written');
    expect(await policies.version('patient', 1)).toEqual(versionOf('patient', 1, settings));
    expect(await policies.current('patient')).toEqual({ ...versionOf('patient', 2), restores: 1 });
    expect((await policies.versions('patient')).map(({ version }) => version)).toEqual([1, 2]);
    expect([await policies.current('nobody'), await policies.version('patient', 3)]).toEqual([undefined, undefined]);
  });

  it('are made once, whoever makes them side by side', async () => {
    const answers = await Promise.all(['a', 'b', 'c'].map((why) => policies.add({ ...versionOf('raced', 1), why })));
    expect(answers.toSorted()).toEqual(['changed', 'changed', 'written']);
    expect(await policies.add(versionOf('raced', 1))).toBe('changed');
    expect(await policies.add(versionOf('raced', 3))).toBe('changed');
    expect(await policies.current('raced')).toEqual(await policies.version('raced', 1));
  });

  it('sort by number, and are told from those of a policy whose name begins the same', async () => {
    for (let version = 1; version <= 11; version++) await policies.add(versionOf('many', version));
    await policies.add(versionOf('many-more', 1));
    expect((await policies.versions('many')).map(({ version }) => version)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect((await policies.list()).filter(({ name }) => name.startsWith('many')).map(({ name, version }) => [name, version])).toEqual([['many', 11], ['many-more', 1]]);
  });

  it('are no endpoints, whatever they are called', async () => {
    for (const name of ['config', 'lane']) await policies.add(versionOf(name, 1));
    expect(await subject.world.registry.list()).toEqual([]);
  });
});

describe('an endpoint with a policy', () => {
  const origin = { policy: { name: 'patient', version: 3 }, own: { maxInFlight: 3, budgetsMs: { read: 900 } } };

  it('is stored beside its configuration, which an older function reads as ever', async () => {
    const { endpointId } = new LaneSubject(subject.world);
    const endpoint = { ...endpointOf({ endpointId, maxInFlight: 3 }), origin };
    await subject.world.put(endpoint);
    const { Item = {} } = await subject.client.send(new GetItemCommand({ TableName: tables.endpoints, Key: marshall({ pk: endpointId, sk: 'config' }) }));
    const { config, policy, policyVersion, own } = unmarshall(Item) as Record<string, Record<string, unknown>>;
    expect([config?.['policy'], config?.['own'], policy, policyVersion, own]).toEqual(['default', undefined, 'patient', 3, origin.own]);
    expect((await subject.world.registry.get(endpointId))?.endpoint).toEqual(endpoint);
    expect((await subject.world.registry.list()).map(({ endpoint: listed }) => listed)).toContainEqual(endpoint);
  });

  it('keeps what is known of it when it is adjusted, and not when it is put', async () => {
    const lane = new LaneSubject(subject.world);
    await subject.world.put(endpointOf({ endpointId: lane.endpointId, maxInFlight: 3 }));
    await subject.world.lanes.admit(lane.ask(['a', 'b']));
    await subject.world.lanes.giveBack(lane.give({ slots: 2, release: ['a', 'b'].map((eventId) => lane.key(eventId)), failures: 1 }));
    const to = (maxInFlight: number, version: string) => ({ ...endpointOf({ endpointId: lane.endpointId, maxInFlight }, version), origin });
    expect(await subject.world.registry.adjust(to(5, 'V2'), 'V0')).toBe('changed');
    expect(await subject.world.registry.adjust(to(5, 'V2'), 'V1')).toBe('written');
    expect(await lane.lane()).toMatchObject({ slots: 5, avail: 5, cfg: 'V2', failures: 1 });
    expect(await subject.world.registry.put(to(2, 'V3'), 'V2')).toBe('written');
    expect(await lane.lane()).toMatchObject({ slots: 2, avail: 2, cfg: 'V3', failures: 0 });
    await subject.world.remove(lane.endpointId);
    expect(await subject.world.registry.adjust(to(5, 'V4'), 'V3')).toBe('changed');
  });
});
