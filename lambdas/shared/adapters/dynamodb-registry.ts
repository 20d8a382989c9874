import {
  GetItemCommand,
  ScanCommand,
  TransactionCanceledException,
  TransactWriteItemsCommand,
  type DynamoDBClient,
  type TransactWriteItem,
} from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { removedCfg, type Lane } from '../core/lane.ts';
import type { EndpointConfig } from '../limits/endpoint-schema.ts';
import { records } from '../limits/numbers.ts';
import type { Endpoint, StoredEndpoint } from '../ports/index.ts';
import { toEndpoint, toPlain } from './dynamodb-endpoints.ts';
import { cancellation } from './dynamodb-errors.ts';
import { autoName, learnedName, rowNames, sk, toldNames, toLane, windowAttributes } from './dynamodb-lane-item.ts';
import { Expressions } from './expressions.ts';
import { pauseBriefly, whileNotApplied, type Pause } from './repeat.ts';

/** An endpoint as operators see it. */
export interface Registered {
  readonly endpoint: StoredEndpoint;
  readonly lane: Lane;
}

/** Where operators write endpoints: configuration and lane change together, in one transaction, or not at all. */
export interface Registry {
  get(endpointId: string): Promise<Registered | undefined>;
  list(): Promise<Registered[]>;
  /**
   * `over`: the version that this one was made from, null for none; left out, whatever is there is replaced.
   * `changed`: somebody else wrote the endpoint meanwhile; nothing was written.
   */
  put(endpoint: Endpoint, over?: string | null): Promise<'written' | 'changed'>;
  /**
   * As `put`, of the same consumer: what is known of how it answers stays. A policy that is rolled out to hundreds would else tell
   * somebody anew of each that fails, and forget since when, and how long each takes.
   */
  adjust(endpoint: Endpoint, over: string): Promise<'written' | 'changed'>;
  remove(endpointId: string): Promise<'removed' | 'absent' | 'changed'>;
}

export function createDynamoDbRegistry(db: DynamoDBClient, table: string, pause: Pause = pauseBriefly): Registry {
  const key = (endpointId: string, sortKey: string) => ({ TableName: table, Key: marshall({ pk: endpointId, sk: sortKey }) });
  const item = async (endpointId: string, sortKey: string) => {
    const answer = await db.send(new GetItemCommand({ ...key(endpointId, sortKey), ConsistentRead: true }));
    return answer.Item === undefined ? undefined : toPlain(answer.Item);
  };
  const read = async (endpointId: string) => {
    const [config, lane] = await Promise.all([item(endpointId, sk.config), item(endpointId, sk.lane)]);
    return {
      endpoint: config === undefined ? undefined : toEndpoint(config),
      lane: lane === undefined ? undefined : toLane(lane),
    };
  };
  /** False where a condition failed. A busy lane's conflicts and throttles say nothing about it, and are tried again. */
  const transact = async (members: TransactWriteItem[]): Promise<boolean> => {
    const answer = await whileNotApplied(async () => {
      try {
        await db.send(new TransactWriteItemsCommand({ TransactItems: members }));
        return 'written';
      } catch (error) {
        if (!(error instanceof TransactionCanceledException)) throw error;
        return cancellation(error).overall.kind;
      }
    }, 'notApplied', pause);
    if (answer === 'written' || answer === 'refused') return answer === 'written';
    throw new Error('DynamoDB is busy with this endpoint: nothing was written; repeat the command');
  };

  const write = async (endpoint: Endpoint, over: string | null | undefined, forgets: Forgets): Promise<'written' | 'changed'> => {
    const { endpointId } = endpoint.config;
    const before = await read(endpointId);
    const there = before.lane === undefined || before.lane.cfg === removedCfg ? null : before.lane.cfg;
    if (over !== undefined && over !== there) return 'changed';
    const members = [
      { Put: configPut(table, endpoint) },
      { Update: { ...key(endpointId, sk.lane), ...laneUpdate(before.lane, endpoint.version, endpoint.config, withMeasured(forgets, before, endpoint)) } },
    ];
    return (await transact(members)) ? 'written' : 'changed';
  };

  return {
    async get(endpointId) {
      const { endpoint, lane } = await read(endpointId);
      return endpoint === undefined || lane === undefined ? undefined : { endpoint, lane };
    },

    async list() {
      const configs = new Map<string, StoredEndpoint>();
      const lanes = new Map<string, Lane>();
      let from: Record<string, unknown> | undefined;
      do {
        const page = await db.send(
          new ScanCommand({ TableName: table, ConsistentRead: true, ...(from === undefined ? {} : { ExclusiveStartKey: marshall(from) }) }),
        );
        for (const raw of (page.Items ?? []).map(toPlain)) {
          if (raw['sk'] === sk.config) configs.set(raw['pk'] as string, toEndpoint(raw));
          if (raw['sk'] === sk.lane) lanes.set(raw['pk'] as string, toLane(raw));
        }
        from = page.LastEvaluatedKey === undefined ? undefined : unmarshall(page.LastEvaluatedKey);
      } while (from !== undefined);
      return [...configs].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([id, endpoint]) => {
        const lane = lanes.get(id);
        return lane === undefined ? [] : [{ endpoint, lane }];
      });
    },

    put: (endpoint, over) => write(endpoint, over, forgotten),
    adjust: (endpoint, over) => write(endpoint, over, nothing),

    async remove(endpointId) {
      const before = await read(endpointId);
      if (before.endpoint === undefined || before.lane === undefined) return 'absent';
      const lane = new Expressions();
      // The lane stays, marked: leases and claims in it are still somebody's.
      const done = await transact([
        { Delete: key(endpointId, sk.config) },
        // One that is put again under the name is perhaps another's.
        { Delete: key(endpointId, sk.status) },
        {
          Update: {
            ...key(endpointId, sk.lane),
            UpdateExpression: `SET ${lane.name('cfg')} = ${lane.value(removedCfg)}`,
            ConditionExpression: `${lane.name('cfg')} = ${lane.value(before.endpoint.version)}`,
            ...lane.attributes(),
          },
        },
      ]);
      return done ? 'removed' : 'changed';
    },
  };
}

/** Without a condition of its own: configuration and lane only ever change together, and the lane's half has one. */
function configPut(table: string, endpoint: Endpoint) {
  const { config: { pauses, disabledFor, maxAmbiguous, lookup, adaptiveRead, autoLane, maxPerDay, ...config }, version, secrets, bodySecret, origin } = endpoint;
  // Only where there is something to say: an older version refuses a key that it does not know.
  const stored = { ...config, ...(pauses.length === 0 ? {} : { pauses }), ...(disabledFor === null ? {} : { disabledFor }), ...(maxAmbiguous === null ? {} : { maxAmbiguous }), ...(lookup === null ? {} : { lookup }), ...(adaptiveRead === null ? {} : { adaptiveRead }), ...(autoLane ? { autoLane } : {}), ...(maxPerDay === null ? {} : { maxPerDay }) };
  const item = { pk: config.endpointId, sk: sk.config, v: records.version, version, config: stored, secrets, bodySecret, own: origin?.own, policy: origin?.policy?.name, policyVersion: origin?.policy?.version };
  return { TableName: table, Item: marshall(item, { removeUndefinedValues: true }) };
}

/** Attributes of a lane that a write ends: some begin anew at nothing. */
interface Forgets {
  readonly zeroed: readonly string[];
  readonly removed: readonly string[];
}
/** What was there before asked for the pause, refused and failed: whoever is told of it is told anew. */
const forgotten: Forgets = { zeroed: ['failures'], removed: ['pausedUntil', 'flag', ...rowNames, ...Object.values(toldNames)] };
const nothing: Forgets = { zeroed: [], removed: [] };

/** Elsewhere other answers are to be measured. What a lane counts that was removed goes on, and ends with its window. */
function withMeasured({ zeroed, removed }: Forgets, { endpoint, lane }: { endpoint: StoredEndpoint | undefined; lane: Lane | undefined }, { config }: Endpoint): Forgets {
  if (endpoint?.config?.url === config.url) return { zeroed, removed };
  const counted = endpoint?.config === undefined || lane?.window === undefined ? [] : windowAttributes(lane.window);
  return { zeroed, removed: [...removed, learnedName, ...counted] };
}

/** The lane's half of a put: slots in flight stay counted, so only the difference in size moves `avail`. */
function laneUpdate(before: Lane | undefined, cfg: string, { maxInFlight: slots, autoLane: isAuto, maxPerDay }: EndpointConfig, { zeroed, removed: ended }: Forgets) {
  const x = new Expressions();
  const set = (name: string, value: unknown) => `${x.name(name)} = ${x.value(value)}`;
  if (before === undefined) {
    const fresh = { v: records.version, slots, avail: slots, cfg, leases: {}, claims: {}, failures: 0, ...(isAuto ? { [autoName]: true } : {}) };
    return {
      UpdateExpression: `SET ${Object.entries(fresh).map(([name, value]) => set(name, value)).join(', ')}`,
      ConditionExpression: `attribute_not_exists(${x.name('pk')})`,
      ...x.attributes(),
    };
  }
  const avail = x.name('avail');
  const sets = [set('slots', slots), set('cfg', cfg), ...zeroed.map((name) => set(name, 0)), `${avail} = ${avail} + ${x.value(slots - before.slots)}`, ...(isAuto ? [set(autoName, true)] : [])];
  const removed = [...ended, ...(isAuto ? [] : [autoName])];
  // What was counted stays; whether that is all is another question now, which the sweep reads there.
  if (before.day !== undefined) sets.push(`${x.name('day')}[2] = ${x.value(maxPerDay !== null && before.day.attempts >= maxPerDay ? 1 : 0)}`);
  // A wider lane may take as many times longer, where one is served at a time.
  if (before.learnedMs !== undefined && slots > before.slots && !removed.includes(learnedName)) sets.push(set(learnedName, Math.round((before.learnedMs * slots) / before.slots)));
  // `slots` too: a removed lane is `removed` again after it was put and removed meanwhile, perhaps with another size.
  return {
    UpdateExpression: `SET ${sets.join(', ')}${removed.length === 0 ? '' : ` REMOVE ${removed.map((name) => x.name(name)).join(', ')}`}`,
    ConditionExpression: `${x.name('cfg')} = ${x.value(before.cfg)} AND ${x.name('slots')} = ${x.value(before.slots)}`,
    ...x.attributes(),
  };
}
