import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoDbPayloads } from '../../lambdas/shared/adapters/dynamodb-payloads.ts';
import { message } from '../../lambdas/shared/limits/numbers.ts';
import type { Payloads } from '../../lambdas/shared/ports/index.ts';
import { t0EpochMs } from '../support/builders.ts';
import { startDynamoSubject, tables, type DynamoSubject } from '../support/dynamo-subject.ts';
import { FakeStore } from '../support/fakes.ts';
import { FaultyHandler } from '../support/sdk-faults.ts';

let subject: DynamoSubject;
beforeAll(async () => void (subject = await startDynamoSubject()));
afterAll(() => subject.close());

let names = 0;
const nameOf = (payloadHash = 'h1') => ({ recordKey: `acme#k${++names}`, payloadHash, generation: 0 });

describe.each<[string, () => Payloads]>([
  ['DynamoDB', () => createDynamoDbPayloads(subject.client, tables.payloads)],
  ['the fake', (() => { const store = new FakeStore(); return () => store.payloads; })()],
])('payloads in %s', (_where, payloads) => {
  const put = async (name: ReturnType<typeof nameOf>, body: string) => expect(await payloads().put(name, body, t0EpochMs)).toBe('written');
  const read = async (...all: ReturnType<typeof nameOf>[]) => payloads().read(all);

  it('are read as they were put, to the byte', async () => {
    const [one, two] = [nameOf(), nameOf()];
    const body = '{"payload":{"n":1.0,"t":"é\\u0000\u{1f680}"}}';
    await put(one, body);
    await put(two, '');
    expect(await read(one, two)).toEqual({ found: new Map([[one.recordKey, body], [two.recordKey, '']]), unread: new Set() });
  });

  it('are put twice without harm', async () => {
    const name = nameOf();
    await put(name, 'x');
    await put(name, 'x');
    expect((await read(name)).found.get(name.recordKey)).toBe('x');
  });

  it.each([['hashes', { payloadHash: 'h2' }], ['generations', { generation: 1 }]])('of one event and different %s are two', async (_what, difference) => {
    const name = nameOf();
    const other = { ...name, ...difference };
    await put(name, 'one');
    await put(other, 'two');
    expect((await read(name)).found.get(name.recordKey)).toBe('one');
    expect((await read(other)).found.get(name.recordKey)).toBe('two');
    await payloads().remove(other);
    expect((await read(name)).found.get(name.recordKey)).toBe('one');
    expect(await read(other)).toEqual({ found: new Map(), unread: new Set() });
  });

  it('that are not there are neither found nor unread', async () => {
    expect(await read(nameOf())).toEqual({ found: new Map(), unread: new Set() });
    expect(await read()).toEqual({ found: new Map(), unread: new Set() });
    await payloads().remove(nameOf());
  });
});

describe('a payload in DynamoDB', () => {
  const payloads = () => createDynamoDbPayloads(subject.client, tables.payloads);
  const round = async (body: string) => {
    const name = nameOf();
    expect(await payloads().put(name, body, t0EpochMs)).toBe('written');
    return (await payloads().read([name])).found.get(name.recordKey);
  };

  it('of the largest message fits, however often it repeats itself', async () => {
    const body = 'ab'.repeat(message.maxBytes / 2);
    expect(await round(body) === body).toBe(true);
  });

  it('of the largest message fits that nothing makes smaller', async () => {
    // Base64 is as incompressible as text is that a queue takes: six bits of a byte.
    const body = randomBytes(message.maxBytes).toString('base64').slice(0, message.maxBytes);
    expect(await round(body) === body).toBe(true);
  });

  it('is there for all of many that are read together, more than an answer holds', async () => {
    const all = Array.from({ length: 64 }, () => nameOf());
    const body = randomBytes(message.maxBytes).toString('base64').slice(0, message.maxBytes);
    await Promise.all(all.map((name) => payloads().put(name, body, t0EpochMs)));
    const { found, unread } = await payloads().read(all);
    expect([found.size, unread.size]).toEqual([all.length, 0]);
  });

  it('that cannot be read or written says so', async () => {
    const handler = new FaultyHandler();
    const faulty = createDynamoDbPayloads(subject.connect({ requestHandler: handler }), tables.payloads, () => Promise.resolve());
    const name = nameOf();
    await faulty.read([name]);
    handler.next('dropped', 'dropped', 'dropped');
    expect(await faulty.read([name])).toEqual({ found: new Map(), unread: new Set([name.recordKey]) });
    // Repeats are harmless: what is not known to be kept is put again, as often as what was certainly not.
    handler.next(...Array.from({ length: 9 }, () => 'dropped' as const));
    expect(await faulty.put(name, 'x', t0EpochMs)).toBe('failed');
    expect(handler.requests).toBe(9);
    handler.next('lost');
    expect(await faulty.put(name, 'x', t0EpochMs)).toBe('written');
    handler.next('dropped', 'dropped', 'dropped');
    await faulty.remove(name);
    expect((await faulty.read([name])).found.get(name.recordKey)).toBe('x');
  });
});
