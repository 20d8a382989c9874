/** The endpoint commands in this process: what somebody else does meanwhile, and what people read; cli.test.ts runs the program itself. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DeleteItemCommand, type DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { Command } from 'commander';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { addEndpointCommands } from '../../bin/cli/endpoint-commands.ts';
import { CommandError, Output } from '../../bin/cli/output.ts';
import type { Target } from '../../bin/cli/target.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { deliver, records } from '../../lambdas/shared/limits/numbers.ts';
import { endpointOf, secret } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';
import { LaneSubject } from '../support/world.ts';

let subject: DynamoSubject;
const directory = mkdtempSync(path.join(tmpdir(), 'sluice-endpoint-'));
beforeAll(async () => void (subject = await startDynamoSubject()));
afterAll(async () => {
  rmSync(directory, { recursive: true });
  await subject.close();
});
beforeEach(async () => {
  const { Items = [] } = await subject.client.send(new ScanCommand({ TableName: tables.endpoints }));
  for (const { pk, sk } of Items) await subject.client.send(new DeleteItemCommand({ TableName: tables.endpoints, Key: { pk, sk } as never }));
});

const url = 'https://hooks.example.com/in';
function fileOf(text: string): string {
  const file = path.join(directory, `${Math.random()}`);
  writeFileSync(file, text);
  return file;
}

/** Runs `sluice endpoint …`. `meanwhile` happens once the target was named, before the next call of DynamoDB. */
async function endpoint(args: readonly string[], { json = false, meanwhile, recordVersion = records.newestVersion }: { json?: boolean; meanwhile?: () => Promise<unknown>; recordVersion?: number } = {}) {
  const [results, notes]: [unknown[], string[]] = [[], []];
  let before: Promise<unknown> | undefined;
  let isNamed = false;
  const db: Pick<DynamoDBClient, 'send'> = {
    send: async (command: Parameters<DynamoDBClient['send']>[0]) => {
      if (isNamed) before ??= meanwhile?.();
      await before;
      return subject.client.send(command) as never;
    },
  };
  class Kept extends Output {
    override result(value: unknown, human: string): void {
      results.push(json ? value : human);
    }
    override note(text: string): void {
      notes.push(text);
      isNamed = true;
    }
  }
  const target: Partial<Target> = { name: 'here', db: db as DynamoDBClient, endpointsTable: tables.endpoints, deliverLimits: deliver, egress: defaultEgress, recordVersion };
  const program = new Command().exitOverride();
  addEndpointCommands(program, (work) => work(target as Target, new Kept(json)));
  let refused = '';
  try {
    await program.parseAsync(['endpoint', ...args], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    refused = `${error.code} ${error.message}`;
  }
  return { result: results[0], notes, refused };
}
const stored = async (id: string) => (await subject.world.registry.get(id))?.endpoint;

describe('an endpoint that somebody else writes meanwhile', () => {
  const theirs = () => subject.world.put(endpointOf({ maxInFlight: 5 }, 'theirs'));

  it.each<[string, boolean]>([['changed', true], ['created', false]])('and has %s is left as it is: put says so, and what to do', async (_what, isThere) => {
    if (isThere) await subject.world.put(endpointOf({}, 'V1'));
    const { refused, notes, result } = await endpoint(['put', 'acme', '--url', url], { meanwhile: theirs });
    expect(refused).toBe('1 Endpoint acme was changed by somebody else meanwhile; nothing was written. Repeat the command.');
    expect([notes, result]).toEqual([['Target: here'], undefined]);
    expect(await stored('acme')).toEqual(endpointOf({ maxInFlight: 5 }, 'theirs'));
  });

  it('and has removed is not made again by a put that started from it', async () => {
    await subject.world.put(endpointOf({}, 'V1'));
    const { refused } = await endpoint(['put', 'acme', '--set', 'maxInFlight=3'], { meanwhile: () => subject.world.remove('acme') });
    expect(refused).toContain('nothing was written');
    expect(await stored('acme')).toBeUndefined();
  });

  it('between the look of rm and its write is not removed', async () => {
    await subject.world.put(endpointOf({}, 'V1'));
    // Before the transaction, after both reads of it.
    const { refused } = await endpoint(['rm', 'acme', '--yes'], {
      meanwhile: () => {
        const send = subject.client.send.bind(subject.client);
        subject.client.send = (async (command: Parameters<DynamoDBClient['send']>[0]) => {
          if (command.constructor.name !== 'TransactWriteItemsCommand') return send(command);
          subject.client.send = send;
          await theirs();
          return send(command);
        }) as never;
        return Promise.resolve();
      },
    });
    expect(refused).toBe('1 Endpoint acme was changed by somebody else meanwhile; nothing was removed. Repeat the command.');
    expect(await stored('acme')).toEqual(endpointOf({ maxInFlight: 5 }, 'theirs'));
  });
});

describe('put', () => {
  it.each(['onAmbiguous=reconcile', 'maxAmbiguous=3', 'lookup={"url":"https://api.example.com/{eventId}","match":{"$.id":"eventId"}}'])('of %s is refused where the installation is older: its functions could not use the endpoint', async (setting) => {
    const old = { recordVersion: records.droppedVersion };
    expect((await endpoint(['put', 'acme', '--url', url, '--set', setting], old)).refused).toMatch(/^2 Refused, nothing was written: here runs an older version.*Deploy this one first/);
    expect(await stored('acme')).toBeUndefined();
    // What an older version does not know is not stored for it.
    expect((await endpoint(['put', 'acme', '--url', url], old)).refused).toBe('');
    const { Items = [] } = await subject.client.send(new ScanCommand({ TableName: tables.endpoints }));
    const config = Items.find(({ config: found }) => found !== undefined)?.['config']?.M ?? {};
    expect(Object.keys(config)).toContain('onAmbiguous');
    expect(Object.keys(config).filter((key) => key === 'lookup' || key === 'maxAmbiguous')).toEqual([]);
  });

  it.each([
    [['onAmbiguous=reconcile'], true],
    [['maxAmbiguous=3'], true],
    [['onAmbiguous=reconcile', 'lookup={"url":"https://api.example.com/{eventId}","match":{"$.id":"eventId"}}'], false],
    [['onAmbiguous=retry'], false],
  ])('of %j says whether a person decides about what may have arrived: %s', async (settings, isSaid) => {
    const { result } = await endpoint(['put', 'acme', '--url', url, ...settings.flatMap((setting) => ['--set', setting])]);
    expect(String(result).includes('waits for a person. See: sluice unknown ls')).toBe(isSaid);
  });

  it('tells people the secrets that were made, once', async () => {
    const signing = 'signing=[{"scheme":"standard"},{"scheme":"hub256"}]';
    const lines = String((await endpoint(['put', 'acme', '--url', url, '--set', signing])).result).split('\n');
    const made = await stored('acme');
    expect(lines).toEqual([
      `Created endpoint acme (version ${made?.version}).`,
      `Signing secret, shown only now: ${made?.secrets[0]}`,
      `Body secret, shown only now: ${made?.bodySecret}`,
    ]);
    const again = await endpoint(['put', 'acme', '--url', url, '--set', signing]);
    expect(again.result).toBe(`Updated endpoint acme (version ${(await stored('acme'))?.version}).\nChanged: nothing`);
    expect(await stored('acme')).toMatchObject({ secrets: made?.secrets, bodySecret: made?.bodySecret });
  });

  it('with a secret alone changes that, and nothing else', async () => {
    await subject.world.put(endpointOf({ maxInFlight: 5 }, 'V1'));
    const other = secret.replace('B', 'C');
    const { result } = await endpoint(['put', 'acme', '--secret', `@${fileOf(`${other}\n`)}`, '--secret', `@${fileOf(secret)}`], { json: true });
    expect(result).toEqual({ endpointId: 'acme', version: expect.any(String) as string, created: false, changed: [] });
    expect(await stored('acme')).toMatchObject({ config: { maxInFlight: 5 }, secrets: [other, secret] });
  });

  it('takes the url of the command line over the one of the document', async () => {
    await endpoint(['put', 'acme', '--file', fileOf(JSON.stringify({ url: 'https://other.example/', maxInFlight: 4 })), '--url', url]);
    expect(await stored('acme')).toMatchObject({ config: { url, maxInFlight: 4 } });
  });

  it.each<[string, string[], RegExp]>([
    ['of another id by --set', ['--url', url, '--set', 'endpointId=other'], /^2 endpointId: cannot be changed; put a new endpoint instead$/],
    ['that is no JSON', ['--file', fileOf('{')], /^2 --file \S+: .*JSON/],
    ['that is an array', ['--file', fileOf('[]')], /^2 --file \S+: must hold a JSON object$/],
    ['that is null', ['--file', fileOf('null')], /^2 --file \S+: must hold a JSON object$/],
    ['that is a text', ['--file', fileOf(`"${url}"`)], /^2 --file \S+: must hold a JSON object$/],
    ['that is not there', ['--file', '/nonexistent'], /^2 --file \/nonexistent: /],
  ])('of a document %s is refused, and nothing is written', async (_what, args, message) => {
    expect((await endpoint(['put', 'acme', ...args])).refused).toMatch(message);
    expect([await stored('acme'), await stored('other')]).toEqual([undefined, undefined]);
  });
});

describe('ls', () => {
  it('of none says how to add one', async () => {
    expect((await endpoint(['ls'])).result).toMatch(/^No endpoints\. Add one: sluice endpoint put ID --url /);
    expect((await endpoint(['ls'], { json: true })).result).toEqual([]);
  });

  it('shows the size of each lane, whatever is in flight', async () => {
    const lane = new LaneSubject(subject.world);
    await subject.world.put(endpointOf({ endpointId: lane.endpointId, maxInFlight: 5 }, 'V1'));
    await subject.world.lanes.admit(lane.ask(['a', 'b']));
    expect((await endpoint(['ls'])).result).toMatch(new RegExp(`^ENDPOINT +STATUS +LANE +URL\n${lane.endpointId} +enabled +5 +${url}$`));
  });
});

describe('an id', () => {
  it.each(['get', 'rm'])('that nobody has registered: %s fails, and says how to find those that are', async (command) => {
    const { refused, notes, result } = await endpoint([command, 'nobody']);
    expect([refused, notes, result]).toEqual(['1 There is no endpoint nobody. List them: sluice endpoint ls', [], undefined]);
  });

  it.each(['get', 'rm', 'put'])('that could be none is refused by %s before anything is read', async (command) => {
    const { refused } = await endpoint([command, 'a b', ...(command === 'put' ? ['--url', url] : [])]);
    expect(refused).toBe('2 endpointId: must match [A-Za-z0-9_-]{1,128} (got "a b")');
  });
});
