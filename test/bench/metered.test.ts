import { describe, expect, it } from 'vitest';
import { dollarRow, eventRow } from '../../bench/cost-rows.ts';
import { bill, meter, usdOf } from '../../bench/metered.ts';
import { prices } from '../../bench/prices.ts';
import { toText } from '../../bench/report.ts';
import { problemOf } from '../../bench/rounds.ts';
import type { CallEntry } from '../../local/call-log.ts';

const role = 'SluiceLocal-DeliverRole';
const callers = { producer: 'producer', bystanders: new Set(['operator', 'cloudformation']) };

let seq = 0;
function call(service: string, operation: string, more: Partial<CallEntry> = {}): CallEntry {
  const common = { caller: role, action: `${service}:${operation}`, resource: '*', outcome: 'ok', atMs: 0, durationMs: 1, requestBytes: 100 };
  return { seq: ++seq, service, operation, ...common, ...more };
}

/** One delivery as it looks at the wire. */
const delivery = (): CallEntry[] => [
  call('sqs', 'SendMessage', { caller: 'producer' }),
  call('sqs', 'ReceiveMessage', { responseBytes: 900 }),
  call('dynamodb', 'UpdateItem', { capacityUnits: 1 }),
  call('dynamodb', 'BatchGetItem', { capacityUnits: 1 }),
  call('dynamodb', 'UpdateItem', { capacityUnits: 1 }),
  call('dynamodb', 'UpdateItem', { capacityUnits: 1 }),
  call('sqs', 'DeleteMessageBatch', { responseBytes: 40 }),
];
const measured = (calls: readonly CallEntry[]) => ({ name: 'one', events: 1, rounds: [meter(calls, callers)] });
/** As `npm run bench` prints it. */
const printed = (calls: readonly CallEntry[]) => toText({ name: 'cost', rows: [eventRow(measured(calls)), dollarRow(measured(calls))], ceilings: [], notes: [] });
const usd = (calls: readonly CallEntry[]) => usdOf(bill(meter(calls, callers).quantities, 1));

describe('metered calls', () => {
  it('are what a delivery costs', () => {
    expect(meter(delivery(), callers)).toEqual({
      quantities: { writeUnits: 3, readUnits: 1, sqsRequests: 3, fairQueueRequests: 3, schedules: 0, invocations: 1 },
      sqs: [
        { who: 'producer', api: 'SendMessage', requests: 1 },
        { who: 'Lambda', api: 'ReceiveMessage', requests: 1 },
        { who: 'Lambda', api: 'DeleteMessageBatch', requests: 1 },
      ],
      emptyReceives: 0,
      unpriced: [],
    });
    // 3 × 0.625 + 0.125 of DynamoDB, 3 × (0.4 + 0.1) of SQS, 0.2 of Lambda.
    expect(usd(delivery())).toBeCloseTo(3.7, 9);
  });

  it('a stray extra write changes the printed dollars', () => {
    const stray = [...delivery(), call('dynamodb', 'UpdateItem', { capacityUnits: 1 })];
    expect(usd(stray) - usd(delivery())).toBeCloseTo(prices.writeUnits.usdPerMillion, 9);
    expect(printed(delivery())).toContain('3.700');
    expect(printed(stray)).toContain('4.325');
  });

  it('of a refused write count: DynamoDB bills those too', () => {
    const refused = call('dynamodb', 'UpdateItem', { capacityUnits: 2, outcome: 'ConditionalCheckFailedException' });
    expect(meter([...delivery(), refused], callers).quantities.writeUnits).toBe(5);
  });

  it('of a transaction count with its double units, once for all its members', () => {
    const common = { seq: 9_001, requestBytes: 0 };
    const members = [
      call('dynamodb', 'TransactWriteItems', { ...common, requestBytes: 800, capacityUnits: 2, action: 'dynamodb:UpdateItem' }),
      call('dynamodb', 'TransactWriteItems', { ...common, action: 'dynamodb:ConditionCheckItem' }),
      call('dynamodb', 'TransactWriteItems', { ...common, capacityUnits: 4, action: 'dynamodb:UpdateItem' }),
    ];
    const { quantities, unpriced } = meter(members, callers);
    expect(quantities).toMatchObject({ writeUnits: 6, readUnits: 0 });
    expect(unpriced).toEqual([]);
  });

  it('of an operation that nobody has heard of are never dropped: metered ones are writes, others are named', () => {
    const { quantities, unpriced } = meter(
      [
        call('dynamodb', 'ExecuteStatement', { capacityUnits: 7 }),
        call('dynamodb', 'DescribeTable'),
        call('kms', 'Decrypt'),
        call('sqs', 'StartMessageMoveTask'),
        call('dynamodb', 'UpdateItem', { caller: 'SluiceLocal-SweepRole', capacityUnits: 1 }),
      ],
      callers,
    );
    expect(quantities).toMatchObject({ writeUnits: 8, sqsRequests: 1 });
    expect(unpriced).toEqual([`${role} dynamodb:DescribeTable`, `${role} kms:Decrypt`]);
  });

  it.each(['GetItem', 'BatchGetItem', 'Query', 'Scan', 'TransactGetItems'])('%s is a read', (operation) => {
    expect(meter([call('dynamodb', operation, { capacityUnits: 0.5 })], callers).quantities).toMatchObject({ readUnits: 0.5, writeUnits: 0 });
  });

  it('of those who set up and watch are not billed', () => {
    const watching = ['operator', 'cloudformation'].flatMap((caller) => [
      call('dynamodb', 'UpdateItem', { caller, capacityUnits: 1 }),
      call('sqs', 'GetQueueAttributes', { caller }),
    ]);
    expect(meter([...delivery(), ...watching], callers)).toEqual(meter(delivery(), callers));
  });

  it('of the function itself to SQS are told from those that Lambda makes under its role', () => {
    const { sqs, quantities } = meter([call('sqs', 'ChangeMessageVisibility'), call('sqs', 'SendMessage')], callers);
    expect(sqs.map(({ who, api }) => `${who} ${api}`)).toEqual(['function ChangeMessageVisibility', 'function SendMessage']);
    expect(quantities).toMatchObject({ sqsRequests: 2, invocations: 0 });
  });

  it.each([
    [0, 1],
    [65_536, 1],
    [65_537, 2],
    [262_144, 4],
  ])('a send of %i bytes is billed as %i SQS requests, and so is a receive', (bytes, requests) => {
    expect(meter([call('sqs', 'SendMessage', { requestBytes: bytes })], callers).quantities.sqsRequests).toBe(requests);
    if (bytes > 0) expect(meter([call('sqs', 'ReceiveMessage', { responseBytes: bytes })], callers).quantities.sqsRequests).toBe(requests);
  });

  it('a poll that brought nothing is left out, and counted as such', () => {
    const polls = ['{}', '{"Messages":[]}'].map((body) => call('sqs', 'ReceiveMessage', { responseBytes: body.length }));
    const { emptyReceives, ...rest } = meter([...delivery(), ...polls], callers);
    expect(emptyReceives).toBe(2);
    expect(rest).toEqual(expect.objectContaining({ quantities: meter(delivery(), callers).quantities }));
  });

  it('schedules are counted as what they will fire', () => {
    const schedules = ['CreateSchedule', 'UpdateSchedule', 'GetSchedule', 'DeleteSchedule'].map((operation) => call('scheduler', operation));
    expect(meter(schedules, callers).quantities.schedules).toBe(2);
    expect(usd(schedules)).toBeCloseTo(2, 9);
  });
});

describe('rounds', () => {
  const dear = meter([...delivery(), call('dynamodb', 'UpdateItem', { capacityUnits: 1 })], callers);
  const cheap = meter(delivery(), callers);

  it('that differ show their spread, and the dearest is what a row shows', () => {
    const row = eventRow({ name: 'x', events: 1, rounds: [cheap, dear, cheap] });
    expect(row).toMatchObject({ writeUnits: 4, rounds: '3 differ: $3.700 to $4.325' });
    expect(eventRow({ name: 'x', events: 1, rounds: [cheap, cheap] })).toMatchObject({ writeUnits: 3, rounds: '2 agree' });
  });

  it('are counted only if one invocation delivered each event once', () => {
    expect(problemOf(cheap, [1])).toBeUndefined();
    expect(problemOf(cheap, [1, 0, 2])).toBe('2 of 3 events were not delivered exactly once (0, 2 requests)');
    const twice = meter([...delivery(), call('sqs', 'DeleteMessageBatch')], callers);
    expect(problemOf(twice, [1, 1])).toBe('2 events took 2 invocations instead of one');
    expect(problemOf(meter([], callers), [1])).toBe('1 events took 0 invocations instead of one');
  });
});

describe('prices', () => {
  it.each(Object.entries(prices))('%s has a page of AWS and a date', (_billed, price) => {
    expect(price.source).toMatch(/^https:\/\/aws\.amazon\.com\/[a-z]+\/pricing\//);
    expect(price.date).toMatch(/^2026-\d\d-\d\d$/);
    expect(price.usdPerMillion).toBeGreaterThan(0);
  });
});
