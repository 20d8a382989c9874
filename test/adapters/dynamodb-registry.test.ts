import { GetItemCommand, UpdateItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { emptyTally, type Window } from '../../lambdas/shared/core/statistics.ts';
import { createChangeStatus, createDisableEndpoint } from '../../lambdas/shared/adapters/dynamodb-status.ts';
import { createDynamoDbEndpoints, toEndpoint } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import { removedCfg } from '../../lambdas/shared/core/lane.ts';
import type { Endpoint } from '../../lambdas/shared/ports/index.ts';
import { endpointOf, laneOf, secret } from '../support/builders.ts';
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

/** Changes attributes of the stored configuration, as somebody with access to the table does; undefined removes one. */
async function edit(attributes: Readonly<Record<string, unknown>>): Promise<void> {
  for (const [name, value] of Object.entries(attributes)) {
    await subject.client.send(new UpdateItemCommand({
      TableName: tables.endpoints,
      Key: marshall({ pk: lane.endpointId, sk: 'config' }),
      UpdateExpression: value === undefined ? 'REMOVE #n' : 'SET #n = :v',
      ExpressionAttributeNames: { '#n': name },
      ...(value === undefined ? {} : { ExpressionAttributeValues: marshall({ ':v': value }) }),
    }));
  }
}

describe('put', () => {
  it('writes configuration and lane together', async () => {
    expect(await subject.world.registry.put(endpoint(3, 'V1'))).toBe('written');
    expect(await subject.world.registry.get(lane.endpointId)).toEqual({
      endpoint: endpoint(3, 'V1'),
      lane: laneOf({ slots: 3, avail: 3 }),
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

  it('keeps what the day has seen, and says in the lane whether that is all', async () => {
    const bounded = (maxPerDay: number | null, version: string) => subject.world.put(endpointOf({ endpointId: lane.endpointId, maxPerDay }, version));
    await bounded(10, 'V1');
    expect((await lane.lane()).day).toBeUndefined();
    const day = { day: 20_000, attempts: 5, isSpent: false };
    await lanes().moveDay(lane.endpointId, undefined, day);
    for (const [maxPerDay, isSpent] of [[5, true], [6, false], [4, true], [null, false]] as const) {
      await bounded(maxPerDay, `V${maxPerDay}`);
      expect((await lane.lane()).day).toEqual({ ...day, isSpent });
    }
    // Over what a put has written the next attempt is counted anew.
    expect(await lanes().moveDay(lane.endpointId, day, { ...day, attempts: 6 })).toEqual({ kind: 'moved' });
  });

  it('stores nothing that is not set: an older version refuses a key that it does not know', async () => {
    const stored = async () => Object.keys((await subject.client.send(new GetItemCommand({ TableName: tables.endpoints, Key: marshall({ pk: lane.endpointId, sk: 'config' }) }))).Item?.['config']?.M ?? {});
    const later = ['pauses', 'disabledFor', 'maxAmbiguous', 'lookup', 'adaptiveRead', 'autoLane', 'maxPerDay'];
    await subject.world.put(endpoint(3, 'V1'));
    expect((await stored()).filter((key) => later.includes(key))).toEqual([]);
    const all = { pauses: [{ fromEpochMs: 1, toEpochMs: 2 }], maxAmbiguous: 2, adaptiveRead: {}, maxInFlight: 'auto', maxPerDay: 9, lookup: { url: 'https://api.example.test/{eventId}', match: { '$.id': 'eventId' } }, disabledFor: { why: 'gone', atEpochMs: 1 } };
    await subject.world.put(endpointOf({ endpointId: lane.endpointId, ...all }, 'V2'));
    expect((await stored()).filter((key) => later.includes(key)).sort()).toEqual([...later].sort());
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

describe('secrets', () => {
  const put = (secrets: Pick<Endpoint, 'secrets' | 'bodySecret'>) => subject.world.registry.put({ ...endpoint(3, 'V1'), ...secrets });
  const readBack = () => createDynamoDbEndpoints(subject.client, tables.endpoints).read(lane.endpointId);

  it('come back as they were put, both kinds or one', async () => {
    await put({ secrets: [secret], bodySecret: 'pässwörd' });
    expect(await readBack()).toMatchObject({ config: { endpointId: lane.endpointId }, secrets: [secret], bodySecret: 'pässwörd' });
    await put({ secrets: [], bodySecret: undefined });
    expect(await readBack()).toEqual({ ...endpoint(3, 'V1'), secrets: [], bodySecret: undefined });
  });

  it('that are not there at all are none', async () => {
    await put({ secrets: [secret], bodySecret: 'x' });
    await edit({ secrets: undefined, bodySecret: undefined });
    expect(await readBack()).toEqual({ ...endpoint(3, 'V1'), secrets: [], bodySecret: undefined });
  });

  it('that have another shape make the endpoint invalid, and are not quoted', async () => {
    await put({ secrets: [secret], bodySecret: undefined });
    await edit({ secrets: 'topsecret', bodySecret: { S: 'topsecret' } });
    const read = await readBack();
    expect(read).toMatchObject({ config: undefined, problem: expect.stringMatching(/^secrets: .*; bodySecret: /) as string, secrets: [] });
    expect(JSON.stringify(read)).not.toContain('topsecret');
  });
});

describe('a stored configuration that cannot be used', () => {
  const read = () => createDynamoDbEndpoints(subject.client, tables.endpoints).read(lane.endpointId);
  const minimal = () => ({ endpointId: lane.endpointId, url: 'https://hooks.example.com/in' });
  beforeEach(() => subject.world.put({ ...endpoint(3, 'V1'), bodySecret: 'Jefe' }));

  it('has what its burials and its repair need, and no configuration', async () => {
    await edit({ config: { ...minimal(), maxInFlight: 99 } });
    const invalid = {
      config: undefined, endpointId: lane.endpointId, problem: 'maxInFlight: Too big: expected number to be <=32 (got 99)',
      document: { ...minimal(), maxInFlight: 99 }, version: 'V1', secrets: [secret], bodySecret: 'Jefe',
    };
    expect(await read()).toEqual(invalid);
    expect(await subject.world.registry.get(lane.endpointId)).toMatchObject({ endpoint: invalid, lane: { slots: 3, cfg: 'V1' } });
    expect((await subject.world.registry.list()).map(({ endpoint: e }) => e)).toContainEqual(invalid);
  });

  it.each<[string, () => unknown, string[], string[]?]>([
    ['of a newer version', () => ({ ...minimal(), signing: [{ scheme: 'ed25519' }], oauth: { secret: 'topsecret' } }), ['signing.0.scheme: must be an object with "scheme"', '(got "ed25519")', 'oauth: unknown key']],
    ['with a header that cannot be sent', () => ({ ...minimal(), headers: { Authorization: 'topsecret\n' } }), ['headers.Authorization: may hold visible ASCII']],
    ['with a token in its url', () => ({ ...minimal(), url: 'https://u:topsecret@example.com/' }), ['url: must not carry a user name']],
    ['that is no object', () => 'topsecret', ['document: ', 'expected object']],
    ['with a structure where a word was', () => ({ ...minimal(), policy: { token: 'topsecret' } }), ['policy: only "default" is supported']],
    ['with a number beyond the safe ones', () => ({ ...minimal(), maxInFlight: 10n ** 20n }), ['maxInFlight: ', '(got 100000000000000000000)']],
    ['that is gone', () => undefined, ['document: ', 'expected object']],
    ['of another endpoint', () => ({ ...minimal(), endpointId: 'other' }), ['endpointId: must be ep-', '(got "other")']],
    ['that is wrong in a hundred places', () => Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`key${i}`, 'topsecret'])), ['endpointId: ']],
  ])('%s names field, value and bound, and quotes no credential', async (_why, config, expected) => {
    await edit({ config: config() });
    const found = await read();
    const problem = found?.config === undefined ? (found?.problem ?? '') : '';
    for (const text of expected) expect(problem).toContain(text);
    expect(problem).not.toContain('topsecret');
    expect(problem.length).toBeLessThanOrEqual(300);
  });

  it.each(['', 'x'])('with a problem that is cut amid a character, is text all the same: key %j…', (first) => {
    const stored = toEndpoint({ pk: 'acme', version: 'V1', config: { [`${first}${'😀'.repeat(300)}`]: 1 } });
    const problem = stored.config === undefined ? stored.problem : '';
    expect([problem.length, problem.isWellFormed()]).toEqual([300, true]);
  });

  it('is repaired by a put over its version, and can be removed', async () => {
    await edit({ config: 'x' });
    expect(await subject.world.registry.put(endpoint(5, 'V2'), 'V1')).toBe('written');
    expect(await read()).toEqual(endpoint(5, 'V2'));
    expect(await lane.lane()).toMatchObject({ slots: 5, avail: 5, cfg: 'V2' });
    await edit({ config: 'x' });
    expect(await subject.world.registry.remove(lane.endpointId)).toBe('removed');
    expect(await read()).toBeUndefined();
  });

  it('is none where only a header has become reserved: that one is dropped', async () => {
    await edit({ config: { ...minimal(), maxInFlight: 3, headers: { 'X-Team': 'a', 'Webhook-Signature': 'v1,AAAA', Cookie: 'c\n' } } });
    expect(await read()).toEqual({ ...endpoint(3, 'V1'), bodySecret: 'Jefe' });
  });

  it('is none where an older version left out what has a default now', async () => {
    await edit({ config: minimal() });
    expect(await read()).toMatchObject({ config: { maxInFlight: 8, signing: [{ scheme: 'standard' }] } });
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
    const listed = (await subject.world.registry.list()).map(({ endpoint: { config } }) => config?.endpointId ?? '');
    expect(listed.filter((id) => ids.includes(id))).toEqual([ids[1], ids[0]]);
  });
});

describe('the read for sending', () => {
  it('is a strong one: a configuration that was just put is the one that is sent by', async () => {
    await subject.world.put(endpoint(3, 'V1'));
    const asked: object[] = [];
    const watched: Pick<DynamoDBClient, 'send'> = {
      send: (command: GetItemCommand) => {
        asked.push(command.input);
        return subject.client.send(command);
      },
    };
    expect(await createDynamoDbEndpoints(watched as DynamoDBClient, tables.endpoints).read(lane.endpointId)).toEqual(endpoint(3, 'V1'));
    expect(asked).toMatchObject([{ TableName: tables.endpoints, ConsistentRead: true }]);
  });
});

describe('what was measured of an endpoint', () => {
  it('is forgotten when it leads elsewhere, and only then', async () => {
    const known = async () => {
      const { window, learnedMs } = await lane.lane();
      return [window?.attempts, window?.answers.size, learnedMs];
    };
    const tally = { ...emptyTally, attempts: 3, delivered: 3, answers: new Map([[50, 3]]) };
    await subject.world.put(endpoint(8, 'V1'));
    await lanes().countOffers(lane.endpointId, { tally, atEpochMs: 1_000 });
    await lanes().takeWindow(lane.endpointId, (await lane.lane()).window as Window, 700);
    await lanes().countOffers(lane.endpointId, { tally, atEpochMs: 2_000 });
    await subject.world.put(endpoint(4, 'V2'));
    expect(await known()).toEqual([3, 1, 700]);
    const elsewhere = endpoint(4, 'V3');
    await subject.world.put({ ...elsewhere, config: { ...elsewhere.config, url: 'https://elsewhere.example/' } });
    expect(await known()).toEqual([undefined, undefined, undefined]);
  });
});

describe('the size of a lane', () => {
  const resize = (version: string, from: number, to: number) => createChangeStatus(subject.client, tables.endpoints)({ endpointId: lane.endpointId, version }, { fields: { maxInFlight: to }, slots: { from, to }, atEpochMs: 1_767_607_200_000 });

  it('is changed with that of the configuration, by a version of its own; those in flight stay counted', async () => {
    await subject.world.put(endpoint(8, 'V1'));
    await lanes().admit(lane.ask(['a', 'b', 'c']));
    expect(await resize('V1', 8, 2)).toBe('written');
    const { slots, avail, cfg } = await lane.lane();
    const found = (await subject.world.registry.get(lane.endpointId))?.endpoint;
    expect([slots, avail, found?.version, found?.config?.maxInFlight]).toEqual([2, -1, cfg, 2]);
    expect(await resize('V1', 2, 9)).toBe('changed');
    expect(await resize(cfg, 8, 9)).toBe('changed');
    expect((await lane.lane()).avail).toBe(-1);
  });
});

describe('disableEndpoint', () => {
  const reason = { why: 'gone', atEpochMs: 1_767_607_200_000 } as const;
  const disable = (of: Endpoint) => createDisableEndpoint(subject.client, tables.endpoints)(of, reason);

  it('writes the status and its reason by a version of its own, into configuration and lane, and that somebody is to be told', async () => {
    await subject.world.put(endpoint(3, 'V1'));
    await lanes().admit(lane.ask(['a']));
    const before = await lane.lane();
    expect(await disable(endpoint(3, 'V1'))).toBe('disabled');
    const found = await subject.world.registry.get(lane.endpointId);
    expect(found?.endpoint).toEqual({ ...endpoint(3, 'V1'), version: found?.lane.cfg, config: { ...endpoint(3, 'V1').config, status: 'disabled', disabledFor: reason } });
    expect(found?.lane).toEqual({ ...before, cfg: found?.endpoint.version, told: new Map([['gone', { what: `gone@${reason.atEpochMs}`, atEpochMs: 0, isTold: false }]]) });
    expect(found?.lane.cfg).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/);
  });

  it('leaves alone what was put meanwhile, or removed', async () => {
    await subject.world.put(endpoint(3, 'V1'));
    await subject.world.put(endpoint(3, 'V2'));
    const before = await subject.world.registry.get(lane.endpointId);
    expect(await disable(endpoint(3, 'V1'))).toBe('changed');
    expect(await subject.world.registry.get(lane.endpointId)).toEqual(before);
    await subject.world.registry.remove(lane.endpointId);
    expect(await disable(endpoint(3, 'V2'))).toBe('changed');
    expect(await subject.world.registry.get(lane.endpointId)).toBeUndefined();
  });

  it('keeps what another version of the program has written beside it', async () => {
    await subject.world.put(endpoint(3, 'V1'));
    await edit({ later: 'something' });
    expect(await disable(endpoint(3, 'V1'))).toBe('disabled');
    const { Item } = await subject.client.send(new GetItemCommand({ TableName: tables.endpoints, Key: marshall({ pk: lane.endpointId, sk: 'config' }) }));
    expect(Item?.['later']).toEqual({ S: 'something' });
  });
});
