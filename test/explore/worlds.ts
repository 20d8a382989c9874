/** The worlds that are explored whole. Each is as small as it can be and still lets its clauses fail. */
import { dead, dropped, held as heldFrom, renewed } from '../../lambdas/shared/core/decide.ts';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import type { Pace } from '../../lambdas/shared/core/pace.ts';
import { syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { UnknownRecord } from '../../lambdas/shared/core/record.ts';
import { drain, lease } from '../../lambdas/shared/limits/numbers.ts';
import { deliveredOf, endpointOf, namesOf, openBreaker, t0EpochMs, unknownOf, waitingOf } from '../support/builders.ts';
import { tables } from './program.ts';
import { copyName } from './rules.ts';
import { looks, outcomes, World, type WorldSpec } from './world.ts';

const { ok, busy, ambiguous, rejected, late, unsent } = outcomes;
const retry = { baseS: 1, factor: 1, attempts: 12 };
const endpoint = (maxInFlight = 1, more: Readonly<Record<string, unknown>> = {}, version = 'V1') => endpointOf({ maxInFlight, retry, ...more }, version);
const probe = { name: 'probe', eventId: 'probe' };

const rated: Omit<WorldSpec, 'name' | 'about'> = {
  endpoint: endpoint(2, { maxPerSecond: 0.01 }),
  messages: [{ name: 'a', eventId: 'a' }, { name: 'b', eventId: 'b' }],
  outcomes: [ok],
  mostPosts: 1,
  limits: { receives: 3, crashes: 0, failures: 1, epochs: 0 },
};

const bare: readonly WorldSpec[] = [
  {
    name: 'one-key',
    about: 'one event in a lane of one, received by two workers at a time, with one death and one failed write',
    endpoint: endpoint(),
    messages: [{ name: 'm1', eventId: 'a' }, probe],
    probes: ['probe'],
    outcomes: [ok, busy, ambiguous],
    limits: { receives: 3, crashes: 1, failures: 1, epochs: 2 },
  },
  {
    name: 'two-keys',
    about: 'two events in a lane of one, received apart or together: the room, and the exchange between two waves',
    endpoint: endpoint(),
    messages: [{ name: 'a', eventId: 'a' }, { name: 'b', eventId: 'b' }, probe],
    batches: [['a'], ['b'], ['a', 'b']],
    probes: ['probe'],
    outcomes: [ok],
    limits: { receives: 2, crashes: 1, failures: 1, epochs: 1 },
  },
  {
    name: 'wide',
    about: 'one event in a lane of two: an admission that comes late finds room',
    endpoint: endpoint(2),
    messages: [{ name: 'm1', eventId: 'a' }],
    outcomes: [ok, busy],
    limits: { receives: 2, crashes: 1, failures: 1, epochs: 1 },
  },
  {
    name: 'late-wave',
    about: 'a batch of two that finds one slot of two, whose sender dies between its waves; two of the three events were delivered before',
    endpoint: endpoint(2),
    messages: ['a', 'b', 'x'].map((name) => ({ name, eventId: name })),
    batches: [['a', 'b'], ['x'], ['a']],
    prepare: async (_world, db) => {
      for (const eventId of ['b', 'x']) await createDynamoDbRecords(db, tables).write(undefined, deliveredOf({}, { eventId }));
    },
    outcomes: [ok, busy],
    fails: ['reapLease'],
    diesIn: ['exchange'],
    limits: { receives: 3, crashes: 1, failures: 1, epochs: 1 },
  },
  {
    name: 'waves',
    about: 'a batch of four in a lane of two, while others take and return the room beside it',
    endpoint: endpoint(2),
    messages: ['a', 'b', 'c', 'd', 'x', 'y'].map((name) => ({ name, eventId: name })),
    batches: [['a', 'b', 'c', 'd'], ['x'], ['y']],
    outcomes: [ok],
    limits: { receives: 3, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'shrinking',
    about: 'a batch of three in a lane of two that is made a lane of one under it',
    endpoint: endpoint(2),
    messages: ['a', 'b', 'c'].map((name) => ({ name, eventId: name })),
    batches: [['a', 'b', 'c'], ['a']],
    commands: { 'put a lane of one': (registry) => registry.put(endpoint(1, {}, 'V2')) },
    outcomes: [ok],
    limits: { receives: 2, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'settings',
    about: 'the endpoint is given another configuration and removed while events are under way',
    endpoint: endpoint(),
    messages: [{ name: 'm1', eventId: 'a' }, { name: 'm2', eventId: 'b' }],
    batches: [['m1'], ['m1', 'm2']],
    commands: { 'put a lane of two': (registry) => registry.put(endpoint(2, {}, 'V2')), remove: (registry) => registry.remove('acme') },
    outcomes: [ok],
    limits: { receives: 2, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'failing',
    about: 'three events to an endpoint that cannot be connected to: two reports open its breaker',
    endpoint: endpoint(3, { breaker: { connectFailures: 2 } }),
    messages: ['a', 'b', 'c'].map((name) => ({ name, eventId: name })),
    outcomes: [ok, unsent],
    fails: ['moveBreaker'],
    limits: { receives: 3, crashes: 0, failures: 1, epochs: 0 },
  },
  {
    name: 'failing-wave',
    about: 'a batch in waves, while another worker finds out that the endpoint cannot be connected to',
    endpoint: endpoint(2, { breaker: { connectFailures: 1 } }),
    messages: ['a', 'b', 'c'].map((name) => ({ name, eventId: name })),
    batches: [['a', 'b'], ['c']],
    outcomes: [ok, unsent],
    limits: { receives: 2, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'half-open',
    about: 'a breaker whose time has come: two runs of the drain at once may have its canary',
    serves: 'held',
    endpoint: endpoint(2),
    messages: [{ name: 'a', eventId: 'a' }, { name: 'b', eventId: 'b' }],
    prepare: opened,
    outcomes: [ok, ambiguous],
    fails: ['admit', 'moveBreaker'],
    diesIn: ['admit'],
    limits: { receives: 3, crashes: 1, failures: 1, epochs: 1 },
  },
  {
    name: 'half-open-narrow',
    about: 'the same with a lane of one, while an operator writes the endpoint',
    serves: 'held',
    endpoint: endpoint(1),
    messages: [{ name: 'a', eventId: 'a' }, { name: 'b', eventId: 'b' }],
    prepare: opened,
    commands: { put: (registry) => registry.put(endpoint(1, {}, 'V2')) },
    outcomes: [ok, unsent, ambiguous],
    limits: { receives: 2, crashes: 1, failures: 0, epochs: 1 },
  },
  { ...rated, name: 'rated', about: 'two events to an endpoint that takes one in a hundred seconds' },
  {
    ...rated,
    name: 'rated-again',
    about: 'the same, of which one was sent before',
    prepare: async (_world, db) => void (await createDynamoDbLanes(db, tables).moveRate('acme', undefined, t0EpochMs)),
  },
  { ...rated, endpoint: endpoint(2, { maxPerDay: 1 }), name: 'rationed', about: 'two events to an endpoint that takes one a day' },
  {
    ...rated,
    endpoint: endpoint(2, { maxPerDay: 2 }),
    name: 'rationed-again',
    about: 'two events to an endpoint that takes two a day, of which one was made before',
    prepare: async (_world, db) => void (await createDynamoDbLanes(db, tables).moveDay('acme', undefined, { day: Math.floor(t0EpochMs / 86_400_000), attempts: 1, isSpent: false })),
  },
  {
    name: 'operators',
    about: 'two operators write the same endpoint, which was removed before',
    endpoint: endpoint(1),
    messages: [{ name: 'm1', eventId: 'a' }],
    prepare: async (_world, _db, registry) => void (await registry.remove('acme')),
    commands: {
      'put a lane of three': (registry) => registry.put(endpoint(3, {}, 'V3')),
      'put a lane of five': (registry) => registry.put(endpoint(5, {}, 'V5')),
      remove: (registry) => registry.remove('acme'),
    },
    outcomes: [ok],
    limits: { receives: 0, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'newcomers',
    about: 'two operators register the same new endpoint while an event for it is there',
    endpoint: endpoint(1),
    cached: false,
    messages: [{ name: 'm1', eventId: 'a' }],
    commands: { 'put V1': (registry) => registry.put(endpoint(1)), 'put V2': (registry) => registry.put(endpoint(2, {}, 'V2')) },
    outcomes: [ok],
    limits: { receives: 2, crashes: 0, failures: 1, epochs: 0 },
  },
  {
    name: 'disabled',
    about: 'the endpoint is disabled and enabled again while copies of an event are received',
    endpoint: endpoint(),
    messages: [{ name: 'm1', eventId: 'a' }],
    commands: {
      disable: (registry) => registry.put(endpoint(1, { status: 'disabled' }, 'V2')),
      enable: (registry) => registry.put(endpoint(1, {}, 'V3')),
    },
    outcomes: [ok],
    limits: { receives: 3, crashes: 1, failures: 0, epochs: 1 },
  },
  {
    name: 'removed',
    about: 'the endpoint is removed and registered again while copies of an event are received',
    endpoint: endpoint(),
    messages: [{ name: 'm1', eventId: 'a' }],
    commands: { remove: (registry) => registry.remove('acme'), 'register again': (registry) => registry.put(endpoint(1, {}, 'V3')) },
    outcomes: [ok],
    limits: { receives: 3, crashes: 1, failures: 0, epochs: 1 },
  },
  {
    name: 'rejected',
    about: 'the consumer rejects, the delivery is buried, and an operator redrives its copy',
    endpoint: endpoint(),
    messages: [{ name: 'm1', eventId: 'a' }, { name: 'the redrive', eventId: 'a', generation: 0 }],
    redrives: { 'the redrive': { eventId: 'a', generation: 0 } },
    outcomes: [ok, rejected],
    limits: { receives: 3, crashes: 1, failures: 1, epochs: 1 },
  },
  {
    name: 'dropped',
    about: 'the consumer rejects, the delivery is buried by one worker or two, and an operator drops it while another redrives its copy',
    endpoint: endpoint(),
    messages: [{ name: 'm1', eventId: 'a' }, { name: 'the redrive', eventId: 'a', generation: 0 }],
    redrives: { 'the redrive': { eventId: 'a', generation: 0 } },
    strangers: { 'an operator drops it': (db) => dropDelivery(db, 'a') },
    outcomes: [ok, rejected],
    limits: { receives: 3, crashes: 0, failures: 1, epochs: 1 },
  },
  {
    name: 'resend',
    about: 'a delivered event is asked for again, twice',
    endpoint: endpoint(),
    messages: [{ name: 'resend 1', eventId: 'a', resend: 1 }, { name: 'resend 2', eventId: 'a', resend: 2 }],
    prepare: async (_world, db) => void (await createDynamoDbRecords(db, tables).write(undefined, deliveredOf({}, { eventId: 'a' }))),
    outcomes: [ok, ambiguous],
    limits: { receives: 3, crashes: 1, failures: 0, epochs: 1 },
  },
  {
    name: 'conflict',
    about: 'the same event id comes with two payloads',
    endpoint: endpoint(),
    messages: [{ name: 'm1', eventId: 'a' }, { name: 'another payload', eventId: 'a', payload: '{"amount":2}' }],
    outcomes: [ok, ambiguous],
    limits: { receives: 3, crashes: 1, failures: 0, epochs: 1 },
  },
  {
    name: 'aged',
    about: 'two events pass their age while the lane has room for one',
    endpoint: endpoint(1, { retry: { ...retry, maxAgeS: 600 } }),
    messages: [{ name: 'a', eventId: 'a' }, { name: 'b', eventId: 'b' }],
    outcomes: [ok],
    limits: { receives: 3, crashes: 1, failures: 0, epochs: 1 },
  },
  {
    name: 'taken-up',
    about: 'a body that an older parser refused is redriven, and is a message now',
    endpoint: endpoint(),
    messages: [{ name: 'the redrive', eventId: 'a', generation: 0 }],
    queued: ['the redrive'],
    prepare: async (world, db) => {
      const burying = malformed(world);
      const records = createDynamoDbRecords(db, tables);
      await records.write(undefined, burying);
      await records.markBuried(burying);
    },
    copies: (world) => [copyName(malformed(world))],
    outcomes: [ok],
    limits: { receives: 3, crashes: 1, failures: 1, epochs: 1 },
  },
];

const drained: Omit<WorldSpec, 'name' | 'about'> = {
  endpoint: endpoint(),
  messages: [{ name: 'a', eventId: 'a' }, { name: 'b', eventId: 'b' }],
  held: ['a'],
  outcomes: [ok],
  drains: 2,
  limits: { receives: 2, crashes: 1, failures: 0, epochs: 1 },
};

const lanesOf = (db: DynamoDBClient) => createDynamoDbLanes(db, tables);
const paceFrom = (from: Pace | undefined, to: Pace) => (db: DynamoDBClient) => lanesOf(db).movePace('acme', from, to);

/** Worlds of deliveries that are held, and of endpoints that only the drain serves. */
const holding: readonly WorldSpec[] = [
  {
    name: 'held',
    about: 'two events in a lane of two, one slot of which is left to the drain: what the other has no room for is held, while another copy of it is sent',
    endpoint: endpoint(2),
    messages: [{ name: 'a', eventId: 'a' }, { name: 'b', eventId: 'b' }],
    held: [],
    outcomes: [ok, busy],
    limits: { receives: 3, crashes: 1, failures: 0, epochs: 1 },
  },
  {
    name: 'held-first',
    about: 'an event is received while its breaker is open: the first that is held; a write fails, or a worker dies between the steps',
    endpoint: endpoint(),
    messages: [{ name: 'a', eventId: 'a' }],
    prepare: async (_world, db) => void (await lanesOf(db).moveBreaker('acme', undefined, openBreaker())),
    outcomes: [ok],
    drains: 1,
    fails: ['hold'],
    limits: { receives: 3, crashes: 1, failures: 1, epochs: 1 },
  },
  {
    name: 'held-late',
    about: 'the same, and a write fails, is repeated or comes late',
    endpoint: endpoint(2),
    messages: [{ name: 'a', eventId: 'a' }, { name: 'b', eventId: 'b' }],
    held: [],
    outcomes: [ok, busy],
    fails: ['hold', 'write', 'moveWakeUp'],
    limits: { receives: 3, crashes: 0, failures: 1, epochs: 1 },
  },
  {
    name: 'held-resend',
    about: 'a delivery that waits is held while it is delivered, asked for again and fails',
    endpoint: endpoint(2),
    messages: [{ name: 'x', eventId: 'x' }, { name: 'a', eventId: 'a' }, { name: 'resend', eventId: 'a', resend: 1 }],
    held: [],
    prepare: async (_world, db) => void (await createDynamoDbRecords(db, tables).write(undefined, waitingOf({ attempt: 1 }, { eventId: 'a' }))),
    outcomes: [ok, busy],
    limits: { receives: 4, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'held-again',
    about: 'a delivery that is held is asked for again by a message that comes twice, while the drain delivers it',
    endpoint: endpoint(2),
    messages: [{ name: 'a', eventId: 'a' }, { name: 'resend', eventId: 'a', resend: 1 }],
    held: ['a'],
    outcomes: [ok, busy],
    drains: 1,
    limits: { receives: 3, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    ...drained,
    name: 'held-again-narrow',
    about: 'the same with a lane of one, all of which is left to the drain while anything is held',
    messages: [{ name: 'a', eventId: 'a' }, { name: 'resend', eventId: 'a', resend: 1 }],
    outcomes: [ok, busy],
    drains: 1,
    limits: { receives: 3, crashes: 0, failures: 0, epochs: 1 },
  },
  {
    name: 'held-twice',
    about: 'a delivery that is held is asked for again and again, in no order, while the drain delivers it',
    endpoint: endpoint(),
    messages: [{ name: 'a', eventId: 'a' }, { name: 'resend 1', eventId: 'a', resend: 1 }, { name: 'resend 2', eventId: 'a', resend: 2 }],
    held: ['a'],
    outcomes: [ok, busy],
    drains: 1,
    limits: { receives: 3, crashes: 0, failures: 0, epochs: 1 },
  },
  {
    name: 'held-aged',
    about: 'a hold comes late, when its delivery has passed its age and was given up',
    endpoint: endpoint(1, { retry: { ...retry, maxAgeS: 600 } }),
    messages: [{ name: 'a', eventId: 'a' }],
    held: [],
    prepare: async (_world, db) => void (await createDynamoDbRecords(db, tables).write(undefined, waitingOf({ attempt: 1 }, { eventId: 'a' }))),
    outcomes: [ok],
    fails: ['hold'],
    limits: { receives: 3, crashes: 1, failures: 1, epochs: 1 },
  },
  {
    name: 'slow',
    about: 'the drain sends two events to an endpoint that is slow',
    serves: 'held',
    endpoint: endpoint(2),
    messages: ['a', 'b'].map((name) => ({ name, eventId: name })),
    prepare: (_world, db) => lanesOf(db).movePace('acme', undefined, { isSlow: true, recent: '222' }).then(() => undefined),
    outcomes: [ok, late],
    fails: ['movePace'],
    limits: { receives: 2, crashes: 0, failures: 1, epochs: 0 },
  },
  { ...drained, name: 'draining', about: 'the drain takes what is held, while more is held: one run dies, or a worker' },
  { ...drained, name: 'draining-behind', about: 'the same with an index that shows nothing that is newer than an hour', indexLags: true },
  {
    ...drained,
    name: 'drains',
    about: 'runs of the drain one after the other and beside each other, one of whose writes fails, is repeated or comes late',
    messages: [{ name: 'a', eventId: 'a' }],
    outcomes: [ok, busy],
    drains: 3,
    strangers: { 'an operator wakes it while its first run is under way': (db) => lanesOf(db).moveWakeUp('acme', t0EpochMs + drain.timeoutS * 1_000 + lease.skewMs, t0EpochMs) },
    fails: ['beginDrain', 'endDrain'],
    limits: { receives: 0, crashes: 1, failures: 1, epochs: 2 },
  },
  {
    name: 'slowing',
    about: 'three events to an endpoint that becomes slow: what is left of them is held',
    endpoint: endpoint(2),
    messages: ['a', 'b', 'c'].map((name) => ({ name, eventId: name })),
    prepare: (_world, db) => lanesOf(db).movePace('acme', undefined, { isSlow: false, recent: '22' }).then(() => undefined),
    outcomes: [ok, late],
    limits: { receives: 3, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'slowing-first',
    about: 'the first two answers that are not quick',
    endpoint: endpoint(2),
    messages: ['a', 'b'].map((name) => ({ name, eventId: name })),
    outcomes: [ok, late],
    fails: ['movePace'],
    limits: { receives: 2, crashes: 0, failures: 1, epochs: 0 },
  },
  {
    name: 'slowing-wave',
    about: 'a batch in waves, while another worker finds out that the endpoint is slow',
    endpoint: endpoint(2),
    messages: ['a', 'b', 'c'].map((name) => ({ name, eventId: name })),
    batches: [['a', 'b'], ['c']],
    prepare: (_world, db) => lanesOf(db).movePace('acme', undefined, { isSlow: false, recent: '22' }).then(() => undefined),
    outcomes: [ok, late],
    limits: { receives: 2, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'holding-wave',
    about: 'a batch in waves beside what is held: it leaves slots free',
    endpoint: endpoint(3),
    messages: ['a', 'b', 'c', 'd'].map((name) => ({ name, eventId: name })),
    batches: [['a', 'b', 'c'], ['d']],
    held: [],
    outcomes: [ok],
    limits: { receives: 2, crashes: 0, failures: 0, epochs: 0 },
  },
  {
    name: 'strangers',
    about: 'notes on an endpoint that is not there yet, or no more, and on a pace that is not what they were made from',
    endpoint: endpoint(),
    cached: false,
    messages: [],
    commands: { put: (registry) => registry.put(endpoint()), remove: (registry) => registry.remove('acme') },
    strangers: {
      'a hold': (db) => lanesOf(db).hold('acme', { count: 0, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs, isReady: true }),
      'a first pace': paceFrom(undefined, { isSlow: false, recent: '22' }),
      'a first pace, slow': paceFrom(undefined, { isSlow: true, recent: '22' }),
      'a pace after one that is not slow': paceFrom({ isSlow: false, recent: '22' }, { isSlow: false, recent: '220' }),
      'a pace after a slow one': paceFrom({ isSlow: true, recent: '22' }, { isSlow: true, recent: '220' }),
    },
    outcomes: [],
    limits: { receives: 0, crashes: 0, failures: 0, epochs: 0 },
  },
];

const lookup = { url: 'https://api.example.com/{eventId}', match: { '$.same': '$.amount' }, delaysS: [60, 120] };
const proving = { ...lookup, absenceProvesAfterS: 600 };
const looked = { sent: [looks.matches, looks.absent], unsent: [looks.absent] };

/** Worlds of endpoints whose uncertain deliveries are reconciled. */
const reconciled: readonly WorldSpec[] = [
  {
    name: 'unknown',
    about: 'one event in a lane of one, reconciled by people only, received by two workers at a time, with one death and one failed write',
    endpoint: endpoint(1, { onAmbiguous: 'reconcile' }),
    messages: [{ name: 'm1', eventId: 'a' }, probe],
    probes: ['probe'],
    outcomes: [ok, busy, ambiguous],
    limits: { receives: 3, crashes: 1, failures: 1, epochs: 2 },
  },
  {
    name: 'unknown-resend',
    about: 'a delivery that is unknown is asked for again, by messages that come twice, while the drain finds it',
    endpoint: endpoint(1, { onAmbiguous: 'reconcile', lookup }),
    messages: [{ name: 'resend 1', eventId: 'a', resend: 1 }, { name: 'resend 2', eventId: 'a', resend: 2 }],
    prepare: (_world, db) => unknownBefore(db, {}),
    outcomes: [ok],
    looks: looked,
    drains: 1,
    limits: { receives: 3, crashes: 0, failures: 0, epochs: 1 },
  },
  {
    name: 'looking',
    about: 'a delivery whose answer was lost is looked for by two runs of the drain, one of which dies, or its write comes late',
    endpoint: endpoint(1, { onAmbiguous: 'reconcile', lookup }),
    messages: [{ name: 'a', eventId: 'a' }],
    queued: [],
    prepare: (_world, db) => unknownBefore(db, {}),
    outcomes: [ok],
    looks: { sent: [], unsent: [looks.matches, looks.absent, looks.failed] },
    drains: 2,
    fails: ['write'],
    limits: { receives: 0, crashes: 1, failures: 1, epochs: 2 },
  },
  {
    name: 'absent',
    about: 'a delivery whose absence is a proof is sent again, and may be unknown again; a look\'s write comes late',
    endpoint: endpoint(1, { onAmbiguous: 'reconcile', lookup: proving }),
    messages: [{ name: 'a', eventId: 'a' }],
    queued: [],
    prepare: (_world, db) => unknownBefore(db, {}),
    outcomes: [ok, ambiguous],
    looks: { sent: [looks.matches, looks.absent], unsent: [looks.absent] },
    drains: 3,
    fails: ['write'],
    limits: { receives: 0, crashes: 0, failures: 1, epochs: 3 },
  },
  {
    name: 'resolved',
    about: 'an operator has a delivery sent again that is unknown, while it is looked for; it may be unknown again',
    endpoint: endpoint(1, { onAmbiguous: 'reconcile', lookup }),
    messages: [{ name: 'a', eventId: 'a' }],
    queued: [],
    prepare: (_world, db) => unknownBefore(db, {}),
    outcomes: [ok, ambiguous],
    looks: { sent: [looks.matches], unsent: [looks.failed] },
    strangers: { 'an operator has it sent again': (db) => sendAgain(db, 'a') },
    drains: 2,
    fails: ['write'],
    limits: { receives: 0, crashes: 0, failures: 1, epochs: 2 },
  },
];

/** Of an attempt long ago, to be looked for now; the lane says so. */
async function unknownBefore(db: DynamoDBClient, overrides: Partial<UnknownRecord>): Promise<void> {
  const now = t0EpochMs;
  await createDynamoDbRecords(db, tables).write(undefined, unknownOf({ sinceEpochMs: now - 3_600_000, nextLookEpochMs: now, history: [], lastLease: { leaseId: 'L0', kind: 'settled' }, ...overrides }, { eventId: 'a' }));
  await lanesOf(db).hold('acme', { count: 0, nowEpochMs: now - 3_600_000, wakeAtEpochMs: now, isReady: false });
}

/** As the command line does it, in two writes instead of one transaction: the explorer does not know replays. */
async function sendAgain(db: DynamoDBClient, eventId: string): Promise<void> {
  const { recordKey, endpointId, claimKey } = namesOf({ eventId });
  const records = createDynamoDbRecords(db, tables);
  const record = (await records.read([recordKey])).found.get(recordKey);
  if (record?.state !== 'unknown') return;
  const to = heldFrom({ ...renewed(record, t0EpochMs, 0), lastLease: { leaseId: 'resend', kind: 'settled' } }, 0);
  const { answer } = await records.writeUnclaimed(record, to, { endpointId, claimKey, lane: { kind: 'atVersion', cfg: 'V1' } });
  if (answer === 'written') await lanesOf(db).hold('acme', { count: 1, nowEpochMs: t0EpochMs, wakeAtEpochMs: t0EpochMs, isReady: true });
}

/** Worlds that the drain is in too, for its conditions lack what live traffic leaves to it. */
const served = ['wide', 'two-keys', 'late-wave', 'waves', 'shrinking', 'failing-wave'];
const byDrain = bare.filter(({ name }) => served.includes(name)).map((spec): WorldSpec => ({ ...spec, name: `${spec.name}-held`, about: `${spec.about}, by the drain`, serves: 'held' }));

const specs: readonly WorldSpec[] = [...bare, ...byDrain, ...holding, ...reconciled];

/** As the command line does it, of an endpoint that nobody writes. */
async function dropDelivery(db: DynamoDBClient, eventId: string): Promise<void> {
  const records = createDynamoDbRecords(db, tables);
  const { recordKey, endpointId, claimKey } = namesOf({ eventId });
  const record = (await records.read([recordKey])).found.get(recordKey);
  if (record?.state !== 'dead' || record.phase !== 'buried') return;
  const to = dropped(record, { why: 'closed', by: 'ada', nowEpochMs: t0EpochMs, leaseId: 'drop' });
  await records.writeUnclaimed(record, to, { endpointId, claimKey, lane: { kind: 'atVersion', cfg: 'V1' } });
}

/** An open breaker that may be tried at once. */
async function opened(_world: World, db: DynamoDBClient): Promise<void> {
  await createDynamoDbLanes(db, tables).moveBreaker('acme', undefined, openBreaker({ untilEpochMs: t0EpochMs }));
}

function malformed(world: World) {
  const recordKey = syntheticKeyOf(world.endpointId, 'malformed', world.message(0).body);
  return dead({ ...waitingOf(), recordKey }, 'malformed', 'an older parser said so');
}

export const worldNames = specs.map((spec) => spec.name);

export function worldOf(name: string): World {
  const spec = specs.find((s) => s.name === name);
  if (spec === undefined) throw new Error(`no world ${name}`);
  return new World(spec);
}
