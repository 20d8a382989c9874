/** The policy commands in this process: what somebody else does between their reads and their writes. */
import { DeleteItemCommand, ScanCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { Command } from 'commander';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { addEndpointCommands } from '../../bin/cli/endpoint-commands.ts';
import { CommandError, Output } from '../../bin/cli/output.ts';
import { addPolicyCommands } from '../../bin/cli/policy-commands.ts';
import type { Target } from '../../bin/cli/target.ts';
import { createChangeStatus } from '../../lambdas/shared/adapters/dynamodb-status.ts';
import { createDynamoDbPolicies } from '../../lambdas/shared/adapters/dynamodb-policies.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { deliver, policies as limits, records } from '../../lambdas/shared/limits/numbers.ts';
import type { Policies } from '../../lambdas/shared/ports/index.ts';
import { endpointOf, t0EpochMs } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';

let subject: DynamoSubject;
let policies: Policies;
let send: DynamoDBClient['send'];
beforeAll(async () => {
  subject = await startDynamoSubject();
  send = subject.client.send.bind(subject.client);
  policies = createDynamoDbPolicies(subject.client, tables.endpoints);
});
afterAll(() => subject.close());
afterEach(() => void (subject.client.send = send));
beforeEach(async () => {
  const { Items = [] } = await subject.client.send(new ScanCommand({ TableName: tables.endpoints }));
  for (const { pk, sk } of Items) await subject.client.send(new DeleteItemCommand({ TableName: tables.endpoints, Key: { pk, sk } as never }));
  await make('brisk', 1, { budgetsMs: { read: 500 } });
  await subject.world.put(endpointOf({}, 'V1'));
});

async function make(name: string, version: number, settings: Record<string, unknown>): Promise<void> {
  expect(await policies.add({ name, version, settings, why: 'x', by: 'ada', atEpochMs: t0EpochMs })).toBe('written');
}

interface Ran {
  readonly result: Record<string, unknown>;
  readonly refused: string;
}

async function sluice(args: readonly string[], more: Partial<Target> = {}): Promise<Ran> {
  let result: Record<string, unknown> = {};
  class Kept extends Output {
    override result(value: unknown): void {
      result = value as Record<string, unknown>;
    }
    override note(): void {}
  }
  const target: Partial<Target> = { name: 'here', db: subject.client, endpointsTable: tables.endpoints, deliverLimits: deliver, egress: defaultEgress, recordVersion: records.newestVersion, statisticsTable: 'statistics', fleetSlots: 200, ...more };
  const program = new Command().exitOverride();
  const run = (work: (target: Target, out: Output) => Promise<void>) => work(target as Target, new Kept(true));
  addEndpointCommands(program, run);
  addPolicyCommands(program, run);
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return { result, refused: `${error.code} ${error.message}` };
  }
  return { result, refused: '' };
}

/** Does something before each write of an endpoint by the command, so many times. */
function beforeWrites(what: () => Promise<unknown>, times = 1): void {
  let left = times;
  const hooked = async (command: Parameters<DynamoDBClient['send']>[0]) => {
    if (command.constructor.name !== 'TransactWriteItemsCommand' || left === 0) return send(command);
    left--;
    subject.client.send = send;
    await what();
    subject.client.send = hooked as never;
    return send(command);
  };
  subject.client.send = hooked as never;
}

const stored = async (id = 'acme') => (await subject.world.registry.get(id))?.endpoint;
const assign = () => sluice(['policy', 'assign', 'brisk', 'acme', '--yes']);

describe('a roll-out', () => {
  it('does not overwrite what somebody puts meanwhile: both apply', async () => {
    let theirs: Ran | undefined;
    beforeWrites(async () => (theirs = await sluice(['endpoint', 'put', 'acme', '--set', 'maxInFlight=5'])));
    expect(await assign()).toMatchObject({ refused: '', result: { moved: 1, failed: [] } });
    expect(theirs).toMatchObject({ refused: '', result: { changed: ['maxInFlight'] } });
    expect(await stored()).toMatchObject({ config: { maxInFlight: 5, budgetsMs: { read: 500 } }, origin: { policy: { name: 'brisk', version: 1 }, own: { maxInFlight: 5 } } });
  });

  it('does not make an endpoint again that was removed meanwhile', async () => {
    beforeWrites(() => subject.world.remove('acme'));
    expect((await assign()).result).toMatchObject({ moved: 0, elsewhere: 1 });
    expect(await stored()).toBeUndefined();
  });

  it('leaves one alone that somebody has moved to another policy meanwhile, unless it was named', async () => {
    await make('calm', 1, { maxInFlight: 2 });
    const theirs = () => sluice(['policy', 'assign', 'calm', 'acme', '--yes']);
    beforeWrites(theirs);
    expect((await sluice(['policy', 'assign', 'brisk', '--from', 'default', '--yes'])).result).toMatchObject({ moved: 0, elsewhere: 1 });
    expect(await stored()).toMatchObject({ config: { maxInFlight: 2, budgetsMs: { read: 10_000 } }, origin: { policy: { name: 'calm' } } });
    expect((await assign()).result).toMatchObject({ moved: 1 });
    expect(await stored()).toMatchObject({ config: { maxInFlight: 8, budgetsMs: { read: 500 } }, origin: { policy: { name: 'brisk' }, own: {} } });
  });

  it('does not take one back that has got a newer version meanwhile', async () => {
    await assign();
    await make('brisk', 2, { budgetsMs: { read: 700 } });
    beforeWrites(async () => {
      await make('brisk', 3, { budgetsMs: { read: 900 } });
      await sluice(['policy', 'assign', 'brisk', 'acme', '--yes']);
    });
    expect((await assign()).result).toMatchObject({ version: 2, moved: 0, newer: 1 });
    expect(await stored()).toMatchObject({ config: { budgetsMs: { read: 900 } }, origin: { policy: { version: 3 } } });
  });

  it('gives up on one that is written each time, and says that it is left', async () => {
    let slots = 1;
    beforeWrites(() => subject.world.put(endpointOf({ maxInFlight: ++slots }, `V${slots}`)), limits.tries);
    expect(await assign()).toMatchObject({ refused: '3 1 endpoints are as they were. The same command goes on with them.', result: { failed: [{ endpointId: 'acme', why: 'somebody else writes it all the time' }] } });
    expect(await stored()).toMatchObject({ config: { maxInFlight: slots } });
  });

  it('goes on past one that cannot be written', async () => {
    await subject.world.put(endpointOf({ endpointId: 'other' }, 'V1'));
    subject.client.send = (async (command: { input: object } & Parameters<DynamoDBClient['send']>[0]) => {
      if (command.constructor.name === 'TransactWriteItemsCommand' && JSON.stringify(command.input).includes('"acme"')) throw new Error('the line is dead');
      return send(command);
    }) as never;
    expect(await sluice(['policy', 'assign', 'brisk', '--all', '--yes'])).toMatchObject({ refused: expect.stringMatching(/^3 /) as string, result: { moved: 1, failed: [{ endpointId: 'acme', why: 'the line is dead' }] } });
    expect((await stored('other'))?.origin?.policy).toEqual({ name: 'brisk', version: 1 });
  });
});

describe('a rollback', () => {
  it('brings back what was in force, and not what was only written down', async () => {
    await assign();
    await make('brisk', 2, { budgetsMs: { read: 700 } });
    await sluice(['policy', 'set', 'brisk', '--set', 'budgetsMs.read=900', '--why', 'y', '--rollout', '--yes']);
    expect(await stored()).toMatchObject({ config: { budgetsMs: { read: 900 } }, origin: { policy: { version: 3 } } });
    expect(await sluice(['policy', 'rollback', 'brisk', '--why', 'y', '--yes'])).toMatchObject({ refused: '', result: { version: 4, restores: 1 } });
    expect(await stored()).toMatchObject({ config: { budgetsMs: { read: 500 } }, origin: { policy: { version: 4 } } });
  });

  it('reaches those too who get the version that is taken back while it is rolled out', async () => {
    await subject.world.put(endpointOf({ endpointId: 'late' }, 'V1'));
    await assign();
    await sluice(['policy', 'set', 'brisk', '--set', 'budgetsMs.read=900', '--why', 'y', '--rollout', '--yes']);
    let theirs: Ran | undefined;
    beforeWrites(async () => (theirs = await sluice(['policy', 'assign', 'brisk', 'late', '--yes'])));
    const { result } = await sluice(['policy', 'rollback', 'brisk', '--why', 'y', '--yes']);
    expect(theirs).toMatchObject({ result: { version: 2, moved: 1 } });
    expect(result).toMatchObject({ version: 3, restores: 1, rollout: { selected: 2, moved: 2, left: 0 } });
    for (const id of ['acme', 'late']) expect(await stored(id)).toMatchObject({ config: { budgetsMs: { read: 500 } }, origin: { policy: { version: 3 } } });
  });
});

describe('a lane that sizes itself', () => {
  it('by a policy begins with the default, keeps its size when a version follows, and is its own where that was said', async () => {
    await make('auto', 1, { maxInFlight: 'auto' });
    await sluice(['policy', 'assign', 'auto', 'acme', '--yes']);
    const sized = await subject.world.registry.get('acme');
    expect(sized).toMatchObject({ endpoint: { config: { maxInFlight: 8, autoLane: true }, origin: { own: {} } }, lane: { isAuto: true } });
    const { version = '' } = sized?.endpoint ?? {};
    expect(await createChangeStatus(subject.client, tables.endpoints)({ endpointId: 'acme', version }, { fields: { maxInFlight: 3 }, slots: { from: 8, to: 3 }, atEpochMs: t0EpochMs })).toBe('written');
    await make('auto', 2, { maxInFlight: 'auto', budgetsMs: { read: 700 } });
    await sluice(['policy', 'assign', 'auto', 'acme', '--yes']);
    expect(await subject.world.registry.get('acme')).toMatchObject({ endpoint: { config: { maxInFlight: 3, autoLane: true, budgetsMs: { read: 700 } }, origin: { own: {} } }, lane: { isAuto: true, slots: 3 } });
    expect((await sluice(['endpoint', 'get', 'acme'])).result).toMatchObject({ maxInFlight: 'auto', origins: { maxInFlight: 'policy auto v2', 'budgetsMs.read': 'policy auto v2' } });

    await sluice(['endpoint', 'put', 'acme', '--set', 'maxInFlight=5']);
    expect(await subject.world.registry.get('acme')).toMatchObject({ endpoint: { config: { maxInFlight: 5, autoLane: false } }, lane: { isAuto: false, slots: 5 } });
    await sluice(['endpoint', 'put', 'acme', '--unset', 'maxInFlight']);
    expect((await stored())?.config).toMatchObject({ maxInFlight: 5, autoLane: true });
    await sluice(['policy', 'assign', 'default', 'acme', '--yes']);
    expect(await subject.world.registry.get('acme')).toMatchObject({ endpoint: { config: { maxInFlight: 8, autoLane: false } }, lane: { isAuto: false, slots: 8 } });
  });
});

describe('a version', () => {
  it('that somebody else has made meanwhile is not overwritten', async () => {
    beforeWrites(() => make('brisk', 2, { maxInFlight: 3 }));
    expect((await sluice(['policy', 'set', 'brisk', '--set', 'maxInFlight=4', '--why', 'y'])).refused).toMatch(/^1 Somebody else has made policy brisk v2 meanwhile; nothing was written/);
    expect(await policies.current('brisk')).toMatchObject({ version: 2, settings: { maxInFlight: 3 } });
  });

  it('that an older installation could not deliver by is refused', async () => {
    for (const [setting, more] of [['maxAmbiguous=3', { recordVersion: records.droppedVersion }], ['adaptiveRead={}', { fleetSlots: undefined as never }]] as const) {
      expect((await sluice(['policy', 'set', 'brisk', '--set', setting, '--why', 'y'], more)).refused).toMatch(/^2 Refused, nothing was written:\n {2}here runs an older version/);
    }
    expect((await policies.current('brisk'))?.version).toBe(1);
  });

  it('that is gone from the table leaves what it said with its endpoints', async () => {
    await assign();
    await subject.client.send(new DeleteItemCommand({ TableName: tables.endpoints, Key: marshall({ pk: '#policies', sk: 'version#brisk#000001' }) }));
    await sluice(['endpoint', 'put', 'acme', '--set', 'maxInFlight=5']);
    expect(await stored()).toMatchObject({ config: { maxInFlight: 5, budgetsMs: { read: 500 } } });
  });
});

describe('an endpoint that cannot be used as it is stored', () => {
  it('is left as it is, and named', async () => {
    const spoilt = { ...endpointOf({}, 'V3'), config: { ...endpointOf().config, maxInFlight: 99 } };
    await subject.world.put(spoilt);
    expect((await assign()).result).toMatchObject({ moved: 0, failed: [{ endpointId: 'acme', why: expect.stringContaining('cannot be used as it is stored: maxInFlight') as string }] });
    expect((await stored())?.version).toBe('V3');
  });
});
